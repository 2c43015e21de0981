//! `/export`: writes the conversation to a new file as Markdown.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use longhand::Chat;
use longhand::files::atomic_file::{self, Access};

use crate::commands::chat::line::complete::new_path;
use crate::failure::Failure;
use crate::session::kept;
use crate::session::transcript::Transcript;

/// Writes the conversation to a file that must not exist; without a name, to one in the current folder that is named
/// after the first document. Returns what was done.
///
/// # Errors
/// Where nothing was asked yet, or the file cannot be written.
pub fn export(chat: &Chat, file: &str) -> Result<String> {
    if !chat.has_questions() {
        return Err(Failure::new("there is nothing to export yet", "ask a question first").into());
    }
    let path = if file.is_empty() { unused_name(chat) } else { new_path(file) };
    if path.symlink_metadata().is_ok() {
        let error = format!("{} exists already", path.display());
        return Err(Failure::new(error, "give the name of a new file").into());
    }
    let text = Transcript::from(chat).markdown();
    let failed = |error| Failure::new(format!("{}: {error}", path.display()), "give the path of a new file");
    atomic_file::write_new(&path, Access::Owner, |file| file.write_all(text.as_bytes())).map_err(failed)?;
    Ok(format!("exported the conversation to {}", path.display()))
}

/// `report-chat.md`, `report-chat-2.md`, ….
fn unused_name(chat: &Chat) -> PathBuf {
    let document = chat.preamble().names().first().map(Path::new).and_then(Path::file_stem);
    let stem = document.map_or_else(|| "longhand".to_owned(), |stem| kept::stem(&stem.to_string_lossy()));
    let mut path = PathBuf::from(format!("{stem}-chat.md"));
    let mut number = 1;
    while path.symlink_metadata().is_ok() {
        number += 1;
        path = PathBuf::from(format!("{stem}-chat-{number}.md"));
    }
    path
}
