//! Paths in what is typed: a line that is nothing but the path of a document, as terminals insert what is dropped on
//! them, and `@FILE` in a question.
//!
//! Only what cannot be meant otherwise counts. A word that happens to be the name of a file is a word.

use std::fs;
use std::path::{Path, is_separator};

use crate::commands::chat::line::complete::{expand_home, path_of_url};

/// A longer line is no path.
const MAX_BYTES: usize = 8 << 10;
/// Characters that may follow a path in a sentence.
const PUNCTUATION: [char; 12] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '>'];

/// The documents that a line names.
#[derive(Debug, PartialEq, Eq)]
pub struct Dropped {
    pub paths: Vec<String>,
    /// The question about them; empty if there is none.
    pub question: String,
}

/// The documents that a line is, or has with `@`; `None` if it has none.
pub fn documents(line: &str) -> Option<Dropped> {
    let line = line.trim();
    if line.len() > MAX_BYTES || line.contains('\n') {
        return None;
    }
    let paths = lone_paths(line);
    if !paths.is_empty() {
        return Some(Dropped { paths, question: String::new() });
    }
    let (paths, question) = mentions(line);
    (!paths.is_empty()).then_some(Dropped { paths, question })
}

/// What in a question names a file, which may be meant or not: all of it, or a whole path in it. `None` where nothing
/// does.
pub fn maybe_meant(line: &str) -> Option<String> {
    let line = line.trim();
    if line.len() > MAX_BYTES || line.is_empty() || line.contains('\n') {
        return None;
    }
    if !line.contains(char::is_whitespace) && is_document(Path::new(line)) {
        return Some(line.to_owned());
    }
    let mut rest = line;
    while let Some((word, behind)) = next_word(rest).filter(|_| !rest.is_empty()) {
        let path = word.trim_end_matches(PUNCTUATION);
        let is_url = path.starts_with("~/") || path.starts_with("file://");
        let is_whole = is_url || Path::new(path).is_absolute();
        let real = path.strip_prefix("file://").and_then(path_of_url).unwrap_or_else(|| expand_home(path));
        if is_whole && real.is_file() {
            return Some(path.to_owned());
        }
        rest = behind.trim_start();
    }
    None
}

/// The paths that a line consists of; none if something else is in it.
fn lone_paths(line: &str) -> Vec<String> {
    if let Some(path) = path_of(line) {
        return vec![path];
    }
    let mut paths = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let Some((word, behind)) = next_word(rest) else { return Vec::new() };
        let Some(path) = path_of(&word) else { return Vec::new() };
        paths.push(path);
        rest = behind.trim_start();
    }
    paths
}

/// The path of a document, if a text cannot be anything else.
fn path_of(text: &str) -> Option<String> {
    let path = match text.strip_prefix("file://") {
        Some(url) => path_of_url(url)?,
        None => expand_home(text),
    };
    let named = documents::without_numbers(&path);
    let found = fs::metadata(&named).ok()?;
    let is_clear = match found.is_dir() {
        // `/tmp` may be a command with a typing error.
        true => {
            text.ends_with(is_separator) && text.len() > 1
                || path.is_absolute() && path.components().count() > 2
        }
        false => found.is_file() && (text.contains(is_separator) || named.extension().is_some()),
    };
    is_clear.then(|| path.into_os_string().into_string().ok())?
}

/// The first word of a text as a shell reads it, and what is behind it; `None` where a quote has no end.
fn next_word(text: &str) -> Option<(String, &str)> {
    let (mut word, mut quote) = (String::new(), None);
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            // On Windows it separates folders.
            ('\\', None | Some('"')) if !cfg!(windows) => word.push(characters.next()?.1),
            (c, None) if c.is_whitespace() => return Some((word, &text[at..])),
            (c, _) => word.push(c),
        }
    }
    quote.is_none().then_some((word, ""))
}

/// The documents behind an `@` in a line, and the line without the `@`. A document at its beginning is left out.
fn mentions(line: &str) -> (Vec<String>, String) {
    let (mut paths, mut question) = (Vec::new(), String::new());
    let mut rest = line;
    while let Some(at) = rest.find('@') {
        let (before, behind) = (&rest[..at], &rest[at + 1..]);
        question += before;
        let is_start = question.chars().next_back().is_none_or(|c| c.is_whitespace() || "([\"'".contains(c));
        match mentioned(behind).filter(|_| is_start) {
            Some((path, typed)) => {
                if !question.trim().is_empty() {
                    question += &behind[..typed];
                }
                paths.push(path);
                rest = &behind[typed..];
            }
            None => {
                question.push('@');
                rest = behind;
            }
        }
    }
    question += rest;
    (paths, question.trim().to_owned())
}

/// The document at the beginning of a text, and how many bytes of the text name it.
fn mentioned(text: &str) -> Option<(String, usize)> {
    let (word, behind) = next_word(text).or_else(|| {
        // An apostrophe later in the line is no quote.
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        Some((text[..end].to_owned(), &text[end..]))
    })?;
    let mut length = text.len() - behind.len();
    let mut word = word.as_str();
    loop {
        if !word.is_empty() && is_document(&expand_home(word)) {
            return Some((expand_home(word).into_os_string().into_string().ok()?, length));
        }
        let last = word.chars().next_back().filter(|c| PUNCTUATION.contains(c))?;
        // A quote around the word is no part of it.
        if !text[..length].ends_with(last) {
            return None;
        }
        word = &word[..word.len() - last.len_utf8()];
        length -= last.len_utf8();
    }
}

/// Whether there is a file or a folder, and no device or pipe.
fn is_document(path: &Path) -> bool {
    let named = documents::without_numbers(path);
    // Windows opens a file also with a full stop behind its name.
    let ends_sentence =
        cfg!(windows) && named.file_name().is_some_and(|name| name.to_string_lossy().ends_with('.'));
    !ends_sentence && fs::metadata(named).is_ok_and(|found| found.is_file() || found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with some files, and the path of each.
    fn folder() -> (tempfile::TempDir, impl Fn(&str) -> String) {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["report.pdf", "my doc.txt", "Makefile", "it's.txt", "ü%20.txt"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        fs::create_dir(folder.path().join("sub")).expect("a folder");
        let path = folder.path().to_str().expect("text").to_owned();
        (folder, move |name: &str| format!("{path}/{name}"))
    }

    fn lone(line: &str) -> Option<Vec<String>> {
        documents(line).filter(|found| found.question.is_empty()).map(|found| found.paths)
    }

    #[cfg(windows)]
    #[test]
    fn paths_of_windows_have_drives_and_backslashes() {
        let (_folder, path) = folder();
        let native = |name: &str| path(name).replace('/', "\\");
        let (report, spaced) = (native("report.pdf"), native("my doc.txt"));
        for (line, expected) in [
            (report.clone(), vec![&report]),
            (spaced.clone(), vec![&spaced]),
            (format!("\"{spaced}\" {report}"), vec![&spaced, &report]),
        ] {
            let expected = expected.into_iter().cloned().collect();
            assert_eq!(lone(&line), Some(expected), "{line}");
        }
        let url = format!("file:///{}", spaced.replace('\\', "/").replace(' ', "%20"));
        assert_eq!(lone(&url), Some(vec![spaced.replace('\\', "/")]));
        assert_eq!(maybe_meant(&format!("what is in {report}?")), Some(report));
    }

    #[cfg(unix)]
    #[test]
    fn a_line_that_is_a_path_is_a_document() {
        let (_folder, path) = folder();
        let (report, spaced, quote) = (path("report.pdf"), path("my doc.txt"), path("it's.txt"));
        for (line, expected) in [
            (report.clone(), vec![&report]),
            (format!(" {report} "), vec![&report]),
            (spaced.clone(), vec![&spaced]),
            (format!("'{spaced}'"), vec![&spaced]),
            (format!("\"{spaced}\""), vec![&spaced]),
            (spaced.replace(' ', "\\ "), vec![&spaced]),
            (format!("'{}'", quote.replace('\'', "'\\''")), vec![&quote]),
            (format!("file://{}", spaced.replace(' ', "%20")), vec![&spaced]),
            (format!("file://localhost{report}"), vec![&report]),
            (format!("'{spaced}' {report}"), vec![&spaced, &report]),
            (format!("@{report}"), vec![&report]),
            (path("Makefile"), vec![&path("Makefile")]),
            (path("sub"), vec![&path("sub")]),
            (format!("file://{}", path("%C3%BC%2520.txt")), vec![&path("ü%20.txt")]),
        ] {
            let expected = expected.into_iter().cloned().collect();
            assert_eq!(lone(&line), Some(expected), "{line}");
        }
    }

    #[test]
    fn what_may_be_a_question_is_one() {
        let (_folder, path) = folder();
        for line in [
            "".to_owned(),
            "/tmp".to_owned(),
            "/".to_owned(),
            "/dev/null".to_owned(),
            "file:///dev/null".to_owned(),
            "file://%".to_owned(),
            "src".to_owned(),
            "'".to_owned(),
            path("none.txt"),
            format!("what is in {}?", path("report.pdf")),
            format!("{} and more", path("report.pdf")),
            format!("{}\nwhy?", path("report.pdf")),
            format!("me@{}", path("report.pdf")),
            format!("why @{}?", path("none.txt")),
            "mail me@example.org, @all".to_owned(),
        ] {
            assert_eq!(documents(&line), None, "{line}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_may_be_meant_is_found() {
        let (_folder, path) = folder();
        let report = path("report.pdf");
        for line in
            [format!("what is in {report}?"), format!("why '{report}'"), format!("a file://{report}, b")]
        {
            let found = maybe_meant(&line).expect("a file");
            assert!(found.ends_with(&report), "{line}: {found}");
        }
        assert_eq!(maybe_meant("src").as_deref(), Some("src"), "a folder here");
        for line in ["", "and/or", "what is /tmp?", "what is src?", "it's /", "why?\n/etc/passwd"] {
            assert_eq!(maybe_meant(line), None, "{line}");
        }
    }

    #[test]
    fn documents_are_mentioned_in_a_question() {
        let (_folder, path) = folder();
        let (report, spaced) = (path("report.pdf"), path("my doc.txt"));
        for (line, question) in [
            (format!("@{report} what is the rent?"), "what is the rent?".to_owned()),
            (format!("What is in @{report}?"), format!("What is in {report}?")),
            (format!("Sum up @{report}."), format!("Sum up {report}.")),
            (format!("it's (@{report}), isn't it?"), format!("it's ({report}), isn't it?")),
        ] {
            assert_eq!(documents(&line), Some(Dropped { paths: vec![report.clone()], question }), "{line}");
        }
        let line = format!("@'{spaced}' and @{report}: which is longer?");
        let question = format!("and {report}: which is longer?");
        assert_eq!(documents(&line), Some(Dropped { paths: vec![spaced, report], question }));
    }
}
