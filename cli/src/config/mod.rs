//! Settings: a config file and environment variables. They become defaults of the flags of the same names
//! before the arguments are parsed. A flag wins over the environment, and that over the file.
//!
//! `longhand config` prints what holds and where it comes from.

mod file;
mod known;

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;

use self::known::{KNOWN, Known, Scope};
use crate::app::App;
use crate::args::habits::suggest::closest;
use crate::failure::Failure;
use crate::session::prompts;
use crate::terminal::table::Table;

/// Show the settings of the config file and of LONGHAND_* variables, and where each value comes from.
///
/// The file is config.toml in $XDG_CONFIG_HOME/longhand, else in ~/.config/longhand. Its keys are the names
/// of long flags: `threads = 8`. An environment variable, such as LONGHAND_THREADS, wins over the file, and a
/// flag over both. Where a setting is "not set", the command decides.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the path of the config file, whether it exists or not
    Path,
}

impl ConfigArgs {
    /// Whether the command needs the settings to be valid.
    pub fn needs_settings(&self) -> bool {
        self.command.is_none()
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This environment variable.
    Environment(String),
    /// The config file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Origin::Environment(name) => write!(f, "the environment variable {name}"),
            Origin::File { path, line } => write!(f, "{}, line {line}", path.display()),
        }
    }
}

/// A setting that has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    known: &'static Known,
    /// One value, or any number where the flag takes several.
    values: Vec<String>,
    origin: Origin,
}

/// All settings that have a value.
#[derive(Debug, Default)]
pub struct Settings {
    list: Vec<Setting>,
    /// Why the config file is not used.
    problem: Option<String>,
}

impl Settings {
    /// Reads the config file and the environment, and checks every value. `chat` makes the command that has
    /// all flags.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key, or a value that the flag would refuse.
    pub fn load(chat: impl FnOnce() -> clap::Command) -> Result<Settings, Failure> {
        let path = file::path();
        let problem = path.as_ref().and_then(|path| file::check_trusted(path).err());
        let mut settings = match path.filter(|_| problem.is_none()) {
            Some(path) => file::read(&path)?,
            None => Vec::new(),
        };
        for known in KNOWN {
            if let Some(setting) = from_environment(known)? {
                settings.retain(|other| other.known.name != known.name);
                settings.push(setting);
            }
        }
        if !settings.is_empty() {
            let chat = chat();
            settings.iter().try_for_each(|setting| setting.check(&chat))?;
        }
        Ok(Settings { list: settings, problem })
    }

    /// Folders with model files.
    pub fn model_folders(&self) -> Vec<PathBuf> {
        let folders = self.list.iter().filter(|setting| setting.known.is_list());
        folders.flat_map(|setting| &setting.values).map(PathBuf::from).collect()
    }

    /// Whether no setting has a value.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Why the config file is not used, if it is not.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The command `longhand` with these values as defaults. `resumes`: a saved conversation goes on, which
    /// has its own settings of the session.
    pub fn apply(&self, command: clap::Command, resumes: bool) -> clap::Command {
        self.list.iter().filter(|setting| !(resumes && setting.known.scope == Scope::Session)).fold(
            command,
            |command, setting| {
                let command = setting.become_default(command);
                command.mut_subcommands(|subcommand| setting.apply_below(subcommand))
            },
        )
    }
}

impl Setting {
    /// Makes the value a default of a command and its subcommands, if the setting is for the command.
    fn apply_below(&self, command: clap::Command) -> clap::Command {
        if !self.known.is_for(command.get_name()) {
            return command;
        }
        self.become_default(command).mut_subcommands(|subcommand| self.become_default(subcommand))
    }

    /// Makes the value the default of a command's flag, if there is this flag.
    fn become_default(&self, command: clap::Command) -> clap::Command {
        let Some(id) = self.known.argument(&command).map(|argument| argument.get_id().clone()) else {
            return command;
        };
        // clap takes only defaults that live as long as the program. There is one set of settings in each
        // run.
        let values: Vec<&'static str> = self.values.iter().map(|value| &*value.clone().leak()).collect();
        command.mut_arg(id, |argument| argument.default_values(values))
    }

    /// Refuses a value that the flag would refuse.
    fn check(&self, chat: &clap::Command) -> Result<(), Failure> {
        let Some(argument) = self.known.argument(chat) else { return Ok(()) };
        self.parse(argument).and_then(|()| self.known.check(&self.values)).map_err(|failure| {
            let setting = format!("{} = {}", self.known.name, self.values.join(", "));
            Failure::usage(format!("{}: {setting}: {failure}", self.origin), failure.hint())
        })
    }

    /// Parses the values as those of the flag.
    fn parse(&self, argument: &clap::Arg) -> Result<(), Failure> {
        if !argument.get_action().takes_values() {
            let is_switch = matches!(&self.values[..], [value] if value == "true" || value == "false");
            let wrong = || Failure::usage("neither true nor false", "give true or false, without quotes");
            return is_switch.then_some(()).ok_or_else(wrong);
        }
        let flags = self.values.iter().map(|value| format!("--{}={value}", self.known.flag()));
        let only = clap::Command::new("longhand").no_binary_name(true).arg(argument.clone());
        let Err(error) = only.try_get_matches_from(flags) else { return Ok(()) };
        let failure = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<Failure>());
        Err(failure.cloned().unwrap_or_else(|| {
            Failure::usage("not a value of this setting", "`longhand chat --help` lists the values")
        }))
    }
}

/// The value of an environment variable. An empty one counts as none.
fn from_environment(known: &'static Known) -> Result<Option<Setting>, Failure> {
    let name = known.variable();
    let Some(value) = std::env::var_os(&name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let Ok(value) = value.into_string() else {
        return Err(Failure::usage(format!("{name} is not UTF-8"), format!("set {name} again, or unset it")));
    };
    let values = match known.is_list() {
        true => std::env::split_paths(&value).map(|path| path.display().to_string()).collect(),
        false => vec![value],
    };
    Ok(Some(Setting { values: known.expanded(values), known, origin: Origin::Environment(name) }))
}

/// Runs the command.
pub fn run(app: &App, args: &ConfigArgs, settings: &Settings, chat: &clap::Command) -> Result<()> {
    let path = file::path();
    let shown_path = || path.as_ref().map_or("none".to_owned(), |path| path.display().to_string());
    if args.command.is_some() {
        return Ok(app.console.print_report(&format!("{}\n", shown_path()))?);
    }
    let of = |known: &Known| settings.list.iter().find(|setting| setting.known.name == known.name);
    if args.json {
        let object = |known: &Known| {
            let setting = of(known);
            let object = json!({
                "values": setting.map(|setting| &setting.values),
                "from": setting.map_or("default".to_owned(), |setting| setting.origin.to_string()),
                "variable": known.variable(),
            });
            (known.name.to_owned(), object)
        };
        let all: serde_json::Map<_, _> = KNOWN.iter().map(object).collect();
        let prompts: Vec<String> = prompts::list().into_iter().map(|prompt| prompt.name).collect();
        return app.console.print_json(&json!({ "file": path, "settings": all, "prompts": prompts }));
    }
    let mut table = Table::new(["setting", "value", "from"]);
    for known in KNOWN {
        match of(known) {
            Some(setting) => {
                table.row([known.name.to_owned(), setting.values.join(", "), setting.origin.to_string()])
            }
            None => table.row([known.name.to_owned(), known.default_text(chat), "default".to_owned()]),
        }
    }
    let exists = if path.as_ref().is_some_and(|path| path.exists()) { "" } else { " (does not exist)" };
    let text = format!(
        "config file: {}{exists}\n\n{}{}{}",
        shown_path(),
        table.fitted(app.console.width()),
        saved_prompts(),
        unused_variables()
    );
    Ok(app.console.print_report(&text)?)
}

/// A line with the names of the saved prompts, if there are any.
fn saved_prompts() -> String {
    let names: Vec<String> = prompts::list().into_iter().map(|prompt| prompt.name).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("\nsaved prompts, for --prompt-name: {}\n", names.join(", ")),
    }
}

/// A line for each variable of the environment that looks like one of a setting and is none.
fn unused_variables() -> String {
    let names: Vec<String> = KNOWN.iter().map(Known::variable).collect();
    let mut text = String::new();
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("LONGHAND_") && !names.iter().any(|known| *known == name) {
            let similar = closest(&name, names.iter().map(String::as_str));
            let similar = similar.map_or(String::new(), |similar| format!("; did you mean {similar}?"));
            text += &format!("note: {name} belongs to no setting{similar}\n");
        }
    }
    text
}
