//! Underlines what does not stand in the documents. Text is held back until it is known what it is: a number, a name, a
//! quotation or ordinary words.

use std::collections::VecDeque;
use std::sync::Arc;

use lookup::absent::{Known, Line};

use crate::answer::rows::Run;
use crate::answer::style::Style;

/// Underlines parts of one answer.
pub struct Underline {
    known: Arc<Known>,
    line: Line,
    /// Styles of the text that is held back, with its bytes.
    styles: VecDeque<(Style, usize)>,
    /// Whether a line was shown.
    has_lines: bool,
    /// Whether the line has text.
    has_text: bool,
}

impl Underline {
    /// At the beginning of an answer.
    pub fn new(known: Arc<Known>) -> Underline {
        Underline { line: known.line(), known, styles: VecDeque::new(), has_lines: false, has_text: false }
    }

    /// The line is a heading.
    pub fn begin_heading(&mut self) {
        self.line.is_heading();
    }

    /// Takes text of the line. Returns what can be shown.
    pub fn push(&mut self, (style, text): Run) -> Vec<Run> {
        self.has_text |= !text.trim().is_empty();
        self.styles.push_back((style, text.len()));
        let pieces = self.line.push(&text, false);
        self.styled(pieces)
    }

    /// Ends the line. `is_last`: it ends the answer. Returns what was held back.
    pub fn end_line(&mut self, is_last: bool) -> Vec<Run> {
        if is_last && !self.has_lines {
            self.line.is_only();
        }
        let pieces = self.line.push("", true);
        let runs = self.styled(pieces);
        self.has_lines |= std::mem::take(&mut self.has_text);
        self.line = self.known.line();
        runs
    }

    /// The text of a cell of a table.
    pub fn cell(&self, runs: Vec<Run>) -> Vec<Run> {
        let mut cell = Underline::new(self.known.clone());
        let shown: Vec<Run> = runs.into_iter().flat_map(|run| cell.push(run)).collect();
        let rest = cell.end_line(false);
        shown.into_iter().chain(rest).collect()
    }

    /// Pieces of text with the styles that they came with.
    fn styled(&mut self, pieces: Vec<(String, bool)>) -> Vec<Run> {
        let mut runs = Vec::new();
        for (piece, stands) in pieces {
            let mut rest = piece.as_str();
            while !rest.is_empty() {
                let Some((style, bytes)) = self.styles.front_mut() else {
                    runs.push((Style::PLAIN, rest.to_owned()));
                    break;
                };
                let taken = rest.len().min(*bytes);
                let (text, more) = rest.split_at(taken);
                runs.push((Style { underlined: style.underlined || !stands, ..*style }, text.to_owned()));
                rest = more;
                *bytes -= taken;
                if *bytes == 0 {
                    self.styles.pop_front();
                }
            }
        }
        runs
    }
}
