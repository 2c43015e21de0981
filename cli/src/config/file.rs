//! The config file: TOML without tables. Every error says the line.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use longhand::files::folders;
use models::regular_file;
use terminal::suggest::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::known::KNOWN;
use crate::config::{Origin, Setting};
use crate::failure::Failure;

/// Largest size of a config file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The config file's path; `None` if the system names no folder for it.
pub fn path() -> Option<PathBuf> {
    Some(folders::config()?.join("config.toml"))
}

/// The settings in a config file; none if it does not exist.
///
/// # Errors
/// A file that cannot be read or is no TOML, an unknown key, or a value of a wrong kind.
pub fn read(path: &Path) -> Result<Vec<Setting>, Failure> {
    match regular_file::read_text(path, MAX_BYTES) {
        Ok(text) => parse(path, &text),
        // There is none, also where part of its path is a file: with HOME=/dev/null.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(Failure::new(
            format!("the config file {} cannot be read: {error}", path.display()),
            "correct or remove it; `longhand config path` prints its path",
        )),
    }
}

/// Whether nobody else can write to the folder of a config file, which need not exist.
///
/// # Errors
/// Why the file is not used.
pub fn check_trusted(path: &Path) -> Result<(), String> {
    let checked = match path.symlink_metadata() {
        // The folder is another user's, or closed: with `sudo -u` and the like, HOME is often somebody else's.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error.to_string()),
        Err(_) => Ok(()),
        Ok(_) => path
            .parent()
            .map_or(Ok(()), |folder| folders::check_trusted(folder).map_err(|error| error.to_string())),
    };
    checked.map_err(|error| format!("note: the config file {} is not used: {error}", path.display()))
}

fn parse(path: &Path, text: &str) -> Result<Vec<Setting>, Failure> {
    let line =
        |offset: usize| text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1;
    let wrong = |offset: usize, what: String, hint: String| {
        Failure::usage(format!("{}, line {}: {what}", path.display(), line(offset)), hint)
    };
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let has_backslash = text.lines().nth(line(offset) - 1).is_some_and(|line| line.contains('\\'));
        let hint = match has_backslash {
            true => r"a text with backslashes is in single quotes: 'C:\Models\a.gguf'",
            false => "a line is NAME = VALUE; texts are in quotes",
        };
        wrong(offset, error.message().to_owned(), hint.to_owned())
    })?;
    let mut settings = Vec::new();
    for (key, value) in table.get_ref() {
        let (name, offset) = (key.get_ref(), key.span().start);
        let known = KNOWN.iter().find(|known| known.name == *name).ok_or_else(|| {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            let suggestion = did_you_mean(name, names.iter().copied());
            wrong(
                offset,
                format!("there is no setting `{name}`"),
                format!("{suggestion}use {}", names.join(", ")),
            )
        })?;
        let values = values(value, known.is_list()).ok_or_else(|| {
            let kind =
                if known.is_list() { "a list of texts: [\"/a\", \"/b\"]" } else { "a text or a number" };
            wrong(offset, format!("`{name}` has a value of a wrong kind"), format!("give {kind}"))
        })?;
        let origin = Origin::File { path: path.to_owned(), line: line(offset) };
        settings.push((offset, Setting { values: known.expanded(values), known, origin }));
    }
    // The table is sorted by name. The first error is that of the first line.
    settings.sort_unstable_by_key(|(offset, _)| *offset);
    Ok(settings.into_iter().map(|(_, setting)| setting).collect())
}

/// The texts of a value; `None` if it is of a wrong kind.
fn values(value: &Spanned<DeValue>, is_list: bool) -> Option<Vec<String>> {
    match value.get_ref() {
        DeValue::Array(items) if is_list => items.iter().map(text_of).collect(),
        _ => Some(vec![text_of(value)?]),
    }
}

fn text_of(value: &Spanned<DeValue>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<(String, String)>, String> {
        let settings =
            parse(Path::new("c.toml"), text).map_err(|error| format!("{error}\n{}", error.hint()))?;
        Ok(settings.iter().map(|setting| (setting.known.name.to_owned(), setting.values.join(";"))).collect())
    }

    #[test]
    fn texts_numbers_and_lists_are_read() {
        let text = "threads = 8\n# my model\nmodel = \"m.gguf\"\ntop-p = 0.9\nquiet = true\nmodel-folders = [\"/a\", \"/b\"]\n";
        let expected = [
            ("threads", "8"),
            ("model", "m.gguf"),
            ("top-p", "0.9"),
            ("quiet", "true"),
            ("model-folders", "/a;/b"),
        ];
        assert_eq!(
            parsed(text),
            Ok(expected.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
        );
        assert_eq!(parsed(""), Ok(Vec::new()));
        let model = Ok(vec![("model".to_owned(), r"C:\new\a.gguf".to_owned())]);
        assert_eq!(parsed("# mine\r\nmodel = 'C:\\new\\a.gguf'\r\n"), model);
    }

    #[test]
    fn errors_have_the_line() {
        for (text, part) in [
            (
                "model = \"a\"\nthread = 8\n",
                "c.toml, line 2: there is no setting `thread`\ndid you mean `threads`?",
            ),
            ("model = \n", "c.toml, line 1: "),
            ("quiet = true\r\nmodel = \"C:\\Models\\a.gguf\"\r\n", "line 2: "),
            ("model = \"C:\\Models\\a.gguf\"", r"is in single quotes: 'C:\Models\a.gguf'"),
            ("# a\n\nmodel = [\"a\"]\n", "c.toml, line 3: `model` has a value of a wrong kind"),
            (
                "model-folders = [1, [2]]\n",
                "line 1: `model-folders` has a value of a wrong kind\ngive a list",
            ),
            ("[chat]\nmodel = \"a\"\n", "line 1: there is no setting `chat`"),
            ("model = \"a\"\nmodel = \"b\"\n", "line 2: "),
            ("model = \"\u{0}\"", "line 1: "),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
        let deep = format!("model = {}", "[".repeat(100_000));
        assert!(parsed(&deep).is_err());
    }
}
