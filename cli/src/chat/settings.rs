//! `/set`: shows and changes how tokens are sampled. Names and values are those of the flags.

use std::str::FromStr;

use anyhow::Result;
use longhand::Chat;

use crate::args::sampling::{self, Sampling};
use crate::failure::Failure;
use crate::suggest::did_you_mean;

/// Something that can be set.
struct Setting {
    /// Its name, and others that are understood.
    names: &'static [&'static str],
    /// What it means.
    help: &'static str,
    /// Its value as it is written.
    show: fn(&Sampling) -> String,
    /// Sets it to a written value.
    set: fn(&mut Sampling, &str) -> Result<(), Failure>,
}

/// A setting that is a number in the options of the sampler.
macro_rules! number {
    ($names:expr, $help:expr, $field:ident) => {
        Setting {
            names: $names,
            help: $help,
            show: |sampling| sampling.options.$field.to_string(),
            set: |sampling, text| parse(text).map(|value| sampling.options.$field = value),
        }
    };
}

const SETTINGS: [Setting; 8] = [
    number!(&["temp", "temperature"], "0 takes the most likely token", temperature),
    number!(&["top-k"], "most likely tokens to sample from; 0: all", top_k),
    number!(&["top-p"], "their total probability", top_p),
    number!(&["min-p"], "least share of the largest probability", min_p),
    number!(&["repeat-penalty"], "penalty on recent tokens; 1 is off", repeat_penalty),
    number!(&["repeat-last-n"], "tokens that count as recent", repeat_last_n),
    Setting {
        names: &["seed", "s"],
        help: "random seed; -1: another one",
        show: |sampling| sampling.options.seed.to_string(),
        set: |sampling, text| {
            sampling.options.seed = match text.parse::<u64>() {
                Ok(seed) => seed,
                Err(_) => sampling::seed(parse(text)?),
            };
            Ok(())
        },
    },
    Setting {
        names: &["n", "n-predict", "predict"],
        help: "most tokens of an answer; -1: no limit",
        show: |sampling| sampling.answer_limit.map_or("-1".to_owned(), |limit| limit.to_string()),
        set: |sampling, text| {
            sampling.answer_limit = sampling::answer_limit(parse(text)?)?;
            Ok(())
        },
    },
];

fn parse<T: FromStr>(text: &str) -> Result<T, Failure> {
    let hint = "/set shows the settings and their values";
    text.parse().map_err(|_| Failure::usage("not a number that it can be", hint))
}

fn of(chat: &Chat) -> Sampling {
    Sampling { options: chat.sampling().clone(), answer_limit: chat.answer_limit() }
}

/// The names of all settings.
pub fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.names[0])
}

/// What `/set` prints.
pub fn list(chat: &Chat) -> String {
    let sampling = of(chat);
    let line = |setting: &Setting| {
        let (name, value) = (setting.names[0], (setting.show)(&sampling));
        format!("{name:<14} {value:<20} {}\n", setting.help)
    };
    SETTINGS.iter().map(line).collect::<String>() + "change one with, for example: /set temp 0.8\n"
}

/// Does `/set NAME VALUE`. Returns what to say.
///
/// # Errors
/// Where there is no such setting, or it cannot have the value. Nothing has changed then.
pub fn change(chat: &mut Chat, text: &str) -> Result<String> {
    let (name, value) = text.split_once([' ', '=']).unwrap_or((text, ""));
    let (name, value) = (name.trim_start_matches('-'), value.trim());
    let setting = SETTINGS.iter().find(|setting| setting.names.contains(&name)).ok_or_else(|| {
        let all: Vec<&str> = names().collect();
        Failure::usage(format!("there is no setting {name}"), format!("set one of {}", all.join(", ")))
            .with_suggestion(&did_you_mean(name, names()))
    })?;
    let mut sampling = of(chat);
    let name = setting.names[0];
    if value.is_empty() {
        let example = format!("give one, for example: /set {name} {}", (setting.show)(&sampling));
        return Err(Failure::usage(format!("no value is given for {name}"), example).into());
    }
    (setting.set)(&mut sampling, value)
        .map_err(|error| Failure::usage(format!("{name} {value}: {error}"), error.hint()))?;
    let now = format!("{name} is {} now", (setting.show)(&sampling));
    chat.set_sampling(sampling.options)?;
    chat.set_answer_limit(sampling.answer_limit);
    Ok(now)
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;
    use crate::args::sampling::SamplingArgs;

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
