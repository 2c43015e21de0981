//! From the bytes of tokens to text on a terminal: whole characters only, stop sequences never shown, control sequences
//! of a document or a model made harmless.

use std::borrow::Cow;

/// Turns bytes that come in arbitrary pieces into text.
///
/// However the bytes are split over the calls of [`TextStream::push`], the text that comes out is the same. An incomplete
/// character at the end is held back until it is complete, invalid bytes become U+FFFD, and what may be the beginning of
/// a stop sequence is held back until it is clear that it is none. The text ends where a stop sequence is first complete.
#[derive(Debug, Clone, Default)]
pub struct TextStream {
    stops: Vec<String>,
    /// The beginning of a character whose end has not come yet.
    incomplete: Vec<u8>,
    /// Text that may become a stop sequence.
    held: String,
    /// Which stop sequence ended the text.
    stopped_by: Option<usize>,
}

impl TextStream {
    /// A stream that ends at any of these sequences; empty ones are ignored.
    pub fn new<S: Into<String>>(stops: impl IntoIterator<Item = S>) -> TextStream {
        let mut stops: Vec<String> = stops.into_iter().map(Into::into).collect();
        stops.retain(|stop| !stop.is_empty());
        TextStream { stops, ..TextStream::default() }
    }

    /// Takes the bytes of the next token and gives the text that may be shown now; nothing once a stop sequence came.
    pub fn push(&mut self, bytes: &[u8]) -> String {
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

    /// Gives what was held back; nothing more will come. An incomplete character becomes U+FFFD.
    pub fn finish(&mut self) -> String {
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
    pub fn stopped_by(&self) -> Option<&str> {
        self.stopped_by.and_then(|i| self.stops.get(i)).map(String::as_str)
    }

    /// Takes from `held` what may be shown.
    fn release(&mut self) -> String {
        // the first to be complete, and of those the longest: what a byte-by-byte reader would see
        let hits = self.stops.iter().enumerate().filter_map(|(i, stop)| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start, i))
        });
        if let Some((_, start, i)) = hits.min() {
            self.stopped_by = Some(i);
            self.incomplete.clear();
            let mut text = std::mem::take(&mut self.held);
            text.truncate(start);
            return text;
        }
        let keep = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let kept = self.held.split_off(self.held.len() - keep);
        std::mem::replace(&mut self.held, kept)
    }
}

/// Length of the longest end of `text` that is the beginning, but not the whole, of `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let mut starts = stop.char_indices().rev().map(|(at, _)| at);
    starts.find(|&at| text.ends_with(&stop[..at])).unwrap_or(0)
}

/// Makes control characters visible instead of obeyed: C0 and DEL become control pictures (␛ for ESC), C1, bidirectional
/// overrides and the line and paragraph separators become their code points in angle brackets. Line feeds and tabs stay,
/// and a carriage return before a line feed goes.
pub fn sanitize_for_terminal(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers_terminal) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\u{7f}' => out.push('\u{2421}'),
            _ if !steers_terminal(c) => out.push(c),
            '\0'..=' ' => out.extend(char::from_u32(0x2400 + u32::from(c))),
            _ => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

fn steers_terminal(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text and the stop sequence for these pieces.
    fn run(stops: &[&str], pieces: &[&[u8]]) -> (String, Option<String>) {
        let mut stream = TextStream::new(stops.iter().copied());
        let mut text: String = pieces.iter().map(|piece| stream.push(piece)).collect();
        text += &stream.finish();
        assert_eq!(stream.push(b"x").is_empty(), stream.stopped_by().is_some() || stops.contains(&"x"));
        (text, stream.stopped_by().map(str::to_owned))
    }

    /// Checks every way to cut `bytes` into pieces, and gives what all of them give.
    fn every_split(stops: &[&str], bytes: &[u8]) -> (String, Option<String>) {
        assert!(bytes.len() <= 14, "2^n splits");
        let whole = run(stops, &[bytes]);
        for cuts in 0u32..1 << (bytes.len().max(1) - 1) {
            let mut pieces = Vec::new();
            let mut start = 0;
            for at in 1..bytes.len() {
                if cuts >> (at - 1) & 1 == 1 {
                    pieces.push(&bytes[start..at]);
                    start = at;
                }
            }
            pieces.push(&bytes[start..]);
            assert_eq!(run(stops, &pieces), whole, "{bytes:?} cut as {pieces:?}, stops {stops:?}");
        }
        whole
    }

    #[test]
    fn characters_come_whole_however_they_are_cut() {
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
    fn a_stop_sequence_ends_the_text_and_is_never_shown() {
        assert_eq!(every_split(&["STOP"], b"a STOP b"), ("a ".into(), Some("STOP".into())));
        assert_eq!(every_split(&["STOP"], b"a STO"), ("a STO".into(), None));
        assert_eq!(every_split(&["aab"], b"aaab"), ("a".into(), Some("aab".into())));
        assert_eq!(every_split(&["\n\n", "\nUser:"], b"x\nUser: y"), ("x".into(), Some("\nUser:".into())));
        assert_eq!(every_split(&["é!"], "caféé!x".as_bytes()), ("café".into(), Some("é!".into())));
        assert_eq!(every_split(&["b"], b"\xe4b\xb8"), ("\u{FFFD}".into(), Some("b".into())));
    }

    #[test]
    fn of_several_stops_the_first_complete_counts_and_of_those_the_longest() {
        assert_eq!(every_split(&["bcd", "c"], b"abcde"), ("ab".into(), Some("c".into())));
        assert_eq!(every_split(&["c", "abc", "bc"], b"xabc"), ("x".into(), Some("abc".into())));
        assert_eq!(every_split(&["", "ab"], b"xaab"), ("xa".into(), Some("ab".into())));
    }

    #[test]
    fn nothing_that_may_become_a_stop_is_shown_early() {
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
    fn random_bytes_and_stops_never_depend_on_the_pieces() {
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
    fn control_sequences_are_shown_and_not_obeyed() {
        assert!(matches!(sanitize_for_terminal("plain\ttext\nü 中"), Cow::Borrowed(_)));
        assert_eq!(sanitize_for_terminal("\x1b]0;title\x07\x1b[2J"), "␛]0;title␇␛[2J");
        assert_eq!(sanitize_for_terminal("a\rb\r\nc\0\x7f"), "a␍b\nc␀␡");
        assert_eq!(sanitize_for_terminal("\u{9b}31m\u{85}"), "<U+009B>31m<U+0085>");
        assert_eq!(sanitize_for_terminal("\u{202e}evil\u{2069}"), "<U+202E>evil<U+2069>");
        for c in (0..=0x10FFFF).filter_map(char::from_u32) {
            let clean = sanitize_for_terminal(c.encode_utf8(&mut [0; 4])).into_owned();
            assert!(!clean.chars().any(steers_terminal) && !clean.is_empty(), "{c:?}");
        }
    }
}
