//! The user's token, where Hugging Face's programs look for it. It is a secret: no message shows it.

use std::path::PathBuf;
use std::{env, io};

use models::regular_file;
use terminal::failure::Failure;

use crate::folders;

/// Largest file that may be a token, in bytes.
const MAX_FILE: u64 = 4096;

/// A token.
pub struct Token {
    /// What goes into the header: printable ASCII.
    pub text: String,
    /// Where it is from, for people: `HF_TOKEN`, or a file.
    pub source: String,
}

/// The token of `HF_TOKEN`, else that of a file; `None` if there is none.
///
/// # Errors
/// It has characters that no token has.
pub fn read() -> Result<Option<Token>, Failure> {
    // A variable that is not Unicode has such characters, too.
    let variable = env::var_os("HF_TOKEN").map(|text| text.to_string_lossy().into_owned());
    let (text, source) = match variable.filter(|text| !text.trim().is_empty()) {
        Some(text) => (text, "HF_TOKEN".to_owned()),
        None => {
            let given = env::var_os("HF_TOKEN_PATH").filter(|path| !path.is_empty()).map(PathBuf::from);
            let Some(path) = given.or_else(folders::hugging_face_token) else { return Ok(None) };
            let source = path.display().to_string();
            match regular_file::read(&path, MAX_FILE) {
                Ok(text) => (String::from_utf8_lossy(&text).into_owned(), source),
                // Nobody has logged in.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    return Err(Failure::new(
                        format!("{source}: {error}"),
                        "this is the file of your token for Hugging Face: make it readable, or set HF_TOKEN_PATH to another one",
                    ));
                }
            }
        }
    };
    let text = text.trim();
    if let Some((at, wrong)) = text.chars().enumerate().find(|(_, c)| !c.is_ascii_graphic()) {
        return Err(Failure::new(
            format!(
                "{source} is no token of Hugging Face: character {} of it is {wrong:?}, and tokens have ASCII letters and \
                 digits only",
                at + 1
            ),
            "copy the token again, without quotation marks, dashes and blanks that a text program has changed; or unset it \
             for a public model",
        ));
    }
    Ok(Some(Token { text: text.to_owned(), source }).filter(|token| !token.text.is_empty()))
}
