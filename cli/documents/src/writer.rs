//! Writes text with paragraphs, headings, lists and tables, as Markdown does.

/// Deepest indentation of lists.
const MAX_INDENT: usize = 8;

/// What goes between what is written and what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Paragraph,
}

/// A text that is being written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    text: String,
    gap: Gap,
    /// Written before the next text, for example `- `.
    marker: String,
    /// Whether the text is in a cell of a table, where paragraphs end with a space.
    in_cell: bool,
    /// Whether the row of the table has a cell already.
    row_begun: bool,
}

impl Writer {
    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Appends text. White space becomes one space.
    pub(crate) fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\u{a0}' => self.push(' '),
                '\u{ad}' | '\u{200b}' | '\u{feff}' => {}
                c if c.is_whitespace() || c.is_control() => self.gap = self.gap.max(Gap::Space),
                c => self.push(c),
            }
        }
    }

    /// Appends text with its spaces and line ends.
    pub(crate) fn preformatted(&mut self, text: &str) {
        for c in text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')) {
            match c {
                // An end of the line is written when something follows.
                '\n' if self.gap == Gap::Line => {
                    self.flush();
                    self.gap = Gap::Line;
                }
                '\n' => self.gap = self.gap.max(Gap::Line),
                c => self.push(c),
            }
        }
    }

    fn push(&mut self, c: char) {
        self.flush();
        self.text.push(c);
    }

    fn flush(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if !self.text.is_empty() {
            self.text.push_str(match gap {
                Gap::None => "",
                Gap::Space => " ",
                Gap::Line => "\n",
                Gap::Paragraph => "\n\n",
            });
        }
        self.text.push_str(&std::mem::take(&mut self.marker));
    }

    /// Ends the line.
    pub(crate) fn line(&mut self) {
        self.end(Gap::Line);
    }

    /// Ends the paragraph.
    pub(crate) fn paragraph(&mut self) {
        self.end(Gap::Paragraph);
    }

    fn end(&mut self, gap: Gap) {
        if self.in_cell {
            self.gap = self.gap.max(Gap::Space);
        } else if self.marker.is_empty() {
            // A paragraph that begins an item is on the line of its mark.
            self.gap = self.gap.max(gap);
        }
    }

    /// Ends a heading or an item of a list; its mark is not written if it had no text.
    pub(crate) fn end_item(&mut self) {
        self.marker.clear();
        self.line();
    }

    /// Begins a heading of a level from 1 to 6.
    pub(crate) fn heading(&mut self, level: usize) {
        self.end_item();
        self.paragraph();
        if !self.in_cell {
            self.marker = "#".repeat(level.clamp(1, 6)) + " ";
        }
    }

    /// Begins an item of a list with a mark such as `-`. The outermost list has depth 0.
    pub(crate) fn item(&mut self, depth: usize, mark: &str) {
        self.end_item();
        if !self.in_cell {
            self.marker = format!("{}{mark} ", "  ".repeat(depth.min(MAX_INDENT)));
        }
    }

    /// Begins or ends a table. Tables within tables mostly are for layout, so their rows are lines as well.
    pub(crate) fn table(&mut self) {
        self.in_cell = false;
        self.row_begun = false;
        self.end_item();
        self.paragraph();
    }

    /// Begins a row of a table.
    pub(crate) fn row(&mut self) {
        self.in_cell = false;
        self.row_begun = false;
        self.line();
    }

    /// Begins a cell of a table.
    pub(crate) fn cell(&mut self) {
        if self.row_begun {
            self.gap = self.gap.max(Gap::Space);
            self.push('|');
            self.gap = Gap::Space;
        }
        self.row_begun = true;
        self.in_cell = true;
    }

    /// The text, with an end of the line.
    pub(crate) fn finish(mut self) -> String {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_written_between_texts_only() {
        let mut writer = Writer::default();
        writer.paragraph();
        writer.heading(2);
        writer.text(" A\n heading ");
        writer.paragraph();
        writer.line();
        writer.item(1, "-");
        writer.item(1, "-");
        writer.paragraph();
        writer.text("item");
        writer.heading(1);
        writer.end_item();
        writer.text("end");
        writer.paragraph();
        assert_eq!(writer.finish(), "## A heading\n\n  - item\n\nend\n");
    }

    #[test]
    fn a_row_of_a_table_is_a_line() {
        let mut writer = Writer::default();
        writer.table();
        for row in [["a", "b"], ["", "c"]] {
            writer.row();
            for cell in row {
                writer.cell();
                writer.paragraph();
                writer.text(cell);
                writer.paragraph();
            }
        }
        writer.table();
        writer.text("after");
        assert_eq!(writer.finish(), "a | b\n| c\n\nafter\n");
    }

    #[test]
    fn preformatted_text_keeps_its_lines() {
        let mut writer = Writer::default();
        writer.text("code:");
        writer.paragraph();
        writer.preformatted("\n  if x {\n\n    y\n  }\n");
        writer.paragraph();
        writer.text("end");
        assert_eq!(writer.finish(), "code:\n\n  if x {\n\n    y\n  }\n\nend\n");
    }
}
