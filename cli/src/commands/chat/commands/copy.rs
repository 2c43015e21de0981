//! `/copy`: puts the last answer on the clipboard. The terminal does it (OSC 52), so that it works over SSH, too.

use anyhow::Result;
use longhand::Chat;
use longhand::text::split_thinking;
use terminal::answer::fence::last_code_block;
use terminal::format;

use crate::app::App;
use crate::failure::Failure;

/// Most bytes: what fits the 100,000 bytes of base64 that common terminals take.
const MAX_BYTES: usize = 74_994;

/// Copies the last answer without its thinking, or its last code block. Returns what was done.
///
/// # Errors
/// Where there is no such text, it is too long, or the terminal understands no control sequences.
pub fn copy(app: &App, chat: &Chat, what: &str) -> Result<String> {
    let turns = chat.conversation();
    let answer =
        turns.iter().rev().find_map(|(_, answer)| *answer).map(|answer| split_thinking(answer).1.trim_end());
    let answer = answer.ok_or_else(|| Failure::new("there is no answer to copy", "ask a question first"))?;
    let text = match what {
        "" => answer.to_owned(),
        "code" => last_code_block(answer).ok_or_else(|| {
            Failure::new("the last answer has no code block", "/copy alone copies the whole answer")
        })?,
        other => {
            let error = format!("/copy takes the word code or nothing, but {other} was given");
            return Err(Failure::usage(
                error,
                "/copy copies the last answer, /copy code its last code block",
            )
            .into());
        }
    };
    let elsewhere = "/export FILE writes the conversation to a file";
    if !app.console.control_sequences() {
        let error = "the terminal does the copying, and it understands no control sequences";
        return Err(Failure::new(error, elsewhere).into());
    }
    if text.len() > MAX_BYTES {
        let (size, most) = (format::bytes(text.len()), format::bytes(MAX_BYTES));
        return Err(Failure::new(
            format!("the text has {size}; a terminal copies at most {most}"),
            elsewhere,
        )
        .into());
    }
    app.console.send_sequence(&format!("\x1b]52;c;{}\x07", base64(text.as_bytes())))?;
    let size = format::bytes(text.len());
    Ok(format!(
        "copied {size}; if the clipboard is unchanged, the terminal does not let programs copy (OSC 52)"
    ))
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| group.get(i).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let index = (bits >> (18 - 6 * i)) & 63;
            out.push(if i > group.len() { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_the_test_vectors_of_its_standard() {
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}\u{7f}?>", "w79/Pz4="),
        ] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
