//! Puts styled text into the rows of a terminal. A word that does not fit begins a new row. A word that is longer
//! than a row is left to the terminal, which can still copy it as one word.

use std::mem;

use unicode_width::UnicodeWidthChar;

use crate::answer::style::Style;

/// Styled text.
pub type Run = (Style, String);

/// Writes rows. What is taken with [`TextRows::take`] always ends in the plain style.
#[derive(Default)]
pub struct TextRows {
    out: String,
    /// Columns of a row.
    columns: usize,
    colors: bool,
    /// The style that the output has set.
    set: Style,
    /// Columns that are filled.
    column: usize,
    /// Where the text of the current row begins.
    start: usize,
    /// What rows begin with that continue the line.
    indent: Vec<Run>,
    /// Spaces before the word, and their style.
    spaces: usize,
    space_style: Style,
    /// A word that is not complete.
    word: Vec<Run>,
    word_width: usize,
    /// The word is longer than a row, and all of it was written so far.
    is_long: bool,
}

impl TextRows {
    /// No rows yet.
    pub fn new(colors: bool) -> TextRows {
        TextRows { columns: usize::MAX, colors, ..TextRows::default() }
    }

    /// Whether there are colours.
    pub fn has_colors(&self) -> bool {
        self.colors
    }

    /// Columns of the terminal.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The terminal has so many columns from now on.
    pub fn set_columns(&mut self, columns: usize) {
        self.columns = columns.max(1);
    }

    /// Removes and returns what can be shown now.
    pub fn take(&mut self) -> String {
        self.set(Style::PLAIN);
        mem::take(&mut self.out)
    }

    /// What was added so far was shown elsewhere. The next word begins a row.
    pub fn forget(&mut self) {
        self.end_word();
        self.take();
        (self.column, self.start, self.spaces) = (0, 0, 0);
    }

    /// Begins a line: writes `first`. Rows that continue the line begin with `others`, if enough columns are left.
    pub fn begin_line(&mut self, first: &[Run], others: Vec<Run>) {
        self.indent = others;
        if self.indent_width() > self.columns / 2 {
            self.indent.clear();
        }
        self.write_runs(first);
        self.start = self.column;
    }

    /// Writes text that is never wrapped.
    pub fn write_verbatim(&mut self, style: Style, text: &str) {
        self.end_word();
        self.write(style, text);
    }

    /// Adds text. It is written word by word.
    pub fn push(&mut self, style: Style, text: &str) {
        for c in text.chars() {
            match c.width().unwrap_or(0) {
                _ if c == ' ' || c == '\t' => {
                    self.end_word();
                    self.spaces += 1;
                    self.space_style = style;
                }
                2 => {
                    // Rows may break before and behind it.
                    self.end_word();
                    self.push_char(style, c, 2);
                    self.end_word();
                }
                width => self.push_char(style, c, width),
            }
        }
    }

    /// Ends the word.
    pub fn end_word(&mut self) {
        if !self.word.is_empty() {
            self.begin_word(self.word_width);
            let word = mem::take(&mut self.word);
            self.write_runs(&word);
        }
        self.word_width = 0;
        self.is_long = false;
    }

    /// Ends the line.
    pub fn end_line(&mut self) {
        self.end_word();
        self.spaces = 0;
        self.indent.clear();
        self.break_row();
        self.start = 0;
    }

    fn push_char(&mut self, style: Style, c: char, width: usize) {
        match self.word.last_mut() {
            Some((last, text)) if *last == style => text.push(c),
            _ => self.word.push((style, c.into())),
        }
        self.word_width += width;
        if self.is_long || self.word_width > self.columns.saturating_sub(self.indent_width()) {
            if !self.is_long {
                self.begin_word(self.word_width);
                self.is_long = true;
            }
            let word = mem::take(&mut self.word);
            self.write_runs(&word);
        }
    }

    /// Begins a new row if a word of this width does not fit; else writes the spaces before it.
    fn begin_word(&mut self, width: usize) {
        let spaces = mem::take(&mut self.spaces);
        if self.column > self.start && self.column.saturating_add(spaces + width) > self.columns {
            self.break_row();
            let indent = self.indent.clone();
            self.write_runs(&indent);
            self.start = self.column;
        } else if self.column > 0 {
            self.write(self.space_style, &" ".repeat(spaces));
        }
    }

    fn break_row(&mut self) {
        self.set(Style::PLAIN);
        self.out.push('\n');
        self.column = 0;
    }

    fn write_runs(&mut self, runs: &[Run]) {
        runs.iter().for_each(|(style, text)| self.write(*style, text));
    }

    fn write(&mut self, style: Style, text: &str) {
        if text.is_empty() {
            return;
        }
        self.set(style);
        self.out.push_str(text);
        for width in text.chars().map(|c| c.width().unwrap_or(0)) {
            // A terminal wraps where a character does not fit.
            self.column = if self.column + width > self.columns { width } else { self.column + width };
        }
    }

    fn set(&mut self, style: Style) {
        let style = Style { color: style.color.filter(|_| self.colors), ..style };
        if style != self.set {
            self.out += &style.sequence();
            self.set = style;
        }
    }

    fn indent_width(&self) -> usize {
        let widths = self.indent.iter().flat_map(|(_, text)| text.chars());
        widths.map(|c| c.width().unwrap_or(0)).sum()
    }
}
