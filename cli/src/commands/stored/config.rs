//! `longhand config`: the settings that hold, and where they come from.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use terminal::suggest::closest;
use terminal::table::Table;

use crate::app::App;
use crate::config::known::{KEY_VARIABLE, KNOWN, Known};
use crate::config::{self, Setting, Settings};
use crate::session::{prompts, sampling};

/// Show the settings of the config file and of LONGHAND_* variables, and where each value comes from.
///
/// The file is config.toml in $XDG_CONFIG_HOME/longhand, else in ~/.config/longhand. Its keys are the names
/// of long flags: `threads = 8`. An environment variable, such as LONGHAND_THREADS, wins over the file, and a
/// flag over both. Where a setting is "not set", the command decides. Settings of the cache, the answers and the sampling
/// are for `ask`, `chat`, `read` and `serve`.
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

/// Runs the command.
pub fn run(app: &App, args: &ConfigArgs, settings: &Settings, chat: &clap::Command) -> Result<()> {
    let path = config::path();
    let shown_path = || path.as_ref().map_or("none".to_owned(), |path| path.display().to_string());
    if args.command.is_some() {
        return Ok(app.console.print_report(&format!("{}\n", shown_path()))?);
    }
    let of = |known: &Known| settings.of(known);
    if args.json {
        let object = |known: &Known| {
            let setting = of(known);
            let object = json!({
                "values": setting.map(Setting::values),
                "from": setting.map_or("default".to_owned(), |setting| setting.origin().to_string()),
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
                table.row([known.name.to_owned(), setting.values().join(", "), setting.origin().to_string()])
            }
            None => table.row([known.name.to_owned(), default_text(known, chat), "default".to_owned()]),
        }
    }
    let state = match path.as_ref().map(|path| path.try_exists()) {
        Some(Ok(false)) => " (does not exist)",
        Some(Err(_)) => " (cannot be read)",
        Some(Ok(true)) | None => "",
    };
    let text = format!(
        "config file: {}{state}\n\n{}{}{}",
        shown_path(),
        table.fitted(app.console.width()),
        saved_prompts(),
        unused_variables()
    );
    Ok(app.console.print_report(&text)?)
}

/// The flag's default as the help has it.
fn default_text(known: &Known, chat: &clap::Command) -> String {
    let defaults = known.argument(chat).map_or(&[][..], |argument| argument.get_default_values());
    let texts: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
    if !texts.is_empty() {
        return texts.join(", ");
    }
    sampling::default_text(known.name).unwrap_or_else(|| "not set".to_owned())
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
    let names: Vec<String> = KNOWN.iter().map(Known::variable).chain([KEY_VARIABLE.to_owned()]).collect();
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
