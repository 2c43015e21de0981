//! Completes a command line for a shell's script: `longhand __complete WORD...` prints what the last word may become.
//!
//! The first line is `files` where the shell adds the paths that it knows, else `-`. Each other line is a word, and
//! behind a tab what it is.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, Command};
use longhand::policy::policies;
use longhand::saved::DocumentCache;
use models::invisible::is_invisible;
use models::shapes::{FileType, ModelShape};

use crate::args::disk::documents_in;
use crate::commands::plan;
use crate::models::local_models;
use crate::session::kept::KeptChats;
use crate::session::prompts;

/// What a word may become.
#[derive(Debug, Default, PartialEq)]
pub struct Completions {
    /// Whether paths fit too.
    files: bool,
    /// Words, and what they are.
    words: Vec<(String, String)>,
}

impl Completions {
    fn add(&mut self, words: impl IntoIterator<Item = impl Into<String>>, what: &str) {
        self.words.extend(words.into_iter().map(|word| (word.into(), what.to_owned())));
    }

    /// The lines for the script.
    pub fn text(&self) -> String {
        let mut text = String::from(if self.files { "files\n" } else { "-\n" });
        for (word, what) in &self.words {
            let what = what.lines().next().unwrap_or_default();
            text += &format!("{word}\t{what}\n");
        }
        text
    }
}

/// Completes the last of these words, which follow `longhand`. `command` is all of `longhand`, built; `folders` are those
/// with models.
pub fn complete(words: &[OsString], command: &Command, folders: &[PathBuf]) -> Completions {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((typed, before)) = words.split_last() else { return Completions::default() };
    let (mut command, mut names) = (command, Vec::new());
    let (mut positional, mut only_values) = (0, false);
    // The flag whose value comes next.
    let mut flag: Option<&Arg> = None;
    for word in before {
        if flag.take().is_some() {
            continue;
        }
        if word == "--" {
            only_values = true;
        } else if word.starts_with('-') && word.len() > 1 && !only_values {
            flag = flag_named(command, word).filter(|_| !word.contains('='));
            flag = flag.filter(|flag| flag.get_action().takes_values() && !flag.is_require_equals_set());
        } else if let Some(found) = command.find_subcommand(word).filter(|_| positional == 0 && !only_values)
        {
            command = found;
            names.push(found.get_name());
        } else {
            positional += 1;
        }
    }
    let mut completions = Completions::default();
    let mut prefix = String::new();
    if let Some(flag) = flag {
        add_values(&mut completions, flag, &names, typed, folders);
    } else if let Some((name, value)) =
        typed.split_once('=').filter(|(name, _)| name.starts_with("--") && !only_values)
    {
        if let Some(flag) = flag_named(command, name) {
            add_values(&mut completions, flag, &names, value, folders);
            prefix = format!("{name}=");
        }
    } else if typed.starts_with('-') && !only_values {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let what = argument.get_help().map_or_else(String::new, ToString::to_string);
            completions.add(argument.get_long().map(|long| format!("--{long}")), &what);
        }
    } else {
        if positional == 0 {
            for found in command.get_subcommands().filter(|command| !command.is_hide_set()) {
                let what = found.get_about().map_or_else(String::new, ToString::to_string);
                completions.add([found.get_name()], &what);
            }
        }
        let last = || command.get_positionals().last().filter(|last| takes_many(last));
        let argument = command.get_positionals().nth(positional).or_else(last);
        match argument {
            Some(argument) => add_values(&mut completions, argument, &names, typed, folders),
            // `longhand book.pdf` is a chat.
            None => completions.files |= names.is_empty(),
        }
    }
    completions.words.retain_mut(|(word, _)| {
        let is_shown = !word.chars().any(|c| c.is_control() || is_invisible(c));
        word.insert_str(0, &prefix);
        is_shown && word.starts_with(typed.as_str())
    });
    completions.words.sort();
    completions.words.dedup();
    completions
}

fn takes_many(argument: &Arg) -> bool {
    argument.get_num_args().is_some_and(|range| range.max_values() > 1)
        || matches!(argument.get_action(), clap::ArgAction::Append)
}

/// The flag that a word is: `--long`, `--long=value`, `-s`.
fn flag_named<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or(word);
    command.get_arguments().find(|argument| match name.strip_prefix("--") {
        Some(long) => {
            argument.get_long() == Some(long)
                || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        }
        None => argument.get_short().is_some_and(|short| name[1..].chars().eq([short])),
    })
}

/// Adds the values of an argument of the command with these names.
fn add_values(
    completions: &mut Completions,
    argument: &Arg,
    names: &[&str],
    typed: &str,
    folders: &[PathBuf],
) {
    let command = names.first().copied().unwrap_or_default();
    let is_answering = ["ask", "chat", "read"].contains(&command);
    match argument.get_id().as_str() {
        "policy" => {
            completions.add(is_answering.then_some("auto"), "by the memory");
            policies().for_each(|entry| completions.add([entry.name], entry.summary));
            if !is_answering {
                completions.add(["all"], "all policies");
            }
        }
        "cache_type_k" | "cache_type_v" => {
            completions.add(kernels::RowType::ALL.iter().map(|ty| ty.name()), "")
        }
        "gpu" => completions.add(plan::gpu_names(), ""),
        "shape" => match typed.split_once(':') {
            Some((shape, _)) => {
                completions.add(FileType::ALL.iter().map(|ty| format!("{shape}:{}", ty.name())), "");
            }
            None => completions.add(ModelShape::all().iter().map(|shape| shape.name), ""),
        },
        "device" => completions.add(["auto", "cpu", "cuda"], ""),
        "model" | "model_arg" | "arguments" => {
            completions.files = true;
            for model in local_models::list(folders).models {
                completions.add([model.name], model.place);
            }
        }
        "resume" => add_conversations(completions),
        "name" | "names" | "old" if command == "sessions" => {
            completions.files = true;
            add_conversations(completions);
        }
        "names" if command == "documents" => {
            let folder = longhand::files::folders::cache().map(|folder| documents_in(&folder));
            let list = folder.and_then(|folder| DocumentCache::new(&folder, 0).list().ok());
            for document in list.into_iter().flatten() {
                let names = document.contents.map_or_else(|_| Vec::new(), |contents| contents.names);
                completions.add(names, "document that was read");
                completions.add([document.id], "document that was read");
            }
        }
        "prompt_names" => {
            completions.add(prompts::list().into_iter().map(|prompt| prompt.name), "saved prompt")
        }
        _ if is_path(argument.get_value_parser()) => completions.files = true,
        _ => {
            for value in argument.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
                let what = value.get_help().map_or_else(String::new, ToString::to_string);
                completions.add([value.get_name()], &what);
            }
        }
    }
}

fn is_path(parser: &ValueParser) -> bool {
    parser.type_id() == TypeId::of::<PathBuf>()
}

fn add_conversations(completions: &mut Completions) {
    let kept = KeptChats::find().map_or_else(Vec::new, |kept| kept.list());
    completions.add(kept.into_iter().map(|chat| chat.name), "kept conversation");
}
