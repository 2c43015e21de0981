//! Parses the arguments and runs a command. The modules are groups of flags that several commands share.
//! Flags have llama.cpp's names where it has the same flag. Invalid values are rejected before a model is
//! opened.

pub mod answer;
pub mod device;
pub mod disk;
mod examples;
pub mod habits;
pub mod model;
pub mod sampling;
pub mod session;
pub mod values;
mod version;

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::app::App;
use crate::args::habits::suggest;
use crate::commands::inspect::{self, devices, logits, policies, tokenize};
use crate::commands::stored::{documents, sessions};
use crate::commands::{ask, bench, chat, completions, demo, eval, heads, plan, read, recall};
use crate::config::{self, Settings};
use crate::failure::{self, Failure};
use crate::models::local_models;
use crate::session::crash_save;
use crate::terminal::console;

/// The end of `longhand --help`.
const EXIT_CODES: &str = "\
Exit codes:
  0    success; the answer of `plan` is yes, or not known
  1    failure: a file, a model, memory or a device
  2    wrong usage: an argument, a setting
  3    the answer of `plan` is no or partly
  4    `ask --json`: an answer was cut off; without --json, a note says so
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
    Sessions(sessions::SessionsArgs),
    Plan(plan::PlanArgs),
    #[command(aliases = ["list", "ls"])]
    Models(local_models::ModelsArgs),
    Policies(policies::PoliciesArgs),
    Heads(heads::HeadsArgs),
    Bench(bench::BenchArgs),
    Recall(recall::RecallArgs),
    Eval(eval::EvalArgs),
    Devices(devices::DevicesArgs),
    #[command(alias = "show")]
    Inspect(inspect::model::InspectArgs),
    Tokenize(tokenize::TokenizeArgs),
    Logits(logits::LogitsArgs),
    Config(config::ConfigArgs),
    Completions(completions::CompletionsArgs),
    Man(completions::ManArgs),
}

/// Runs the program. The first argument is its name.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    if arguments.get(1).is_some_and(|first| first == COMPLETE) {
        return print_completions(&arguments[2..]);
    }
    crash_save::install();
    crate::terminal::interrupt::outlive_file_size_limit();
    if arguments.len() <= 1 {
        return print_start();
    }
    let model_folders = || Settings::load(chat_command).unwrap_or_default().model_folders();
    let arguments = habits::with_command(habits::llama::translate(arguments), &clap_command(), model_folders);
    let (cli, settings) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
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
        Command::Models(args) => local_models::run(&app, &args),
        Command::Config(args) => config::run(&app, &args, &settings, &chat_command()),
        Command::Completions(args) => completions::run_completions(&app, &args, &clap_command()),
        Command::Man(args) => completions::run_man(&app, &args, clap_command()),
        Command::Policies(args) => policies::run(&app, &args),
        Command::Heads(args) => heads::run(&app, &args),
        Command::Bench(args) => bench::run(&app, &args),
        Command::Recall(args) => recall::run(&app, &args),
        Command::Eval(args) => eval::run(&app, &args),
        Command::Devices(args) => devices::run(&app, &args),
        Command::Inspect(args) => inspect::model::run(&app, &args),
        Command::Tokenize(args) => tokenize::run(&app, &args),
        Command::Logits(args) => logits::run(&app, &args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit_code(&error),
    }
}

/// Parses the arguments, with the settings as defaults. Where that fails, or help is all that is asked for,
/// it is printed and the exit code returned.
fn parse(arguments: &[OsString]) -> Result<(Cli, Settings), ExitCode> {
    let parse = |command: clap::Command| {
        let matches = command.try_get_matches_from(arguments)?;
        Ok((Cli::from_arg_matches(&matches)?, matches))
    };
    // Without the settings first: help, the version and wrong arguments do not depend on them.
    let (cli, matches) = parse(clap_command()).map_err(|error| report_usage(&error))?;
    if matches!(&cli.command, Command::Config(args) if !args.needs_settings()) {
        return Ok((cli, Settings::default()));
    }
    let settings = Settings::load(chat_command).map_err(|failure| exit_code(&failure.into()))?;
    if settings.is_empty() {
        return Ok((cli, settings));
    }
    let command = settings.apply(clap_command(), resumes(&matches));
    let (cli, _) = parse(command).map_err(|error| report_usage(&error))?;
    Ok((cli, settings))
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
    name.is_some() || file.is_some_and(|file| longhand::ChatFile::exists(file))
}

/// Prints what the last of these words may become.
fn print_completions(words: &[OsString]) -> ExitCode {
    let mut command = clap_command();
    command.build();
    let settings = Settings::load(chat_command).unwrap_or_default();
    let words = habits::llama::translate(words.to_vec());
    let completions = completions::complete(&words, &command, &settings.model_folders());
    match console::Console::detect().print(&completions.text()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit_code(&error.into()),
    }
}

/// Prints what the program does, with examples.
fn print_start() -> ExitCode {
    match console::Console::detect().print(examples::START) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit_code(&error.into()),
    }
}

/// Prints an error. Returns the exit code.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    let report = failure::report(error);
    console::print_error(&report.text);
    ExitCode::from(report.exit_code)
}

/// The arguments for clap. Negative numbers are values: the error of `-c -1` is an invalid value, not an
/// unknown flag. The help of each command ends with examples.
fn clap_command() -> clap::Command {
    fn complete(command: clap::Command, above: &str) -> clap::Command {
        let name = format!("{above} {}", command.get_name());
        let examples = examples::of_command(&name);
        let command = if examples.is_empty() { command } else { command.after_help(examples) };
        command
            .mut_args(
                |arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg },
            )
            .mut_subcommands(|command| complete(command, &name))
    }
    complete(Cli::command(), "")
}

/// Prints the help or the version, or an error in the arguments in the same form as other errors.
fn report_usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        return printed
            .map_or_else(|error| exit_code(&console::stdout_error(error).into()), |()| ExitCode::SUCCESS);
    }
    let text = error.render().to_string();
    let failure = error.source().and_then(|source| source.downcast_ref::<Failure>());
    // clap's last line says how to get help. It becomes the hint, unless the error of the value has a hint.
    let text = match text.rsplit_once("\n\nFor more information, try") {
        Some((text, help)) => {
            let help = format!("try {}", help.trim().trim_end_matches('.'));
            let hint = failure.map_or(help, |failure| failure.hint().to_owned());
            match habit_hint(error) {
                Some(hint) => format!("{}\nhint: {hint}", text.lines().next().unwrap_or_default()),
                None => format!("{}\nhint: {}{hint}", text.trim_end(), similar_topic(error)),
            }
        }
        None => text.trim_end().to_owned(),
    };
    let _ = writeln!(std::io::stderr(), "{}", console::visible(&text));
    ExitCode::from(2)
}

/// What to do about a word that is another program's command or flag, or a question where a command should be.
fn habit_hint(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if let Some(command) = text(ContextKind::InvalidSubcommand) {
        return habits::command_hint(command).map(str::to_owned).or_else(|| habits::question_hint(command));
    }
    let flag = text(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    habits::flag_hint(flag.split('=').next().unwrap_or(flag)).map(str::to_owned)
}

/// "Did you mean" for `longhand help TOPIC`, where clap suggests nothing; empty where there is nothing to
/// say.
fn similar_topic(error: &clap::Error) -> String {
    let Some(ContextValue::String(topic)) = error.get(ContextKind::InvalidSubcommand) else {
        return String::new();
    };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return String::new();
    }
    let command = clap_command();
    suggest::did_you_mean(topic, command.get_subcommands().map(clap::Command::get_name))
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
