//! A sheet: its cells, which of them are merged, and what is not shown.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::areas::{AreaPart, Merged, Shown};
use super::drawn::{Control, Drawn};
use super::looks::Looks;
use super::{Book, RichText, Text, headers, threads, unescaped};
use crate::Problem;
use crate::color::Color;
use crate::counts::Counts;
use crate::office::drawings::Drawings;
use crate::office::page_texts::PageTexts;
use crate::office::relations::Relations;
use crate::office::sight::Sight;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::writer::symbols::{EMPTY, TICKED};
use crate::writer::{STRUCK, Span, Writer};

/// Columns and rows of a sheet.
const MAX_COLUMNS: usize = 16_384;
const MAX_ROWS: usize = 1_048_576;
/// Merged areas that are used.
const MAX_MERGED: usize = 100_000;

/// A row, from 0 on, and a column.
pub(super) type CellPlace = (usize, usize);

/// What a sheet shows.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    rows: BTreeMap<usize, Vec<(usize, String)>>,
    /// Merged areas: their first and last places.
    merged: BTreeMap<CellPlace, CellPlace>,
    /// First and last ones.
    hidden_rows: Vec<(usize, usize)>,
    hidden_columns: Vec<(usize, usize)>,
    /// The last places of cells that reach over several, by those where their text stands.
    wide: HashMap<CellPlace, CellPlace>,
    shown_rows: Shown,
    /// Headers and footers of its pages.
    page_texts: PageTexts,
    /// Remarks, with the names of their cells.
    comments: Vec<(String, String)>,
    /// Cells without a fill with white text, and what is left of them without it.
    white: HashMap<CellPlace, String>,
    drawn: Drawn,
}

/// The cell that is read.
#[derive(Debug, Default)]
struct Cell {
    place: CellPlace,
    kind: String,
    style: usize,
    value: String,
    rich: Option<Text>,
    formula: Option<String>,
}

impl Sheet {
    /// Reads a sheet.
    pub(super) fn read(archive: &mut Archive, part: &str, book: &mut Book) -> Result<Sheet, Problem> {
        let mut reader = Reader { sheet: Sheet::default(), ..Reader::default() };
        xml::read(part, &archive.text(part)?, |piece| {
            reader.piece(piece, book);
            Ok(())
        })?;
        let mut sheet = reader.sheet;
        let relations = Relations::of(archive, part)?;
        sheet.drawn.read_boxes(archive, &relations, reader.controls)?;
        let has_rules = reader.has_rules || relations.of_kind("pivotTable").is_some();
        sheet.leave_out_white(has_rules, &mut book.counts);
        for thread in relations.all("threadedComment") {
            if let Some(text) = archive.text_if_whole(&thread.target)? {
                sheet.comments.extend(threads::read(&text, &thread.target, &book.people));
            }
        }
        let with_threads = sheet.comments.iter().map(|(cell, _)| cell.clone()).collect();
        for comments in relations.all("comments") {
            let text = archive.text(&comments.target)?;
            sheet.comments(&text, &comments.target, &with_threads, &book.formats.looks)?;
        }
        for drawing in relations.all("drawing") {
            let drawn = Relations::of(archive, &drawing.target)?;
            let drawings = Drawings::of(archive, &drawn)?;
            let text = archive.text(&drawing.target)?;
            sheet.drawn.read(
                &text,
                &drawing.target,
                (&drawings, &book.formats.looks.scheme),
                &mut book.counts,
            );
        }
        sheet.leave_out(book);
        Ok(sheet)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.comments.is_empty() && self.drawn.is_empty()
    }

    /// Reads the remarks. For older programs, copies of threads stand here, with the advice to get a newer one.
    fn comments(
        &mut self,
        text: &str,
        part: &str,
        with_threads: &HashSet<String>,
        looks: &Looks,
    ) -> Result<(), Problem> {
        let (mut authors, mut cell, mut author) = (Vec::new(), String::new(), None);
        let (mut rich, mut in_author) = (RichText::default(), false);
        xml::read(part, text, |piece| {
            match piece {
                Piece::Start(element) if element.name == "author" => {
                    authors.push(String::new());
                    in_author = true;
                }
                Piece::Start(element) if element.name == "comment" => {
                    cell = element.attribute("ref").unwrap_or_default();
                    author = element.attribute("authorId").and_then(|id| id.parse::<usize>().ok());
                    rich = RichText::default();
                }
                Piece::End(name) if name == "author" => in_author = false,
                Piece::End(name) if name == "comment" => {
                    let author = author
                        .and_then(|author| authors.get(author))
                        .filter(|author| !author.trim().is_empty());
                    let is_of_thread = author.is_some_and(|author| author.starts_with(threads::AUTHOR));
                    let author =
                        author.map_or(String::new(), |author| format!("{} comments: ", author.trim()));
                    let text = author + &rich.take().text;
                    if !is_of_thread || !with_threads.contains(&cell) {
                        self.comments.push((cell.clone(), text));
                    }
                }
                Piece::Text(text) if in_author => {
                    if let Some(last) = authors.last_mut() {
                        last.push_str(&text);
                    }
                }
                piece => rich.piece(piece, looks),
            }
            Ok(())
        })
    }

    /// Takes out white text on white. Where rules colour cells of the sheet, nobody knows what is behind it.
    fn leave_out_white(&mut self, has_rules: bool, counts: &mut Counts) {
        let white = std::mem::take(&mut self.white);
        if has_rules {
            counts.white += white.len();
            return;
        }
        counts.hidden += white.len();
        for row in white.keys().map(|(row, _)| *row).collect::<HashSet<_>>() {
            for (column, text) in self.rows.get_mut(&row).into_iter().flatten() {
                if let Some(rest) = white.get(&(row, *column)) {
                    text.clone_from(rest);
                }
            }
        }
        self.rows.values_mut().for_each(|cells| cells.retain(|(_, text)| !text.is_empty()));
        self.rows.retain(|_, cells| !cells.is_empty());
    }

    /// Takes out what is hidden. The text of a merged area stands in the first place of it that is shown.
    fn leave_out(&mut self, book: &mut Book) {
        let rows = Shown::without(&self.hidden_rows, MAX_ROWS);
        let columns = Shown::without(&self.hidden_columns, MAX_COLUMNS);
        let mut merged = Merged::new(std::mem::take(&mut self.merged));
        let mut shown = BTreeMap::<usize, Vec<(usize, String)>>::new();
        let (mut with_text, mut covered) = (HashSet::new(), 0);
        for (row, cells) in std::mem::take(&mut self.rows) {
            for (column, text) in cells {
                let part = merged.part((row, column));
                let (at, last) = match part {
                    AreaPart::First(last) => ((rows.next(row), columns.next(column)), last),
                    AreaPart::Alone | AreaPart::Covered => ((row, column), (row, column)),
                };
                if rows.next(at.0) != at.0 || at.0 > last.0 {
                    with_text.insert((Some(row), None));
                } else if columns.next(at.1) != at.1 || at.1 > last.1 {
                    with_text.insert((None, Some(column)));
                } else if part == AreaPart::Covered {
                    covered += 1;
                } else {
                    shown.entry(at.0).or_default().push((at.1, text));
                    if part != AreaPart::Alone {
                        self.wide.insert(at, last);
                    }
                }
            }
        }
        book.counts.hidden += with_text.len() + covered;
        (self.rows, self.shown_rows) = (shown, rows);
    }

    /// Writes the sheet. Empty rows divide it into tables, hidden ones do not. Columns that are empty everywhere are left
    /// out.
    pub(super) fn write(self, writer: &mut Writer, max_bytes: u64) -> Result<(), Problem> {
        let used: HashSet<usize> = self.rows.values().flatten().map(|(column, _)| *column).collect();
        let mut columns: Vec<usize> = used.into_iter().collect();
        columns.sort_unstable();
        // The place of a column among those that are used.
        let place = |column: usize| columns.partition_point(|used| *used < column);
        let written = |writer: &mut Writer, name: &str, texts: &[String]| {
            for text in texts {
                writer.paragraph();
                writer.text(&format!("[page {name}] {text}"));
            }
            writer.paragraph();
        };
        written(writer, "header", &self.page_texts.headers);
        let rows: Vec<usize> = self.rows.keys().copied().collect();
        let mut last = None;
        for (i, (row, mut cells)) in self.rows.into_iter().enumerate() {
            if last.is_none_or(|last| row > self.shown_rows.next(last + 1)) {
                writer.end_tables();
                writer.begin_table();
            }
            // Below a merged cell of several rows the table goes on.
            last = last.max(Some(row));
            writer.row();
            cells.sort_by_key(|(column, _)| *column);
            let mut next = 0;
            for (column, text) in cells {
                let at = place(column);
                if at < next {
                    continue;
                }
                let end = self.wide.get(&(row, column)).copied().unwrap_or((row, column));
                // Only the rows and columns that are written count.
                let width = (place(end.1 + 1) - at).max(1);
                let height = rows.partition_point(|row| *row <= end.0) - i;
                writer.skip_to_column(at);
                writer.cell(Span::new(width, height));
                writer.text(&text);
                last = last.max(Some(end.0));
                next = at + width;
            }
            if writer.len() as u64 > max_bytes {
                return Err(Problem::TooLong { limit: max_bytes });
            }
        }
        writer.end_tables();
        self.drawn.write(writer);
        for (cell, comment) in self.comments {
            writer.paragraph();
            writer.text(&format!("[{cell}] {comment}"));
        }
        written(writer, "footer", &self.page_texts.footers);
        Ok(())
    }
}

#[derive(Default)]
struct Reader {
    sheet: Sheet,
    cell: Option<Cell>,
    /// The next row and column, where the file does not name them.
    row: usize,
    column: usize,
    in_value: bool,
    in_formula: bool,
    rich: Option<RichText>,
    /// Whether first pages, and even ones, have headers of their own.
    header_pages: [bool; 2],
    /// The code of the header or footer.
    header: Option<String>,
    /// Whether the sheet has rules or tables, which colour its cells.
    has_rules: bool,
    controls: Vec<Control>,
}

impl Reader {
    fn piece(&mut self, piece: Piece, book: &mut Book) {
        match piece {
            Piece::Start(element) => self.start(&element, &book.formats.looks),
            Piece::End(name) => match name.as_str() {
                "v" => self.in_value = false,
                "f" => self.in_formula = false,
                "is" => {
                    if let (Some(mut rich), Some(cell)) = (self.rich.take(), &mut self.cell) {
                        cell.rich = Some(rich.take());
                    }
                }
                "c" => self.end_cell(book),
                "row" => self.row += 1,
                name if name.ends_with("Header") || name.ends_with("Footer") => {
                    if let Some(code) = self.header.take() {
                        self.sheet.page_texts.add(headers::text(&code), name.ends_with("Footer"));
                    }
                }
                _ => self
                    .rich
                    .iter_mut()
                    .for_each(|rich| rich.piece(Piece::End(name.clone()), &book.formats.looks)),
            },
            Piece::Text(text) if self.header.is_some() => {
                self.header.iter_mut().for_each(|header| header.push_str(&text));
            }
            Piece::Text(text) => match (&mut self.rich, &mut self.cell) {
                (Some(rich), _) => rich.piece(Piece::Text(text), &book.formats.looks),
                (None, Some(cell)) if self.in_value => cell.value.push_str(&text),
                (None, Some(cell)) if self.in_formula => cell.formula.get_or_insert_default().push_str(&text),
                _ => {}
            },
        }
    }

    fn start(&mut self, element: &Element, looks: &Looks) {
        let number = |name: &str| element.attribute(name).and_then(|value| value.parse::<usize>().ok());
        let is_zero =
            |name: &str| element.attribute(name).and_then(|size| size.parse::<f64>().ok()) == Some(0.0);
        let is_hidden = || element.is_set("hidden") || is_zero("ht") || is_zero("width");
        match element.name.as_str() {
            "col" => {
                if is_hidden() {
                    let bounds = number("min")
                        .zip(number("max"))
                        .map(|(min, max)| (min.saturating_sub(1), max.saturating_sub(1)));
                    self.sheet
                        .hidden_columns
                        .extend(bounds.filter(|_| self.sheet.hidden_columns.len() < MAX_COLUMNS));
                }
            }
            "row" => {
                self.row = number("r").map_or(self.row, |row| row.saturating_sub(1)).min(MAX_ROWS);
                self.column = 0;
                if is_hidden() && self.sheet.hidden_rows.len() < MAX_ROWS {
                    self.sheet.hidden_rows.push((self.row, self.row));
                }
            }
            "c" => {
                let named = element.attribute("r").and_then(|name| place_of(&name));
                let place = named.unwrap_or((self.row, self.column));
                self.column = place.1 + 1;
                self.cell = Some(Cell {
                    place,
                    kind: element.attribute("t").unwrap_or_default(),
                    style: number("s").unwrap_or(0),
                    ..Cell::default()
                });
            }
            "v" => self.in_value = true,
            "f" => {
                self.in_formula = true;
                self.cell.iter_mut().for_each(|cell| _ = cell.formula.get_or_insert_default());
            }
            "conditionalFormatting" | "tablePart" => self.has_rules = true,
            "control" => self.controls.push(Control::of(element)),
            "is" => self.rich = Some(RichText::default()),
            "headerFooter" => {
                let has =
                    |name: &str| element.attribute(name).is_some_and(|value| value == "1" || value == "true");
                self.header_pages = [has("differentFirst"), has("differentOddEven")];
            }
            "firstHeader" | "firstFooter" if !self.header_pages[0] => {}
            "evenHeader" | "evenFooter" if !self.header_pages[1] => {}
            "oddHeader" | "evenHeader" | "firstHeader" | "oddFooter" | "evenFooter" | "firstFooter" => {
                self.header = Some(String::new());
            }
            "mergeCell" => {
                let reference = element.attribute("ref").unwrap_or_default();
                if let Some((first, last)) = reference.split_once(':')
                    && let (Some(first), Some(last)) = (place_of(first), place_of(last))
                    && self.sheet.merged.len() < MAX_MERGED
                {
                    let last = (last.0.max(first.0), last.1.max(first.1));
                    self.sheet.merged.insert(first, last);
                }
            }
            _ => {
                if let Some(rich) = &mut self.rich {
                    rich.start(element, looks);
                }
            }
        }
    }

    fn end_cell(&mut self, book: &mut Book) {
        let Some(cell) = self.cell.take() else { return };
        let value = cell.value.as_str();
        let has_fill = book.formats.looks.has_fill(cell.style);
        let shared = || {
            value.trim().parse().ok().and_then(|at: usize| book.strings.get(at).cloned()).unwrap_or_default()
        };
        let plain = Text::plain;
        let shown = match cell.kind.as_str() {
            "s" => shared(),
            "b" if book.formats.looks.is_box(cell.style) => {
                plain(if value.trim() == "1" { TICKED } else { EMPTY }.to_owned())
            }
            "b" => plain(if value.trim() == "1" { "TRUE" } else { "FALSE" }.to_owned()),
            "str" => plain(unescaped(value)),
            "inlineStr" => cell.rich.unwrap_or_else(|| plain(value.to_owned())),
            "e" | "d" => plain(value.to_owned()),
            _ => match value.trim().parse::<f64>() {
                Ok(number) => {
                    let number = book.formats.show(cell.style, number);
                    // A format may show nothing.
                    book.counts.hidden += usize::from(number.is_empty());
                    plain(number)
                }
                Err(_) => plain(value.to_owned()),
            },
        };
        let font = book.formats.looks.font_name(cell.style);
        let Text { mut text, without_white, unknown, .. } = shown.in_font(font);
        let mut rest = None;
        if matches!(cell.kind.as_str(), "s" | "str" | "inlineStr") && book.formats.hides_text(cell.style) {
            book.counts.hidden += usize::from(!text.is_empty());
            text.clear();
        } else if let Some(without_white) = without_white {
            match book.formats.looks.sight(cell.style, Some(Color::WHITE)) {
                Sight::Seen => {}
                Sight::Uncertain if has_fill => book.counts.white += 1,
                Sight::Uncertain => rest = Some(without_white),
                Sight::Hidden => {
                    book.counts.hidden += 1;
                    text = without_white;
                }
            }
        }
        let text = match cell.formula {
            Some(formula) if value.is_empty() && cell.kind != "str" => {
                book.counts.no_results += 1;
                format!("={}", formula.trim())
            }
            _ => text,
        };
        // Texts whose runs say it themselves have the mark already.
        let marked = |text: String| {
            let is_struck =
                book.formats.looks.is_struck(cell.style) && !text.contains(STRUCK) && !text.trim().is_empty();
            if is_struck { format!("{STRUCK}{text}{STRUCK}") } else { text }
        };
        let (text, rest) = (marked(text), rest.map(marked));
        if text.is_empty() {
            return;
        }
        match book.formats.looks.sight(cell.style, None) {
            Sight::Hidden => book.counts.hidden += 1,
            sight => {
                book.counts.unknown_characters += unknown;
                match sight {
                    // A fill whose colour is not known.
                    Sight::Uncertain if has_fill => book.counts.white += 1,
                    Sight::Uncertain => _ = self.sheet.white.insert(cell.place, String::new()),
                    _ => rest.into_iter().for_each(|rest| _ = self.sheet.white.insert(cell.place, rest)),
                }
                self.sheet.rows.entry(cell.place.0).or_default().push((cell.place.1, text));
            }
        }
    }
}

/// The place of a cell such as `B3`.
fn place_of(name: &str) -> Option<CellPlace> {
    let name = name.replace('$', "");
    let digits = name.find(|c: char| c.is_ascii_digit())?;
    let letter =
        |c: char| c.is_ascii_alphabetic().then(|| c.to_ascii_uppercase() as usize - 'A' as usize + 1);
    let column =
        name[..digits].chars().try_fold(0usize, |column, c| Some(column.checked_mul(26)? + letter(c)?))?;
    let row: usize = name[digits..].parse().ok()?;
    let is_valid = (1..=MAX_COLUMNS).contains(&column) && (1..=MAX_ROWS).contains(&row);
    is_valid.then(|| (row - 1, column - 1))
}
