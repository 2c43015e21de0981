//! Tables of GitHub's Markdown. Their rows are held back until the table ends, because the widest cell of a column may
//! be in the last row. Columns line up by what cells look like on the terminal. A table that is too wide gets cells of
//! several rows, broken between words; where the words themselves are too wide, each row becomes a list.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::answer::rows::{Run, TextRows};
use crate::answer::style::Style;
use crate::table::column_widths;

/// Turns the text of a cell into styled text.
pub type Spans<'a> = &'a dyn Fn(Style, &str) -> Vec<Run>;

/// Lines that may be a table.
#[derive(Default)]
pub struct Table {
    lines: Vec<Line>,
}

/// A line of a table.
struct Line {
    text: String,
    /// What is before it: marks of quotes and lists.
    first: Vec<Run>,
    /// What is before rows that continue it.
    others: Vec<Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
    Center,
}

/// A part of a cell that is never broken.
struct Word {
    runs: Vec<Run>,
    width: usize,
    /// Whether a space is before it.
    is_spaced: bool,
    /// Whether it begins a row of its cell.
    is_break: bool,
}

/// Between cells, and before the first and behind the last one.
const GAP: usize = 3;
const EDGES: usize = 4;
/// Line breaks in cells.
const BREAKS: [&str; 3] = ["<br>", "<br/>", "<br />"];
/// Most cells of a table. Each row gets as many as the widest one has, so a few lines could ask for any memory.
const MAX_CELLS: usize = 100_000;

impl Table {
    /// Adds a line. Shows lines that turn out not to begin a table.
    pub fn push(&mut self, rows: &mut TextRows, text: String, first: Vec<Run>, others: Vec<Run>) {
        self.lines.push(Line { text, first, others });
        if self.lines.len() == 2 && !self.is_table() {
            let line = self.lines.remove(0);
            line.show(rows);
        }
    }

    /// Whether no line is held back.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The table has ended: shows it.
    pub fn end(&mut self, rows: &mut TextRows, spans: Spans) {
        let lines = std::mem::take(&mut self.lines);
        match (Table { lines }).into_cells() {
            Ok(cells) => cells.show(rows, spans),
            Err(lines) => lines.iter().for_each(|line| line.show(rows)),
        }
    }

    fn is_table(&self) -> bool {
        self.lines.get(1).is_some_and(|line| alignments(&line.text).is_some())
    }

    /// The cells; the lines if they are no table or too large a one.
    fn into_cells(self) -> Result<Cells, Vec<Line>> {
        let Some(mut aligns) = self.lines.get(1).and_then(|line| alignments(&line.text)) else {
            return Err(self.lines);
        };
        let rows: Vec<Vec<String>> = self.lines.iter().map(|line| cells(&line.text)).collect();
        // No cell is left out, also where the first row has fewer.
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        if columns.saturating_mul(rows.len()) > MAX_CELLS {
            return Err(self.lines);
        }
        aligns.resize(columns, Align::Left);
        let mut lines: Vec<_> = rows.into_iter().zip(self.lines).collect();
        let (_, rule) = lines.remove(1);
        lines.iter_mut().for_each(|(cells, _)| cells.resize(columns, String::new()));
        Ok(Cells { aligns, lines, rule })
    }
}

impl Line {
    /// Shows the line as it is.
    fn show(&self, rows: &mut TextRows) {
        rows.begin_line(&self.first, self.others.clone());
        rows.write_verbatim(Style::PLAIN, &self.text);
        rows.end_line();
    }
}

/// The cells of a table.
struct Cells {
    aligns: Vec<Align>,
    /// The first one has the headers.
    lines: Vec<(Vec<String>, Line)>,
    /// The line below the headers.
    rule: Line,
}

impl Cells {
    fn show(&self, rows: &mut TextRows, spans: Spans) {
        let styled: Vec<Vec<Vec<Word>>> = (self.lines.iter().enumerate())
            .map(|(row, (cells, _))| {
                let style = if row == 0 { Style::BOLD } else { Style::PLAIN };
                cells.iter().map(|cell| words(cell, style, spans)).collect()
            })
            .collect();
        let column = |column: usize| styled.iter().map(move |cells| cells[column].as_slice());
        let columns = 0..self.aligns.len();
        let natural: Vec<usize> =
            columns.clone().map(|c| column(c).map(width_in_one_row).max().unwrap_or(0).max(3)).collect();
        let least: Vec<usize> =
            columns.map(|c| column(c).flatten().map(|word| word.width).max().unwrap_or(0).max(3)).collect();
        let prefix = self.lines.iter().map(|(_, line)| width_of(&line.first)).max().unwrap_or(0);
        let around = prefix + EDGES + GAP * self.aligns.len().saturating_sub(1);
        match column_widths(&natural, &least, rows.columns().saturating_sub(around)) {
            Some(widths) => self.show_columns(rows, &styled, &widths, widths != natural),
            None => self.show_lists(rows, &styled),
        }
    }

    /// Shows columns of these widths. `is_ruled`: with a line between rows, since they are of several rows.
    fn show_columns(&self, rows: &mut TextRows, styled: &[Vec<Vec<Word>>], widths: &[usize], is_ruled: bool) {
        let rule = |rows: &mut TextRows, before: &[Run], has_marks: bool| {
            let dashes = |(width, align): (&usize, &Align)| {
                let (left, right) = match align {
                    _ if !has_marks => ("-", "-"),
                    Align::Left => ("-", "-"),
                    Align::Right => ("-", ":"),
                    Align::Center => (":", ":"),
                };
                format!("{left}{}{right}", "-".repeat(width.saturating_sub(2)))
            };
            let dashes: Vec<String> = widths.iter().zip(&self.aligns).map(dashes).collect();
            rows.begin_line(before, Vec::new());
            rows.write_verbatim(Style::DIM, &format!("| {} |", dashes.join(" | ")));
            rows.end_line();
        };
        for (row, ((_, line), cells)) in self.lines.iter().zip(styled).enumerate() {
            if is_ruled && row > 1 {
                rule(rows, &line.others, false);
            }
            let broken: Vec<Vec<&[Word]>> =
                cells.iter().zip(widths).map(|(cell, width)| broken(cell, *width)).collect();
            for part in 0..broken.iter().map(Vec::len).max().unwrap_or(0).max(1) {
                rows.begin_line(if part == 0 { &line.first } else { &line.others }, Vec::new());
                for (column, cell) in broken.iter().enumerate() {
                    rows.write_verbatim(Style::DIM, if column == 0 { "| " } else { " | " });
                    let words = cell.get(part).copied().unwrap_or_default();
                    let space = widths[column].saturating_sub(width_in_one_row(words));
                    let left = match self.aligns[column] {
                        Align::Left => 0,
                        Align::Right => space,
                        Align::Center => space / 2,
                    };
                    rows.write_verbatim(Style::PLAIN, &" ".repeat(left));
                    write_words(rows, words);
                    rows.write_verbatim(Style::PLAIN, &" ".repeat(space - left));
                }
                rows.write_verbatim(Style::DIM, " |");
                rows.end_line();
            }
            if row == 0 {
                rule(rows, &self.rule.first, true);
            }
        }
    }

    /// Shows each row as a list of its cells, with the headers before them.
    fn show_lists(&self, rows: &mut TextRows, styled: &[Vec<Vec<Word>>]) {
        let headers = &styled[0];
        for (row, ((_, line), cells)) in self.lines.iter().zip(styled).enumerate().skip(1) {
            if row > 1 {
                rows.end_line();
            }
            let filled = headers.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
            for (number, (header, cell)) in filled.enumerate() {
                rows.begin_line(if number == 0 { &line.first } else { &line.others }, line.others.clone());
                push_words(rows, header);
                if !header.is_empty() {
                    rows.push(Style::BOLD, ": ");
                }
                push_words(rows, cell);
                rows.end_line();
            }
        }
        if styled.len() == 1 {
            let (_, line) = &self.lines[0];
            line.show(rows);
        }
    }
}

/// The cells of a line.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let (mut cells, mut cell, mut chars) = (Vec::new(), String::new(), line.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next_if_eq(&'|').is_some() => cell.push('|'),
            '|' => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    if !cell.trim().is_empty() || cells.is_empty() {
        cells.push(cell);
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

/// How columns are aligned; `None` if this is not the line below the headers.
fn alignments(line: &str) -> Option<Vec<Align>> {
    let align = |cell: &String| {
        let (left, right) = (cell.starts_with(':'), cell.len() > 1 && cell.ends_with(':'));
        let dashes = cell.trim_start_matches(':').trim_end_matches(':');
        let marks = cell.len() - dashes.len();
        let is_rule = !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-');
        (is_rule && marks == usize::from(left) + usize::from(right)).then_some(match (left, right) {
            (true, true) => Align::Center,
            (false, true) => Align::Right,
            _ => Align::Left,
        })
    };
    cells(line).iter().map(align).collect()
}

/// The words of a cell.
fn words(cell: &str, style: Style, spans: Spans) -> Vec<Word> {
    let mut words = Vec::new();
    let (mut rest, mut is_break) = (cell, false);
    loop {
        let next = BREAKS.iter().filter_map(|mark| Some((rest.find(mark)?, mark.len()))).min();
        let (end, length) = next.unwrap_or((rest.len(), 0));
        let mut is_new = true;
        let mut is_spaced = false;
        for (style, text) in spans(style, rest[..end].trim()) {
            for grapheme in text.graphemes(true) {
                if grapheme == " " || grapheme == "\t" {
                    (is_spaced, is_new) = (true, true);
                    continue;
                }
                let width = grapheme.width();
                // Rows may break before and behind wide characters.
                let begins = is_new || width > 1 || words.last().is_some_and(|word: &Word| word.is_wide());
                if begins {
                    words.push(Word { runs: Vec::new(), width: 0, is_spaced, is_break });
                    (is_new, is_spaced, is_break) = (false, false, false);
                }
                if let Some(word) = words.last_mut() {
                    word.push(style, grapheme, width);
                }
            }
        }
        if next.is_none() {
            return words;
        }
        rest = &rest[end + length..];
        is_break = !words.is_empty();
    }
}

impl Word {
    fn push(&mut self, style: Style, text: &str, width: usize) {
        self.width += width;
        match self.runs.last_mut() {
            Some((last, run)) if *last == style => run.push_str(text),
            _ => self.runs.push((style, text.to_owned())),
        }
    }

    /// Whether it is one wide character.
    fn is_wide(&self) -> bool {
        self.width > 1 && self.runs.iter().map(|(_, text)| text.chars().count()).sum::<usize>() == 1
    }
}

/// Columns of words in one row; of the longest row where there are breaks.
fn width_in_one_row(words: &[Word]) -> usize {
    let (mut longest, mut width) = (0, 0);
    for word in words {
        if word.is_break {
            width = 0;
        }
        width += word.width + usize::from(word.is_spaced && width > 0);
        longest = longest.max(width);
    }
    longest
}

fn width_of(runs: &[Run]) -> usize {
    runs.iter().map(|(_, text)| text.width()).sum()
}

/// The words of a cell in rows of at most so many columns.
fn broken(words: &[Word], columns: usize) -> Vec<&[Word]> {
    let (mut rows, mut start, mut width) = (Vec::new(), 0, 0);
    for (at, word) in words.iter().enumerate() {
        let more = word.width + usize::from(word.is_spaced && at > start);
        if at > start && (word.is_break || width + more > columns) {
            rows.push(&words[start..at]);
            (start, width) = (at, word.width);
        } else {
            width += more;
        }
    }
    rows.push(&words[start..]);
    rows
}

fn write_words(rows: &mut TextRows, words: &[Word]) {
    for (at, word) in words.iter().enumerate() {
        if at > 0 && word.is_spaced {
            rows.write_verbatim(Style::PLAIN, " ");
        }
        word.runs.iter().for_each(|(style, text)| rows.write_verbatim(*style, text));
    }
}

fn push_words(rows: &mut TextRows, words: &[Word]) {
    for (at, word) in words.iter().enumerate() {
        if at > 0 && (word.is_spaced || word.is_break) {
            rows.push(Style::PLAIN, " ");
        }
        word.runs.iter().for_each(|(style, text)| rows.push(*style, text));
    }
}
