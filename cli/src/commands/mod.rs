//! The commands of the program, each a module with its arguments and a function `run`; and what runs them: this file parses
//! the arguments, with the settings as defaults, and chooses the command.

mod ask;
mod bench;
mod chat;
mod completions;
mod demo;
mod heads;
mod inspect;
mod plan;
mod read;
mod servers;
mod stored;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use terminal::console::Console;
use terminal::interrupt;

#[cfg(feature = "lab")]
use self::bench::lab;
use self::inspect::{devices, logits, model, models, policies, text, tokenize};
use self::stored::{config, documents, sessions};
use crate::app::App;
use crate::args::session::policy_or_auto;
use crate::args::{examples, habits, usage, version};
use crate::config::Settings;
use crate::failure::{self, Failure};
use crate::session::{bare_arguments, crash_save};

/// The end of `longhand --help`.
const EXIT_CODES: &str = "\
Exit codes:
  0    success; the answer of `plan` is yes, or not known
  1    failure: a file, a model, memory or a device
  2    wrong usage: an argument, a setting
  3    the answer of `plan` is no or partly
  4    `ask` with --json, --json-schema or --grammar-file: an answer was cut off; otherwise a note says so
  130  stopped by Ctrl-C; 128 and the number of the signal where another one, such as SIGTERM, stops `ask`, `chat` or `read`

`longhand` alone prints examples, and so does the help of each command.";

/// What the scripts of shells call, see `completions`. It is no command of clap: what follows are words of another command
/// line.
const COMPLETE: &str = "__complete";

/// Ask a local model about long documents, with a KV cache that can keep only what each attention head needs.
#[derive(Debug, Parser)]
#[command(
    name = "longhand",
    version,
    long_version = version::long(),
    after_help = EXIT_CODES,
    max_term_width = 100,
    propagate_version = false
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print results and errors only, no notes and no progress
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    // Ollama's names are aliases where they mean the same.
    #[command(alias = "run")]
    Chat(chat::ChatArgs),
    Ask(ask::AskArgs),
    Read(read::ReadArgs),
    Documents(documents::DocumentsArgs),
    Text(text::TextArgs),
    Sessions(sessions::SessionsArgs),
    Plan(plan::PlanArgs),
    #[command(aliases = ["list", "ls"])]
    Models(models::ModelsArgs),
    Policies(policies::PoliciesArgs),
    Heads(heads::HeadsArgs),
    Bench(bench::BenchArgs),
    #[cfg(feature = "lab")]
    Recall(lab::RecallCommand),
    #[cfg(feature = "lab")]
    Eval(lab::EvalCommand),
    Devices(devices::DevicesArgs),
    #[cfg(feature = "serve")]
    Serve(servers::http::ServeArgs),
    #[cfg(feature = "rpc")]
    RpcServer(servers::rpc::RpcServerArgs),
    #[command(alias = "show")]
    Inspect(model::InspectArgs),
    Tokenize(tokenize::TokenizeArgs),
    Logits(logits::LogitsArgs),
    Config(config::ConfigArgs),
    Completions(completions::CompletionsArgs),
    Man(completions::ManArgs),
}

impl Command {
    /// Refuses what the CPU cannot compute, before the system ends the program at an instruction that it lacks.
    fn check_cpu(&self) -> Result<(), Failure> {
        let computes_nothing = matches!(
            self,
            Command::Devices(_)
                | Command::Config(_)
                | Command::Completions(_)
                | Command::Man(_)
                | Command::Policies(_)
                | Command::Text(_)
        );
        let missing = ggml::missing_cpu_features().join(", ");
        if missing.is_empty() || computes_nothing {
            return Ok(());
        }
        Err(Failure::new(
            format!("this program was compiled for a CPU with {missing}, which this one lacks"),
            "build it on this machine, or for any x86-64 CPU since 2008 with --features portable; `longhand --version` \
             lists what the CPU has and what the program needs",
        ))
    }
}

/// Runs the program. The first argument is its name. Returns the exit code.
pub fn run(arguments: Vec<OsString>) -> u8 {
    if arguments.get(1).is_some_and(|first| first == COMPLETE) {
        return print_completions(&arguments[2..]);
    }
    match child::requested(&arguments) {
        Some(::models::chat::TEMPLATES) => ::models::chat::serve_templates(),
        Some(::documents::DOCUMENT) => ::documents::serve(),
        _ => child::use_worker(),
    }
    crash_save::install();
    interrupt::outlive_file_size_limit();
    if arguments.len() <= 1 {
        return print_start();
    }
    if let Err(failure) = habits::quotes::check(&arguments) {
        return failure::print(&failure.into());
    }
    let model_folders = || load_settings().unwrap_or_default().model_folders();
    let arguments =
        bare_arguments::with_command(habits::llama::translate(arguments), &clap_command(), model_folders);
    let (cli, settings) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    if let Err(failure) = cli.command.check_cpu() {
        return failure::print(&failure.into());
    }
    let app = App::new(cli.quiet);
    if let Some(problem) = settings.problem() {
        app.console.note(problem);
    }
    let result = match cli.command {
        Command::Demo(args) => demo::run(&app, &args),
        Command::Chat(args) => chat::run(&app, args),
        Command::Ask(args) => ask::run(&app, args),
        Command::Read(args) => read::run(&app, &args),
        Command::Documents(args) => documents::run(&app, &args),
        Command::Sessions(args) => sessions::run(&app, &args),
        Command::Plan(args) => plan::run(&app, &args),
        Command::Models(args) => models::run(&app, &args),
        Command::Config(args) => config::run(&app, &args, &settings, &chat_command()),
        Command::Completions(args) => completions::run_completions(&app, &args, &clap_command()),
        Command::Man(args) => completions::run_man(&app, &args, clap_command()),
        Command::Policies(args) => policies::run(&app, &args),
        Command::Heads(args) => heads::run(&app, &args),
        Command::Bench(args) => bench::run(&app, &args),
        #[cfg(feature = "lab")]
        Command::Recall(args) => lab::run_recall(&app, &args),
        #[cfg(feature = "lab")]
        Command::Eval(args) => lab::run_eval(&app, &args),
        Command::Devices(args) => devices::run(&app, &args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => servers::http::run(&app, &args),
        #[cfg(feature = "rpc")]
        Command::RpcServer(args) => servers::rpc::run(&app, &args),
        Command::Inspect(args) => model::run(&app, &args),
        Command::Text(args) => text::run(&app, &args),
        Command::Tokenize(args) => tokenize::run(&app, &args),
        Command::Logits(args) => logits::run(&app, &args),
    };
    match result {
        Ok(()) => 0,
        Err(error) => failure::print(&error),
    }
}

/// Parses the arguments, with the settings as defaults. Where that fails, or help is all that is asked for,
/// it is printed and the exit code returned.
fn parse(arguments: &[OsString]) -> Result<(Cli, Settings), u8> {
    let parse = |command: clap::Command| {
        let matches = command.try_get_matches_from(arguments)?;
        Ok((Cli::from_arg_matches(&matches)?, matches))
    };
    // Without the settings first: help, the version and wrong arguments do not depend on them.
    let (cli, matches) = parse(clap_command()).map_err(|error| usage::report(&error, &clap_command()))?;
    if matches!(&cli.command, Command::Config(args) if !args.needs_settings()) {
        return Ok((cli, Settings::default()));
    }
    let settings = load_settings().map_err(|failure| failure::print(&failure.into()))?;
    if settings.is_empty() {
        return Ok((cli, settings));
    }
    let command = settings.apply(clap_command(), resumes(&matches));
    let (cli, _) = parse(command).map_err(|error| usage::report(&error, &clap_command()))?;
    Ok((cli, settings))
}

/// The settings. Policies are parsed by the commands, so they are checked here.
fn load_settings() -> Result<Settings, Failure> {
    Settings::load(chat_command, |name, value| match name {
        "policy" => policy_or_auto(value).map(|_| ()),
        _ => Ok(()),
    })
}

/// The arguments of `chat`, which has all flags that settings can set, those of all commands included.
fn chat_command() -> clap::Command {
    let mut command = clap_command();
    command.build();
    command.find_subcommand("chat").cloned().unwrap_or_default()
}

/// Whether a saved conversation goes on.
fn resumes(matches: &ArgMatches) -> bool {
    let Some(("chat", chat)) = matches.subcommand() else { return false };
    let file = chat.try_get_one::<PathBuf>("session_file").ok().flatten();
    let name = chat.try_get_one::<String>("resume").ok().flatten();
    name.is_some() || file.is_some_and(|file| longhand::saved::ChatFile::exists(file))
}

/// Prints what the last of these words may become.
fn print_completions(words: &[OsString]) -> u8 {
    let mut command = clap_command();
    command.build();
    let settings = load_settings().unwrap_or_default();
    let words = habits::llama::translate(words.to_vec());
    let completions = completions::complete(&words, &command, &settings.model_folders());
    match Console::detect().print(&completions.text()) {
        Ok(()) => 0,
        Err(error) => failure::print(&error.into()),
    }
}

/// Prints what the program does, with examples.
fn print_start() -> u8 {
    match Console::detect().print(examples::START) {
        Ok(()) => 0,
        Err(error) => failure::print(&error.into()),
    }
}

/// The arguments for clap, with what the help and the errors need.
fn clap_command() -> clap::Command {
    usage::complete(Cli::command())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_names_are_unique() {
        clap_command().debug_assert();
        // clap checks this only with debug assertions. Two arguments of one name would share their values.
        fn names_are_unique(command: &clap::Command) {
            let mut seen = std::collections::HashSet::new();
            for arg in command.get_arguments() {
                assert!(
                    seen.insert(arg.get_id()),
                    "{}: two arguments named {}",
                    command.get_name(),
                    arg.get_id()
                );
            }
            command.get_subcommands().for_each(names_are_unique);
        }
        names_are_unique(&clap_command());
    }
}
