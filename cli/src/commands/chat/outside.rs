//! Edits a text in the user's own editor.

use std::env;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use models::regular_file;

use crate::commands::chat::inbox::Inbox;
use crate::failure::Failure;

/// What every system has.
const EDITOR: &str = if cfg!(windows) { "notepad" } else { "vi" };
/// A longer text is no message.
const MAX_BYTES: u64 = 64 << 20;
/// How often it is checked whether a signal ends the chat.
const CHECK: Duration = Duration::from_millis(50);

/// Edits `text` in `$VISUAL`, `$EDITOR` or the system's editor, in a file that only this user may read. Returns the new text without the
/// line break at its end. If a signal ends the chat, so does the editor.
///
/// # Errors
/// Where the editor does not start or fails, or the file is no text.
pub fn edit<T>(text: &str, inbox: &Inbox<T>) -> Result<String> {
    let set = |name| env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| EDITOR.to_owned());
    let mut file = tempfile::Builder::new()
        .prefix("longhand-")
        .suffix(".txt")
        .tempfile()
        .context("cannot write a temporary file")?;
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).context("cannot write a temporary file")?;
    let path = file.into_temp_path();
    let mut child =
        shell(&editor, &path).spawn().context("cannot start the shell, which starts the editor")?;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if inbox.wait_for_end(CHECK) => child.kill()?,
            None => {}
        }
    };
    if !status.success() {
        let error = format!("the editor {editor} failed: {status}");
        return Err(
            Failure::new(error, "the message is unchanged; set VISUAL or EDITOR to another editor").into()
        );
    }
    let text = regular_file::read_text(&path, MAX_BYTES).map_err(|error| {
        Failure::new(format!("the edited file cannot be read: {error}"), "the message is unchanged")
    })?;
    Ok(message(&text))
}

/// The message in a file: with line breaks as keys make them, and without the one that editors put at the end.
fn message(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.strip_suffix('\n').unwrap_or(&text).to_owned()
}

/// An editor with a file. The variables may hold arguments, too. The shell sees them as it does in other programs.
fn shell(editor: &str, path: &Path) -> Command {
    #[cfg(unix)]
    return {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(path);
        shell
    };
    #[cfg(windows)]
    {
        let mut shell = Command::new("cmd");
        // It takes the outer marks away and reads the rest as it is.
        let line = format!("/d /s /c \"{editor} \"{}\"\"", path.display());
        std::os::windows::process::CommandExt::raw_arg(&mut shell, line);
        shell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_of_windows_are_line_breaks() {
        for (text, expected) in
            [("a\r\nb\r\n", "a\nb"), ("a\n\n", "a\n"), ("a\rb", "a\rb"), ("\r\n", ""), ("", "")]
        {
            assert_eq!(message(text), expected);
        }
    }
}
