//! Which settings there are, and for which commands.

use std::path::{Path, is_separator};

use crate::failure::Failure;

/// For which commands a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All that have the flag.
    All,
    /// All but those whose subject is the built-in model.
    OwnModel,
    /// `ask`, `chat`, `read` and `serve`. In the others, such flags choose what is compared.
    Answers,
    /// The same, unless a saved conversation goes on.
    Session,
}

/// The variable with the key of `serve`, which is no setting.
pub const KEY_VARIABLE: &str = "LONGHAND_API_KEY";

/// Refuses a value of the setting with this name.
pub type Check = fn(&str, &str) -> Result<(), Failure>;

/// A setting that can be given.
#[derive(Debug, PartialEq)]
pub struct Known {
    /// The name of the long flag.
    pub name: &'static str,
    /// For which commands it is.
    pub scope: Scope,
}

const fn setting(name: &'static str, scope: Scope) -> Known {
    Known { name, scope }
}

/// All settings.
pub const KNOWN: &[Known] = &[
    setting("model", Scope::OwnModel),
    setting("model-folders", Scope::All),
    setting("device", Scope::All),
    setting("tensor-split", Scope::All),
    setting("n-gpu-layers", Scope::All),
    setting("n-cpu-moe", Scope::All),
    setting("memory", Scope::All),
    setting("threads", Scope::All),
    setting("no-repack", Scope::All),
    setting("no-int8", Scope::All),
    setting("policy", Scope::Session),
    setting("ctx-size", Scope::Session),
    setting("cache-type-k", Scope::Session),
    setting("cache-type-v", Scope::Session),
    setting("prefill", Scope::Session),
    setting("system-prompt", Scope::Session),
    setting("ubatch-size", Scope::Answers),
    setting("disk-cache", Scope::Answers),
    setting("draft", Scope::Answers),
    setting("n-predict", Scope::Session),
    setting("temp", Scope::Session),
    setting("top-k", Scope::Session),
    setting("top-p", Scope::Session),
    setting("min-p", Scope::Session),
    setting("repeat-penalty", Scope::Session),
    setting("repeat-last-n", Scope::Session),
    setting("presence-penalty", Scope::Session),
    setting("frequency-penalty", Scope::Session),
    setting("seed", Scope::Session),
    setting("think", Scope::Answers),
    setting("sources", Scope::Answers),
    setting("plain", Scope::Answers),
    setting("quiet", Scope::All),
];

impl Known {
    /// The environment variable: `LONGHAND_CTX_SIZE`.
    pub fn variable(&self) -> String {
        format!("LONGHAND_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// The long flag that has the value as its default. A model that is given wins over the setting wherever
    /// it is given, so the setting has a flag of its own.
    pub fn flag(&self) -> &'static str {
        if self.name == "model" { "default-model" } else { self.name }
    }

    /// The argument of a command.
    pub fn argument<'a>(&self, command: &'a clap::Command) -> Option<&'a clap::Arg> {
        command.get_arguments().find(|argument| argument.get_long() == Some(self.flag()))
    }

    /// Whether the setting is for the command.
    pub fn is_for(&self, command: &str) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::OwnModel => !["demo", "recall"].contains(&command),
            Scope::Answers | Scope::Session => ["ask", "chat", "read", "serve"].contains(&command),
        }
    }

    /// Whether it has any number of values.
    pub fn is_list(&self) -> bool {
        self.name == "model-folders"
    }

    /// Values with the user's home folder in the place of `~/`, where they are paths.
    pub fn expanded(&self, values: Vec<String>) -> Vec<String> {
        let home = std::env::home_dir().filter(|_| self.name.starts_with("model"));
        let home = home.and_then(|home| home.into_os_string().into_string().ok());
        let below_home = |value: &str| value.strip_prefix('~')?.strip_prefix(is_separator).map(str::to_owned);
        let expand = |value: String| match (&home, below_home(&value)) {
            (Some(home), Some(rest)) => format!("{}/{rest}", home.trim_end_matches(is_separator)),
            _ => value,
        };
        values.into_iter().map(expand).collect()
    }

    /// Refuses values that the flag's parser would let pass. `check` does so for the flags whose values the commands parse.
    pub fn check(&self, values: &[String], check: Check) -> Result<(), Failure> {
        values.iter().try_for_each(|value| match self.name {
            "model-folders" if !Path::new(value).is_absolute() => Err(Failure::usage(
                format!("{value} is not an absolute path"),
                "give folders from / or from ~/ on",
            )),
            name => check(name, value),
        })
    }
}
