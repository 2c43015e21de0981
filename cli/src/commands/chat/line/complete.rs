//! Completes commands and paths, and what a typed path means.

use std::env;
use std::fs;
use std::path::{MAIN_SEPARATOR_STR, PathBuf, is_separator};

use longhand::policy::policies;

use crate::commands::chat::commands::{self, settings};
use crate::session::prompts;

/// What may stand at the end of the text before the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// Bytes at the end of the text that are completed.
    pub typed: usize,
    /// What may stand there instead.
    pub candidates: Vec<String>,
}

impl Completions {
    /// What all candidates add to what is typed.
    pub fn common(&self) -> &str {
        let Some((first, others)) = self.candidates.split_first() else { return "" };
        let mut end = first.len();
        for other in others {
            let same = first.char_indices().zip(other.chars()).take_while(|((_, a), b)| a == b);
            end = end.min(same.last().map_or(0, |((at, c), _)| at + c.len_utf8()));
        }
        first.get(self.typed..end).unwrap_or_default()
    }
}

/// Completes the text before the cursor: a command, or behind one a path, the name of a policy or of a setting.
pub fn complete(text: &str) -> Completions {
    match text.split_once(' ') {
        None if text.starts_with('/') => {
            let commands = commands::all().filter(|command| command.name.starts_with(text));
            let candidates = commands.map(|command| match command.takes_path {
                true => format!("{} ", command.name),
                false => command.name.to_owned(),
            });
            Completions { typed: text.len(), candidates: candidates.collect() }
        }
        Some(("/prompt", typed)) => complete_name(typed, prompts::list().iter().map(|prompt| &*prompt.name)),
        Some(("/policy", typed)) => complete_name(typed, policies().map(|entry| entry.name)),
        Some(("/set", typed)) => complete_name(typed, settings::names()),
        Some((name, path)) if commands::all().any(|command| command.takes_path && command.name == name) => {
            complete_path(path.trim_start())
        }
        _ => mentioned(text),
    }
}

/// Completes the path behind an `@`, which ends at white space.
fn mentioned(text: &str) -> Completions {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let Some(path) = word.strip_prefix('@') else { return Completions::default() };
    let mut completions = complete_path(path);
    completions.candidates.retain(|name| !name.contains(char::is_whitespace));
    completions
}

/// Completes one of these names.
fn complete_name<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Completions {
    let candidates = names.filter(|name| name.starts_with(typed)).map(str::to_owned).collect();
    Completions { typed: typed.len(), candidates }
}

/// Completes the last name of a path. Names that are not text are left out, and hidden ones unless asked for.
fn complete_path(path: &str) -> Completions {
    let (folder, name) = path.rfind(is_separator).map_or(("", path), |slash| path.split_at(slash + 1));
    let real = if folder.is_empty() { "./" } else { folder };
    let mut candidates = Vec::new();
    for entry in fs::read_dir(expand_home(real)).into_iter().flatten().flatten() {
        let Ok(found) = entry.file_name().into_string() else { continue };
        let is_hidden = found.starts_with('.') && !name.starts_with('.');
        if found.starts_with(name) && !is_hidden && !found.contains(char::is_control) {
            let is_folder = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir());
            candidates.push(if is_folder { found + MAIN_SEPARATOR_STR } else { found });
        }
    }
    candidates.sort();
    Completions { typed: name.len(), candidates }
}

/// The path of a new file that is typed, perhaps in quotes.
pub fn new_path(typed: &str) -> PathBuf {
    expand_home(unquoted(typed))
}

/// The path of a document that is typed. Terminals insert what is dropped on them as for a shell: in quotes, or with
/// backslashes before spaces and other characters.
pub fn document_path(typed: &str) -> PathBuf {
    if let Some(path) = typed.strip_prefix("file://").and_then(path_of_url).filter(|path| path.exists()) {
        return path;
    }
    let (plain, unquoted) = (expand_home(typed), unquoted(typed));
    match plain.exists() {
        true => plain,
        false if unquoted != typed => expand_home(unquoted),
        // On Windows they separate folders.
        false if cfg!(windows) => plain,
        false => expand_home(&without_backslashes(typed)),
    }
}

/// The path of a `file` URL, from behind `file://` on; `None` if it has none. The host, if any, is not looked at.
pub fn path_of_url(url: &str) -> Option<PathBuf> {
    let path = &url[url.find('/')?..];
    // `file:///C:/folder`
    let path = if cfg!(windows) { &path[1..] } else { path };
    let path = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
    Some(PathBuf::from(path.into_owned()))
}

/// The text without the backslashes that a shell would remove.
fn without_backslashes(typed: &str) -> String {
    let mut characters = typed.chars();
    std::iter::from_fn(|| characters.next().filter(|c| *c != '\\').or_else(|| characters.next())).collect()
}

/// The text between a pair of quotes; all of it where there is none.
fn unquoted(typed: &str) -> &str {
    let between =
        |quote: char| typed.strip_prefix(quote)?.strip_suffix(quote).filter(|text| !text.is_empty());
    between('\'').or_else(|| between('"')).unwrap_or(typed)
}

/// `~/` is the user's home.
pub fn expand_home(path: &str) -> PathBuf {
    let below_home = path.strip_prefix("~/").or_else(|| path.strip_prefix("~\\").filter(|_| cfg!(windows)));
    match (below_home, env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_completed() {
        assert_eq!(complete("/st").common(), "ats");
        assert_eq!(complete("/sa").common(), "ve ");
        let some = complete("/sa");
        assert_eq!((some.candidates, some.typed), (vec!["/save ".into()], 3));
        assert_eq!(complete("/").candidates.len(), commands::all().count());
        for text in ["", "st", "why /s", "/stats ", "/nothing"] {
            assert_eq!(complete(text).candidates, [""; 0], "{text}");
        }
    }

    #[test]
    fn names_are_completed_behind_policy_and_set() {
        assert_eq!(complete("/policy raz").common(), "or");
        assert_eq!(complete("/policy ").candidates.len(), policies().count());
        assert_eq!(complete("/set te").common(), "mp");
        assert_eq!(complete("/set top-").candidates, ["top-k", "top-p"]);
        assert_eq!(complete("/set temp 0").candidates, [""; 0]);
    }

    #[cfg(windows)]
    #[test]
    fn paths_of_windows_are_completed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("my box");
        fs::create_dir(&path).expect("a folder");
        let typed = folder.path().to_str().expect("text");
        for separator in ["\\", "/"] {
            assert_eq!(complete(&format!("/save {typed}{separator}my b")).common(), "ox\\");
        }
        let path = path.to_str().expect("text");
        assert_eq!(document_path(&format!("\"{path}\"")), PathBuf::from(path));
    }

    #[cfg(unix)]
    #[test]
    fn typed_paths_may_be_quoted_or_escaped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
        for name in ["my doc.txt", "back\\ slash"] {
            fs::write(path(name), "").expect("a file");
        }
        let spaced = path("my doc.txt");
        let escaped = spaced.replace(' ', "\\ ");
        for typed in [spaced.clone(), format!("'{spaced}'"), format!("\"{spaced}\""), escaped] {
            assert_eq!(document_path(&typed), PathBuf::from(&spaced), "{typed}");
        }
        fs::write(path("it's (1).txt"), "").expect("a file");
        let escaped = path("it\\'s\\ \\(1\\).txt");
        assert_eq!(document_path(&escaped), PathBuf::from(path("it's (1).txt")));
        // What is there is meant as it is. Other quotes are part of the path.
        assert_eq!(document_path(&path("back\\ slash")), PathBuf::from(path("back\\ slash")));
        for (typed, expected) in
            [("'a b'", "a b"), ("\"a\"", "a"), ("'a\"", "'a\""), ("''", "''"), ("'", "'"), ("a\\ b", "a\\ b")]
        {
            assert_eq!(new_path(typed), PathBuf::from(expected), "{typed}");
        }
        assert_eq!(document_path("'src/**/*.rs'"), PathBuf::from("src/**/*.rs"));
        let url = format!("file://{}", spaced.replace(' ', "%20"));
        assert_eq!(document_path(&url), PathBuf::from(&spaced));
    }

    #[cfg(unix)]
    #[test]
    fn paths_are_completed_behind_a_command_that_takes_one() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["alpha.txt", "alphabet", "Übung 1", "Übung 2", ".hidden", "bad\u{1b}name"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        fs::create_dir(folder.path().join("box")).expect("a folder");
        let path = folder.path().to_str().expect("text");
        let complete = |name: &str| complete(&format!("/save {path}/{name}"));
        assert_eq!(complete("al").common(), "pha");
        assert_eq!(complete("b").common(), "ox/");
        assert_eq!(complete("Ü").common(), "bung ");
        assert_eq!(complete("").candidates, ["alpha.txt", "alphabet", "box/", "Übung 1", "Übung 2"]);
        assert_eq!(complete(".").candidates, [".hidden"]);
        assert_eq!(complete("none/").candidates, [""; 0]);
        let mentioned = |name: &str| {
            crate::commands::chat::line::complete::complete(&format!("What is in @{path}/{name}"))
        };
        assert_eq!(mentioned("alpha.").common(), "txt");
        assert_eq!(mentioned("Ü").candidates, [""; 0], "they have spaces");
    }
}
