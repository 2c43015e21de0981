//! Saved prompts: questions that are asked again and again, each a text file in the folder `prompts` of the
//! configuration folder. `prompts/summary.txt` is the prompt `summary`.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use longhand::folders;

use crate::failure::Failure;
use crate::suggest::did_you_mean;

const EXTENSION: &str = "txt";
/// Largest size of a prompt, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The folder, which need not exist; `None` if the system names none.
pub fn folder() -> Option<PathBuf> {
    Some(folders::config()?.join("prompts"))
}

/// The names of all prompts, in order.
pub fn list() -> Vec<String> {
    let entries = folder().and_then(|folder| fs::read_dir(folder).ok());
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let is_prompt =
                path.extension().is_some_and(|extension| extension == EXTENSION) && path.is_file();
            path.file_stem().filter(|_| is_prompt)?.to_str().map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// The names of all prompts, as a list for the user.
pub fn listed() -> String {
    let names = list();
    let Some(folder) = folder().filter(|_| names.is_empty()) else {
        return names.iter().map(|name| format!("{name}\n")).collect::<String>() + "/prompt NAME asks one\n";
    };
    format!("there are no saved prompts; write one to {}\n", folder.join("NAME.txt").display())
}

/// The text of a prompt, without white space around it.
///
/// # Errors
/// Where there is no such prompt, or its file cannot be read, is too large, or is no text.
pub fn load(name: &str) -> Result<String, Failure> {
    let names = list();
    let folder =
        folder().filter(|_| names.iter().any(|known| known == name)).ok_or_else(|| unknown(name, &names))?;
    let path = folder.join(format!("{name}.{EXTENSION}"));
    let wrong = |what: &str| {
        Failure::new(format!("{}: {what}", path.display()), "a prompt is a file of text, of at most 1 MiB")
    };
    let text = read(&path).map_err(|error| wrong(&error.to_string()))?;
    let text = String::from_utf8(text).map_err(|_| wrong("it is not UTF-8"))?;
    match text.trim() {
        "" => Err(wrong("it is empty")),
        text => Ok(text.to_owned()),
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    // Before it is opened: a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(std::io::Error::other("it is larger than 1 MiB")),
        false => Ok(bytes),
    }
}

fn unknown(name: &str, names: &[String]) -> Failure {
    let hint = match folder() {
        Some(folder) => format!("write its text to {}", folder.join(format!("{name}.{EXTENSION}")).display()),
        None => "set the environment variable HOME or XDG_CONFIG_HOME".to_owned(),
    };
    Failure::usage(format!("there is no prompt {name}"), hint)
        .with_suggestion(&did_you_mean(name, names.iter().map(String::as_str)))
}
