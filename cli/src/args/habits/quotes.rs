//! A trap of Windows: a backslash before a quote makes the quote a letter of the argument. With `-f "My Texts\" "What is it?"`
//! the program gets `My Texts" What`, `is` and `it?`.

use std::ffi::OsString;
use std::path::Path;

use terminal::format::shell_word;

use crate::failure::Failure;

/// Checks the arguments on Windows, where no path has a quote.
///
/// # Errors
/// One begins with the path of a folder and a quote.
pub fn check(arguments: &[OsString]) -> Result<(), Failure> {
    if !cfg!(windows) {
        return Ok(());
    }
    let mut texts = arguments.iter().filter_map(|argument| argument.to_str());
    let Some((text, folder)) = texts.find_map(|text| Some((text, folder_before_quote(text)?))) else {
        return Ok(());
    };
    Err(Failure::usage(
        format!(
            "the argument {text} has a quote in it: one that follows a backslash does not end an argument"
        ),
        format!("write the folder as {}", shell_word(&format!("{folder}\\"))),
    ))
}

/// The folder at the beginning of a text, if a quote follows it.
fn folder_before_quote(text: &str) -> Option<&str> {
    let (folder, _) = text.split_once('"')?;
    Path::new(folder).is_dir().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_behind_a_folder_is_found() {
        let folder = std::env::temp_dir();
        let folder = folder.to_str().expect("a path in UTF-8");
        assert_eq!(folder_before_quote(&format!("{folder}\" What")), Some(folder));
        assert_eq!(folder_before_quote(&format!("{folder}\"")), Some(folder));
        for text in [folder, "What is \"it\"?", "\"", "\"it\" is what", ""] {
            assert_eq!(folder_before_quote(text), None, "{text}");
        }
    }

    #[cfg(windows)]
    #[test]
    fn the_folder_is_shown_as_it_should_be_written() {
        let check = |argument: &str| check(&["longhand".into(), argument.into()]);
        check("What is \"it\"?").expect("a question");
        let error = check("C:\" What").expect_err("a folder");
        assert_eq!(error.hint(), r"write the folder as C:\");
    }
}
