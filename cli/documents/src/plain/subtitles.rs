//! Subtitles (SRT, WebVTT): who says what, and when.

use super::decode;
use crate::{Converted, Problem};

/// Longest tag, in characters.
const MAX_TAG: usize = 200;

/// Converts subtitles: a line for each, with the time when it begins.
///
/// # Errors
/// They are not text, or longer than `max_bytes`.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    let converted = decode::text(bytes)?;
    let mut written = String::new();
    let mut before = Vec::new();
    let text = converted.text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(time) = begin_of(line) else { continue };
        let mut said = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.trim().is_empty() && begin_of(line).is_none()) {
            let plain = without_tags(line);
            // The number of the next one, where the empty line before it is missing.
            let is_number = plain.chars().all(|c| c.is_ascii_digit())
                && lines.peek().is_some_and(|next| begin_of(next).is_some());
            if !plain.is_empty() && !is_number {
                said.push(plain);
            }
        }
        // Captions that roll repeat the lines that are still on the screen.
        let repeated = (1..=said.len().min(before.len()))
            .rev()
            .find(|count| before[before.len() - count..] == said[..*count]);
        let new = &said[repeated.unwrap_or(0)..];
        if !new.is_empty() {
            written.push_str(&format!("[{time}] {}\n", new.join(" ")));
        }
        if !said.is_empty() {
            before = said;
        }
        if written.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    match written.is_empty() {
        // Not what its name says.
        true => Ok(converted),
        false => Ok(Converted { text: written, ..converted }),
    }
}

/// The time before `-->`, to the second: `1:02:03` or `2:03`.
fn begin_of(line: &str) -> Option<String> {
    let (begin, after) = line.split_once("-->")?;
    let is_time =
        |text: &str| text.contains(':') && text.chars().all(|c| c.is_ascii_digit() || ":.,".contains(c));
    let begin = begin.trim();
    if !is_time(begin) || !is_time(after.split_whitespace().next()?) {
        return None;
    }
    let whole = begin.split(['.', ',']).next().unwrap_or_default();
    let parts: Option<Vec<u64>> = whole.split(':').map(|part| part.parse().ok()).collect();
    match parts?.as_slice() {
        [0, minutes, seconds] | [minutes, seconds] => Some(format!("{minutes}:{seconds:02}")),
        [hours, minutes, seconds] => Some(format!("{hours}:{minutes:02}:{seconds:02}")),
        _ => None,
    }
}

/// A line without tags; `<v Ann>` says who speaks.
fn without_tags(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['<', '{']) {
        let (text, from) = rest.split_at(at);
        kept.push_str(text);
        match tag(from) {
            Some(tag) => {
                let voice =
                    tag[1..].split_once(' ').filter(|(name, _)| *name == "v" || name.starts_with("v."));
                if let Some((_, name)) = voice {
                    kept.push_str(&format!("{}: ", name.trim()));
                }
                rest = &from[tag.len() + 1..];
            }
            None => {
                kept.push_str(&from[..1]);
                rest = &from[1..];
            }
        }
    }
    kept.push_str(rest);
    let decoded = kept.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ").replace("&amp;", "&");
    decoded.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The tag that a text begins with, without its end.
fn tag(text: &str) -> Option<&str> {
    let close = if text.starts_with('<') { '>' } else { '}' };
    let end = text.char_indices().take(MAX_TAG).find(|(_, c)| *c == close)?.0;
    let is_tag = text[1..].starts_with(|c: char| c.is_ascii_alphanumeric() || "/\\".contains(c));
    is_tag.then(|| &text[..end])
}
