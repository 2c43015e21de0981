//! Model files that are on this machine already: in the caches of Hugging Face, Ollama and LM Studio, and in
//! folders of the settings. A model can be given by its name, or by a part of it that no other has.
//!
//! What is in these folders is foreign: names are bounded in number and depth, and escaped where they are
//! printed.

pub mod places;
pub mod suggestions;

use std::path::{Path, PathBuf};

use terminal::suggest::did_you_mean;

use self::places::Found;
use crate::failure::Failure;

/// Most names in an error.
pub const SHOWN: usize = 10;

/// A model file on this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalModel {
    /// As its program calls it: `owner/repository/file.gguf`, or `llama3.2:1b` in Ollama.
    pub name: String,
    /// Whose it is.
    pub place: &'static str,
    /// The file, or the first of a split one.
    pub path: PathBuf,
}

impl LocalModel {
    /// Whether it has this name, given in lower case.
    fn has_name(&self, name: &str) -> bool {
        self.name.to_lowercase() == name
    }

    /// Whether one of its short names is this one, given in lower case.
    fn has_short_name(&self, name: &str) -> bool {
        self.short_names().iter().any(|short| short == name)
    }

    /// Short names, in lower case: the file's name, with and without its extension; Ollama's without
    /// `:latest`.
    fn short_names(&self) -> Vec<String> {
        let name = self.name.to_lowercase();
        let file = name.rsplit('/').next().unwrap_or_default();
        let short = [name.strip_suffix(":latest"), file.strip_suffix(".gguf"), Some(file)];
        short.into_iter().flatten().map(str::to_owned).collect()
    }
}

/// All models, by name. `folders` are those of the settings.
pub fn list(folders: &[PathBuf]) -> Found {
    let mut found = places::all(folders);
    found.models.sort_unstable();
    found.models.dedup();
    found
}

/// The model of this name: the whole name, a short one, or a part that no other model has, in upper or lower
/// case. `None` if there is none.
///
/// # Errors
/// Several models have the name.
pub fn find(name: &str, folders: &[PathBuf]) -> Result<Option<PathBuf>, Failure> {
    choose(name, &list(folders).models)
}

fn choose(name: &str, models: &[LocalModel]) -> Result<Option<PathBuf>, Failure> {
    let wanted = name.to_lowercase();
    if wanted.is_empty() {
        return Ok(None);
    }
    let rules: [&dyn Fn(&LocalModel) -> bool; 3] =
        [&|model| model.has_name(&wanted), &|model| model.has_short_name(&wanted), &|model| {
            model.name.to_lowercase().contains(&wanted)
        }];
    for rule in rules {
        let mut found: Vec<&LocalModel> = models.iter().filter(|model| rule(model)).collect();
        // The same file in two caches.
        found.dedup_by(|a, b| a.name == b.name);
        match &found[..] {
            [] => {}
            [model] => return Ok(Some(model.path.clone())),
            _ => {
                let names: Vec<&str> = found.iter().take(SHOWN).map(|model| &*model.name).collect();
                let more = if found.len() > SHOWN { ", …" } else { "" };
                return Err(Failure::usage(
                    format!("{name} is part of the names of {} models", found.len()),
                    format!("give more of the name: {}{more}", names.join(", ")),
                ));
            }
        }
    }
    Ok(None)
}

/// Whether a text is the name of a model, not only a part of one.
pub fn is_name(text: &str, folders: &[PathBuf]) -> bool {
    let wanted = text.to_lowercase();
    let matches = |model: &LocalModel| model.has_name(&wanted) || model.has_short_name(&wanted);
    !text.contains(char::is_whitespace) && list(folders).models.iter().any(matches)
}

/// The error for a name that no file and no model has. It names similar ones, or all if they are few.
pub fn unknown(name: &Path, folders: &[PathBuf]) -> Failure {
    if let Some(model) = name.to_str().and_then(hub::of_address) {
        return Failure::new(
            format!("{} is an address, and -m takes files and names", name.display()),
            format!(
                "give the model of Hugging Face as -hf {model}; download any other file first, and give its path"
            ),
        );
    }
    let Found { models, omitted } = list(folders);
    let names = models.iter().flat_map(LocalModel::short_names).collect::<Vec<_>>();
    let text = name.to_string_lossy();
    let suggestion = did_you_mean(&text, names.iter().map(String::as_str));
    let all: Vec<&str> = models.iter().map(|model| &*model.name).collect();
    let known = match all.len() {
        0 => " (there are none)".to_owned(),
        1..=SHOWN => format!(" ({})", all.join(", ")),
        _ => String::new(),
    };
    let download = match hub::parse(text.trim_start_matches("hf.co/")) {
        Ok(model) => format!("; -hf {model} downloads it from Hugging Face"),
        Err(_) => String::new(),
    };
    let unseen = omitted.first();
    let unseen =
        unseen.map_or(String::new(), |omitted| format!(". Not all folders were searched: {omitted}"));
    Failure::new(
        format!("{}: No such file, and no model on this machine has this name", name.display()),
        format!(
            "{suggestion}`longhand models` lists the models{known}; or give the path of a GGUF file{download}{unseen}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(names: &[&str]) -> Vec<LocalModel> {
        let model = |name: &&str| LocalModel { name: (*name).to_owned(), place: "test", path: name.into() };
        names.iter().map(model).collect()
    }

    #[test]
    fn whole_names_come_before_parts() {
        let models = models(&[
            "a/Llama-8B-GGUF/llama-8b-q4.gguf",
            "a/x/llama-8b-q4-long.gguf",
            "qwen:latest",
            "qwen:7b",
        ]);
        let found =
            |name: &str| choose(name, &models).map(|path| path.map(|path| path.display().to_string()));
        for (name, expected) in [
            ("a/llama-8b-gguf/llama-8b-Q4.gguf", Some("a/Llama-8B-GGUF/llama-8b-q4.gguf")),
            ("llama-8b-q4", Some("a/Llama-8B-GGUF/llama-8b-q4.gguf")),
            ("long", Some("a/x/llama-8b-q4-long.gguf")),
            ("qwen", Some("qwen:latest")),
            ("QWEN:7b", Some("qwen:7b")),
            ("mistral", None),
            ("", None),
        ] {
            assert_eq!(found(name), Ok(expected.map(str::to_owned)), "{name}");
        }
        let error = choose("llama", &models).expect_err("two models");
        assert!(
            error.to_string().contains("2 models") && error.hint().contains("llama-8b-q4-long"),
            "{error}"
        );
    }
}
