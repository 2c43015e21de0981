//! The last row of the output while no line break has ended it: a piece of an answer, or a progress bar. It is kept so
//! that it can be drawn again above the input line. Rows before it are on the terminal for good.

use unicode_width::UnicodeWidthChar;

/// Columns between tab stops.
const TAB: usize = 8;
const RESET: &str = "\x1b[0m";

/// An unfinished row with its control sequences.
#[derive(Debug, Default)]
pub struct OpenRow {
    text: String,
    width: usize,
}

impl OpenRow {
    /// Adds output of a terminal of so many columns. Returns the part that is complete, which belongs before the row:
    /// lines, and rows that are full.
    pub fn push(&mut self, text: &str, columns: usize) -> String {
        let mut complete = std::mem::take(&mut self.text) + text;
        let mut rest = complete.split_off(complete.rfind('\n').map_or(0, |end| end + 1));
        // Where the row begins in `rest`, and the style that is set there.
        let (mut start, mut start_style) = (0, String::new());
        let (mut style, mut width) = (String::new(), 0);
        let mut at = 0;
        while let Some(c) = rest[at..].chars().next() {
            let length = match c {
                '\x1b' => sequence_length(&rest[at..]),
                c => c.len_utf8(),
            };
            let piece = &rest[at..at + length];
            match c {
                '\x1b' if piece == RESET => style.clear(),
                '\x1b' if piece.ends_with('m') => piece.clone_into(&mut style),
                '\r' => {
                    // What follows is written over the row.
                    rest.replace_range(start..=at, "");
                    (at, width) = (start, 0);
                    start_style.clone_from(&style);
                    continue;
                }
                '\t' => width = (width / TAB * TAB + TAB).min(columns.saturating_sub(1)).max(width),
                c => {
                    let columns_of = c.width().unwrap_or(0);
                    if width + columns_of > columns && width > 0 {
                        (start, width) = (at, 0);
                        start_style.clone_from(&style);
                    }
                    width += columns_of;
                }
            }
            at += length;
        }
        self.text = if width > 0 { start_style + &rest[start..] } else { String::new() };
        self.width = width;
        complete + &rest[..start]
    }

    /// The row.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Removes and returns the row.
    pub fn take(&mut self) -> String {
        self.width = 0;
        std::mem::take(&mut self.text)
    }
}

/// Bytes of the control sequence at the beginning of a text.
fn sequence_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    match bytes.get(1) {
        Some(b'[') => {
            let end = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte));
            end.map_or(text.len(), |end| 3 + end)
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds texts in turn, in 10 columns. Returns what is complete, and the row.
    fn pushed(texts: &[&str]) -> (String, String, usize) {
        let mut row = OpenRow::default();
        let complete = texts.iter().map(|text| row.push(text, 10)).collect();
        (complete, row.text().to_owned(), row.width())
    }

    #[test]
    fn lines_are_complete_and_the_rest_is_the_row() {
        assert_eq!(pushed(&["one", " two\nthr", "ee"]), ("one two\n".into(), "three".into(), 5));
        assert_eq!(pushed(&["one\n"]), ("one\n".into(), String::new(), 0));
        assert_eq!(pushed(&["中", "文"]), (String::new(), "中文".into(), 4));
    }

    #[test]
    fn full_rows_are_complete_when_the_next_one_begins() {
        assert_eq!(pushed(&["0123456789"]), (String::new(), "0123456789".into(), 10));
        assert_eq!(pushed(&["0123456789", "a"]), ("0123456789".into(), "a".into(), 1));
        assert_eq!(pushed(&[&"x".repeat(25)]), ("x".repeat(20), "x".repeat(5), 5));
        // A wide character does not fit in the last column.
        assert_eq!(pushed(&["012345678中"]), ("012345678".into(), "中".into(), 2));
        assert_eq!(pushed(&["a\tb"]), (String::new(), "a\tb".into(), 9));
    }

    #[test]
    fn a_row_that_begins_anew_replaces_what_was_there() {
        assert_eq!(pushed(&["\rreading 1 %\x1b[K", "\r50 %\x1b[K"]).1, "50 %\x1b[K");
        // A progress bar that removes itself leaves nothing.
        assert_eq!(pushed(&["\r50 %\x1b[K", "\r\x1b[K"]), (String::new(), String::new(), 0));
    }

    #[test]
    fn a_style_goes_on_in_the_next_row() {
        let (complete, row, width) = pushed(&["\x1b[0;1m0123456789ab\x1b[0mc"]);
        assert_eq!((complete.as_str(), width), ("\x1b[0;1m0123456789", 3));
        assert_eq!(row, "\x1b[0;1mab\x1b[0mc");
        let (_, row, _) = pushed(&["\x1b[0;1m0\x1b[0m123456789c"]);
        assert_eq!(row, "c");
    }
}
