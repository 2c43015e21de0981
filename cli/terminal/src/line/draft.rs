//! The text that is being edited. A long paste is one element of it: it is shown as `[pasted 212 lines, 9.9 KB]`,
//! moved over and deleted as a whole, and put back when the text is sent.

use std::ops::Range;
use std::sync::Arc;

use crate::format;
use unicode_segmentation::UnicodeSegmentation;

/// A paste of more lines, or of more bytes, is folded.
const MAX_INLINE_LINES: usize = 3;
const MAX_INLINE_BYTES: usize = 1024;
/// Characters around the cursor in which the edges of a visible character are looked for.
const MAX_CLUSTER: usize = 32;

/// An element of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Atom {
    /// A character.
    Char(char),
    /// A folded paste.
    Paste(Arc<str>),
}

impl Atom {
    /// What is shown instead of a paste.
    pub fn placeholder(paste: &str) -> String {
        let lines = paste.lines().count();
        let lines = if lines == 1 { "1 line".to_owned() } else { format!("{} lines", format::count(lines)) };
        let size = match paste.len() {
            bytes @ ..1000 => format!("{bytes} B"),
            bytes @ ..999_950 => format!("{:.1} KB", bytes as f64 / 1e3),
            bytes => format!("{:.1} MB", bytes as f64 / 1e6),
        };
        format!("[pasted {lines}, {size}]")
    }

    fn is_word(&self) -> bool {
        match self {
            Atom::Char(c) => c.is_alphanumeric() || *c == '_',
            Atom::Paste(_) => true,
        }
    }

    fn char(&self) -> Option<char> {
        match self {
            Atom::Char(c) => Some(*c),
            Atom::Paste(_) => None,
        }
    }
}

/// A text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftMessage {
    atoms: Vec<Atom>,
    /// Atoms before the cursor.
    cursor: usize,
}

impl DraftMessage {
    /// These atoms, with the cursor at the end.
    pub fn new(atoms: Vec<Atom>) -> DraftMessage {
        DraftMessage { cursor: atoms.len(), atoms }
    }

    /// A typed text, with the cursor at the end.
    pub fn typed(text: &str) -> DraftMessage {
        DraftMessage::new(text.chars().map(Atom::Char).collect())
    }

    /// The elements of the text.
    pub fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    /// How many of them are before the cursor.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.atoms.is_empty()
    }

    /// Whether the text begins with a folded paste, which is never a command.
    pub fn begins_with_paste(&self) -> bool {
        matches!(self.atoms.first(), Some(Atom::Paste(_)))
    }

    /// The whole text, with what was pasted.
    pub fn text(&self) -> String {
        text_of(&self.atoms)
    }

    /// The text as it is shown: with a placeholder for each paste.
    pub fn shown(&self) -> String {
        let shown = |atom: &Atom| match atom {
            Atom::Char(c) => c.to_string(),
            Atom::Paste(paste) => Atom::placeholder(paste),
        };
        self.atoms.iter().map(shown).collect()
    }

    /// The text before the cursor, with what was pasted.
    pub fn text_before_cursor(&self) -> String {
        text_of(&self.atoms[..self.cursor])
    }

    /// Inserts what is typed.
    pub fn insert_char(&mut self, c: char) {
        self.atoms.insert(self.cursor, Atom::Char(c));
        self.cursor += 1;
    }

    /// Inserts a text as if it was typed.
    pub fn insert_text(&mut self, text: &str) {
        self.insert(text.chars().map(Atom::Char).collect());
    }

    /// Inserts what is pasted. A long paste is folded. A short one loses the line break at its end, which comes from
    /// selecting whole lines.
    pub fn insert_paste(&mut self, text: &str) {
        if text.len() > MAX_INLINE_BYTES || text.lines().count() > MAX_INLINE_LINES {
            self.insert(vec![Atom::Paste(text.into())]);
        } else {
            self.insert_text(text.strip_suffix('\n').unwrap_or(text));
        }
    }

    /// Inserts atoms.
    pub fn insert(&mut self, atoms: Vec<Atom>) {
        let count = atoms.len();
        self.atoms.splice(self.cursor..self.cursor, atoms);
        self.cursor += count;
    }

    /// Removes a range of atoms, and moves the cursor to where it was.
    pub fn remove(&mut self, range: Range<usize>) -> Vec<Atom> {
        self.cursor = range.start;
        self.atoms.drain(range).collect()
    }

    /// Moves the cursor.
    pub fn move_to(&mut self, position: usize) {
        self.cursor = position.min(self.atoms.len());
    }

    /// Where the visible character before the cursor begins.
    pub fn before(&self) -> usize {
        let Some(run) = self.run(self.cursor.saturating_sub(MAX_CLUSTER)..self.cursor, true) else {
            return self.cursor.saturating_sub(1);
        };
        self.cursor - run.graphemes(true).next_back().map_or(0, |last| last.chars().count())
    }

    /// Where the visible character behind the cursor ends.
    pub fn after(&self) -> usize {
        let end = self.atoms.len().min(self.cursor + MAX_CLUSTER);
        let Some(run) = self.run(self.cursor..end, false) else {
            return self.atoms.len().min(self.cursor + 1);
        };
        self.cursor + run.graphemes(true).next().map_or(0, |first| first.chars().count())
    }

    /// The characters of a range, from its end or its beginning to the next paste. `None` if there are none.
    fn run(&self, range: Range<usize>, from_end: bool) -> Option<String> {
        let atoms = &self.atoms[range];
        let run: String = match from_end {
            true => {
                let count = atoms.iter().rev().take_while(|atom| atom.char().is_some()).count();
                atoms[atoms.len() - count..].iter().filter_map(Atom::char).collect()
            }
            false => atoms.iter().map_while(Atom::char).collect(),
        };
        (!run.is_empty()).then_some(run)
    }

    /// Where the word before the cursor begins.
    pub fn word_before(&self) -> usize {
        let mut at = self.cursor;
        while at > 0 && !self.atoms[at - 1].is_word() {
            at -= 1;
        }
        while at > 0 && self.atoms[at - 1].is_word() {
            at -= 1;
        }
        at
    }

    /// Where the text between blanks before the cursor begins.
    pub fn blank_before(&self) -> usize {
        let is_blank = |atom: &Atom| atom.char().is_some_and(char::is_whitespace);
        let mut at = self.cursor;
        while at > 0 && is_blank(&self.atoms[at - 1]) {
            at -= 1;
        }
        while at > 0 && !is_blank(&self.atoms[at - 1]) {
            at -= 1;
        }
        at
    }

    /// Where the word behind the cursor ends.
    pub fn word_after(&self) -> usize {
        let mut at = self.cursor;
        while self.atoms.get(at).is_some_and(|atom| !atom.is_word()) {
            at += 1;
        }
        while self.atoms.get(at).is_some_and(Atom::is_word) {
            at += 1;
        }
        at
    }

    /// Where the line of the cursor begins.
    pub fn line_start(&self) -> usize {
        self.line_start_of(self.cursor)
    }

    /// Where the line of the cursor ends.
    pub fn line_end(&self) -> usize {
        self.line_end_of(self.cursor)
    }

    /// The same place one line up; `None` in the first line.
    pub fn line_up(&self) -> Option<usize> {
        let start = self.line_start();
        let end = start.checked_sub(1)?;
        Some(end.min(self.line_start_of(end) + self.cursor - start))
    }

    /// The same place one line down; `None` in the last line.
    pub fn line_down(&self) -> Option<usize> {
        let start = self.line_end() + 1;
        (start <= self.atoms.len())
            .then(|| self.line_end_of(start).min(start + self.cursor - self.line_start()))
    }

    fn line_start_of(&self, position: usize) -> usize {
        let is_break = |atom: &Atom| *atom == Atom::Char('\n');
        self.atoms[..position].iter().rposition(is_break).map_or(0, |at| at + 1)
    }

    fn line_end_of(&self, position: usize) -> usize {
        let is_break = |atom: &Atom| *atom == Atom::Char('\n');
        self.atoms[position..].iter().position(is_break).map_or(self.atoms.len(), |at| position + at)
    }

    /// Swaps the characters around the cursor; at the end, the last two.
    pub fn transpose(&mut self) {
        let at = self.cursor.min(self.atoms.len().saturating_sub(1));
        if at > 0 {
            self.atoms.swap(at - 1, at);
            self.cursor = at + 1;
        }
    }
}

/// The text of atoms, with what was pasted.
fn text_of(atoms: &[Atom]) -> String {
    let mut text = String::with_capacity(atoms.len());
    for atom in atoms {
        match atom {
            Atom::Char(c) => text.push(*c),
            Atom::Paste(paste) => text.push_str(paste),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_paste_is_one_atom_and_a_short_one_is_text() {
        let long = "line\n".repeat(4);
        let mut draft = DraftMessage::typed("a");
        draft.insert_paste(&long);
        draft.insert_paste("b\nc\n");
        draft.insert_paste(&"x".repeat(1025));
        assert_eq!(draft.text(), format!("a{long}b\nc{}", "x".repeat(1025)));
        assert_eq!(draft.atoms().len(), 6);
        assert_eq!(Atom::placeholder(&long), "[pasted 4 lines, 20 B]");
        assert_eq!(Atom::placeholder(&"x".repeat(9_949)), "[pasted 1 line, 9.9 KB]");
        draft.remove(draft.before()..draft.cursor());
        assert_eq!(draft.text(), format!("a{long}b\nc"));
    }

    #[test]
    fn the_cursor_moves_over_visible_characters() {
        let family = "👨\u{200d}👩\u{200d}👧";
        let mut draft = DraftMessage::typed(&format!("e\u{301}{family}中"));
        draft.insert_paste(&"\n".repeat(9));
        let mut places = Vec::new();
        while draft.cursor() > 0 {
            draft.move_to(draft.before());
            places.push(draft.cursor());
        }
        assert_eq!(places, [8, 7, 2, 0]);
        let mut back = Vec::new();
        while draft.cursor() < draft.atoms().len() {
            draft.move_to(draft.after());
            back.push(draft.cursor());
        }
        assert_eq!(back, [2, 7, 8, 9]);
    }

    #[test]
    fn the_cursor_moves_over_words_and_lines() {
        let mut draft = DraftMessage::typed("one two, three\nfour\n");
        draft.move_to(14);
        assert_eq!((draft.word_before(), draft.blank_before()), (9, 9));
        draft.move_to(8);
        assert_eq!((draft.word_before(), draft.blank_before(), draft.word_after()), (4, 4, 14));
        draft.move_to(14);
        assert_eq!((draft.line_up(), draft.line_down()), (None, Some(19)));
        draft.move_to(17);
        assert_eq!((draft.line_start(), draft.line_end()), (15, 19));
        assert_eq!((draft.line_up(), draft.line_down()), (Some(2), Some(20)));
        draft.move_to(20);
        assert_eq!((draft.line_up(), draft.line_down()), (Some(15), None));
    }

    #[test]
    fn characters_are_transposed() {
        let mut draft = DraftMessage::typed("ab");
        draft.transpose();
        assert_eq!((draft.text().as_str(), draft.cursor()), ("ba", 2));
        let mut empty = DraftMessage::default();
        empty.transpose();
        assert!(empty.is_empty());
    }
}
