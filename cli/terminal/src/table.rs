//! Tables as aligned text, Markdown or CSV.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

/// A table of texts.
#[derive(Debug, Default)]
pub struct Table {
    headers: Vec<String>,
    /// Whether each column is aligned to the right.
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns. A `>` before a name aligns the column to the right.
    pub fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Table {
        let (right, headers) = columns
            .into_iter()
            .map(|name| match name.strip_prefix('>') {
                Some(name) => (true, name.to_owned()),
                None => (false, name.to_owned()),
            })
            .unzip();
        Table { headers, right, rows: Vec::new() }
    }

    /// Appends a row; missing cells are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.headers.len(), String::new());
        self.rows.push(cells);
    }

    /// Columns aligned with spaces, and a line under the headers.
    pub fn plain(&self) -> String {
        let widths = self.widths();
        let mut out = self.line(&self.headers, &widths, "  ");
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        out += &self.line(&rule, &widths, "  ");
        for row in &self.rows {
            out += &self.line(row, &widths, "  ");
        }
        out
    }

    /// Like [`plain`](Self::plain), in lines of at most `width` columns where that is possible. Cells that are aligned to
    /// the left are broken between words, into several lines, and in long words behind a `/`, `-`, `,`, `:` or `=`. Nothing
    /// of them is left out.
    pub fn fitted(&self, width: usize) -> String {
        /// A column is not made narrower than that.
        const NARROW: usize = 8;
        const SEPARATOR: &str = "  ";
        let natural = self.widths();
        let room = width.saturating_sub(SEPARATOR.len() * natural.len().saturating_sub(1));
        if natural.iter().sum::<usize>() <= room {
            return self.plain();
        }
        let longest_word = |column: usize| {
            let cells = self.rows.iter().map(|row| &row[column]).chain([&self.headers[column]]);
            cells.flat_map(|cell| cell.split_whitespace()).map(UnicodeWidthStr::width).max().unwrap_or(0)
        };
        let least = |most: usize| -> Vec<usize> {
            let of = |column: usize| match self.right[column] {
                true => natural[column],
                false => longest_word(column).min(most),
            };
            (0..natural.len()).map(of).collect()
        };
        let widths = column_widths(&natural, &least(usize::MAX), room)
            .or_else(|| column_widths(&natural, &least(NARROW), room))
            .unwrap_or_else(|| least(NARROW));
        let mut out = self.broken(&self.headers, &widths, SEPARATOR);
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        out += &self.line(&rule, &widths, SEPARATOR);
        for row in &self.rows {
            out += &self.broken(row, &widths, SEPARATOR);
        }
        out
    }

    /// A row in as many lines as its cells need.
    fn broken(&self, cells: &[String], widths: &[usize], separator: &str) -> String {
        let parts: Vec<Vec<String>> =
            cells.iter().zip(widths).map(|(cell, width)| wrapped_cell(cell, *width)).collect();
        let lines = parts.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let line = |number: usize| -> Vec<String> {
            parts.iter().map(|part| part.get(number).cloned().unwrap_or_default()).collect()
        };
        (0..lines).map(|number| self.line(&line(number), widths, separator)).collect()
    }

    /// A Markdown table. Its source is aligned too.
    pub fn markdown(&self) -> String {
        let escaped = Table {
            headers: self.headers.iter().map(|cell| cell.replace('|', "\\|")).collect(),
            right: self.right.clone(),
            rows: self
                .rows
                .iter()
                .map(|row| row.iter().map(|cell| cell.replace('|', "\\|")).collect())
                .collect(),
        };
        let widths: Vec<usize> = escaped.widths().into_iter().map(|width| width.max(3)).collect();
        let framed = |cells: &[String]| {
            format!("| {} |\n", escaped.line(cells, &widths, " | ").trim_end_matches('\n'))
        };
        let mut out = framed(&escaped.headers);
        let rule: Vec<String> = widths
            .iter()
            .zip(&escaped.right)
            .map(
                |(width, right)| {
                    if *right { format!("{}:", "-".repeat(width - 1)) } else { "-".repeat(*width) }
                },
            )
            .collect();
        out += &framed(&rule);
        for row in &escaped.rows {
            out += &framed(row);
        }
        out
    }

    /// Comma-separated values with every cell quoted.
    pub fn csv(&self) -> String {
        let line = |cells: &[String]| {
            let quoted: Vec<String> =
                cells.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
            quoted.join(",") + "\n"
        };
        line(&self.headers) + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].width());
            cells.max().unwrap_or(0).max(self.headers[column].width())
        };
        (0..self.headers.len()).map(widest).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize], separator: &str) -> String {
        let cells: Vec<String> = cells
            .iter()
            .zip(widths)
            .zip(&self.right)
            .map(|((cell, width), right)| {
                let space = " ".repeat(width.saturating_sub(cell.width()));
                if *right { format!("{space}{cell}") } else { format!("{cell}{space}") }
            })
            .collect();
        let line = cells.join(separator);
        // In Markdown, spaces at the end align the last `|`.
        let line = if separator.trim().is_empty() { line.trim_end() } else { &line };
        format!("{line}\n")
    }
}

/// Widths of columns that together have at most `columns`, each at most as wide as its widest cell (`natural`) and at
/// least so wide (`least`), as its longest word for example. `None` where that is too much.
pub fn column_widths(natural: &[usize], least: &[usize], columns: usize) -> Option<Vec<usize>> {
    let at_most = |limit: usize| -> Vec<usize> {
        natural.iter().zip(least).map(|(natural, least)| limit.clamp(*least, *natural.max(least))).collect()
    };
    let fits = |limit: usize| at_most(limit).iter().sum::<usize>() <= columns;
    let widest = natural.iter().copied().max().unwrap_or(0);
    if fits(widest) {
        return Some(natural.to_vec());
    }
    if !fits(0) {
        return None;
    }
    let (mut low, mut high) = (0, widest);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    // One more for the first columns that are still too narrow.
    let mut widths = at_most(low);
    let mut left = columns - widths.iter().sum::<usize>();
    for (width, natural) in widths.iter_mut().zip(natural) {
        if left > 0 && *width == low && *width < *natural {
            (*width, left) = (*width + 1, left - 1);
        }
    }
    Some(widths)
}

/// The lines of a cell, of at most `width` columns. Nothing is left out but white space between words.
fn wrapped_cell(cell: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    let pieces = cell.split_whitespace().flat_map(|word| {
        let parts = word.split_inclusive(['/', '-', ',', ':', '=']);
        parts.enumerate().map(|(number, part)| (number == 0, part))
    });
    for (begins_word, piece) in pieces {
        let gap = if begins_word && !line.is_empty() { " " } else { "" };
        if !line.is_empty() && line.width() + gap.len() + piece.width() > width {
            lines.push(std::mem::take(&mut line));
        } else {
            line += gap;
        }
        for c in piece.chars() {
            if !line.is_empty() && line.width() + c.width().unwrap_or(0) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_columns_are_wrapped() {
        let mut table = Table::new(["policy", ">KV"]);
        table.row(["razor:buffer=4000", "12"]);
        table.row(["full", "100"]);
        assert_eq!(table.fitted(80), table.plain());
        assert_eq!(table.fitted(usize::MAX), table.plain());
        let expected =
            "policy         KV\n------------  ---\nrazor:         12\nbuffer=4000\nfull          100\n";
        assert_eq!(table.fitted(17), expected);
        // Nothing is lost, however narrow the terminal is.
        let narrow = table.fitted(0);
        assert!(narrow.lines().all(|line| line.chars().count() <= 8 + 2 + 3), "{narrow}");
        assert_eq!(
            [wrapped_cell("a b  cde", 3), wrapped_cell("abcdefgh", 3), wrapped_cell("", 3)],
            [vec!["a b", "cde"], vec!["abc", "def", "gh"], vec![""]]
        );
        assert_eq!(wrapped_cell("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(wrapped_cell("owner/repo-GGUF/file.gguf", 16), ["owner/repo-GGUF/", "file.gguf"]);
    }

    #[test]
    fn cells_are_broken_between_words() {
        let mut table = Table::new(["name", "what it is for", ">size"]);
        table.row(["alpha", "the first of several letters", "12"]);
        table.row(["日本語", "short", "3"]);
        assert_eq!(
            table.fitted(28),
            "name    what it is for  size\n------  --------------  ----\n\
             alpha   the first of      12\n        several\n        letters\n日本語  short              3\n"
        );
        for width in 24..60 {
            let shown = table.fitted(width);
            assert!(shown.lines().all(|line| line.width() <= width), "{width}:\n{shown}");
            for word in ["first", "several", "letters", "what"] {
                assert!(shown.split_whitespace().any(|found| found == word), "{width}: {word}:\n{shown}");
            }
        }
    }

    #[test]
    fn three_forms_of_one_table() {
        let mut table = Table::new(["policy", ">KV"]);
        table.row(["full", "12"]);
        table.row(["a|\"b\""]);
        assert_eq!(table.plain(), "policy  KV\n------  --\nfull    12\na|\"b\"\n");
        assert_eq!(
            table.markdown(),
            "| policy |  KV |\n| ------ | --: |\n| full   |  12 |\n| a\\|\"b\" |     |\n"
        );
        assert_eq!(table.csv(), "\"policy\",\"KV\"\n\"full\",\"12\"\n\"a|\"\"b\"\"\",\"\"\n");
    }
}
