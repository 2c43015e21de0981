//! Parses the arguments and runs a command. The modules are groups of flags that several commands share.
//! Flags have llama.cpp's names where it has the same flag. Invalid values are rejected before a model is
//! opened.

pub mod device;
pub mod disk;
mod llama;
pub mod model;
pub mod sampling;
pub mod session;
pub mod values;

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::app::App;
use crate::failure::Failure;
use crate::{
    ask, bench, chat, console, crash_save, demo, devices, failure, heads, inspect, logits, plan, policies,
    recall, sessions, tokenize,
};

/// Ask a local model about long documents, with a KV cache that can keep only what each attention head needs.
#[derive(Debug, Parser)]
#[command(name = "longhand", version, max_term_width = 100, propagate_version = false)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Chat(chat::ChatArgs),
    Ask(ask::AskArgs),
    Sessions(sessions::SessionsArgs),
    Plan(plan::PlanArgs),
    Policies(policies::PoliciesArgs),
    Heads(heads::HeadsArgs),
    Bench(bench::BenchArgs),
    Recall(recall::RecallArgs),
    Devices(devices::DevicesArgs),
    Inspect(inspect::InspectArgs),
    Tokenize(tokenize::TokenizeArgs),
    Logits(logits::LogitsArgs),
}

/// Runs the program. The first argument is its name.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    crash_save::install();
    let parsed = clap_command()
        .try_get_matches_from(llama::translate(arguments))
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return report_usage(&error),
    };
    let app = App::new();
    let result = match cli.command {
        Command::Demo(args) => demo::run(&app, &args),
        Command::Chat(args) => chat::run(&app, &args),
        Command::Ask(args) => ask::run(&app, &args),
        Command::Sessions(args) => sessions::run(&app, &args),
        Command::Plan(args) => plan::run(&app, &args),
        Command::Policies(args) => policies::run(&app, &args),
        Command::Heads(args) => heads::run(&app, &args),
        Command::Bench(args) => bench::run(&app, &args),
        Command::Recall(args) => recall::run(&app, &args),
        Command::Devices(args) => devices::run(&app, &args),
        Command::Inspect(args) => inspect::run(&app, &args),
        Command::Tokenize(args) => tokenize::run(&app, &args),
        Command::Logits(args) => logits::run(&app, &args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit_code(&error),
    }
}

/// Prints an error. Returns the exit code.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    let report = failure::report(error);
    console::print_error(&report.text);
    ExitCode::from(report.exit_code)
}

/// The arguments for clap. Negative numbers are values: the error of `-c -1` is an invalid value, not an
/// unknown flag.
fn clap_command() -> clap::Command {
    fn allow_negative(command: clap::Command) -> clap::Command {
        command
            .mut_args(
                |arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg },
            )
            .mut_subcommands(allow_negative)
    }
    allow_negative(Cli::command())
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
            format!("{}\nhint: {}", text.trim_end(), failure.map_or(help.as_str(), Failure::hint))
        }
        None => text.trim_end().to_owned(),
    };
    let _ = writeln!(std::io::stderr(), "{}", console::visible(&text));
    ExitCode::from(2)
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
