//! Tables as aligned text, Markdown or CSV.

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

    /// Like [`plain`](Self::plain), with the first column cut such that no line is longer than `width`.
    pub fn fitted(&self, width: usize) -> String {
        let widths = self.widths();
        let line = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let cut = line.saturating_sub(width);
        let mut table =
            Table { headers: self.headers.clone(), right: self.right.clone(), rows: self.rows.clone() };
        let most = widths.first().map_or(0, |first| first.saturating_sub(cut)).max(8);
        for cell in table.rows.iter_mut().filter_map(|row| row.first_mut()) {
            if cell.chars().count() > most {
                *cell = cell.chars().take(most - 1).chain(['…']).collect();
            }
        }
        table.plain()
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
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(self.headers[column].chars().count())
        };
        (0..self.headers.len()).map(widest).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize], separator: &str) -> String {
        let cells: Vec<String> = cells
            .iter()
            .zip(widths)
            .zip(&self.right)
            .map(|((cell, width), right)| {
                let space = " ".repeat(width.saturating_sub(cell.chars().count()));
                if *right { format!("{space}{cell}") } else { format!("{cell}{space}") }
            })
            .collect();
        let line = cells.join(separator);
        // In Markdown, spaces at the end align the last `|`.
        let line = if separator.trim().is_empty() { line.trim_end() } else { &line };
        format!("{line}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_column_gives_way() {
        let mut table = Table::new(["policy", ">KV"]);
        table.row(["razor:buffer=4000", "12"]);
        table.row(["full", "100"]);
        assert_eq!(table.fitted(80), table.plain());
        assert!(table.fitted(15).contains("razor:buf…   12"), "{}", table.fitted(15));
        assert!(table.fitted(15).lines().all(|line| line.chars().count() <= 15));
        assert!(table.fitted(0).contains("razor:b…"), "{}", table.fitted(0));
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
