//! The text of a document's parts, element by element. Beside it is what elements write.

mod tables;
mod text;

use std::collections::HashMap;
use std::rc::Rc;

use self::tables::Table;
use super::auto_numbers::AutoNumbers;
use super::fields::Fields;
use super::numbering::{NumberOf, Numbering};
use super::styles::{RunLook, Styles, shading};
use crate::Problem;
use crate::color::Color;
use crate::counts::Counts;
use crate::office::drawings::Drawings;
use crate::office::fill::Scheme;
use crate::office::omml::{self, Omml};
use crate::office::shape::ShapeLook;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::writer::{Rows, Span, TabStops, Writer};

/// Elements whose content is not part of the text. A fallback repeats its alternative, and changes of properties hold
/// the former ones.
const SKIPPED: &[&str] = &[
    "Fallback",
    "delText",
    "rPrChange",
    "pPrChange",
    "sectPrChange",
    "tblPrChange",
    "trPrChange",
    "tcPrChange",
    "tblGridChange",
    "tblPrExChange",
    "numberingChange",
    "tblGrid",
    "tblPrEx",
    "delInstrText",
    "rubyPr",
];

/// What a part of a document is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Text,
    Footnotes,
    Endnotes,
    Comments,
}

/// A header or a footer that pages have.
#[derive(Debug)]
pub(super) struct HeaderReference {
    pub(super) id: String,
    pub(super) is_footer: bool,
    pages: Pages,
}

/// The pages that have a header.
#[derive(Debug)]
enum Pages {
    /// All that have none of their own kind.
    All,
    First,
    Even,
}

/// A paragraph that is open.
#[derive(Debug, Default)]
struct Paragraph {
    style: Option<String>,
    /// What its properties say: the level of a heading, where 0 is for none, and its place in a list.
    heading: Option<usize>,
    number: NumberOf,
    /// Whether it has text already.
    has_begun: bool,
    /// Whether its end is deleted or hidden.
    is_gone: bool,
    /// Whether its end is deleted, so that the next paragraph goes on in its line.
    is_joined: bool,
    ground: Option<Color>,
    has_white: bool,
    tabs: Rc<TabStops>,
}

/// A place in the text with a note, in the order of the notes.
#[derive(Debug, Default)]
struct Marks(HashMap<String, usize>);

impl Marks {
    /// The number of a note. Readers see the numbers in the order of the marks, whatever the ids are.
    fn number(&mut self, id: String) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(id).or_insert(next)
    }
}

/// The text of a document while its parts are read.
#[derive(Default)]
pub(super) struct Body {
    writer: Writer,
    counts: Counts,
    styles: Styles,
    numbering: Numbering,
    /// How far apart tab stops are that no paragraph sets, in twentieths of a point.
    tab_distance: Option<u32>,
    max_bytes: u64,
    kind: Kind,
    footnotes: Marks,
    endnotes: Marks,
    comments: Marks,
    /// Notes that are complete: their kind and number, and their text.
    notes: Vec<((u8, usize), String)>,
    /// The note that is read.
    note: Option<((u8, usize), Writer)>,
    /// Written before its first paragraph.
    note_mark: String,
    headers: Vec<HeaderReference>,
    /// Whether first pages have headers of their own, and even pages.
    has_first_pages: bool,
    has_even_pages: bool,
    /// Depth within an element that is left out.
    skipping: usize,
    /// Whether the text belongs to an element of text, and is not white space of the file.
    in_text: bool,
    in_instruction: bool,
    in_paragraph_properties: bool,
    in_run_properties: bool,
    in_control_properties: bool,
    in_row_properties: bool,
    in_table_properties: bool,
    paragraphs: Vec<Paragraph>,
    /// Whether the next paragraph goes on in the line of the last one.
    joins: bool,
    runs: Vec<RunLook>,
    fields: Fields,
    auto_numbers: AutoNumbers,
    /// Whether a heading is read already.
    has_headings: bool,
    /// Controls that are open. Of a box that is not in the text yet, whether it is ticked.
    controls: Vec<Option<bool>>,
    math: Option<Omml>,
    /// Whether the hidden text is counted already.
    is_counted: bool,
    /// Whether the last paragraph was one of code.
    is_code: bool,
    /// A cell that has begun, until its properties are known.
    cell: Option<Span>,
    continues_cell: bool,
    is_below: bool,
    tables: Vec<Table>,
    text_boxes: usize,
    /// The colour of the page.
    page: Color,
    /// Whether something is drawn behind the text.
    has_behind: bool,
    /// The boxes that are open.
    shapes: Vec<ShapeLook>,
    pub(super) drawings: Drawings,
    /// The colours of boxes.
    pub(super) scheme: Scheme,
    /// Documents within the document, as text, by the ids of the references to them.
    pub(super) chunks: HashMap<String, String>,
    /// The description of the drawing.
    description: Option<String>,
    /// The reading of characters, which comes before them.
    reading: Option<String>,
    in_reading: bool,
}

impl Body {
    pub(super) fn new(styles: Styles, numbering: Numbering, max_bytes: u64) -> Body {
        Body { styles, numbering, max_bytes, page: Color::WHITE, ..Body::default() }
    }

    /// Reads the settings of the document. What comes before damage counts.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(super) fn read_settings(&mut self, archive: &mut Archive, part: &str) -> Result<(), Problem> {
        let text = archive.text_if_whole(part)?.unwrap_or_default();
        let _ = xml::read(part, &text, |piece| {
            if let Piece::Start(element) = piece {
                match element.name.as_str() {
                    "defaultTabStop" => {
                        self.tab_distance =
                            element.attribute("val").and_then(|distance| distance.parse().ok());
                    }
                    "evenAndOddHeaders" => self.has_even_pages = element.is_on(),
                    _ => {}
                }
            }
            Ok(())
        });
        Ok(())
    }

    /// Reads a part of the document.
    ///
    /// # Errors
    /// It is damaged, or the text is too long.
    pub(super) fn read(&mut self, part: &str, text: &str, kind: Kind) -> Result<(), Problem> {
        self.kind = kind;
        self.reset();
        self.look_ahead(text);
        xml::read(part, text, |piece| {
            self.piece(piece);
            let length = self.writer.len() + self.note.as_ref().map_or(0, |(_, writer)| writer.len());
            match length as u64 > self.max_bytes {
                true => Err(Problem::TooLong { limit: self.max_bytes }),
                false => Ok(()),
            }
        })
    }

    /// Takes note of drawings behind the text of a part. Those of a header are behind the text of pages.
    pub(super) fn look_ahead(&mut self, part: &str) {
        let marks =
            ["behindDoc=\"1\"", "behindDoc='1'", "behindDoc=\"true\"", "behindDoc='true'", "z-index:-"];
        self.has_behind |= marks.iter().any(|mark| part.contains(mark));
    }

    /// The text of a part on its own.
    ///
    /// # Errors
    /// As for [`Body::read`].
    pub(super) fn read_apart(&mut self, part: &str, text: &str) -> Result<String, Problem> {
        let whole = std::mem::take(&mut self.writer);
        let read = self.read(part, text, Kind::Text);
        self.end_tables();
        let text = std::mem::replace(&mut self.writer, whole).finish();
        read.map(|()| text)
    }

    /// Nothing is open where a part begins.
    fn reset(&mut self) {
        self.end_tables();
        (self.skipping, self.text_boxes) = (0, 0);
        self.is_code = false;
        (self.in_text, self.in_instruction, self.is_below, self.in_reading) = (false, false, false, false);
        (self.in_paragraph_properties, self.in_run_properties) = (false, false);
        (self.in_control_properties, self.in_row_properties) = (false, false);
        self.in_table_properties = false;
        self.paragraphs.clear();
        self.runs.clear();
        self.controls.clear();
        self.shapes.clear();
        (self.fields, self.math, self.cell, self.description) = (Fields::default(), None, None, None);
    }

    /// The headers and footers that the text refers to, and that its pages have.
    pub(super) fn take_headers(&mut self) -> Vec<HeaderReference> {
        let mut headers = std::mem::take(&mut self.headers);
        headers.retain(|header| match header.pages {
            Pages::All => true,
            Pages::First => self.has_first_pages,
            Pages::Even => self.has_even_pages,
        });
        headers
    }

    /// The text with its notes, and what is not in it.
    pub(super) fn finish(mut self) -> (String, Counts) {
        self.end_tables();
        self.counts.unfilled_rows += self.writer.unfilled_rows();
        self.counts.unknown_numerals += self.numbering.unknown;
        let mut text = self.writer.finish();
        self.notes.sort_by_key(|(order, _)| *order);
        for (_, note) in self.notes.iter().filter(|(_, note)| !note.trim().is_empty()) {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(note);
        }
        (text, self.counts)
    }

    fn piece(&mut self, piece: Piece) {
        match omml::outside(piece, &mut self.skipping, &mut self.math) {
            Some(Piece::Start(element)) => self.start(&element),
            Some(Piece::End(name)) => self.end(&name),
            Some(Piece::Text(text)) if self.in_instruction => self.fields.instruction(&text),
            Some(Piece::Text(text)) if self.in_text => self.text(&text),
            Some(Piece::Text(_)) | None => {}
        }
    }

    fn start(&mut self, element: &Element) {
        let name = element.name.as_str();
        let value = |name: &str| element.attribute(name);
        let number = |name: &str| value(name).and_then(|value| value.parse::<usize>().ok());
        if SKIPPED.contains(&name) {
            if name == "tblPrEx" {
                self.set_row_look();
            }
            self.skipping = 1;
            return;
        }
        match name {
            "sdtPr" => self.in_control_properties = true,
            "checkbox" if self.in_control_properties => self.set_control(false),
            "checked" if self.in_control_properties => self.set_control(element.is_on()),
            _ if self.in_control_properties => {}
            "rPr" => self.in_run_properties = true,
            "trPr" => self.in_row_properties = true,
            "tblPr" => self.in_table_properties = true,
            _ if self.in_table_properties => self.table_property(element),
            "pPr" => self.in_paragraph_properties = true,
            _ if self.in_run_properties => self.run_property(element),
            "headerReference" | "footerReference" => {
                let is_footer = name == "footerReference";
                let pages = match value("type").as_deref() {
                    Some("first") => Pages::First,
                    Some("even") => Pages::Even,
                    _ => Pages::All,
                };
                self.headers.extend(value("id").map(|id| HeaderReference { id, is_footer, pages }));
            }
            // A section may have the header of one before it.
            "titlePg" => self.has_first_pages |= element.is_on(),
            _ if self.in_paragraph_properties => self.paragraph_property(element),
            // Deleted text; what was moved stands elsewhere.
            "del" => {
                self.counts.deletions += 1;
                self.skipping = 1;
            }
            "moveFrom" => self.skipping = 1,
            "p" => {
                // A paragraph within another one is in a box.
                if !self.paragraphs.is_empty() {
                    self.end_joined();
                }
                self.begin_cell();
                self.is_counted = false;
                self.paragraphs.push(Paragraph::default());
            }
            "r" => {
                let style = self.paragraphs.last().and_then(|paragraph| paragraph.style.as_deref());
                self.runs.push(self.styles.run(style));
            }
            "t" => self.in_text = true,
            "instrText" => self.in_instruction = true,
            "tab" | "ptab" => self.tab(),
            "br" | "cr" if !self.fields.hide_text() => {
                self.begin_text();
                self.out().line();
            }
            "noBreakHyphen" => self.text("-"),
            "sym" => self.symbol(&value("font").unwrap_or_default(), &value("char").unwrap_or_default()),
            "fldChar" => match value("fldCharType").as_deref() {
                Some("begin") => self.fields.begin(),
                Some("separate") => self.fields.separate(),
                _ => {
                    let shown = self.fields.end();
                    self.show(shown);
                }
            },
            "fldSimple" => {
                self.fields.begin();
                self.fields.instruction(&value("instr").unwrap_or_default());
                self.fields.separate();
            }
            "checkBox" | "checked" | "default" | "result" | "listEntry" => self.fields.property(element),
            "tbl" => {
                self.end_joined();
                self.begin_table();
            }
            "tr" => self.start_row(),
            "hidden" | "tblHeader" | "gridBefore" | "cnfStyle" => {
                if let Some(row) = self.row_properties() {
                    match name {
                        "hidden" => row.is_hidden = element.is_on(),
                        "tblHeader" => row.has_header = element.is_on(),
                        "cnfStyle" => {
                            let begins_with_one = value("val").is_some_and(|bits| bits.starts_with('1'));
                            row.is_as_first = begins_with_one || element.is_set("firstRow");
                        }
                        _ => row.before = number("val").unwrap_or(0),
                    }
                }
            }
            "tc" => {
                self.begin_row();
                self.is_below = false;
                (self.cell, self.continues_cell) = (Some(Span::ONE), false);
                self.set_cell_look();
            }
            "shd" => {
                if let (Some(table), Some(_)) = (self.tables.last_mut(), &self.cell) {
                    let ground = shading(element);
                    table.ground = if ground == Color::Transparent { Color::Unknown } else { ground };
                }
            }
            "background" if self.kind == Kind::Text => {
                // Settings say whether it is drawn.
                let is_white = value("color").is_none_or(|digits| Color::of_digits(&digits) == Color::WHITE);
                self.page = if is_white { Color::WHITE } else { Color::Unknown };
            }
            "gridSpan" => {
                self.cell.iter_mut().for_each(|cell| cell.columns = number("val").unwrap_or(1).max(1))
            }
            "vMerge" => match (value("val").as_deref(), &mut self.cell) {
                (Some("restart"), Some(cell)) => cell.rows = Rows::Open,
                (_, cell) => self.continues_cell = cell.is_some(),
            },
            "sdt" => self.controls.push(None),
            "oMath" => self.math = Some(Omml::default()),
            "footnoteReference" => self.mark(element, Kind::Footnotes),
            "endnoteReference" => self.mark(element, Kind::Endnotes),
            "commentReference" => self.mark(element, Kind::Comments),
            "footnote" if self.kind == Kind::Footnotes => self.begin_note(element),
            "endnote" if self.kind == Kind::Endnotes => self.begin_note(element),
            "comment" if self.kind == Kind::Comments => self.begin_note(element),
            "docPr" => {
                let text = value("descr").filter(|text| !text.trim().is_empty());
                self.description = text.or_else(|| value("title")).filter(|text| !text.trim().is_empty());
            }
            "chart" | "relIds" => self.drawing(element),
            "blip" | "imagedata" => self.picture(),
            "OLEObject"
                if value("ProgID").is_some_and(|id| id.contains("Equation") || id.contains("MathType")) =>
            {
                self.counts.formulas += 1;
                self.counts.pictures = self.counts.pictures.saturating_sub(1);
            }
            "wsp" => self.shapes.push(ShapeLook::default()),
            "txbxContent" => self.text_boxes += 1,
            "altChunk" => match value("id").and_then(|id| self.chunks.remove(&id)) {
                Some(chunk) => self.out().block(&chunk),
                None => self.counts.skipped_files.push("a document within the document"),
            },
            "rt" => (self.reading, self.in_reading) = (Some(String::new()), true),
            _ => {
                self.shapes.iter_mut().last().into_iter().for_each(|shape| shape.start(element, &self.scheme))
            }
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "instrText" => self.in_instruction = false,
            "rPr" => self.in_run_properties = false,
            "pPr" => self.in_paragraph_properties = false,
            "sdtPr" => self.in_control_properties = false,
            "fldSimple" => {
                let shown = self.fields.end();
                self.show(shown);
            }
            "trPr" => self.in_row_properties = false,
            "tblPr" => self.in_table_properties = false,
            "sdt" => {
                self.show_control();
                self.controls.pop();
            }
            "r" => {
                self.runs.pop();
            }
            "p" => {
                self.show_control();
                self.end_paragraph();
            }
            "tc" => {
                self.end_joined();
                self.end_cell();
            }
            "tr" => self.end_row(),
            "tbl" => self.end_table(),
            "oMath" => {
                if let Some(math) = self.math.take() {
                    let formula = math.finish();
                    self.text(&formula);
                }
            }
            "wsp" => _ = self.shapes.pop(),
            "txbxContent" => self.text_boxes = self.text_boxes.saturating_sub(1),
            "rt" => self.in_reading = false,
            "ruby" => {
                if let Some(reading) = self.reading.take() {
                    self.text(&format!("({})", reading.trim()));
                }
            }
            "footnote" | "endnote" | "comment" => {
                self.end_joined();
                if let Some((order, mut writer)) = self.note.take() {
                    self.counts.unfilled_rows += writer.unfilled_rows();
                    self.notes.push((order, writer.finish()));
                }
            }
            _ => self.shapes.iter_mut().last().into_iter().for_each(|shape| shape.end(name)),
        }
    }

    /// Where text goes.
    fn out(&mut self) -> &mut Writer {
        match &mut self.note {
            Some((_, writer)) => writer,
            None => &mut self.writer,
        }
    }
}
