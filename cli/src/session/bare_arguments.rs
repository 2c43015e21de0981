//! What the arguments without a flag are, in `ask` and `chat`: a model, documents or questions.
//!
//! What exists as a file or a folder is a model or a document, never a question. What only looks like a path is an
//! error. A single word before a question is the name of a model. All else is a question. A command line without a command is
//! a chat.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf, is_separator};

use clap::Command;
use hub::web;
use terminal::format::shell_word;
use terminal::suggest::did_you_mean;

use crate::app::App;
use crate::failure::Failure;
use crate::models::args::ModelArgs;
use crate::models::local_models;

/// Most names of a folder that are looked at for one that is like a mistyped one.
const MAX_NAMES: usize = 1000;

/// What the arguments are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BareArguments {
    /// Models, by path or name. `ask` accepts one.
    pub models: Vec<PathBuf>,
    /// Files, folders, patterns, and `-` for stdin.
    pub documents: Vec<PathBuf>,
    /// Questions; none in `chat`.
    pub questions: Vec<String>,
}

/// The arguments of `chat`: models and documents.
///
/// # Errors
/// A question, a web address, or a path that does not exist.
pub fn of_chat(arguments: &[OsString], model: &ModelArgs) -> Result<BareArguments, Failure> {
    let mut bare = BareArguments::default();
    for argument in arguments {
        match kind(argument, model)? {
            Kind::Model => bare.models.push(argument.into()),
            Kind::Document => bare.documents.push(argument.into()),
            Kind::MissingPath => return Err(missing(argument)),
            Kind::Name => bare.models.push(argument.into()),
            Kind::Question if names_document(&argument.to_string_lossy()) => return Err(missing(argument)),
            Kind::Question => {
                let words: Vec<String> =
                    arguments.iter().map(|word| shell_word(&word.to_string_lossy())).collect();
                return Err(Failure::usage(
                    format!("{} is neither a file nor the name of a model", argument.display()),
                    format!(
                        "a question: longhand ask {}; a chat that begins with it: -p {}",
                        words.join(" "),
                        shell_word(&argument.to_string_lossy())
                    ),
                ));
            }
        }
    }
    Ok(bare)
}

/// The arguments of `ask`: a model, documents, questions. `has_question`: a flag has one too. `each`: a document that does
/// not exist is an error when its turn comes.
///
/// # Errors
/// What can be neither, is no path of a file, or is in a place where it is not clear what it is.
pub fn of_ask(
    app: &App,
    arguments: &[OsString],
    model: &ModelArgs,
    has_question: bool,
    each: bool,
) -> Result<BareArguments, Failure> {
    let mut bare = BareArguments::default();
    for (number, argument) in arguments.iter().enumerate() {
        let is_model_given = model.is_named() || !bare.models.is_empty();
        let is_last = number + 1 == arguments.len();
        let text = argument.to_str();
        match kind(argument, model)? {
            Kind::Model => {
                if is_model_given || !bare.questions.is_empty() {
                    return Err(model_in_wrong_place(argument, is_model_given));
                }
                bare.models.push(argument.into());
            }
            Kind::Document => {
                note_bare_word(app, argument);
                bare.documents.push(argument.into());
            }
            Kind::MissingPath if each => bare.documents.push(argument.into()),
            Kind::MissingPath => return Err(missing(argument)),
            Kind::Name if !is_last || (has_question && !is_model_given && bare.questions.is_empty()) => {
                let rest: Vec<&str> = arguments[number..].iter().filter_map(|word| word.to_str()).collect();
                let is_torn = rest.iter().all(|word| is_word(word));
                if is_torn && (rest.len() > 2 || is_model_given || !bare.questions.is_empty()) {
                    let words: Vec<&str> = bare.questions.iter().map(String::as_str).chain(rest).collect();
                    return Err(several_arguments(&words));
                }
                if is_model_given || !bare.questions.is_empty() {
                    return Err(missing(argument));
                }
                note_part_of_name(app, argument, model)?;
                bare.models.push(argument.into());
            }
            // A word that is all of the question. The name of a model is a mistake.
            Kind::Name if !is_model_given && is_last && text.is_some_and(|text| model.is_name(text)) => {
                bare.models.push(argument.into());
            }
            Kind::Name | Kind::Question => {
                let question = text.ok_or_else(|| {
                    Failure::usage(
                        format!("{} is no file, and no question in UTF-8", argument.display()),
                        "check the path, or the terminal's encoding",
                    )
                })?;
                if !is_last && names_document(question) && !mentions(question, &bare.documents) {
                    return Err(missing(argument));
                }
                bare.questions.push(question.to_owned());
            }
        }
    }
    Ok(bare)
}

/// Notes for each file that a question names and that exists, but was not given. It may be in a folder that was.
pub fn note_unread_files(app: &App, questions: &[String], documents: &[PathBuf]) {
    if documents.iter().any(|path| path.is_dir() || is_pattern(&path.to_string_lossy())) {
        return;
    }
    for word in questions.iter().flat_map(|question| question.split_whitespace()) {
        let word =
            word.trim_matches(|c: char| !c.is_alphanumeric() && !"./~_".contains(c)).trim_end_matches('.');
        if has_extension(word) && Path::new(word).is_file() && !mentions(word, documents) {
            app.console.note(&format!(
                "note: the question names {word}, which is not read; give it as an argument of its own to read it"
            ));
        }
    }
}

/// Whether an argument is, or can only be meant as, the path of a file or a folder.
pub fn is_path(argument: &OsStr) -> bool {
    let path = Path::new(argument);
    argument == "-"
        || web::is_address(&argument.to_string_lossy())
        || ends_in(path, &["gguf"])
        || path.exists()
        || documents::split_numbers(path).is_some_and(|(path, _)| path.exists())
        || matches!(kind_of_missing(argument), Kind::Document | Kind::MissingPath)
}

/// What an argument can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A model file, or the path of one that does not exist.
    Model,
    /// A file, a folder, a pattern, stdin.
    Document,
    /// The path of a document that does not exist.
    MissingPath,
    /// A word: the name of a model, or a question.
    Name,
    Question,
}

/// What an argument is, by itself.
///
/// # Errors
/// It is something that longhand does not take: a web address, a saved conversation, a folder of models.
fn kind(argument: &OsStr, model: &ModelArgs) -> Result<Kind, Failure> {
    let path = Path::new(argument);
    let text = argument.to_string_lossy();
    if argument == "-" {
        return Ok(Kind::Document);
    }
    if ends_in(path, &["gguf"]) {
        return Ok(Kind::Model);
    }
    if path.exists() {
        if is_gguf(path) {
            return Ok(Kind::Model);
        }
        if ends_in(path, &["session"]) && path.is_file() {
            return Err(Failure::usage(
                format!("{text} is a saved conversation"),
                format!("continue it with: longhand chat --session {}", shell_word(&text)),
            ));
        }
        if path.is_dir() && has_models_only(path) {
            return Err(Failure::usage(
                format!("{text} is a folder of models"),
                "give the path of a model file in it; model files end in .gguf",
            ));
        }
        return Ok(Kind::Document);
    }
    // A model is meant, which another flag downloads.
    if web::is_address(&text) && hub::of_address(&text).is_none() && !text.contains(char::is_whitespace) {
        return Ok(Kind::Document);
    }
    if let Some((path, _)) = documents::split_numbers(path) {
        return Ok(match path.exists() || is_pattern(&path.to_string_lossy()) {
            true if !is_gguf(&path) => Kind::Document,
            _ => kind_of_missing(path.as_os_str()),
        });
    }
    if text.contains("://") && !text.contains(char::is_whitespace) {
        return Err(web_address(&text));
    }
    match kind_of_missing(argument) {
        // `tiny.q4` looks like a file.
        Kind::MissingPath if model.is_name(&text) => Ok(Kind::Name),
        kind => Ok(kind),
    }
}

/// What an argument is that no file has as its path.
fn kind_of_missing(argument: &OsStr) -> Kind {
    let Some(text) = argument.to_str() else { return Kind::MissingPath };
    let text = &*with_slashes(text);
    if is_pattern(text) {
        Kind::Document
    } else if looks_like_path(text) {
        Kind::MissingPath
    } else if is_word(text) && !ends_sentence(text) {
        Kind::Name
    } else {
        Kind::Question
    }
}

/// A path as it is written elsewhere than on Windows.
fn with_slashes(text: &str) -> Cow<'_, str> {
    if cfg!(windows) { text.replace('\\', "/").into() } else { text.into() }
}

/// Whether a text is a pattern of files: `src/**/*.rs`, `*.txt`, `part[12].md`.
fn is_pattern(text: &str) -> bool {
    let is_special = text.contains(['*', '[', '{']) || text.trim_end_matches('?').contains('?');
    let is_path = text.contains('/') || has_extension(text);
    match text.contains(char::is_whitespace) {
        true => {
            let is_pattern =
                text.contains("**/") || text.rsplit('/').next().is_some_and(|name| name.starts_with("*."));
            is_pattern && !ends_sentence(text)
        }
        false => is_special && is_path && !text.ends_with(['?', '!']),
    }
}

/// Whether a text can only be meant as a path: `./x`, `/x/y`, `x.pdf`.
fn looks_like_path(text: &str) -> bool {
    let first = text.split(char::is_whitespace).next().unwrap_or_default();
    let is_from_folder = ["./", "../", "~/"].iter().any(|start| text.starts_with(start))
        || (text.starts_with('/') && first[1..].contains('/'))
        // With a drive.
        || cfg!(windows) && Path::new(text).is_absolute();
    let is_one_word = first.len() == text.len();
    is_from_folder || (is_one_word && (text.starts_with('/') && text.len() > 1 || has_extension(text)))
}

/// Whether the last name of a path has an extension as files have: up to five letters and digits.
fn has_extension(path: &str) -> bool {
    let Some((stem, extension)) = path.rsplit(is_separator).next().unwrap_or_default().rsplit_once('.')
    else {
        return false;
    };
    let letters = extension.bytes().filter(u8::is_ascii_alphanumeric).count();
    let is_short = ["c", "h", "r"].contains(&extension) || (2..=5).contains(&extension.len());
    !stem.is_empty()
        && is_short
        && letters == extension.len()
        && extension.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Whether a text of several words ends as the name of a document does, and is no sentence: `my book.pdf`.
fn names_document(text: &str) -> bool {
    text.contains(char::is_whitespace)
        && !text.contains('?')
        && ends_in(
            Path::new(text),
            &["pdf", "docx", "epub", "txt", "md", "html", "htm", "odt", "rtf", "pptx", "xlsx", "csv", "eml"],
        )
}

/// Whether a text names a document that is given.
fn mentions(text: &str, documents: &[PathBuf]) -> bool {
    let name = |path: &PathBuf| {
        let path = documents::without_numbers(path);
        Some(path.file_name()?.to_string_lossy().into_owned())
    };
    documents.iter().filter_map(name).any(|name| text.contains(&name))
}

/// Whether a text is one word, as names of models are: `qwen2.5:7b`, `owner/repository`.
fn is_word(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._:/-+@?!,'".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// Whether a word ends as a sentence does.
fn ends_sentence(word: &str) -> bool {
    word.ends_with(['?', '!', '.', ',', ':'])
}

fn ends_in(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    extensions.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Whether a file begins as models do. Pipes are not read.
fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let mut read = || File::open(path)?.read_exact(&mut magic);
    path.is_file() && read().is_ok() && &magic == b"GGUF"
}

/// Whether a folder has model files and no others, except hidden ones.
fn has_models_only(folder: &Path) -> bool {
    let names =
        fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_NAMES).map(|entry| entry.path());
    let is_hidden =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let mut names = names.filter(|path| !is_hidden(path)).peekable();
    names.peek().is_some() && names.all(|path| ends_in(&path, &["gguf"]))
}

/// The error for a path that does not exist, with the name in its folder that is most like it.
fn missing(argument: &OsStr) -> Failure {
    let path = Path::new(argument);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_NAMES);
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let suggestion = did_you_mean(&name, names.iter().map(String::as_str));
    Failure::new(
        format!("{}: No such file or folder", path.display()),
        format!("{suggestion}check the path; if it is a question, give it with -p"),
    )
}

/// The error for a web address.
fn web_address(address: &str) -> Failure {
    let hint = match address.split_once("://") {
        Some(("file", path)) => format!("give its path: {}", shell_word(path)),
        _ if hub::of_address(address).is_some() => {
            "-hf OWNER/REPOSITORY downloads a model of Hugging Face; -f reads a page".to_owned()
        }
        _ => "download it, and give its path".to_owned(),
    };
    Failure::usage(
        format!("{address} is an address that is not read; addresses of documents begin with https://"),
        hint,
    )
}

fn model_in_wrong_place(argument: &OsStr, is_model_given: bool) -> Failure {
    let text = argument.display();
    let questions = "give questions about a file's name with -p";
    match is_model_given {
        true => Failure::usage(
            format!("{text} is a model file, but a model is given already"),
            format!("name the model once, with -m or as the first argument; {questions}"),
        ),
        false => Failure::usage(
            format!("{text} is a model file, but it is given after a question"),
            format!("give the model as the first argument, or with -m; {questions}"),
        ),
    }
}

/// The error for a question that lacks its quotes.
fn several_arguments(words: &[&str]) -> Failure {
    let question = words.join(" ");
    Failure::usage(
        format!("the question is in several arguments: {question}"),
        format!("put it in quotes: \"{question}\"; questions of one word each need -p before each"),
    )
}

/// Notes that a bare word is read as a document, because a file or a folder has this name.
fn note_bare_word(app: &App, argument: &OsStr) {
    let text = argument.to_string_lossy();
    if argument != "-" && !text.contains(is_separator) && !text.contains(['.', '*', '[', '{']) {
        let what = if Path::new(argument).is_dir() { "folder" } else { "file" };
        let word = shell_word(&text);
        app.console.note(&format!(
            "note: {text} is a {what} here and is read as a document; -p {word} asks it, -m {word} names a model"
        ));
    }
}

/// Notes which model has the name that is given, where it is only a part of its name.
///
/// # Errors
/// Several models have the name, or none.
fn note_part_of_name(app: &App, argument: &OsStr, model: &ModelArgs) -> Result<(), Failure> {
    let name = argument.to_string_lossy();
    let Some(path) = local_models::find(&name, model.folders())? else {
        let failure = local_models::unknown(Path::new(argument), model.folders());
        let hint = format!("{}; if it is a question of one word, give it with -p", failure.hint());
        return Err(failure.with_hint(&hint));
    };
    if !model.is_name(&name) {
        app.console.note(&format!("note: {name} is the model {}", path.display()));
    }
    Ok(())
}

/// Flags of llama-cli for one answer.
const ONE_ANSWER: [&str; 2] = ["--single-turn", "--no-conversation"];

/// Makes a command line without a command a chat: `longhand book.pdf`, `longhand -m model.gguf`. With llama-cli's flags for
/// one answer it is `ask`.
pub fn with_command(
    mut arguments: Vec<OsString>,
    command: &Command,
    model_folders: impl Fn() -> Vec<PathBuf>,
) -> Vec<OsString> {
    let is_quiet = |argument: &OsString| argument == "-q" || argument == "--quiet";
    let at = 1 + arguments.iter().skip(1).take_while(|argument| is_quiet(argument)).count();
    let is_chat = arguments.get(at).is_some_and(|first| match is_flag(first) {
        true => {
            let is_command = |argument: &OsString| command.find_subcommand(argument).is_some();
            is_flag_of_chat(first, command) && !arguments[at..].iter().any(is_command)
        }
        false => {
            command.find_subcommand(first).is_none() && first != "help" && begins_chat(first, &model_folders)
        }
    });
    if is_chat {
        let is_once = arguments.iter().any(|argument| ONE_ANSWER.iter().any(|flag| argument == flag));
        arguments.insert(at, if is_once { "ask" } else { "chat" }.into());
    }
    arguments
}

fn is_flag(argument: &OsStr) -> bool {
    argument != "-" && argument.as_encoded_bytes().starts_with(b"-")
}

/// Whether the flag is one of `chat`, and none of the program itself.
fn is_flag_of_chat(flag: &OsStr, command: &Command) -> bool {
    let Some(flag) = flag.to_str() else { return false };
    let name = flag.split_once('=').map_or(flag, |(name, _)| name);
    let has = |command: &Command| {
        command.get_arguments().any(|argument| match name.strip_prefix("--") {
            Some(long) => {
                let aliases = argument.get_all_aliases().unwrap_or_default();
                argument.get_long() == Some(long) || aliases.contains(&long)
            }
            None => argument.get_short().is_some_and(|short| name[1..].starts_with(short)),
        })
    };
    !has(command) && command.find_subcommand("chat").is_some_and(has)
}

/// Whether a chat can begin with the argument: a file, a folder, a pattern, what looks like a path, the name of a model.
fn begins_chat(argument: &OsStr, model_folders: impl Fn() -> Vec<PathBuf>) -> bool {
    let is_model = |name| local_models::is_name(name, &model_folders());
    is_path(argument) || argument.to_str().is_some_and(is_model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_a_pattern_a_path_a_name_or_a_question() {
        for (text, expected) in [
            ("src/**/*.rs", Kind::Document),
            ("*.txt", Kind::Document),
            ("part[12].md", Kind::Document),
            ("chapter?.txt", Kind::Document),
            ("My Texts/*.txt", Kind::Document),
            ("no/such.pdf", Kind::MissingPath),
            ("x.pdf", Kind::MissingPath),
            ("./x", Kind::MissingPath),
            ("../My Book", Kind::MissingPath),
            ("~/x", Kind::MissingPath),
            ("/home/me/My Book.pdf", Kind::MissingPath),
            ("main.c", Kind::MissingPath),
            ("qwen", Kind::Name),
            ("qwen2.5-7b", Kind::Name),
            ("llama3.2:1b", Kind::Name),
            ("owner/repository-GGUF:Q4_K_M", Kind::Name),
            ("Summarise", Kind::Name),
            ("Why?", Kind::Question),
            ("TCP/IP?", Kind::Question),
            ("Who wrote it", Kind::Question),
            ("What is 2*3?", Kind::Question),
            ("What is in book.pdf", Kind::Question),
            ("/ is the root of what", Kind::Question),
            ("/", Kind::Question),
            ("", Kind::Question),
            (" ", Kind::Question),
            ("?", Kind::Question),
            ("***", Kind::Question),
            ("3.14", Kind::Name),
            ("etc.", Kind::Question),
            ("Überblick", Kind::Question),
            ("何ですか", Kind::Question),
            ("-1", Kind::Question),
        ] {
            assert_eq!(kind_of_missing(OsStr::new(text)), expected, "{text}");
        }
    }

    #[cfg(windows)]
    #[test]
    fn paths_of_windows_are_paths() {
        for (text, expected) in [
            (r"src\**\*.rs", Kind::Document),
            (r"C:\texts\*.txt", Kind::Document),
            (r"C:\My Texts\My Book", Kind::MissingPath),
            (r"no\such.pdf", Kind::MissingPath),
            (r".\x", Kind::MissingPath),
            (r"..\My Book", Kind::MissingPath),
            (r"~\x", Kind::MissingPath),
            ("C: what is it", Kind::Question),
        ] {
            assert_eq!(kind_of_missing(OsStr::new(text)), expected, "{text}");
        }
    }

    #[test]
    fn extensions_are_those_of_files() {
        for (path, has) in [
            ("a.pdf", true),
            ("a/b.tar.gz", true),
            ("a.c", true),
            ("a.b", false),
            ("a.", false),
            (".bashrc", false),
            ("3.14", false),
            ("v1.2b", false),
            ("qwen2.5-7b", false),
            ("a.b/c", false),
        ] {
            assert_eq!(has_extension(path), has, "{path}");
        }
    }
}
