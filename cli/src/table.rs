//! Tables as aligned text, Markdown or CSV.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Columns are not made narrower than this, nor than their header.
const MIN_COLUMN: usize = 8;

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

    /// Like [`plain`](Self::plain), in lines of at most `width` columns: cells of the widest columns are wrapped at words,
    /// and in long words behind a `/`, `-`, `,` or `:`.
    pub fn fitted(&self, width: usize) -> String {
        let natural = self.widths();
        let gaps = 2 * natural.len().saturating_sub(1);
        let mut widths = natural.clone();
        let min = |column: usize| self.headers[column].width().max(MIN_COLUMN);
        while widths.iter().sum::<usize>() + gaps > width {
            let shrinkable = (0..widths.len()).filter(|column| widths[*column] > min(*column));
            let Some(widest) = shrinkable.max_by_key(|column| widths[*column]) else { break };
            widths[widest] -= 1;
        }
        if widths == natural {
            return self.plain();
        }
        let mut wrapped = Table { headers: Vec::new(), right: self.right.clone(), rows: Vec::new() };
        for row in [&self.headers].into_iter().chain(&self.rows) {
            let cells: Vec<Vec<String>> =
                row.iter().zip(&widths).map(|(cell, width)| wrapped_cell(cell, *width)).collect();
            let lines = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..lines {
                wrapped
                    .rows
                    .push(cells.iter().map(|cell| cell.get(line).cloned().unwrap_or_default()).collect());
            }
            if wrapped.headers.is_empty() {
                let rule = widths.iter().map(|width| "-".repeat(*width)).collect();
                wrapped.headers = vec![String::new(); widths.len()];
                wrapped.rows.push(rule);
            }
        }
        wrapped.rows.iter().map(|row| wrapped.line(row, &widths, "  ")).collect()
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
        assert!(narrow.lines().all(|line| line.chars().count() <= MIN_COLUMN + 2 + 3), "{narrow}");
        assert_eq!(
            [wrapped_cell("a b  cde", 3), wrapped_cell("abcdefgh", 3), wrapped_cell("", 3)],
            [vec!["a b", "cde"], vec!["abc", "def", "gh"], vec![""]]
        );
        assert_eq!(wrapped_cell("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(wrapped_cell("owner/repo-GGUF/file.gguf", 16), ["owner/repo-GGUF/", "file.gguf"]);
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
