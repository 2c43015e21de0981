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
    let is_vtt = text.trim_start_matches('\u{feff}').starts_with("WEBVTT");
    let mut lines = text.lines().skip_while(|line| begin_of(line).is_none()).peekable();
    while let Some(time) = lines.next().and_then(begin_of) {
        let said: Vec<&str> = std::iter::from_fn(|| lines.next_if(|line| begin_of(line).is_none())).collect();
        let said = shown(&said, lines.peek().is_some(), is_vtt);
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

/// What is shown of the lines between a time and the next one, or the end. An empty line may be part of it.
fn shown(lines: &[&str], has_next: bool, is_vtt: bool) -> Vec<String> {
    let mut blocks: Vec<&[&str]> = lines.split(|line| line.trim().is_empty()).collect();
    // The number or the name of the next one. The empty line before a number may be missing.
    let is_number = |line: &&&str| line.trim().chars().all(|c| c.is_ascii_digit());
    if has_next && let Some(last) = blocks.pop() {
        let is_name = is_vtt && last.len() == 1 && !blocks.is_empty();
        let is_number = last.last().filter(is_number).is_some();
        blocks.push(&last[..last.len() - usize::from(is_name || is_number)]);
    }
    // Blocks for programs, and for those who write.
    let is_remark = |block: &&[&str]| {
        let word = block.first().and_then(|line| line.split_whitespace().next());
        is_vtt && word.is_some_and(|word| ["NOTE", "STYLE", "REGION"].contains(&word))
    };
    let first = blocks.first().copied().into_iter();
    let more = blocks.iter().skip(1).copied().filter(|block| !is_remark(block));
    first.chain(more).flatten().map(|line| without_tags(line)).filter(|line| !line.is_empty()).collect()
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
