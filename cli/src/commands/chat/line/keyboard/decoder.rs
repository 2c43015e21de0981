//! The keys that a terminal's bytes stand for. Terminals differ in a few keys only; what is not known is ignored.

use terminal::line::keys::Key;

const ESC: u8 = 0x1b;
const PASTE_END: &[u8] = b"\x1b[201~";
/// No sequence of a key is longer.
const MAX_SEQUENCE: usize = 32;

/// Decodes bytes that arrive in arbitrary pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes of a key that is not complete.
    pending: Vec<u8>,
    /// Bytes of a paste that is not complete.
    paste: Option<Vec<u8>>,
}

impl Decoder {
    /// Takes the next bytes. Returns the keys that are complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut keys = Vec::new();
        self.pending.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.pending);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            if self.paste.is_some() {
                rest = self.feed_paste(rest, &mut keys);
                continue;
            }
            match decode(rest) {
                Decoded::Key(key, length) => {
                    keys.extend(key);
                    rest = &rest[length..];
                }
                Decoded::PasteBegins(length) => {
                    self.paste = Some(Vec::new());
                    rest = &rest[length..];
                }
                Decoded::Incomplete => {
                    self.pending = rest.to_vec();
                    break;
                }
            }
        }
        keys
    }

    /// Whether the last bytes may be a key of their own, Esc, or begin another one.
    pub fn is_ambiguous(&self) -> bool {
        self.pending.first() == Some(&ESC)
    }

    /// What the last bytes mean if nothing follows them.
    pub fn finish(&mut self) -> Vec<Key> {
        match std::mem::take(&mut self.pending)[..] {
            [ESC] => vec![Key::Esc],
            [ESC, ESC] => vec![Key::Esc, Key::Esc],
            [ESC, c] if c.is_ascii_graphic() => vec![Key::Alt(c.into())],
            _ => Vec::new(),
        }
    }

    /// Takes bytes of a paste. Returns those behind its end.
    fn feed_paste<'a>(&mut self, bytes: &'a [u8], keys: &mut Vec<Key>) -> &'a [u8] {
        let Some(paste) = &mut self.paste else { return bytes };
        // The end may have begun in an earlier piece.
        let searched = paste.len().saturating_sub(PASTE_END.len() - 1);
        let before = paste.len();
        paste.extend_from_slice(bytes);
        let Some(end) = paste[searched..].windows(PASTE_END.len()).position(|end| end == PASTE_END) else {
            return &[];
        };
        let end = searched + end;
        let text = String::from_utf8_lossy(&paste[..end]).replace("\r\n", "\n").replace('\r', "\n");
        self.paste = None;
        keys.push(Key::Paste(text));
        &bytes[end + PASTE_END.len() - before..]
    }
}

enum Decoded {
    /// A key, or a sequence that is ignored, and its bytes.
    Key(Option<Key>, usize),
    PasteBegins(usize),
    Incomplete,
}

/// Decodes the key at the beginning of `bytes`, which are not empty.
fn decode(bytes: &[u8]) -> Decoded {
    match bytes {
        [ESC, b'[', rest @ ..] => decode_csi(rest),
        [ESC, b'O', key, ..] => Decoded::Key(cursor_key(*key, 1), 3),
        [ESC, b'O'] | [ESC] | [ESC, ESC] => Decoded::Incomplete,
        [ESC, b'\r' | b'\n', ..] => Decoded::Key(Some(Key::LineBreak), 2),
        // Some terminals send this for Alt with a key of the cursor block.
        [ESC, ESC, b'[' | b'O', ..] => match decode(&bytes[1..]) {
            Decoded::Key(key, length) => Decoded::Key(key, 1 + length),
            other => other,
        },
        [ESC, ESC, ..] => Decoded::Key(Some(Key::Esc), 1),
        [ESC, 0x08 | 0x7f, ..] => Decoded::Key(Some(Key::Alt('\x7f')), 2),
        [ESC, rest @ ..] => match decode_char(rest) {
            Some((c, length)) => Decoded::Key(Some(Key::Alt(c)), 1 + length),
            None => Decoded::Incomplete,
        },
        [byte @ (0..0x20 | 0x7f), ..] => Decoded::Key(Some(control_key(*byte)), 1),
        _ => match decode_char(bytes) {
            Some((c, length)) => Decoded::Key(Some(Key::Char(c)), length),
            None => Decoded::Incomplete,
        },
    }
}

fn control_key(byte: u8) -> Key {
    match byte {
        b'\r' => Key::Enter,
        b'\n' => Key::LineBreak,
        b'\t' => Key::Tab,
        0x08 | 0x7f => Key::Backspace,
        1..=26 => Key::Ctrl((byte | 0x60).into()),
        _ => Key::Ctrl((byte | 0x40).into()),
    }
}

/// The first character of UTF-8 and its bytes; U+FFFD for invalid bytes, `None` if it is not complete.
fn decode_char(bytes: &[u8]) -> Option<(char, usize)> {
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
        Err(error) => return error.error_len().map(|length| (char::REPLACEMENT_CHARACTER, length)),
    };
    valid.chars().next().map(|c| (c, c.len_utf8()))
}

/// Decodes a control sequence behind `ESC [`: parameters, then the byte that ends it.
fn decode_csi(bytes: &[u8]) -> Decoded {
    let Some(end) = bytes.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return match bytes.len() > MAX_SEQUENCE {
            true => Decoded::Key(None, 2 + bytes.len()),
            false => Decoded::Incomplete,
        };
    };
    let parameters = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    // Behind a colon is what only some terminals tell.
    let mut numbers = parameters.split(';').map(|text| text.split(':').next()?.parse::<u32>().ok());
    let mut next = || numbers.next().flatten();
    let (first, second, third) = (next(), next().unwrap_or(1), next());
    let key = match (bytes[end], first.unwrap_or(1)) {
        (b'~', 200) => return Decoded::PasteBegins(3 + end),
        (b'~', 1 | 7) => Some(Key::Home),
        (b'~', 4 | 8) => Some(Key::End),
        (b'~', 3) => Some(Key::Delete),
        (b'~', 27) => third.and_then(|code| key_with_modifiers(code, second)),
        (b'u', code) => key_with_modifiers(code, second),
        (key, _) => cursor_key(key, second),
    };
    Decoded::Key(key, 3 + end)
}

/// A key of the cursor block. `modifiers` is 1 plus 1 for Shift, 2 for Alt, 4 for Ctrl.
fn cursor_key(key: u8, modifiers: u32) -> Option<Key> {
    let word = modifiers.wrapping_sub(1) & 6 != 0;
    Some(match key {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' if word => Key::WordRight,
        b'D' if word => Key::WordLeft,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'M' => Key::Enter,
        _ => return None,
    })
}

/// A key that some terminals send with its code and modifiers.
fn key_with_modifiers(code: u32, modifiers: u32) -> Option<Key> {
    let c = char::from_u32(code)?;
    let modifiers = modifiers.wrapping_sub(1);
    let (alt, ctrl) = (modifiers & 2 != 0, modifiers & 4 != 0);
    Some(match c {
        '\r' if modifiers & 7 != 0 => Key::LineBreak,
        '\x7f' | '\x08' if alt => Key::Alt('\x7f'),
        '\0'..' ' | '\x7f' if code == u32::from(ESC) => Key::Esc,
        '\0'..' ' | '\x7f' => control_key(code as u8),
        c if ctrl => Key::Ctrl(c.to_ascii_lowercase()),
        c if alt => Key::Alt(c),
        c => Key::Char(c),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that `bytes` give these keys however they are split.
    #[track_caller]
    fn check(bytes: &[u8], expected: &[Key]) {
        for split in 0..=bytes.len() {
            let mut decoder = Decoder::default();
            let mut keys = decoder.feed(&bytes[..split]);
            keys.extend(decoder.feed(&bytes[split..]));
            keys.extend(decoder.finish());
            assert_eq!(keys, expected, "split at {split}");
        }
        let mut decoder = Decoder::default();
        let mut keys: Vec<Key> = bytes.iter().flat_map(|byte| decoder.feed(&[*byte])).collect();
        keys.extend(decoder.finish());
        assert_eq!(keys, expected, "byte by byte");
    }

    #[test]
    fn characters_and_control_keys_are_decoded() {
        check("aü中😀".as_bytes(), &['a', 'ü', '中', '😀'].map(Key::Char));
        check(b"\r\n\t\x7f\x08", &[Key::Enter, Key::LineBreak, Key::Tab, Key::Backspace, Key::Backspace]);
        check(b"\x01\x03\x1a\x1f", &[Key::Ctrl('a'), Key::Ctrl('c'), Key::Ctrl('z'), Key::Ctrl('_')]);
        check(b"a\xff\xc3(", &[Key::Char('a'), Key::Char('\u{fffd}'), Key::Char('\u{fffd}'), Key::Char('(')]);
    }

    #[test]
    fn sequences_of_several_terminals_are_decoded() {
        check(b"\x1b[A\x1bOB\x1b[1;5C\x1b[1;3D", &[Key::Up, Key::Down, Key::WordRight, Key::WordLeft]);
        check(b"\x1b[H\x1bOF\x1b[1~\x1b[8~\x1b[3~", &[Key::Home, Key::End, Key::Home, Key::End, Key::Delete]);
        check(b"\x1b\r\x1b[13;2u\x1b[27;2;13~\x1b[13;3u", &[const { Key::LineBreak }; 4]);
        check(b"\x1b[13u\x1b[99;5u\x1b[27u", &[Key::Enter, Key::Ctrl('c'), Key::Esc]);
        check(b"\x1bb\x1b\x7f\x1b\xc3\xbc", &[Key::Alt('b'), Key::Alt('\x7f'), Key::Alt('ü')]);
        check(b"\x1b[15~\x1b[?1;2cx\x1b[I", &[Key::Char('x')]);
    }

    #[test]
    fn esc_is_a_key_if_nothing_follows() {
        check(b"\x1b", &[Key::Esc]);
        check(b"\x1b\x1b", &[Key::Esc, Key::Esc]);
        check(b"\x1b\x1b\x1bx", &[Key::Esc, Key::Esc, Key::Alt('x')]);
        // Alt with an arrow, as some terminals send it: no Esc, which would stop an answer.
        check(b"\x1b\x1b[A\x1b\x1bOB", &[Key::Up, Key::Down]);
        let mut decoder = Decoder::default();
        assert!(decoder.feed(b"\x1b").is_empty() && decoder.is_ambiguous());
    }

    #[test]
    fn a_paste_is_one_key_with_all_its_bytes() {
        let paste = |text: &str| Key::Paste(text.into());
        check(
            b"a\x1b[200~one\r\ntwo\r\x03\x1b[A\xc3\xbc\x1b[201~\r",
            &[Key::Char('a'), paste("one\ntwo\n\x03\x1b[A\u{fc}"), Key::Enter],
        );
        check(b"\x1b[200~\x1b[201~\x1b[200~x\x1b[201~", &[paste(""), paste("x")]);
    }

    #[test]
    fn an_endless_sequence_does_not_swallow_what_follows() {
        let mut decoder = Decoder::default();
        decoder.feed(b"\x1b[");
        decoder.feed(&[b'1'; 100]);
        assert_eq!(decoder.feed(b"x"), [Key::Char('x')]);
    }
}
