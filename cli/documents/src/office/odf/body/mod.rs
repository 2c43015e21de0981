//! The text of an OpenDocument file, element by element. Beside it are tables and lists.

mod forms;
mod headers;
mod lists;
mod tables;
mod text;
pub(super) mod values;

use std::collections::{HashMap, HashSet};

use self::forms::Forms;
use self::text::with_single_spaces;
use self::values::Value;
use super::CONTENT;
use super::charts::Chart;
use super::styles::{LEVELS, Look, Styles};
use crate::color::Color;
use crate::counts::Counts;
use crate::office::page_texts::PageTexts;
use crate::package::xml::{self, Element, Piece};
use crate::selection::Chooser;
use crate::writer::Writer;
use crate::writer::notes::NoteMarks;
use crate::{Note, Options, Problem, Selection, Unit};

/// Elements whose content is not part of the text. The alternatives of an object repeat it.
const SKIPPED: &[&str] = &[
    "automatic-styles",
    "master-styles",
    "font-face-decls",
    "scripts",
    "sequence-decls",
    "variable-decls",
    "user-field-decls",
    "settings",
    "event-listeners",
    "dde-source",
    "calculation-settings",
    "content-validations",
    "database-ranges",
    "named-expressions",
    "change-info",
    "index-title-template",
    "table-of-content-source",
];
/// Shapes, which have text.
const SHAPES: &[&str] = &[
    "frame",
    "custom-shape",
    "rect",
    "ellipse",
    "circle",
    "line",
    "polyline",
    "polygon",
    "regular-polygon",
    "path",
    "connector",
    "caption",
    "measure",
];
/// Fields of headers of sheets.
const PAGE_FIELDS: &[&str] =
    &["page-number", "page-count", "sheet-name", "date", "time", "title", "file-name"];
/// Spaces beside each other.
const MAX_SPACES: usize = 1000;
/// A cell or row that is the same many times is written so often at most.
const MAX_REPEATED: usize = 1000;
/// Tables within each other.
const MAX_TABLES: usize = 32;

type Numbers = [Option<i64>; LEVELS];

/// A list that is open.
#[derive(Debug)]
struct List {
    style: String,
    /// Which of the numbers are its own and those of the lists within it.
    numbers: usize,
    /// Whether the next paragraph begins an item, and its number and its style where the file names them.
    is_item: bool,
    start: Option<i64>,
    item_style: Option<String>,
    /// Whether the item has a list within it.
    has_list: bool,
}

/// What is around a note or a shape.
#[derive(Debug)]
struct Outer {
    lists: Vec<List>,
    /// The mark of the heading or the item that a paragraph of the shape stands before.
    mark: Option<String>,
}

/// A table that is open.
#[derive(Debug, Default)]
struct Table {
    /// First and last hidden columns.
    hidden: Vec<(usize, usize)>,
    /// The column of the next definition, of the next cell, and behind the last cell with those that it covers.
    defined: usize,
    column: usize,
    covered_until: usize,
    repeated: usize,
    is_hidden_row: bool,
    /// The styles of cells that have none of their own: of the row, and of columns with the first and the last of them.
    row_style: Option<String>,
    column_styles: Vec<(usize, usize, String)>,
    /// The cells of the row, and those of hidden rows that reach into it.
    cells: Vec<Cell>,
    /// The cell that is read.
    open: Option<OpenCell>,
    /// Whether a row is written, in a table within a cell.
    has_row: bool,
}

/// A cell with text, or of several rows and columns.
#[derive(Debug)]
struct Cell {
    /// Its first column among those that are shown, and how many of them it reaches over.
    column: usize,
    columns: usize,
    rows: usize,
    text: String,
    /// How often it is there.
    count: usize,
}

/// A cell while it is read.
#[derive(Debug)]
struct OpenCell {
    /// Where text goes behind it.
    outer: Writer,
    columns: usize,
    rows: usize,
    repeated: usize,
    /// How its text looks, unless that says otherwise.
    look: Look,
    /// Whether another cell reaches over it.
    is_covered: bool,
    /// What it shows if it has no paragraph.
    value: Option<Value>,
    has_paragraph: bool,
    /// Notes that were open when it began: a paragraph of another is none of the cell. Shapes, likewise.
    notes: usize,
    shapes: usize,
}

/// An object within the document.
pub(super) enum Object {
    /// A formula, as text.
    Formula(String),
    Chart(Chart),
}

/// The text of a document while it is read.
#[derive(Default)]
pub(super) struct Body<'a> {
    /// Chooses slides or sheets.
    chooser: Option<Chooser<'a>>,
    selection: Option<&'a Selection>,
    styles: Styles,
    max_bytes: u64,
    writer: Writer,
    counts: Counts,
    looks: Vec<Look>,
    /// Shapes that are open: how their text looks, unless that says otherwise.
    shapes: Vec<Look>,
    lists: Vec<List>,
    /// What is around the notes and shapes that are open.
    outer: Vec<Outer>,
    /// The numbers of lists, which of them those with an id have, and the last list, with its style.
    numbers: Vec<Numbers>,
    list_ids: HashMap<String, usize>,
    last_list: Option<(String, usize)>,
    headings: Numbers,
    tables: Vec<Table>,
    /// Notes and remarks that are open: their marks, and where text goes behind them.
    notes: Vec<(String, Writer)>,
    /// What the next note shows in the text, while it is read and behind it.
    citation: String,
    in_citation: bool,
    note_marks: NoteMarks,
    comment_count: usize,
    /// The text of notes and remarks.
    written_notes: Vec<String>,
    /// Headers and footers of pages.
    page_texts: PageTexts,
    skipping: usize,
    is_counted: bool,
    /// Whether the paragraph has white text.
    has_white: bool,
    /// Whether the last paragraph was one of code.
    is_code: bool,
    paragraph_depth: usize,
    forms: Forms,
    /// The last picture, until its description is known.
    has_picture: bool,
    /// Whether the frame holds a formula or a chart that is read.
    has_object: bool,
    /// Charts and shapes of the sheet or the table, which stand below it.
    drawn: Vec<String>,
    /// Where text goes behind the shapes of a sheet.
    sheet: Option<Writer>,
    description: Option<String>,
    in_title: usize,
    slides: usize,
    /// The colour of the slide, and whether something is drawn that may be behind the next shape.
    slide: Color,
    is_drawn: bool,
    is_spreadsheet: bool,
    in_header: bool,
    /// The text of the slide, while its notes are read.
    slide_text: Option<Writer>,
    in_creator: bool,
    creator: String,
    in_date: bool,
}

impl<'a> Body<'a> {
    pub(super) fn new(styles: Styles, options: &'a Options) -> Body<'a> {
        Body {
            selection: options.selection.as_ref(),
            styles,
            max_bytes: options.limits.bytes,
            ..Body::default()
        }
    }

    /// Reads the text. `object` gives an object that is a formula or a chart.
    ///
    /// # Errors
    /// It is damaged or too long.
    pub(super) fn read(
        &mut self,
        text: &str,
        mut object: impl FnMut(&str) -> Option<Object>,
    ) -> Result<(), Problem> {
        let (hidden, mut paragraph) = (hidden_paragraphs(text)?, 0);
        xml::read(CONTENT, text, |piece| {
            let begins = matches!(&piece, Piece::Start(element) if is_paragraph(&element.name));
            paragraph += usize::from(begins);
            match begins && self.skipping == 0 && hidden.contains(&paragraph) {
                true => {
                    self.counts.hidden += 1;
                    self.skipping = 1;
                }
                false => self.piece(piece, &mut object),
            }
            self.check_limits()
        })
    }

    fn piece(&mut self, piece: Piece, object: &mut dyn FnMut(&str) -> Option<Object>) {
        match piece {
            Piece::Start(_) if self.skipping > 0 => self.skipping += 1,
            Piece::End(_) if self.skipping > 0 => self.skipping -= 1,
            Piece::Text(_) if self.skipping > 0 => {}
            Piece::Start(element) if SKIPPED.contains(&element.name.as_str()) => self.skipping = 1,
            piece if self.forms.is_open => self.forms.piece(&piece),
            Piece::Start(element) if element.name == "object" => {
                match object(&element.attribute("href").unwrap_or_default()) {
                    Some(object) => {
                        self.object(object);
                        self.has_object = true;
                    }
                    None => self.has_picture = true,
                }
                self.description = None;
            }
            Piece::Start(element) => self.start(&element),
            Piece::End(name) => self.end(&name),
            Piece::Text(text) if self.in_creator => self.creator.push_str(&text),
            Piece::Text(text) if self.in_citation => self.citation.push_str(&text),
            Piece::Text(text) => {
                if let Some(description) = &mut self.description {
                    description.push_str(&text);
                } else if self.paragraph_depth > 0 && !self.in_date {
                    self.text(&with_single_spaces(&text));
                }
            }
        }
    }

    /// An error if the text is too long, or tables are too deep in each other.
    fn check_limits(&self) -> Result<(), Problem> {
        // The text of a table is written anew into the cell around it.
        if self.tables.len() > MAX_TABLES {
            return Err(Problem::TooDeep);
        }
        match self.writer.len() as u64 > self.max_bytes {
            true => Err(Problem::TooLong { limit: self.max_bytes }),
            false => Ok(()),
        }
    }

    /// Whether the next slide or sheet is read.
    pub(super) fn takes_next(&mut self, unit: Unit) -> bool {
        self.chooser.get_or_insert_with(|| Chooser::new(self.selection, unit)).takes_next()
    }

    /// Which slides or sheets were chosen, if not all were.
    ///
    /// # Errors
    /// There are none, or not these.
    pub(super) fn chosen(&self) -> Result<Option<Note>, Problem> {
        match &self.chooser {
            Some(chooser) => chooser.note(),
            None if self.selection.is_some() => Err(Problem::NoParts),
            None => Ok(None),
        }
    }

    /// The text with its notes, and what is not in it.
    pub(super) fn finish(mut self) -> (String, Counts) {
        if let Some(sheet) = self.sheet.take() {
            let shapes = std::mem::replace(&mut self.writer, sheet).finish();
            self.writer.block(&shapes);
        }
        self.counts.unfilled_rows += self.writer.unfilled_rows();
        (self.page_texts.around(self.writer.finish(), self.written_notes), self.counts)
    }

    fn start(&mut self, element: &Element) {
        if SHAPES.contains(&element.name.as_str()) {
            let around = self.shapes.last().cloned().unwrap_or_default();
            let own = self.styles.look(element.attribute("style-name").as_deref());
            let mut look = around.replaced_by(&own);
            look.ground = own.ground;
            self.shapes.push(look);
            self.leave();
        }
        let value = |name: &str| element.attribute(name);
        let number = |name: &str| value(name).and_then(|value| value.parse::<usize>().ok());
        match element.name.as_str() {
            "spreadsheet" => self.is_spreadsheet = true,
            "tracked-changes" => {}
            "deletion" => {
                self.counts.deletions += 1;
                self.skipping = 1;
            }
            "p" | "h" => self.begin_paragraph(element),
            "span" | "a" => {
                let around = self.looks.last().cloned().unwrap_or_default();
                let look = self.styles.look(value("style-name").as_deref());
                self.looks.push(around.replaced_by(&look));
            }
            "s" => self.space(number("c").unwrap_or(1)),
            "tab" if self.looks.last().is_some_and(Look::keeps_spaces) => self.text("\t"),
            "tab" => self.tab(),
            "line-break" => self.writer.line(),
            "hidden-text" | "section" if is_hidden(element) => {
                self.counts.hidden += 1;
                self.skipping = 1;
            }
            "list" => self.begin_list(element),
            "list-item" | "list-header" => self.begin_list_item(element),
            "table" => self.begin_table(element),
            "table-column" => {
                if let Some(table) = self.tables.last_mut() {
                    let count = number("number-columns-repeated").unwrap_or(1).max(1);
                    let last = table.defined.saturating_add(count - 1);
                    if value("visibility").is_some_and(|value| value != "visible")
                        && table.hidden.len() < MAX_REPEATED
                    {
                        table.hidden.push((table.defined, last));
                    }
                    if let Some(style) = value("default-cell-style-name")
                        && table.column_styles.len() < MAX_REPEATED
                    {
                        table.column_styles.push((table.defined, last, style));
                    }
                    table.defined = last.saturating_add(1);
                }
            }
            "table-row" => {
                if let Some(table) = self.tables.last_mut() {
                    table.repeated = number("number-rows-repeated").unwrap_or(1);
                    table.is_hidden_row = value("visibility").is_some_and(|value| value != "visible");
                    table.row_style = value("default-cell-style-name");
                    (table.column, table.covered_until) = (0, 0);
                }
            }
            "table-cell" | "covered-table-cell" => self.begin_cell(element),
            "shapes" if self.sheet.is_none() => self.sheet = Some(std::mem::take(&mut self.writer)),
            "note" => self.citation.clear(),
            "note-citation" => self.in_citation = true,
            "note-body" => {
                let mark = self.note_marks.next(&self.citation);
                self.open_note(mark);
            }
            "annotation" => {
                self.comment_count += 1;
                let mark = format!("[^c{}]", self.comment_count);
                self.open_note(mark);
                self.creator.clear();
            }
            "creator" => self.in_creator = true,
            "date" if element.attribute_of("text:style-name").is_none() && !self.notes.is_empty() => {
                self.in_date = true
            }
            "ruby-text" => {
                self.paragraph_depth += 1;
                self.writer.text("(");
            }
            "page" => {
                self.slides += 1;
                if !self.takes_next(Unit::Slide) {
                    self.skipping = 1;
                    return;
                }
                let look = self.styles.look(value("style-name").as_deref());
                // Before white there may be a picture.
                let master = value("master-page-name");
                let master = master.as_deref().and_then(|name| self.styles.master(name));
                let of_master = master.and_then(|master| self.styles.look(master.style.as_deref()).ground);
                let ground = look.ground.or(of_master).filter(|color| *color != Color::WHITE);
                self.is_drawn = master.is_some_and(|master| master.is_drawn);
                self.slide = ground.unwrap_or(Color::Unknown);
                if look.is_absent == Some(true) {
                    self.counts.hidden_parts += 1;
                    self.skipping = 1;
                    return;
                }
                self.writer.heading(1);
                self.writer.page(self.slides);
                let title = format!("Slide {}", self.slides);
                self.writer.text(&title);
                self.writer.end_item();
            }
            "notes" if self.slide_text.is_none() => {
                self.slide_text = Some(std::mem::take(&mut self.writer));
            }
            // The file has no numbers of pages and slides here, but signs that stand for them.
            "page-number" if self.slides > 0 => self.skipping = 1,
            name if self.in_header && self.is_spreadsheet && PAGE_FIELDS.contains(&name) => self.skipping = 1,
            "frame" | "custom-shape" if value("class").is_some_and(|class| class == "title") => {
                self.in_title += 1
            }
            "frame" | "custom-shape" if self.in_title > 0 => self.in_title += 1,
            // An object has a picture of it.
            "image" => (self.has_picture, self.is_drawn) = (!self.has_object, true),
            "desc" | "title" if self.paragraph_depth == 0 || self.has_picture => {
                self.description = Some(String::new())
            }
            "forms" => self.forms.is_open = true,
            "control" => {
                let shown = value("control").and_then(|id| self.forms.shown(&id));
                shown.into_iter().for_each(|shown| self.text(&format!(" {shown} ")));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if SHAPES.contains(&name) {
            self.come_back();
            let ground = self.shapes.pop().and_then(|look| look.ground);
            self.is_drawn |= ground.is_some_and(|ground| ground != Color::Transparent);
        }
        match name {
            "p" | "h" => {
                self.paragraph_depth = self.paragraph_depth.saturating_sub(1);
                self.looks.pop();
                self.writer.end_item();
                if self.lists.is_empty() && !self.is_code {
                    self.writer.paragraph();
                }
            }
            "span" | "a" => _ = self.looks.pop(),
            "list" => {
                self.lists.pop();
                self.writer.end_item();
                if self.lists.is_empty() {
                    self.writer.paragraph();
                }
            }
            "table" => self.end_table(),
            "table-cell" | "covered-table-cell" => self.end_cell(),
            "table-row" => self.end_row(),
            "shapes" => {
                if let Some(sheet) = self.sheet.take() {
                    self.drawn.push(std::mem::replace(&mut self.writer, sheet).finish());
                }
            }
            "note-citation" => self.in_citation = false,
            "note-body" => self.end_note(""),
            "annotation" => {
                let author = self.creator.trim();
                let author = if author.is_empty() { String::new() } else { format!("{author} comments: ") };
                self.end_note(&author);
            }
            "notes" => {
                if let Some(slide) = self.slide_text.take() {
                    self.counts.unfilled_rows += self.writer.unfilled_rows();
                    let notes = std::mem::replace(&mut self.writer, slide).finish();
                    if !notes.trim().is_empty() {
                        self.writer.block(&format!("[Notes] {notes}"));
                    }
                }
            }
            "creator" => self.in_creator = false,
            "date" => self.in_date = false,
            "ruby-text" => {
                self.paragraph_depth = self.paragraph_depth.saturating_sub(1);
                self.writer.text(")");
            }
            "frame" | "custom-shape" => {
                self.in_title = self.in_title.saturating_sub(1);
                self.has_object = false;
                if std::mem::take(&mut self.has_picture) {
                    self.counts.pictures += 1;
                }
            }
            "desc" | "title" => {
                if let Some(text) = self.description.take().filter(|text| !text.trim().is_empty())
                    && std::mem::take(&mut self.has_picture)
                {
                    self.text(&format!("[image: {}]", text.trim()));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, object: Object) {
        match object {
            Object::Formula(text) => self.text(text.trim()),
            Object::Chart(chart) if self.tables.is_empty() => chart.write(&mut self.writer),
            Object::Chart(chart) => {
                let mut writer = Writer::default();
                chart.write(&mut writer);
                self.drawn.push(writer.finish());
            }
        }
    }

    /// Begins the text of a note or a remark with this mark.
    fn open_note(&mut self, mark: String) {
        self.writer.text(&mark);
        self.notes.push((mark, std::mem::take(&mut self.writer)));
        self.leave();
    }

    /// Ends it, with the one who made a remark.
    fn end_note(&mut self, author: &str) {
        if let Some((mark, outer)) = self.notes.pop() {
            self.come_back();
            let text = std::mem::replace(&mut self.writer, outer).finish();
            self.written_notes.push(format!("{mark}: {author}{text}"));
        }
    }
}

fn is_paragraph(name: &str) -> bool {
    matches!(name, "p" | "h")
}

/// Whether an element says that its content is not shown.
fn is_hidden(element: &Element) -> bool {
    element.attribute("is-hidden").is_some_and(|value| value == "true")
        || element.attribute("display").is_some_and(|value| value == "none")
}

/// The numbers, from 1 on, of the paragraphs that fields within them hide.
///
/// # Errors
/// The text is no XML.
fn hidden_paragraphs(text: &str) -> Result<HashSet<usize>, Problem> {
    let (mut hidden, mut count, mut open) = (HashSet::new(), 0, Vec::new());
    if !text.contains("hidden-paragraph") {
        return Ok(hidden);
    }
    xml::read(CONTENT, text, |piece| {
        match piece {
            Piece::Start(element) if is_paragraph(&element.name) => {
                count += 1;
                open.push(count);
            }
            Piece::Start(element) if element.name == "hidden-paragraph" && is_hidden(&element) => {
                hidden.extend(open.last());
            }
            Piece::End(name) if is_paragraph(&name) => _ = open.pop(),
            _ => {}
        }
        Ok(())
    })?;
    Ok(hidden)
}
