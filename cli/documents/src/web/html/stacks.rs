//! Small boxes within a line of text (`display: inline-block`) that have one line above another: fractions, and numbers
//! above and below a letter. Their text waits until the box ends, because only then it is known what it is.

use super::Tag;
use super::page::Page;
use crate::writer::Level;

/// A box with more bytes is no such one.
const MAX_BYTES: usize = 100;
/// Nor is one with longer texts above and below a letter, in characters.
const MAX_SCRIPT: usize = 12;
/// A word has so many letters at least.
const MIN_WORD: usize = 3;
/// Elements that it may consist of.
const PARTS: &[&[u8]] = &[
    b"a", b"b", b"br", b"em", b"font", b"i", b"link", b"small", b"span", b"strong", b"style", b"sub", b"sup",
    b"wbr",
];

/// A box whose text waits.
#[derive(Debug)]
pub(super) struct Stack {
    /// How many elements are around it.
    depth: usize,
    /// Where its text stands, if it is one line.
    level: Option<Level>,
    /// Whether it is small, moved up or down, or directly behind text, two of these: as numbers above and below a letter are.
    is_small: bool,
    pieces: Vec<Piece>,
    bytes: usize,
    /// Whether there is a stroke between its lines.
    has_stroke: bool,
}

#[derive(Debug)]
enum Piece {
    Text(Level, String),
    Line,
}

/// Whether an element may be such a box, or a part of it.
pub(super) fn may_contain(tag: &Tag) -> bool {
    PARTS.contains(&tag.name.as_slice()) && !tag.has("role")
}

impl Stack {
    /// A box that has so many elements around it.
    pub(super) fn new(depth: usize, level: Option<Level>, is_small: bool) -> Stack {
        Stack { depth, level, is_small, pieces: Vec::new(), bytes: 0, has_stroke: false }
    }

    /// Whether its text so far ends with such a character; `None` if it has none.
    pub(super) fn ends_with(&self, is_such: impl Fn(char) -> bool) -> Option<bool> {
        Some(match self.pieces.last()? {
            Piece::Text(_, text) => text.ends_with(is_such),
            Piece::Line => false,
        })
    }

    /// A stroke that a reader does not see divides its lines.
    pub(super) fn hides(&mut self, text: &str) {
        self.has_stroke |= matches!(text.trim(), "/" | "⁄");
    }

    /// A line is drawn below or above a part, which is a line of its own or not.
    pub(super) fn draws_line(&mut self, is_line: bool) {
        self.has_stroke |= is_line || self.is_small;
    }

    /// The texts of its lines.
    fn lines(&self) -> Vec<String> {
        let lines = self.pieces.split(|piece| matches!(piece, Piece::Line)).map(|line| {
            let texts = line.iter().filter_map(|piece| match piece {
                Piece::Text(_, text) => Some(text.as_str()),
                Piece::Line => None,
            });
            texts.collect::<String>().trim().to_owned()
        });
        lines.filter(|line| !line.is_empty()).collect()
    }
}

impl Page<'_> {
    /// Ends the line.
    pub(super) fn line(&mut self) {
        match &mut self.stack {
            Some(stack) => stack.pieces.push(Piece::Line),
            None => self.writer.line(),
        }
    }

    /// Writes text that a reader sees.
    pub(super) fn write(&mut self, level: Level, text: &str) {
        let Some(stack) = &mut self.stack else { return self.writer.text_at(level, text) };
        stack.bytes += text.len();
        stack.pieces.push(Piece::Text(level, text.to_owned()));
        if stack.bytes > MAX_BYTES {
            self.unstack();
        }
    }

    /// Writes what waits as any other text.
    pub(super) fn unstack(&mut self) {
        for piece in self.stack.take().map(|stack| stack.pieces).unwrap_or_default() {
            match piece {
                Piece::Text(level, text) => self.writer.text_at(level, &text),
                Piece::Line => self.writer.line(),
            }
        }
    }

    /// An element ends that has so many around it.
    pub(super) fn end_stack(&mut self, depth: usize) {
        let Some(stack) = self.stack.as_ref().filter(|stack| stack.depth == depth) else { return };
        let is_script = |line: &String| {
            line.chars().count() <= MAX_SCRIPT && !line.contains(char::is_whitespace) && !has_word(line)
        };
        match stack.lines().as_slice() {
            [above, below] if stack.has_stroke && !has_word(above) && !has_word(below) => {
                self.stack = None;
                self.writer.text_at(Level::Raised, &operand(above));
                self.writer.text("/");
                self.writer.text_at(Level::Lowered, &operand(below));
            }
            [above, below] if stack.is_small && is_script(above) && is_script(below) => {
                self.stack = None;
                self.writer.text_at(Level::Lowered, below);
                self.writer.text_at(Level::Raised, above);
            }
            [line] if stack.level.is_some() => {
                let level = stack.level.unwrap_or_default();
                self.stack = None;
                self.writer.text_at(level, line);
            }
            _ => self.unstack(),
        }
    }
}

/// Whether a text has a word, which numbers and formulas have not.
pub(super) fn has_word(text: &str) -> bool {
    text.split(|c: char| !c.is_alphabetic()).any(|word| word.chars().count() >= MIN_WORD)
}

/// A part of a fraction, in brackets if it has several parts itself.
fn operand(text: &str) -> String {
    let is_single = text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | ','));
    if is_single { text.to_owned() } else { format!("({text})") }
}
