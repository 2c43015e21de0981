//! Settings: a config file and environment variables. They become defaults of the flags of the same names
//! before the arguments are parsed. A flag wins over the environment, and that over the file.

mod file;
pub mod known;

use std::fmt;
use std::path::PathBuf;

pub use self::file::path;
use self::known::{Check, KNOWN, Known, Scope};
use crate::failure::Failure;

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
    /// all flags; `check` refuses what its parsers would let pass.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key, or a value that the flag would refuse.
    pub fn load(chat: impl FnOnce() -> clap::Command, check: Check) -> Result<Settings, Failure> {
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
            settings.iter().try_for_each(|setting| setting.check(&chat, check))?;
        }
        Ok(Settings { list: settings, problem })
    }

    /// The setting, if it has a value.
    pub fn of(&self, known: &Known) -> Option<&Setting> {
        self.list.iter().find(|setting| setting.known.name == known.name)
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
    /// One value, or any number where the flag takes several.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Where the value comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

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
    fn check(&self, chat: &clap::Command, check: Check) -> Result<(), Failure> {
        let Some(argument) = self.known.argument(chat) else { return Ok(()) };
        self.parse(argument).and_then(|()| self.known.check(&self.values, check)).map_err(|failure| {
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
