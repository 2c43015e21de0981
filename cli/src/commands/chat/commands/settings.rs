//! `/set`: shows and changes how tokens are sampled. Names and values are those of the flags.

use anyhow::Result;
use longhand::Chat;
use terminal::suggest::did_you_mean;

use crate::failure::Failure;
use crate::session::sampling::{SETTINGS, Sampling, Setting};

/// The names of all settings.
pub fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.names[0])
}

/// What `/set` prints: names, values, why they are in force, and what they mean.
pub fn list(sampling: &Sampling) -> String {
    let line = |setting: &Setting| {
        let (name, (value, why)) = (setting.names[0], sampling.in_force(setting));
        format!("{name:<17} {value:<10} {why:<10} {}\n", setting.help)
    };
    SETTINGS.iter().map(line).collect::<String>() + "change one with, for example: /set temp 0.8\n"
}

/// Does `/set NAME VALUE`. Returns what to say.
///
/// # Errors
/// Where there is no such setting, or it cannot have the value. Nothing has changed then.
pub fn change(sampling: &mut Sampling, chat: &mut Chat, text: &str) -> Result<String> {
    let (name, value) = text.split_once([' ', '=']).unwrap_or((text, ""));
    let (name, value) = (name.trim_start_matches('-'), value.trim());
    let setting = SETTINGS.iter().find(|setting| setting.names.contains(&name)).ok_or_else(|| {
        let all: Vec<&str> = names().collect();
        Failure::usage(format!("there is no setting {name}"), format!("set one of {}", all.join(", ")))
            .with_suggestion(&did_you_mean(name, names()))
    })?;
    let name = setting.names[0];
    if value.is_empty() {
        let example = format!("give one, for example: /set {name} {}", sampling.in_force(setting).0);
        return Err(Failure::usage(format!("no value is given for {name}"), example).into());
    }
    let mut changed = sampling.clone();
    (setting.set)(&mut changed.given, value)
        .map_err(|error| Failure::usage(format!("{name} {value}: {error}"), error.hint()))?;
    // Also where nothing changes: the random numbers begin again.
    chat.set_sampling(changed.options())?;
    changed.apply(chat)?;
    *sampling = changed;
    Ok(format!("{name} is {} now", sampling.in_force(setting).0))
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;
    use crate::session::sampling::args::SamplingArgs;

    #[test]
    fn settings_are_called_like_flags() {
        let command = SamplingArgs::augment_args(clap::Command::new("set"));
        let mut flags: Vec<String> = Vec::new();
        for arg in command.get_arguments() {
            flags.extend(arg.get_long_and_visible_aliases().into_iter().flatten().map(str::to_owned));
            flags.extend(arg.get_short().map(String::from));
        }
        let mut names: Vec<String> =
            SETTINGS.iter().flat_map(|setting| setting.names).map(|name| (*name).to_owned()).collect();
        flags.sort();
        names.sort();
        assert_eq!(names, flags);
    }
}
