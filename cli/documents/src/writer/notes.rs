//! Marks of notes.

use std::collections::HashMap;

/// Longest mark that is one of the file, in bytes.
const MAX_MARK: usize = 16;

/// The marks of the notes of a document so far: the numbers and signs that a reader sees, each with how often it is there.
#[derive(Debug, Default)]
pub(crate) struct NoteMarks {
    shown: HashMap<String, usize>,
    count: usize,
}

impl NoteMarks {
    /// The mark of the next note, which shows this number or sign: `[^12]`. Numbers may begin anew on each page; the next
    /// note of a number is `[^12-2]`. A note that shows nothing has its number among all of them.
    pub(crate) fn next(&mut self, shown: &str) -> String {
        self.count += 1;
        let is_mark = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '[' | ']' | '^' | '|');
        let shown = Some(shown.trim())
            .filter(|shown| !shown.is_empty() && shown.len() <= MAX_MARK && shown.chars().all(is_mark));
        let shown = shown.map_or_else(|| self.count.to_string(), str::to_owned);
        let times = self.shown.entry(shown.clone()).or_default();
        *times += 1;
        if *times == 1 { format!("[^{shown}]") } else { format!("[^{shown}-{times}]") }
    }
}

#[cfg(test)]
mod tests {
    use super::NoteMarks;

    #[test]
    fn marks_are_those_that_a_reader_sees_and_differ() {
        let mut marks = NoteMarks::default();
        let written = ["12", " 13 ", "*", "12", "*", "", "a b", "x]"].map(|shown| marks.next(shown));
        assert_eq!(written, ["[^12]", "[^13]", "[^*]", "[^12-2]", "[^*-2]", "[^6]", "[^7]", "[^8]"]);
    }
}
