//! Writes text with paragraphs, headings, lists and tables, as Markdown does. Formats call the writer; it knows none of
//! them. Beside it are what formats share: grids of tables, numbers of lists, formulas, symbols.

pub(crate) mod formula;
mod grid;
pub(crate) mod notes;
mod numerals;
pub(crate) mod ordinal;
pub(crate) mod prices;
mod scripts;
pub(crate) mod symbols;
mod tables;
mod tabs;
pub(crate) mod tidy;

pub(crate) use self::grid::{Rows, Span, beginning};
pub(crate) use self::scripts::Level;
pub(crate) use self::tabs::{Align, TabStops};

use std::rc::Rc;

use self::scripts::Scripts;
use self::tables::{Inner, Table};
use self::tabs::Tabs;
use crate::marks::{self, MARK};

/// Deepest indentation of lists.
const MAX_INDENT: usize = 8;
/// What raised and lowered text belongs to, is looked for in so many bytes before it.
const BASE_BYTES: usize = 64;
/// Stands before and after text that is struck out.
pub(crate) const STRUCK: &str = "~~";

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
    /// Open tables. Tables within tables mostly are for layout, so their rows are lines as well.
    tables: Vec<Table>,
    /// Tables within the cell, and how many more are open within them.
    inner: Vec<Inner>,
    too_deep: usize,
    /// Whether the text is in a cell of a table, where paragraphs end with a space.
    in_cell: bool,
    /// Raised and lowered text that is not written yet.
    scripts: Scripts,
    /// Where raised digits are written, and which: cents, if a currency follows.
    cents: Option<(std::ops::Range<usize>, String)>,
    /// Elements of struck-out text that are open, and whether the mark before them is written.
    struck: usize,
    is_struck: bool,
    /// Where the last line begins, and whether it is code.
    line_start: usize,
    is_preformatted: bool,
    /// Bytes that fill tables, and rows that would need too many.
    filling: usize,
    unfilled_rows: usize,
    tabs: Tabs,
    /// Numbers of places whose text is not written yet, and where the line of the others begins.
    awaited: Vec<usize>,
    places: Vec<(usize, usize)>,
}

impl Writer {
    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// What was written behind so many bytes.
    pub(crate) fn since(&self, start: usize) -> &str {
        self.text.get(start..).unwrap_or_default()
    }

    /// Rows of tables whose cells may be in other columns, because of too many empty ones or of tabs.
    /// The line that is written ends.
    pub(crate) fn unfilled_rows(&mut self) -> usize {
        self.end(Gap::Line);
        self.unfilled_rows + self.tabs.uncertain(&self.text)
    }

    /// Whether what follows would go on with such a character.
    pub(crate) fn ends_with(&self, is_such: impl Fn(char) -> bool) -> bool {
        let is_beginning = self.gap != Gap::None || !self.marker.is_empty() || self.begins_a_cell();
        !is_beginning && self.text.ends_with(is_such)
    }

    /// Appends text. White space becomes one space.
    pub(crate) fn text(&mut self, text: &str) {
        if !self.scripts.is_empty() && !text.is_empty() {
            if self.scripts.takes(text) {
                return;
            }
            self.end_scripts(text.chars().next());
        }
        self.words(text);
    }

    /// Appends a tab of a paragraph with these stops, and others behind them that are so far apart. In a cell it is a space.
    pub(crate) fn tab(&mut self, stops: &Rc<TabStops>, distance: Option<u32>) {
        self.text(" ");
        if !self.in_cell {
            self.end_scripts(None);
            self.tabs.tab(stops, distance);
        }
    }

    /// Appends text that may be raised or lowered.
    pub(crate) fn text_at(&mut self, level: Level, text: &str) {
        match level {
            Level::Normal => self.text(text),
            // A gap before the text is one in the line.
            _ if self.scripts.is_empty() && text.trim().is_empty() => self.words(text),
            level => self.scripts.add(level, text),
        }
    }

    /// How many raised and lowered texts there were so far.
    pub(crate) fn script_texts(&self) -> usize {
        self.scripts.texts()
    }

    /// Begins text that is raised or lowered within such text, of which there were so many where that began.
    /// Returns whether it is: else it is a part of it.
    pub(crate) fn begin_inner_script(&mut self, level: Level, start: usize) -> bool {
        self.scripts.begin_inner(level, start)
    }

    /// Ends it.
    pub(crate) fn end_inner_script(&mut self) {
        self.scripts.end_inner();
    }

    fn end_scripts(&mut self, next: Option<char>) {
        if self.scripts.is_empty() {
            return;
        }
        let is_alone = !self.ends_with(|_| true);
        let tail = self.text.len().saturating_sub(BASE_BYTES);
        let tail = (tail..self.text.len()).find(|at| self.text.is_char_boundary(*at));
        let tail = tail.filter(|_| !is_alone).map_or("", |start| &self.text[start..]);
        let base = tail.rsplit(char::is_whitespace).next().unwrap_or_default();
        let raised = self.scripts.only_raised().filter(|raised| prices::may_be_cents(tail, raised));
        let cents = raised.map(|raised| prices::cents(tail, raised));
        let is_price = cents.is_some() && prices::ends_with_price(tail);
        let text = self.scripts.take(base, next);
        let start = self.text.len();
        match cents {
            Some(cents) if is_price => self.words(&cents),
            cents => {
                self.words(&text);
                self.cents = cents.map(|cents| (start..self.text.len(), cents));
            }
        }
    }

    /// Raised digits before a currency are cents.
    fn end_cents(&mut self, next: &str) {
        let Some((place, cents)) = self.cents.take_if(|_| !next.trim().is_empty()) else { return };
        if place.end == self.text.len()
            && self.gap <= Gap::Space
            && !self.begins_a_cell()
            && prices::begins_with_currency(next.trim_start())
        {
            self.text.replace_range(place, &cents);
        }
    }

    fn words(&mut self, text: &str) {
        let is_word = |c: char| {
            !c.is_whitespace()
                && !c.is_control()
                && !matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}' | MARK | '|')
        };
        self.end_cents(text);
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            if end > 0 {
                self.flush();
                self.text.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            match c {
                '\u{a0}' => self.push(' '),
                '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}' | MARK => {}
                '|' if self.in_cell => {
                    self.push('\\');
                    self.text.push('|');
                }
                '|' => self.push('|'),
                _ => self.gap = self.gap.max(Gap::Space),
            }
            rest = &rest[c.len_utf8()..];
        }
    }

    /// Appends text with its spaces and line ends.
    pub(crate) fn preformatted(&mut self, text: &str) {
        self.end_scripts(text.chars().next());
        if self.in_cell {
            return self.words(text);
        }
        for c in text.chars().filter(|c| *c != MARK && (!c.is_control() || matches!(c, '\n' | '\t'))) {
            match c {
                // An end of the line is written when something follows.
                '\n' if self.gap == Gap::Line => {
                    self.flush();
                    self.gap = Gap::Line;
                }
                '\n' => self.gap = self.gap.max(Gap::Line),
                c => {
                    self.push(c);
                    self.is_preformatted = true;
                }
            }
        }
    }

    /// Shortens dots that lead to a number in the line that ends here. Tables and code stay.
    fn tidy_line(&mut self) {
        let is_code = std::mem::take(&mut self.is_preformatted);
        let written = self.text.get(self.line_start..).unwrap_or_default();
        let line = written.trim_start_matches('\n');
        if !is_code
            && !line.contains(['\n', '|'])
            && let Some(short) = tidy::without_leader(line)
        {
            let start = self.text.len() - line.len();
            self.tabs.forget(start);
            self.text.replace_range(start.., &short);
        }
        self.line_start = self.text.len();
    }

    fn push(&mut self, c: char) {
        self.flush();
        self.text.push(c);
    }

    /// Writes what goes before the next text.
    fn flush(&mut self) {
        if self.begins_a_cell() {
            self.begin_cell();
        }
        if self.struck == 0 {
            self.close_struck();
        }
        let gap = std::mem::take(&mut self.gap);
        let signs = self.inner_signs();
        let gap = if signs.is_empty() { gap } else { Gap::None };
        self.text.push_str(&signs);
        if gap >= Gap::Line {
            self.tidy_line();
        }
        self.reach_places(gap);
        if !self.text.is_empty() {
            self.text.push_str(match gap {
                Gap::None => "",
                Gap::Space => " ",
                Gap::Line => "\n",
                Gap::Paragraph => "\n\n",
            });
        }
        let begins_line = gap >= Gap::Line || self.text.is_empty();
        self.tabs.begin_text(self.text.len(), begins_line, &self.marker);
        self.text.push_str(&std::mem::take(&mut self.marker));
        if self.struck > 0 && !self.is_struck {
            self.text.push_str(STRUCK);
            self.is_struck = true;
        }
    }

    /// Begins text that is struck out.
    pub(crate) fn begin_struck(&mut self) {
        self.end_scripts(None);
        self.struck += 1;
    }

    /// Ends text that is struck out.
    pub(crate) fn end_struck(&mut self) {
        self.end_scripts(None);
        self.struck = self.struck.saturating_sub(1);
    }

    /// What is written is struck out, or not.
    pub(crate) fn struck(&mut self, is_struck: bool, write: impl FnOnce(&mut Writer)) {
        if is_struck {
            self.begin_struck();
        }
        write(self);
        if is_struck {
            self.end_struck();
        }
    }

    /// The mark stands on the line of the text. It is written again before text that goes on behind it.
    fn close_struck(&mut self) {
        if std::mem::take(&mut self.is_struck) {
            self.text.push_str(STRUCK);
        }
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
        self.end_scripts(None);
        self.close_struck();
        if self.in_cell {
            self.gap = self.gap.max(Gap::Space);
        } else if self.marker.is_empty() {
            self.tabs.end_line(self.text.len(), self.is_preformatted);
            // A paragraph that begins an item is on the line of its mark.
            self.gap = self.gap.max(gap);
        }
    }

    /// Ends a heading or an item of a list; its mark is not written if it had no text.
    pub(crate) fn end_item(&mut self) {
        self.end_scripts(None);
        self.marker.clear();
        self.line();
    }

    /// Begins a heading of a level from 1 to 6.
    pub(crate) fn heading(&mut self, level: usize) {
        self.end_item();
        self.paragraph();
        if !self.in_cell {
            self.marker = marks::heading(level.clamp(1, 6));
        }
    }

    /// Begins a page or a slide, before the heading that was begun.
    pub(crate) fn page(&mut self, number: usize) {
        self.marker.insert_str(0, &marks::page(number));
    }

    /// The next text is at the place of this number. Places within tables are not known.
    pub(crate) fn place(&mut self, number: usize) {
        if self.tables.is_empty() {
            self.awaited.push(number);
        }
    }

    /// The places that have text: where their line begins, in the order of the text, and their numbers.
    pub(crate) fn take_places(&mut self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.places)
    }

    /// What is written now is at the places that wait for text.
    fn reach_places(&mut self, gap: Gap) {
        let start = if gap >= Gap::Line { self.text.len() } else { self.line_start };
        self.places.extend(self.awaited.drain(..).map(|number| (start, number)));
    }

    /// Begins an item of a list with a mark such as `-`. The outermost list has depth 0.
    pub(crate) fn item(&mut self, depth: usize, mark: &str) {
        self.end_item();
        let indent = if self.in_cell { 0 } else { depth.min(MAX_INDENT) };
        self.marker = format!("{}{mark} ", "  ".repeat(indent));
    }

    /// Writes a mark before the next text, behind that of a heading or an item: the number of a heading.
    pub(crate) fn number(&mut self, mark: &str) {
        self.marker.extend([mark, " "]);
    }

    /// Takes the mark of a heading or an item that has no text yet.
    pub(crate) fn take_mark(&mut self) -> String {
        std::mem::take(&mut self.marker)
    }

    /// Begins the heading or the item whose mark was taken.
    pub(crate) fn resume(&mut self, mark: String) {
        self.end_item();
        self.paragraph();
        self.marker = mark;
    }

    /// Appends a text that is complete, with its marks, as paragraphs of its own.
    pub(crate) fn block(&mut self, text: &str) {
        match text.trim_end() {
            "" => {}
            text if self.in_cell => self.text(text),
            text => {
                self.paragraph();
                self.flush();
                self.text.push_str(text);
                self.paragraph();
            }
        }
    }

    /// The text, with an end of the line.
    pub(crate) fn finish(mut self) -> String {
        self.end_tables();
        self.close_struck();
        self.tidy_line();
        let mut text = self.tabs.write(self.text);
        if !text.is_empty() {
            text.push('\n');
        }
        text
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
        assert_eq!(writer.finish(), "\u{fdd0}## A heading\n\n  - item\n\nend\n");
    }

    #[test]
    fn struck_text_is_marked() {
        let mut writer = Writer::default();
        writer.text("was ");
        writer.begin_struck();
        writer.text(" 80 euros ");
        writer.paragraph();
        writer.text("or 90");
        writer.end_struck();
        writer.text(" now 70");
        assert_eq!(writer.finish(), "was ~~80 euros~~\n\n~~or 90~~ now 70\n");
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
