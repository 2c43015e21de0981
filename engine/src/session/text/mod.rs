//! Text for a terminal from the bytes of tokens: complete characters only, without stop sequences, and with
//! control characters made harmless.

mod thinking;

use std::borrow::Cow;

use models::chat::overlap;

pub use thinking::{BegunThinking, Split, ThinkingStream, begun_thinking, split_thinking};

/// Decodes UTF-8 that arrives in arbitrary pieces.
///
/// The text does not depend on how the bytes are split over calls of [`TextStream::push`]. An incomplete
/// character at the end is held back until it is complete. Invalid bytes become U+FFFD. Text that may begin a
/// stop sequence is held back until it is clear that it does not. The text ends before the stop sequence that
/// is complete first.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextStream {
    stops: Vec<String>,
    /// The first bytes of a character that is not complete yet.
    incomplete: Vec<u8>,
    /// Text that may begin a stop sequence.
    held: String,
    /// Index of the stop sequence that ended the text.
    stopped_by: Option<usize>,
}

impl TextStream {
    /// A stream that ends at any of the sequences `stops`. Empty sequences are ignored.
    pub(crate) fn new<S: Into<String>>(stops: impl IntoIterator<Item = S>) -> TextStream {
        let mut stops: Vec<String> = stops.into_iter().map(Into::into).collect();
        stops.retain(|stop| !stop.is_empty());
        TextStream { stops, ..TextStream::default() }
    }

    /// Takes the bytes of the next token. Returns the text that may be shown now; empty after a stop
    /// sequence.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        if self.stopped_by.is_some() {
            return String::new();
        }
        self.incomplete.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.incomplete);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.held.push_str(text);
                    break;
                }
                Err(error) => {
                    let (valid, bad) = rest.split_at(error.valid_up_to());
                    self.held.extend(valid.utf8_chunks().map(|chunk| chunk.valid()));
                    let Some(length) = error.error_len() else {
                        self.incomplete = bad.to_vec();
                        break;
                    };
                    self.held.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[length..];
                }
            }
        }
        self.release()
    }

    /// Ends the stream and returns the text that was held back. An incomplete character becomes U+FFFD.
    pub(crate) fn finish(&mut self) -> String {
        if self.stopped_by.is_some() {
            return String::new();
        }
        let mut text = String::new();
        if !self.incomplete.is_empty() {
            self.incomplete.clear();
            self.held.push(char::REPLACEMENT_CHARACTER);
            text = self.release();
        }
        text + &std::mem::take(&mut self.held)
    }

    /// The stop sequence that ended the text, if one did.
    pub(crate) fn stopped_by(&self) -> Option<&str> {
        self.stopped_by.and_then(|i| self.stops.get(i)).map(String::as_str)
    }

    /// Removes from `held` the text that may be shown, and returns it.
    fn release(&mut self) -> String {
        // The sequence that is complete first; of several the longest. Reading byte by byte gives the same.
        let matches = self.stops.iter().enumerate().filter_map(|(i, stop)| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start, i))
        });
        if let Some((_, start, i)) = matches.min() {
            self.stopped_by = Some(i);
            self.incomplete.clear();
            let mut text = std::mem::take(&mut self.held);
            text.truncate(start);
            return text;
        }
        let overlap = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let held = self.held.split_off(self.held.len() - overlap);
        std::mem::replace(&mut self.held, held)
    }
}

/// Replaces control characters by visible ones. C0 and DEL become control pictures (␛ for ESC). C1,
/// bidirectional overrides and the line and paragraph separators become their code points in angle brackets.
/// Line feeds and tabs are kept; a carriage return before a line feed is removed.
pub fn sanitize_for_terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_terminal_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\u{7f}' => out.push('\u{2421}'),
            _ if !is_terminal_control(c) => out.push(c),
            '\0'..=' ' => out.extend(char::from_u32(0x2400 + u32::from(c))),
            _ => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

/// Whether a character controls a terminal instead of being shown.
pub fn is_terminal_control(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes the pieces. Returns the text and the stop sequence.
    fn run(stops: &[&str], pieces: &[&[u8]]) -> (String, Option<String>) {
        let mut stream = TextStream::new(stops.iter().copied());
        let mut text: String = pieces.iter().map(|piece| stream.push(piece)).collect();
        text += &stream.finish();
        assert_eq!(stream.push(b"x").is_empty(), stream.stopped_by().is_some() || stops.contains(&"x"));
        (text, stream.stopped_by().map(str::to_owned))
    }

    /// Checks that every way to split `bytes` gives the same result, and returns it.
    fn every_split(stops: &[&str], bytes: &[u8]) -> (String, Option<String>) {
        assert!(bytes.len() <= 14, "there are 2^(n-1) splits");
        let whole = run(stops, &[bytes]);
        for splits in 0u32..1 << (bytes.len().max(1) - 1) {
            let mut pieces = Vec::new();
            let mut start = 0;
            for at in 1..bytes.len() {
                if splits >> (at - 1) & 1 == 1 {
                    pieces.push(&bytes[start..at]);
                    start = at;
                }
            }
            pieces.push(&bytes[start..]);
            assert_eq!(run(stops, &pieces), whole, "{bytes:?} split as {pieces:?}, stops {stops:?}");
        }
        whole
    }

    #[test]
    fn characters_are_complete_however_the_bytes_are_split() {
        assert_eq!(every_split(&[], "aé中😀".as_bytes()).0, "aé中😀");
        assert_eq!(every_split(&[], b"").0, "");
        let mut stream = TextStream::new([""; 0]);
        assert_eq!(stream.push(&[0xF0, 0x9F]), "");
        assert_eq!(stream.push(&[0x98]), "");
        assert_eq!(stream.push(&[0x80, b'!']), "😀!");
    }

    #[test]
    fn invalid_bytes_become_replacement_characters_as_in_the_standard_library() {
        let cases: [&[u8]; 7] = [
            b"a\xffb",
            b"\xf0\x9fa",
            b"\xe4\xb8",
            b"\xc3\x28\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"ok\xf0\x9f\x98",
        ];
        for bytes in cases {
            assert_eq!(every_split(&[], bytes).0, String::from_utf8_lossy(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn a_stop_sequence_ends_the_text_and_is_not_shown() {
        assert_eq!(every_split(&["STOP"], b"a STOP b"), ("a ".into(), Some("STOP".into())));
        assert_eq!(every_split(&["STOP"], b"a STO"), ("a STO".into(), None));
        assert_eq!(every_split(&["aab"], b"aaab"), ("a".into(), Some("aab".into())));
        assert_eq!(every_split(&["\n\n", "\nUser:"], b"x\nUser: y"), ("x".into(), Some("\nUser:".into())));
        assert_eq!(every_split(&["é!"], "caféé!x".as_bytes()), ("café".into(), Some("é!".into())));
        assert_eq!(every_split(&["b"], b"\xe4b\xb8"), ("\u{FFFD}".into(), Some("b".into())));
    }

    #[test]
    fn of_several_stop_sequences_the_first_complete_one_counts_then_the_longest() {
        assert_eq!(every_split(&["bcd", "c"], b"abcde"), ("ab".into(), Some("c".into())));
        assert_eq!(every_split(&["c", "abc", "bc"], b"xabc"), ("x".into(), Some("abc".into())));
        assert_eq!(every_split(&["", "ab"], b"xaab"), ("xa".into(), Some("ab".into())));
    }

    #[test]
    fn text_that_may_begin_a_stop_sequence_is_held_back() {
        let mut stream = TextStream::new(["<|im_end|>"]);
        assert_eq!(stream.push(b"Hi <"), "Hi ");
        assert_eq!(stream.push(b"|im"), "");
        assert_eq!(stream.push(b" no"), "<|im no");
        assert_eq!(stream.push(b"<|im_end|> more"), "");
        assert_eq!(stream.stopped_by(), Some("<|im_end|>"));
        assert_eq!(stream.push(b"more"), "");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn text_does_not_depend_on_the_split_of_random_bytes() {
        let mut state = 3u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let alphabet = [b'a', b'b', 0xC3, 0xA9, 0xE4, 0xB8, 0xAD, b'a'];
        for _ in 0..400 {
            let bytes: Vec<u8> = (0..next(9)).map(|_| alphabet[next(8) as usize]).collect();
            let stops = [["ab", "é"], ["aa", "ba"], ["é中", "b\u{FFFD}"], ["aba", "bab"]][next(4) as usize];
            every_split(&stops, &bytes);
        }
    }

    #[test]
    fn control_characters_are_replaced_by_visible_ones() {
        assert!(matches!(sanitize_for_terminal("plain\ttext\nü 中"), Cow::Borrowed(_)));
        assert_eq!(sanitize_for_terminal("\x1b]0;title\x07\x1b[2J"), "␛]0;title␇␛[2J");
        assert_eq!(sanitize_for_terminal("a\rb\r\nc\0\x7f"), "a␍b\nc␀␡");
        assert_eq!(sanitize_for_terminal("\u{9b}31m\u{85}"), "<U+009B>31m<U+0085>");
        assert_eq!(sanitize_for_terminal("\u{202e}evil\u{2069}"), "<U+202E>evil<U+2069>");
        for c in (0..=0x10FFFF).filter_map(char::from_u32) {
            let clean = sanitize_for_terminal(c.encode_utf8(&mut [0; 4])).into_owned();
            assert!(!clean.chars().any(is_terminal_control) && !clean.is_empty(), "{c:?}");
        }
    }
}
