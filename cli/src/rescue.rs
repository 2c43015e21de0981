//! What is left when the process must end at once: a GPU that was lost takes everything down that touches it, so the text of the
//! conversation is written to a file first.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use models::chat::Message;

use crate::{console, failure};

/// The conversation so far, as text.
static CONVERSATION: Mutex<String> = Mutex::new(String::new());

/// Prepares for the worst.
pub fn install() {
    ggml::on_fatal(|error| {
        let last_words = error.to_string();
        let advice = advice_on(&last_words);
        let (text, code) = failure::report(&anyhow::anyhow!("{last_words}{advice}"));
        console::report(&text);
        if let Some(saved) = save() {
            let _ = writeln!(io::stderr(), "the conversation is saved in {}", saved.display());
        }
        i32::from(code)
    });
}

/// What to do where ggml gave up and nobody said more about it.
fn advice_on(last_words: &str) -> &'static str {
    if last_words.contains("out of memory") {
        "\nhint: other programs may use the same GPU; leave more of its memory free with --memory, or use --device cpu"
    } else {
        "\nhint: start again; if it comes back, use --device cpu"
    }
}

/// What has been said up to now.
pub fn remember(messages: &[Message]) {
    let Ok(mut conversation) = CONVERSATION.lock() else { return };
    conversation.clear();
    for message in messages {
        *conversation += &format!("[{}]\n{}\n\n", message.role, message.content.trim_end());
    }
}

/// A piece of the answer that is being given.
pub fn append(piece: &str) {
    if let Ok(mut conversation) = CONVERSATION.lock() {
        conversation.push_str(piece);
    }
}

/// Writes the conversation into a new file, here or among the temporary files; where there is one.
fn save() -> Option<PathBuf> {
    // The thread that ends may be the one that writes here.
    let conversation = CONVERSATION.try_lock().ok()?;
    if conversation.is_empty() {
        return None;
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    // Several processes may end in the same second: with the GPU that they share.
    let name = format!("longhand-conversation-{seconds}-{}.txt", std::process::id());
    [PathBuf::from("."), std::env::temp_dir()].into_iter().map(|folder| folder.join(&name)).find(|path| {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        file.and_then(|mut file| file.write_all(conversation.as_bytes())).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_written_into_a_new_file() {
        assert_eq!(save(), None, "nothing was said");
        remember(&[Message::system("Be kind."), Message::user("Who is there?\n")]);
        append("It is");
        append(" me");
        let path = save().expect("a file");
        let text = std::fs::read_to_string(&path).expect("the file");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(text, "[system]\nBe kind.\n\n[user]\nWho is there?\n\nIt is me");
    }
}
