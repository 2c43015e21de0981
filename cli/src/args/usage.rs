//! Help, and errors in the arguments.

use std::error::Error;
use std::io::{self, Write};

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use terminal::{console, suggest};

use crate::args::{examples, habits};
use crate::failure::{self, Failure};

/// The program's arguments, ready for clap. Negative numbers are values: the error of `-c -1` is an invalid value, not an
/// unknown flag. The help of each command ends with examples. On Windows the program is called as elsewhere, without `.exe`.
pub fn complete(program: Command) -> Command {
    let name = program.get_name().to_owned();
    complete_below(program, "").bin_name(name)
}

fn complete_below(command: Command, above: &str) -> Command {
    let name = format!("{above} {}", command.get_name());
    let examples = examples::of_command(&name);
    let command = if examples.is_empty() { command } else { command.after_help(examples) };
    command
        .mut_args(|arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(|command| complete_below(command, &name))
}

/// Prints the help or the version, or an error in the arguments in the same form as other errors.
pub fn report(error: &clap::Error, program: &Command) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let printed = error.print().and_then(|()| io::stdout().flush());
        return printed.map_or_else(|error| failure::print(&console::stdout_error(error).into()), |()| 0);
    }
    let text = error.render().to_string();
    let cause = error.source().and_then(|source| source.downcast_ref::<Failure>());
    // clap's last line says how to get help. It becomes the hint, unless the error of the value has a hint.
    let text = match text.rsplit_once("\n\nFor more information, try") {
        Some((text, help)) => {
            let help = format!("try {}", help.trim().trim_end_matches('.'));
            let hint = cause.map_or(help, |failure| failure.hint().to_owned());
            match habit_hint(error) {
                Some(hint) => format!("{}\nhint: {hint}", text.lines().next().unwrap_or_default()),
                None => format!("{}\nhint: {}{hint}", text.trim_end(), similar_topic(error, program)),
            }
        }
        None => text.trim_end().to_owned(),
    };
    let _ = writeln!(io::stderr(), "{}", console::visible(&text));
    2
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
fn similar_topic(error: &clap::Error, program: &Command) -> String {
    let Some(ContextValue::String(topic)) = error.get(ContextKind::InvalidSubcommand) else {
        return String::new();
    };
    // `longhand config TOPIC` is no command of the program, although one may have a similar name.
    let usage = program.clone().render_usage().to_string();
    let is_of_program = error.get(ContextKind::Usage).is_none_or(|of| of.to_string() == usage);
    if error.get(ContextKind::SuggestedSubcommand).is_some() || !is_of_program {
        return String::new();
    }
    suggest::did_you_mean(topic, program.get_subcommands().map(Command::get_name))
}
