//! Saves the text of the conversation when the program ends with an error, or must end at once because a GPU was
//! lost or memory was refused.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use models::chat::Message;
use terminal::console;

use crate::failure;

/// The conversation so far, as text.
static CONVERSATION: Mutex<String> = Mutex::new(String::new());

/// Whether nothing may be saved.
static PRIVATE: AtomicBool = AtomicBool::new(false);

/// From now on nothing is saved: the user wants it so.
pub fn save_nothing() {
    PRIVATE.store(true, Ordering::Relaxed);
}

/// Makes fatal errors print an error and save the conversation before the process ends.
pub fn install() {
    ggml::on_fatal(|error| {
        terminal::tty::restore();
        let report = failure::report_fatal(error);
        console::print_error(&report.text);
        save_and_report();
        i32::from(report.exit_code)
    });
}

/// Saves the conversation, if there is one, and prints where.
pub fn save_and_report() {
    if let Some(path) = save() {
        let text = console::visible(&format!("saved the text of the conversation to {}", path.display()));
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// Sets the conversation that would be saved.
pub fn set_messages(messages: &[Message]) {
    let Ok(mut conversation) = CONVERSATION.lock() else { return };
    conversation.clear();
    for message in messages {
        *conversation += &format!("[{}]\n{}\n\n", message.role, message.content.trim_end());
    }
}

/// Appends a piece of the answer that is being generated.
pub fn append(piece: &str) {
    if let Ok(mut conversation) = CONVERSATION.lock() {
        conversation.push_str(piece);
    }
}

/// Writes the conversation to a new file in the current folder or, if that fails, in the folder for temporary
/// files. Returns its path, or `None` if there is no conversation or both fail.
fn save() -> Option<PathBuf> {
    // The thread that failed may hold the lock.
    let conversation = CONVERSATION.try_lock().ok()?;
    if conversation.is_empty() || PRIVATE.load(Ordering::Relaxed) {
        return None;
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    // Several processes may lose the same GPU in the same second.
    let name = format!("longhand-conversation-{seconds}-{}.txt", std::process::id());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // Nobody else may read it.
    #[cfg(unix)]
    options.mode(0o600);
    [PathBuf::from("."), std::env::temp_dir()].into_iter().map(|folder| folder.join(&name)).find(|path| {
        let Ok(mut file) = options.open(path) else { return false };
        let written = file.write_all(conversation.as_bytes());
        if written.is_err() {
            // An incomplete file must not look like the conversation.
            let _ = fs::remove_file(path);
        }
        written.is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conversation_is_written_to_a_new_file() {
        assert_eq!(save(), None, "there is no conversation");
        set_messages(&[Message::system("Be kind."), Message::user("Who is there?\n")]);
        append("It is");
        append(" me");
        let path = save().expect("a file");
        let text = std::fs::read_to_string(&path).expect("the file");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
            assert_eq!(mode & 0o077, 0, "only its owner may read it");
        }
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(text, "[system]\nBe kind.\n\n[user]\nWho is there?\n\nIt is me");
    }
}
