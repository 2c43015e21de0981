//! Shows Markdown in a terminal while it is being written. A word is shown as soon as it is complete; text that may
//! become a span, as soon as it is known. However the text is split into pieces, the rows are the same.
//!
//! A subset of CommonMark, line by line: headings, lists, quotes, rules, code blocks, indented code, and the spans of
//! [`inline`](crate::answer::inline). Line breaks stay where the author has put them. Code is never wrapped and shown exactly,
//! so that it can be copied. A table is shown when it ends ([`table`](crate::answer::table)). What is not in the subset (HTML,
//! references, formulas) is shown as it is.

use std::sync::Arc;

use longhand::text::sanitize_for_terminal;
use lookup::absent::Known;

use crate::answer::code::Colors;
use crate::answer::fence::Fence;
use crate::answer::inline::{Span, first_span};
use crate::answer::rows::{Run, TextRows};
use crate::answer::style::Style;
use crate::answer::table::Table;
use crate::answer::underline::Underline;

const CODE: Style = Style::color(36);
/// Columns of a rule.
const RULE: usize = 40;
/// Lines that begin with so many columns are code, except in lists.
const CODE_INDENT: usize = 4;
const BAR: &str = "│ ";
/// Quotes and list items in each other. Deeper ones are text.
const MAX_DEPTH: usize = 12;

/// Shows one text.
#[derive(Default)]
pub struct Markdown {
    rows: TextRows,
    underline: Option<Underline>,
    /// What is not shown yet of the current line.
    pending: String,
    line: Line,
    block: Option<Block>,
    /// Rows of a table that is not shown yet.
    table: Table,
    /// Whether the lines before belong to a list.
    in_list: bool,
    /// The character before [`Markdown::pending`] in its line.
    before: Option<char>,
    /// Whether the last piece has ended with a carriage return.
    held_return: bool,
}

/// What the current line is.
#[derive(Default)]
enum Line {
    /// Nothing of it is shown.
    #[default]
    Begins,
    /// Text in this style.
    Text(Style),
    /// Text that is shown as it is.
    Verbatim,
    /// A line of a code block.
    Code,
    /// A row of a table, and what is before it.
    Row { first: Vec<Run>, others: Vec<Run> },
}

/// A code block.
struct Block {
    fence: Fence,
    /// In how many quotes it is. The bars are not shown beside code.
    quotes: usize,
    colors: Colors,
}

/// How a line begins, with what the parts before its text look like.
struct Beginning {
    /// Bytes of the line that are dealt with.
    bytes: usize,
    kind: Kind,
    first: Vec<(Style, String)>,
    others: Vec<(Style, String)>,
    quotes: usize,
    is_list: bool,
}

enum Kind {
    Empty,
    Text,
    Heading,
    Rule,
    Verbatim,
    Table,
    Fence(Fence),
}

impl Markdown {
    /// Nothing yet.
    pub fn new(colors: bool) -> Markdown {
        Markdown { rows: TextRows::new(colors), ..Markdown::default() }
    }

    /// Underlines what does not stand in what is known.
    pub fn underline(&mut self, known: Arc<Known>) {
        self.underline = Some(Underline::new(known));
    }

    /// Adds a piece of the text. Returns what can be shown of it, on a terminal of so many columns.
    pub fn push(&mut self, piece: &str, columns: usize) -> String {
        self.rows.set_columns(columns);
        if piece.is_empty() {
            return String::new();
        }
        // A carriage return before a line feed is part of it.
        let mut text = if std::mem::take(&mut self.held_return) { "\r".to_owned() } else { String::new() };
        text += piece;
        if text.ends_with('\r') {
            text.pop();
            self.held_return = true;
        }
        let text = sanitize_for_terminal(&text);
        let mut lines = text.split('\n');
        self.push_to_line(lines.next().unwrap_or_default());
        for line in lines {
            self.end_line(false);
            self.push_to_line(line);
        }
        self.rows.take()
    }

    /// Ends the text. Returns what was not shown yet, with a line break at its end.
    pub fn finish(&mut self, columns: usize) -> String {
        self.rows.set_columns(columns);
        if std::mem::take(&mut self.held_return) {
            self.push_to_line(&sanitize_for_terminal("\r"));
        }
        if !matches!(self.line, Line::Begins) || !self.pending.is_empty() {
            self.end_line(true);
        }
        self.end_table();
        self.rows.take()
    }

    /// Takes text that was shown. What follows begins on a new row.
    pub fn resume(&mut self, shown: &str) {
        self.push(shown, usize::MAX);
        self.show(true);
        self.underline.iter_mut().for_each(|underline| _ = underline.end_line(false));
        self.end_table();
        self.rows.forget();
    }

    fn end_table(&mut self) {
        if !self.table.is_empty() {
            let (has_colors, underline) = (self.rows.has_colors(), &self.underline);
            self.table.end(&mut self.rows, &|style, text| {
                let runs = spans(text, style, has_colors);
                match underline {
                    Some(underline) => underline.cell(runs),
                    None => runs,
                }
            });
        }
    }

    fn push_to_line(&mut self, text: &str) {
        self.pending += text;
        self.show(false);
    }

    fn end_line(&mut self, is_last: bool) {
        self.show(true);
        if let Some(underline) = &mut self.underline {
            for (style, text) in underline.end_line(is_last) {
                self.rows.push(style, &text);
            }
        }
        match std::mem::replace(&mut self.line, Line::Begins) {
            Line::Row { first, others } => {
                let text = std::mem::take(&mut self.pending);
                self.table.push(&mut self.rows, text, first, others);
            }
            _ => self.rows.end_line(),
        }
        self.before = None;
        if let Some(block) = &mut self.block {
            block.colors.end_line();
        }
    }

    /// Shows as much as is known. `is_whole`: the line ends.
    fn show(&mut self, is_whole: bool) {
        if matches!(self.line, Line::Begins) {
            match self.block.take() {
                Some(block) => self.begin_code(block, is_whole),
                None => self.begin(is_whole),
            }
        }
        match self.line {
            // A row is shown with its table.
            Line::Begins | Line::Row { .. } => {}
            Line::Text(style) => self.show_text(style, is_whole),
            Line::Verbatim => {
                self.rows.write_verbatim(Style::PLAIN, &self.pending);
                self.pending.clear();
            }
            Line::Code => self.show_code(is_whole),
        }
    }

    fn show_text(&mut self, style: Style, is_whole: bool) {
        let mut rest = self.pending.as_str();
        while !rest.is_empty() {
            let Some((span, bytes)) = first_span(rest, self.before, is_whole) else { break };
            push_span(&mut self.rows, &mut self.underline, style, span);
            self.before = rest[..bytes].chars().next_back();
            rest = &rest[bytes..];
        }
        self.pending.drain(..self.pending.len() - rest.len());
    }

    fn show_code(&mut self, is_whole: bool) {
        let Some(block) = &mut self.block else { return };
        let mut rest = self.pending.as_str();
        while let Some((style, bytes)) = block.colors.first(rest, is_whole) {
            self.rows.write_verbatim(style, &rest[..bytes]);
            rest = &rest[bytes..];
        }
        self.pending.drain(..self.pending.len() - rest.len());
    }

    /// Begins a line of a code block, or ends the block.
    fn begin_code(&mut self, block: Block, is_whole: bool) {
        let line = without_quotes(&self.pending, block.quotes);
        let (is_end, may_be_end) = (block.fence.is_closed_by(line), block.fence.may_be_closed_by(line));
        if is_whole && is_end {
            self.rows.write_verbatim(Style::DIM, line.trim());
            self.pending.clear();
            self.line = Line::Verbatim;
            return;
        }
        if is_whole || !may_be_end {
            self.pending = block.fence.code(line).to_owned();
            self.line = Line::Code;
        }
        self.block = Some(block);
    }

    fn begin(&mut self, is_whole: bool) {
        let Some(Beginning { bytes, kind, first, others, quotes, is_list }) =
            beginning(&self.pending, is_whole, self.in_list)
        else {
            return;
        };
        self.before = self.pending[..bytes].chars().next_back().filter(|c| !c.is_whitespace());
        let rest = self.pending.split_off(bytes);
        let line = std::mem::replace(&mut self.pending, rest);
        let is_indented = line.starts_with([' ', '\t']);
        self.in_list = is_list || self.in_list && (is_indented || matches!(kind, Kind::Empty));
        if matches!(kind, Kind::Table) {
            self.line = Line::Row { first, others };
            return;
        }
        self.end_table();
        if !matches!(kind, Kind::Empty) {
            self.rows.begin_line(&first, others);
        }
        self.line = match kind {
            Kind::Empty => Line::Begins,
            Kind::Text => Line::Text(Style::PLAIN),
            Kind::Heading => {
                self.underline.iter_mut().for_each(Underline::begin_heading);
                Line::Text(Style::BOLD)
            }
            Kind::Verbatim | Kind::Table => Line::Verbatim,
            Kind::Rule => {
                self.rows.push(Style::DIM, &"─".repeat(RULE));
                Line::Verbatim
            }
            Kind::Fence(fence) => {
                self.rows.write_verbatim(Style::DIM, self.pending.trim_end());
                self.pending.clear();
                let colors = Colors::new(&fence.language);
                self.block = Some(Block { fence, quotes, colors });
                Line::Verbatim
            }
        };
    }
}

/// Adds a span and those in it.
fn push_span(rows: &mut TextRows, underline: &mut Option<Underline>, style: Style, span: Span) {
    let mut runs = Vec::new();
    add_span(&mut runs, style, span, rows.has_colors());
    if let Some(underline) = underline {
        runs = runs.into_iter().flat_map(|run| underline.push(run)).collect();
    }
    runs.iter().for_each(|(style, text)| rows.push(*style, text));
}

/// The spans of a whole text.
fn spans(text: &str, style: Style, has_colors: bool) -> Vec<Run> {
    let mut runs = Vec::new();
    add_spans(&mut runs, style, text, has_colors);
    runs
}

fn add_span(runs: &mut Vec<Run>, style: Style, span: Span, has_colors: bool) {
    match span {
        Span::Text(text) => runs.push((style, text.to_owned())),
        // Without colours the backquotes mark it.
        Span::Code(code) if !has_colors => runs.push((style, format!("`{code}`"))),
        Span::Code(code) => runs.push((Style { color: CODE.color, ..style }, code.to_owned())),
        Span::Emphasis { bold, italic, inner } => {
            let style = Style { bold: style.bold || bold, italic: style.italic || italic, ..style };
            add_spans(runs, style, inner, has_colors);
        }
        Span::Link { text, url } => {
            add_spans(runs, style, text, has_colors);
            if text != url {
                runs.push((Style { dim: true, ..style }, format!(" ({url})")));
            }
        }
    }
}

fn add_spans(runs: &mut Vec<Run>, style: Style, mut text: &str, has_colors: bool) {
    let mut before = None;
    while !text.is_empty() {
        let Some((span, bytes)) = first_span(text, before, true) else { return };
        add_span(runs, style, span, has_colors);
        before = text[..bytes].chars().next_back();
        text = &text[bytes..];
    }
}

/// How a line begins. `None` if that depends on text that is not there yet, which is never so if the line `is_whole`.
fn beginning(line: &str, is_whole: bool, in_list: bool) -> Option<Beginning> {
    let (mut first, mut others) = (Vec::new(), Vec::new());
    let (mut at, mut columns, mut quotes, mut is_list) = (0, 0, 0, false);
    for depth in 0.. {
        let rest = &line[at..];
        let text = rest.trim_start_matches([' ', '\t']);
        let indent: usize =
            rest[..rest.len() - text.len()].bytes().map(|b| if b == b'\t' { 4 } else { 1 }).sum();
        if text.is_empty() && !is_whole {
            return None;
        }
        let end =
            |kind, at, first, others| Some(Beginning { bytes: at, kind, first, others, quotes, is_list });
        if text.is_empty() {
            let kind = if first.is_empty() { Kind::Empty } else { Kind::Verbatim };
            return end(kind, line.len(), first, others);
        }
        if indent >= CODE_INDENT && !in_list && !is_list {
            return end(Kind::Verbatim, at, first, others);
        }
        at = line.len() - text.len();
        columns += indent;
        push_spaces(&mut first, indent);
        push_spaces(&mut others, indent);
        let kind = match marker(text, is_whole)? {
            Marker::Quote(_) | Marker::Item(_) if depth >= MAX_DEPTH => Kind::Text,
            Marker::Quote(bytes) => {
                at += bytes;
                quotes += 1;
                first.push((Style::DIM, BAR.to_owned()));
                others.push((Style::DIM, BAR.to_owned()));
                continue;
            }
            Marker::Item(bytes) => {
                is_list = true;
                first.push((Style::PLAIN, text[..bytes].to_owned()));
                push_spaces(&mut others, bytes);
                at += bytes;
                columns += bytes;
                continue;
            }
            Marker::Heading(bytes) => {
                at += bytes;
                Kind::Heading
            }
            Marker::Rule => {
                at = line.len();
                Kind::Rule
            }
            Marker::Fence => match Fence::open(text, columns) {
                Some(fence) => Kind::Fence(fence),
                None => Kind::Text,
            },
            Marker::Table => Kind::Table,
            Marker::None => Kind::Text,
        };
        return end(kind, at, first, others);
    }
    None
}

fn push_spaces(runs: &mut Vec<(Style, String)>, count: usize) {
    if count > 0 {
        runs.push((Style::PLAIN, " ".repeat(count)));
    }
}

/// What a line begins with, behind its indentation, with its bytes.
enum Marker {
    Quote(usize),
    Item(usize),
    Heading(usize),
    Rule,
    /// Probably a code block.
    Fence,
    Table,
    None,
}

/// `None` if that depends on text that is not there yet. `text` begins with no space.
fn marker(text: &str, is_whole: bool) -> Option<Marker> {
    let first = text.chars().next()?;
    let run = text.chars().take_while(|c| *c == first).count();
    let next = text[run * first.len_utf8()..].chars().next();
    if !is_whole && next.is_none() && "#>-*+_`~".contains(first) {
        return None;
    }
    Some(match first {
        '>' => Marker::Quote(if text[1..].starts_with(' ') { 2 } else { 1 }),
        '|' => Marker::Table,
        '#' if run <= 6 && next == Some(' ') => Marker::Heading(run + 1),
        '`' | '~' if run >= 3 => match is_whole {
            true => Marker::Fence,
            false => return None,
        },
        '-' | '*' | '_' if text.chars().all(|c| c == first || c == ' ') => {
            let is_rule = text.chars().filter(|c| *c == first).count() >= 3;
            match is_rule {
                _ if !is_whole => return None,
                true => Marker::Rule,
                false => Marker::None,
            }
        }
        '-' | '*' | '+' if run == 1 && next == Some(' ') => Marker::Item(2),
        '0'..='9' => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let mut behind = text[digits..].chars();
            match (behind.next(), behind.next()) {
                _ if digits > 9 => Marker::None,
                (Some('.' | ')'), Some(' ')) => Marker::Item(digits + 2),
                (None, _) | (Some('.' | ')'), None) if !is_whole => return None,
                _ => Marker::None,
            }
        }
        _ => Marker::None,
    })
}

/// A line without the marks of so many quotes.
fn without_quotes(mut line: &str, quotes: usize) -> &str {
    for _ in 0..quotes {
        match line.trim_start_matches(' ').strip_prefix('>') {
            Some(rest) => line = rest.strip_prefix(' ').unwrap_or(rest),
            None => return line,
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use models::random::Random;

    use super::*;

    /// What is written for a text in pieces.
    fn write<'a>(pieces: impl IntoIterator<Item = &'a str>, columns: usize, colors: bool) -> String {
        let mut markdown = Markdown::new(colors);
        let shown: String = pieces.into_iter().map(|piece| markdown.push(piece, columns)).collect();
        shown + &markdown.finish(columns)
    }

    /// The same without control sequences.
    fn plain(text: &str, columns: usize) -> String {
        let written = write([text], columns, true);
        let mut parts = written.split("\x1b[");
        let first = parts.next().unwrap_or_default().to_owned();
        first + &parts.map(|part| part.split_once('m').expect("a colour").1).collect::<String>()
    }

    /// `b[…]` bold, `i[…]` italic, `d[…]` dim, `c[…]` cyan, `k[…]` a keyword.
    fn styled(text: &str) -> String {
        let mut out = write([text], 80, true);
        for (sequence, name) in [
            ("\x1b[0m", "]"),
            ("\x1b[0;1m", "b["),
            ("\x1b[0;3m", "i["),
            ("\x1b[0;1;3m", "bi["),
            ("\x1b[0;2m", "d["),
            ("\x1b[0;36m", "c["),
            ("\x1b[0;1;36m", "bc["),
            ("\x1b[0;35m", "k["),
        ] {
            out = out.replace(sequence, name);
        }
        assert!(!out.contains('\x1b'), "{out}");
        out
    }

    const SAMPLE: &str = "# A *heading* with `code`\n\nSome **bold text, which is long** and snake_case, 2*3*4 and a lone * \
        star.\r\n- first item of a list, which is longer than a row\n  - nested **item** [link](https://a.b/c)\n10) x\n\
        > quoted *text* of some length to wrap\n> > deeper\n\n```rust\nfn main() { // comment\n    let s = \"a\\\"b\"; \n\n\
        }\n```\n1. item\n   ```py\n   x = '''a\n   b'''\n   ```\n---\n| a | **b** |\n|---|---|\n\n    indented *code*\n\
        中文字符很多很多很多很多**重点**内容。\x1b[31mred\x07 😀 e\u{301}\n> ```\n> quoted code\n> ```\n***\n\
        unclosed **bold and `code";

    /// The rows of a terminal and their colours.
    #[cfg(unix)]
    fn screen(written: &str, columns: u16) -> String {
        let size = |size| std::num::NonZeroU16::new(size).expect("a size");
        let mut parser = vt100::Parser::new(size(300), size(columns), 0);
        parser.process(written.replace('\n', "\r\n").as_bytes());
        parser.screen().contents_formatted()
    }

    #[cfg(unix)]
    #[test]
    fn the_screen_does_not_depend_on_the_pieces() {
        let mut random = Random(1);
        let alphabet: Vec<char> = "ab *_`#->|~[]()\\\n\n 1.中\"/'\r".chars().collect();
        let mut texts = vec![SAMPLE.to_owned()];
        texts.extend((0..600).map(|_| {
            let opening = ["", "```rs\n", "- ", "> "][random.below(4)];
            let length = random.below(60);
            opening.to_owned()
                + &(0..length).map(|_| alphabet[random.below(alphabet.len())]).collect::<String>()
        }));
        for text in &texts {
            for width in [7, 40, 80] {
                let mut rest = text.as_str();
                let mut pieces = Vec::new();
                while !rest.is_empty() {
                    let at = rest.char_indices().nth(1 + random.below(5)).map_or(rest.len(), |(at, _)| at);
                    pieces.push(&rest[..at]);
                    rest = &rest[at..];
                }
                let columns = usize::from(width);
                let whole = screen(&write([text.as_str()], columns, true), width);
                let shown = screen(&write(pieces.iter().copied(), columns, true), width);
                assert!(shown == whole, "{columns} columns: {pieces:?}");
            }
        }
    }

    #[test]
    fn rows_end_before_the_terminal_does_and_keep_their_indentation() {
        let text = "Some **bold text** in a `paragraph` that is wrapped. ".repeat(5);
        for (before, others) in
            [("", ""), ("- ", "  "), ("12. ", "    "), ("> ", BAR), ("  * ", "    "), ("> - ", "│   ")]
        {
            for columns in [20, 40, 77] {
                let shown = plain(&format!("{before}{text}"), columns);
                for row in shown.lines() {
                    assert!(row.chars().count() <= columns && row.trim_end().len() == row.len(), "{row:?}");
                }
                for row in shown.lines().skip(1) {
                    let rest = row.strip_prefix(others).unwrap_or_else(|| panic!("{row:?}"));
                    assert!(!rest.starts_with(' '), "{row:?}");
                }
                let words = |text: &str| text.replace([' ', '\n', '*', '`', '│', '>'], "");
                assert_eq!(words(&shown), words(&format!("{before}{text}")));
            }
        }
        assert_eq!(plain("aaa bbbb", 8), "aaa bbbb\n");
        assert_eq!(plain("aaaa bbbb", 8), "aaaa\nbbbb\n");
        assert_eq!(plain("a 中文中文", 7), "a 中文\n中文\n");
        let url = "https://example.org/a/very/long/path/that/must/be/copied";
        assert_eq!(plain(&format!("see {url} here"), 20), format!("see\n{url}\nhere\n"));
    }

    #[test]
    fn long_lines_and_deep_nesting_take_little_time_and_space() {
        for text in ["> ".repeat(20_000), ">".repeat(20_000), "- ".repeat(20_000) + "x", "*".repeat(50_001)] {
            let shown = plain(&format!("{text} a b c d"), 20);
            assert!(shown.len() < 8 * text.len(), "{} bytes of {}", shown.len(), text.len());
        }
        // Neither does a line that is there at once: a megabyte of spans, of unclosed marks, of code.
        for part in ["**a** ", "*a ", "`a ", "[a ", "let a = 1; "] {
            let text = part.repeat((1 << 20) / part.len());
            assert!(!plain(&text, 80).is_empty() && !plain(&format!("```rust\n{text}"), 80).is_empty());
        }
    }

    #[test]
    fn code_is_copied_as_it_was_written() {
        let code = "fn a() {\n    let x = \"**\" * 2;   \n\n\tb # - > 1. ` ~~~\n}  // 中文 _a_ \n";
        for language in ["rust", "python", "", "c", "unknown"] {
            let block = format!("```{language}\n{code}```\n");
            assert_eq!(plain(&block, 12), block);
        }
        // In lists and quotes, too.
        let indented: String = code.lines().map(|line| format!("   {line}\n")).collect();
        assert_eq!(plain(&format!("1. ```\n{indented}   ```\n"), 80), format!("1. ```\n{code}```\n"));
        let quoted: String = code.lines().map(|line| format!("> {line}\n")).collect();
        assert_eq!(plain(&format!("> ```\n{quoted}> ```\n"), 80), format!("│ ```\n{code}```\n"));
        let open = "```\na *b* ";
        assert_eq!(plain(open, 5), format!("{open}\n"));
    }

    #[test]
    fn blocks_and_spans_have_styles() {
        for (text, expected) in [
            ("# A `b`.", "b[A]b[ bc[bb[.]\n"),
            ("a **b** *c* `d` ***e***", "a b[b] i[c] c[d] bi[e]\n"),
            ("[a](b)", "ad[ (b)]\n"),
            ("<https://a.b>", "<https://a.b>\n"),
            ("- a\n- **b**", "- a\n- b[b]\n"),
            ("> a", "d[│ ]a\n"),
            ("```js\nlet a\n```", "d[```js]\nk[let] a\nd[```]\n"),
            ("a\n\nb", "a\n\nb\n"),
            ("a\n", "a\n"),
            ("#a\n#\n-\n1.\n1.5\n+", "#a\n#\n-\n1.\n1.5\n+\n"),
            ("| *a* |", "| *a* |\n"),
            ("    *a*", "    *a*\n"),
            ("- a\n    *b*", "- a\n    i[b]\n"),
            ("**a", "**a\n"),
        ] {
            assert_eq!(styled(text), expected, "{text}");
        }
        assert!(styled("***").starts_with("d[───"));
        assert_eq!(write(["# a `b`\n"], 80, false), "\x1b[0;1ma `b`\x1b[0m\n");
    }

    const TABLE: &str =
        "| Name | Paid | When |\n|:--|--:|:-:|\n| **Anna** | 5 | `May` |\n| 中文 | 1200 | x\\|y |\n";

    #[test]
    fn columns_of_tables_line_up() {
        assert_eq!(
            plain(TABLE, 80),
            "| Name | Paid | When |\n| ---- | ---: | :--: |\n| Anna |    5 | May  |\n| 中文 | 1200 | x|y  |\n"
        );
        // Rows of any length, a quote and a list before it, and text behind it.
        let odd = "> - | a |\n>   |---|\n>   | b | long cell |\n>\n> end";
        assert_eq!(
            plain(odd, 80),
            "│ - | a   |           |\n│   | --- | --------- |\n│   | b   | long cell |\n│ \n│ end\n"
        );
        // It is shown when it ends.
        let mut markdown = Markdown::new(true);
        assert_eq!(markdown.push("| a | b |\n|--|--|\n| 1 | 2", 80), "");
        assert_eq!(markdown.push(" |\n", 80), "");
        assert_ne!(markdown.push("x", 80), "");
        // These are none.
        for text in ["| a |\n", "| a |\n| b |\n", "|a|\n\n|---|\n", "a | b\n", "|\n|\n", "| a |\n|:|\n"] {
            assert_eq!(plain(text, 80), text);
        }
    }

    /// One long row would give all others as many cells.
    #[test]
    fn a_table_of_too_many_cells_is_shown_as_it_is() {
        let text = format!("| a | b |\n|---|---|\n{}\n{}", "|".repeat(1000), "| c | d |\n".repeat(150));
        assert_eq!(plain(&text, 80), text);
        let few = format!("| a | b |\n|---|---|\n{}", "| c | d |\n".repeat(150));
        assert!(plain(&few, 80).contains("\n| --- | --- |\n"));
    }

    #[test]
    fn tables_fit_the_terminal() {
        let cell = "several words in a cell that is too long for a narrow terminal";
        let table =
            format!("| Item | Description |\n|---|---|\n| one | {cell} |\n| two | {cell}<br>more |\n");
        for columns in [24, 40, 60, 79] {
            let shown = plain(&table, columns);
            assert!(
                shown.lines().all(|row| row.starts_with('|') && row.chars().count() <= columns),
                "{shown}"
            );
            let ends: Vec<Vec<usize>> =
                shown.lines().map(|row| row.match_indices('|').map(|(at, _)| at).collect()).collect();
            assert!(ends.iter().all(|row| *row == ends[0]), "{shown}");
            // No word is broken.
            cell.split(' ')
                .for_each(|word| assert!(shown.split([' ', '\n']).any(|w| w == word), "{word}: {shown}"));
            assert!(shown.lines().any(|row| row.contains("| more ")), "{shown}");
        }
        // The words do not fit: each row becomes a list.
        assert_eq!(
            plain("| Item | Price |\n|--|--|\n| lamp | 20 |\n| chair | 35 |\n", 12),
            "Item: lamp\nPrice: 20\n\nItem: chair\nPrice: 35\n"
        );
        let wide = format!(
            "|{0}|\n|{1}|\n|{0}|\n",
            " a |".repeat(60).trim_end_matches('|'),
            "-|".repeat(60).trim_end_matches('|')
        );
        assert!(plain(&wide, 80).lines().all(|row| row.chars().count() <= 80), "{}", plain(&wide, 80));
        // Nothing is lost.
        for columns in [1, 2, 12, 80] {
            let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            let (shown, cells) = (letters(&plain(&table, columns)), letters(&table.replace("<br>", "")));
            assert!(shown.len() >= cells.len() - 15, "{columns}: {shown}");
        }
    }

    #[test]
    fn a_word_is_shown_when_it_is_complete_and_a_piece_ends_without_a_style() {
        let mut markdown = Markdown::new(true);
        for (piece, shown) in [
            ("Some wor", "Some"),
            ("ds ar", " words"),
            ("e **bo", " are"),
            ("ld** x", " \x1b[0;1mbold\x1b[0m"),
            ("\n```\nfn a", " x\n\x1b[0;2m```\x1b[0m\nfn a"),
        ] {
            assert_eq!(markdown.push(piece, 80), shown, "{piece}");
        }
        assert_eq!(markdown.finish(80), "\n");
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        let text = "\x1b]0;x\x07 \u{9b}31m `\x1b[2J` \n```\n\x1b[2J\rx\r\ny\r";
        let written = write([text], 80, true);
        let sequences = ["\x1b[0m", "\x1b[0;2m", "\x1b[0;36m"];
        let rest = sequences.iter().fold(written, |text, sequence| text.replace(sequence, ""));
        assert_eq!(rest, "␛]0;x␇ <U+009B>31m ␛[2J\n```\n␛[2J␍x\ny␍\n");
    }

    #[test]
    fn a_text_that_was_shown_goes_on_in_its_block() {
        let resumed = |before: &str, more: &str| {
            let mut markdown = Markdown::new(true);
            markdown.resume(before);
            markdown.push(more, 10) + &markdown.finish(10)
        };
        assert_eq!(resumed("Some long text is", " cut **off** here"), "cut \x1b[0;1moff\x1b[0m\nhere\n");
        assert_eq!(resumed("```rs\nlet a", " = 1;"), " = \x1b[0;33m1\x1b[0m;\n");
        assert_eq!(resumed("- a\n", "  b"), "  b\n");
        assert_eq!(resumed("**bo", "ld**"), "ld**\n");
    }

    #[test]
    fn a_new_width_is_obeyed_at_once() {
        let mut markdown = Markdown::new(false);
        let shown = markdown.push("aaaa bbbb ", 9) + &markdown.push("cccc dddd eeee ffff ", 14);
        assert_eq!(shown + &markdown.finish(14), "aaaa bbbb cccc\ndddd eeee ffff\n");
    }
}
