//! XLSX (ECMA-376, SpreadsheetML): the tables of the sheets, with numbers and dates as the sheets show them. Hidden
//! sheets, rows and columns are left out.

mod areas;
mod calendar;
mod drawn;
mod format;
mod headers;
mod looks;
mod sheet;
mod threads;

use std::collections::HashMap;

use self::format::Formats;
pub(super) use self::format::show;
use self::looks::Looks;
use self::sheet::Sheet;
use super::fill::Scheme;
use super::relations::{Relations, main_part};
use crate::color::Color;
use crate::counts::Counts;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::selection::Chooser;
use crate::writer::{Level, Writer, symbols};
use crate::{Converted, Options, Problem, Unit};

const WORKBOOK: &str = "xl/workbook.xml";

/// Converts a workbook.
///
/// # Errors
/// It is damaged, has too much text, or not the sheets that are chosen.
pub(crate) fn convert(bytes: &[u8], options: &Options) -> Result<Converted, Problem> {
    let max_bytes = options.limits.bytes;
    let mut archive = Archive::new(bytes)?;
    let part = main_part(&mut archive, WORKBOOK)?;
    let relations = Relations::of(&mut archive, &part)?;
    let workbook = Workbook::read(&mut archive, &part)?;
    let mut book = Book::default();
    book.formats.is_1904 = workbook.is_1904;
    book.formats.looks.scheme = Scheme::of(&mut archive, &relations)?;
    if let Some(styles) = relations.of_kind("styles") {
        book.formats.read(&archive.text(styles)?, styles)?;
    }
    if let Some(strings) = relations.of_kind("sharedStrings") {
        book.strings = strings_of(&archive.text(strings)?, strings, &book.formats.looks)?;
    }
    for people in relations.all("person") {
        if let Some(text) = archive.text_if_whole(&people.target)? {
            book.people.extend(threads::people(&text, &people.target));
        }
    }
    let mut writer = Writer::default();
    let mut chooser = Chooser::new(options.selection.as_ref(), Unit::Sheet);
    for entry in &workbook.sheets {
        if !chooser.takes_next() {
            continue;
        }
        let Some(part) = relations.target(&entry.id) else { continue };
        if entry.is_hidden {
            book.counts.hidden_parts += 1;
            continue;
        }
        let sheet = Sheet::read(&mut archive, part, &mut book)?;
        if sheet.is_empty() {
            continue;
        }
        if workbook.sheets.len() > 1 {
            writer.heading(2);
            writer.text(&entry.name);
            writer.end_item();
        }
        sheet.write(&mut writer, max_bytes)?;
    }
    book.counts.unfilled_rows += writer.unfilled_rows();
    let notes = chooser.note()?.into_iter().chain(book.counts.notes()).collect();
    Ok(Converted { text: writer.finish(), notes, ..Converted::default() })
}

/// What sheets share.
#[derive(Default)]
struct Book {
    strings: Vec<Text>,
    /// The names of those who remark on cells, by their ids.
    people: HashMap<String, String>,
    formats: Formats,
    counts: Counts,
}

/// A sheet of a workbook.
struct Entry {
    name: String,
    id: String,
    is_hidden: bool,
}

#[derive(Default)]
struct Workbook {
    sheets: Vec<Entry>,
    /// Whether days are counted from 1904 on.
    is_1904: bool,
}

impl Workbook {
    fn read(archive: &mut Archive, part: &str) -> Result<Workbook, Problem> {
        let mut workbook = Workbook::default();
        xml::read(part, &archive.text(part)?, |piece| {
            let Piece::Start(element) = piece else { return Ok(()) };
            match element.name.as_str() {
                "sheet" => workbook.sheets.push(Entry {
                    name: element.attribute("name").unwrap_or_default(),
                    id: element.attribute("id").unwrap_or_default(),
                    is_hidden: element.attribute("state").is_some_and(|state| state != "visible"),
                }),
                "workbookPr" => workbook.is_1904 = element.is_set("date1904"),
                _ => {}
            }
            Ok(())
        })?;
        Ok(workbook)
    }
}

/// The texts that cells refer to by their numbers.
fn strings_of(text: &str, part: &str, looks: &Looks) -> Result<Vec<Text>, Problem> {
    let mut strings = Vec::new();
    let mut rich = RichText::default();
    xml::read(part, text, |piece| {
        match piece {
            Piece::End(name) if name == "si" => strings.push(rich.take()),
            piece => rich.piece(piece, looks),
        }
        Ok(())
    })?;
    Ok(strings)
}

/// A text with its characters that XML does not have, which are written as `_x000D_`.
fn unescaped(text: &str) -> String {
    let code = |after: &str| {
        let is_hex = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let digits = after.get(..4).filter(|_| after.get(4..5) == Some("_")).filter(is_hex)?;
        u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
    };
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("_x") {
        plain.push_str(before);
        rest = match code(after) {
            Some(c) => {
                plain.push(c);
                &after[5..]
            }
            None => {
                plain.push_str("_x");
                after
            }
        };
    }
    plain.push_str(rest);
    plain
}

/// A text of a cell.
#[derive(Clone, Debug, Default)]
struct Text {
    text: String,
    /// What of it is not white, if some of it is.
    without_white: Option<String>,
    /// Characters that are not known.
    unknown: usize,
    /// Its parts, if it has several or they look otherwise than the cell.
    runs: Vec<Run>,
}

impl Text {
    fn plain(text: String) -> Text {
        Text { text, ..Text::default() }
    }

    /// The text of these parts in a cell with this font.
    fn of(runs: Vec<Run>, font: Option<&str>) -> Text {
        let has_white = runs.iter().any(|run| run.is_white && !run.text.trim().is_empty());
        let (text, unknown) = written(&runs, font, |_| true);
        let without_white = has_white.then(|| written(&runs, font, |run| !run.is_white).0);
        let has_looks = runs.len() > 1 || runs.iter().any(Run::has_look);
        Text { text, without_white, unknown, runs: if has_looks { runs } else { Vec::new() } }
    }

    /// The text in a cell with this font.
    fn in_font(self, font: Option<&str>) -> Text {
        match font.filter(|font| symbols::is_symbol_font(font)) {
            Some(_) if !self.runs.is_empty() => Text::of(self.runs, font),
            Some(_) => {
                let (text, unknown) = symbols::shown(font, &self.text);
                Text { text, unknown, ..self }
            }
            None => self,
        }
    }
}

/// A part of a text that looks the same.
#[derive(Clone, Debug, Default)]
struct Run {
    text: String,
    font: Option<String>,
    level: Level,
    is_struck: bool,
    is_white: bool,
}

impl Run {
    fn has_look(&self) -> bool {
        self.font.is_some() || self.level != Level::Normal || self.is_struck || self.is_white
    }
}

/// A text with raised, struck and white runs.
#[derive(Default)]
struct RichText {
    runs: Vec<Run>,
    /// How the next text looks, without it.
    next: Run,
    in_text: bool,
    /// Depth within the reading of characters.
    reading: usize,
}

impl RichText {
    fn start(&mut self, element: &Element, looks: &Looks) {
        match element.name.as_str() {
            "rPh" => self.reading += 1,
            "r" => self.next = Run::default(),
            "t" => self.in_text = self.reading == 0,
            "rFont" => self.next.font = element.attribute("val"),
            "strike" => self.next.is_struck = element.is_on(),
            "color" => self.next.is_white = looks.color(element).is_lost_on(Color::WHITE),
            "vertAlign" => {
                self.next.level = match element.attribute("val").as_deref() {
                    Some("superscript") => Level::Raised,
                    Some("subscript") => Level::Lowered,
                    _ => Level::Normal,
                }
            }
            _ => {}
        }
    }

    fn piece(&mut self, piece: Piece, looks: &Looks) {
        match piece {
            Piece::Start(element) => self.start(&element, looks),
            Piece::End(name) => match name.as_str() {
                "rPh" => self.reading = self.reading.saturating_sub(1),
                "t" => self.in_text = false,
                _ => {}
            },
            Piece::Text(text) if self.in_text => {
                self.runs.push(Run { text: unescaped(&text), ..self.next.clone() });
            }
            Piece::Text(_) => {}
        }
    }

    fn take(&mut self) -> Text {
        Text::of(std::mem::take(self).runs, None)
    }
}

/// The text of some runs, and how many of its characters are not known. Those that name no font have this one.
fn written(runs: &[Run], font: Option<&str>, is_written: impl Fn(&Run) -> bool) -> (String, usize) {
    let (mut writer, mut unknown) = (Writer::default(), 0);
    for run in runs.iter().filter(|run| is_written(run)) {
        let (text, count) = symbols::shown(run.font.as_deref().or(font), &run.text);
        unknown += count;
        writer.struck(run.is_struck, |writer| writer.text_at(run.level, &text));
    }
    (writer.finish().trim_end().to_owned(), unknown)
}
