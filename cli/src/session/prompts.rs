//! Saved prompts: text files in the folder `prompts` beside the config file. `summary.txt` there is the prompt
//! `summary`. The files are read when they are used, and bounded. A folder that others may write to is not used: they
//! could write what is asked.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use longhand::files::folders;
use models::regular_file;
use terminal::suggest::did_you_mean;

use crate::failure::Failure;

/// Most files of the folder that are listed. A prompt that is named is found in any case.
const MAX_FILES: usize = 1000;
/// Largest size of a prompt, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Extensions of the files.
const EXTENSIONS: [&str; 2] = ["md", "txt"];

/// A saved prompt that was not read yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SavedPrompt {
    /// Its name: that of its file, without the extension.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
}

impl SavedPrompt {
    /// The text, without white space around it.
    ///
    /// # Errors
    /// A file that cannot be read, is larger than 1 MiB, is not UTF-8 or has no text.
    pub fn read(&self) -> Result<String, Failure> {
        let wrong = |what: String| {
            Failure::new(
                format!("the saved prompt {} cannot be used: {what}", self.path.display()),
                "correct or remove the file",
            )
        };
        let text =
            regular_file::read_text(&self.path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
        match text.trim() {
            "" => Err(wrong("it is empty".to_owned())),
            text => Ok(text.to_owned()),
        }
    }
}

/// The folder of saved prompts, which need not exist; `None` if the system names none.
pub fn folder() -> Option<PathBuf> {
    Some(folders::config()?.join("prompts"))
}

/// The folder of saved prompts, in which nobody else can have put files.
fn trusted_folder() -> Result<PathBuf, Failure> {
    let folder = folder().ok_or_else(|| {
        Failure::new(
            "there is no folder for saved prompts",
            "set the environment variable HOME or XDG_CONFIG_HOME",
        )
    })?;
    folders::check_trusted(&folder).map_err(|error| {
        Failure::new(
            format!("saved prompts cannot be used: {error}"),
            "look at what is in the folder, and make it your own",
        )
    })?;
    Ok(folder)
}

/// All saved prompts, by name. There are none where the folder cannot be read, or others may write to it.
pub fn list() -> Vec<SavedPrompt> {
    trusted_folder().map_or_else(|_| Vec::new(), |folder| list_in(&folder))
}

fn list_in(folder: &Path) -> Vec<SavedPrompt> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FILES);
    let prompt = |path: PathBuf| {
        let extension = path.extension()?.to_str()?;
        let name = path.file_stem()?.to_str().filter(|name| !name.starts_with('.'))?.to_owned();
        (EXTENSIONS.contains(&extension) && path.is_file()).then_some(SavedPrompt { name, path })
    };
    let mut prompts: Vec<SavedPrompt> = entries.filter_map(|entry| prompt(entry.path())).collect();
    prompts.sort_unstable();
    prompts
}

/// The names of all saved prompts, as a list for the user of a chat.
pub fn listed() -> String {
    let folder = match trusted_folder() {
        Ok(folder) => folder,
        Err(error) => return format!("{error}\n"),
    };
    let prompts = list_in(&folder);
    if prompts.is_empty() {
        return format!("there are no saved prompts; write one to {}\n", folder.join("NAME.txt").display());
    }
    let names: String = prompts.iter().map(|prompt| format!("{}\n", prompt.name)).collect();
    names + "/prompt NAME asks one\n"
}

/// The text of the saved prompt of this name.
///
/// # Errors
/// There is none, or there are two; a file that cannot be used; a folder that others may write to.
pub fn load(name: &str) -> Result<String, Failure> {
    find(name, &trusted_folder()?)?.read()
}

fn find(name: &str, folder: &Path) -> Result<SavedPrompt, Failure> {
    let with_extension = |extension: &&str| {
        let path = folder.join(format!("{name}.{extension}"));
        path.is_file().then(|| SavedPrompt { name: name.to_owned(), path })
    };
    let found: Vec<SavedPrompt> = match is_file_name(name) {
        true => EXTENSIONS.iter().filter_map(with_extension).collect(),
        false => Vec::new(),
    };
    match &found[..] {
        [prompt] => Ok(prompt.clone()),
        [] => {
            let prompts = list_in(folder);
            let mut names: Vec<&str> = prompts.iter().map(|prompt| &*prompt.name).collect();
            names.dedup();
            let known = match names.is_empty() {
                true => String::new(),
                false => format!("use one of {}; or ", names.join(", ")),
            };
            Err(Failure::usage(
                format!("there is no saved prompt named {name}"),
                format!(
                    "{}{known}write one to {}",
                    did_you_mean(name, names.iter().copied()),
                    folder.join("NAME.txt").display()
                ),
            ))
        }
        [first, second, ..] => Err(Failure::usage(
            format!(
                "there are two saved prompts named {name}: {} and {}",
                first.path.display(),
                second.path.display()
            ),
            "rename or remove one of the files",
        )),
    }
}

/// Whether a name leads to no other folder and is not hidden.
fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let is_whole = matches!(parts.next(), Some(Component::Normal(part)) if part == OsStr::new(name));
    is_whole && parts.next().is_none() && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_text_files_with_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).expect("a file");
        put("summary.txt", b"\nSummarise the text.\n\n");
        put("twice.md", b"a");
        put("twice.txt", b"b");
        put("empty.txt", b" \n");
        put("latin.txt", b"caf\xe9");
        put("large.txt", &vec![b'a'; (1 << 20) + 1]);
        put(".hidden.txt", b"a");
        put("other.pdf", b"a");
        fs::create_dir(folder.path().join("folder.txt")).expect("a folder");
        let prompts = list_in(folder.path());
        let names: Vec<&str> = prompts.iter().map(|prompt| &*prompt.name).collect();
        assert_eq!(names, ["empty", "large", "latin", "summary", "twice", "twice"]);
        let text = |name: &str| find(name, folder.path()).and_then(|prompt| prompt.read());
        assert_eq!(text("summary"), Ok("Summarise the text.".to_owned()));
        for (name, part) in [
            ("empty", "it is empty"),
            ("latin", "UTF-8"),
            ("large", "larger than 1048576 bytes"),
            ("twice", "two saved prompts named twice"),
            ("sumary", "no saved prompt named sumary"),
            ("../summary", "no saved prompt named ../summary"),
            ("./summary", "no saved prompt named ./summary"),
            ("summary/", "no saved prompt named summary/"),
            (".hidden", "no saved prompt named .hidden"),
            ("folder", "no saved prompt named folder"),
            ("", "no saved prompt named "),
        ] {
            let error = text(name).expect_err(name);
            assert!(error.to_string().contains(part), "{name}: {error}");
        }
        let hint = text("sumary").expect_err("a typo").hint().to_owned();
        assert!(hint.starts_with("did you mean `summary`? use one of empty, large, "), "{hint}");
        assert_eq!(list_in(Path::new("no/such/folder")), []);
    }

    #[test]
    fn a_prompt_is_found_among_any_number_of_files() {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..MAX_FILES + 20 {
            fs::write(folder.path().join(format!("p{number}.txt")), "a").expect("a file");
        }
        assert_eq!(list_in(folder.path()).len(), MAX_FILES);
        for number in 0..MAX_FILES + 20 {
            find(&format!("p{number}"), folder.path()).expect("a prompt");
        }
    }
}
