//! PPTX (ECMA-376, PresentationML): the slides in their order, each with its title, text, tables, notes and comments.
//! Hidden slides are left out.

mod ground;
mod placeholders;
mod tables;

use std::rc::Rc;

use self::ground::{Background, Layout, Layouts};
use self::tables::Table;
use super::drawings::Drawings;
use super::fill::{OTHER_NAMES, Scheme};
use super::omml::{self, Omml};
use super::page_texts::PageTexts;
use super::relations::{Relations, main_part};
use super::shape::{LEVELS, Letters, ShapeLook, TextLook, TextLooks, tab_distance};
use super::sight::{self, Sight};
use crate::color::Color;
use crate::counts::Counts;
use crate::marks;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::selection::Chooser;
use crate::writer::ordinal::Format;
use crate::writer::{Align, Level, Span, TabStops, Writer, symbols};
use crate::{Converted, Options, Problem, Unit};

const PRESENTATION: &str = "ppt/presentation.xml";
/// A run is raised or lowered from so many thousandths of a percent on.
const RAISED: i64 = 5_000;
/// Text of so many hundredths of a point cannot be read.
const TINY: u32 = 100;
/// The unit of tab stops in those of the file. Letters of slides are twice as large as those of texts.
const TAB_UNIT: u32 = 635 * 2;

/// Converts a presentation.
///
/// # Errors
/// It is damaged, has too much text, or not the slides that are chosen.
pub(crate) fn convert(bytes: &[u8], options: &Options) -> Result<Converted, Problem> {
    let max_bytes = options.limits.bytes;
    let mut archive = Archive::new(bytes)?;
    let part = main_part(&mut archive, PRESENTATION)?;
    let relations = Relations::of(&mut archive, &part)?;
    let mut ids = Vec::new();
    let mut reader = Reader::default();
    xml::read(&part, &archive.text(&part)?, |piece| {
        match piece {
            Piece::Start(element) => match element.name.as_str() {
                // Its own number has the same name without a prefix.
                "sldId" => ids.extend(element.attribute_of("r:id").or_else(|| element.attribute("id"))),
                "sldSz" => reader.size = Some([length(&element, "cx"), length(&element, "cy")]),
                _ => reader.texts.start(&element, &Scheme::default()),
            },
            Piece::End(name) => reader.texts.end(&name),
            Piece::Text(_) => {}
        }
        Ok(())
    })?;
    let mut text = String::new();
    let mut chooser = Chooser::new(options.selection.as_ref(), Unit::Slide);
    for (i, part) in ids.iter().filter_map(|id| relations.target(id)).enumerate() {
        if !chooser.takes_next() {
            continue;
        }
        let Some(mut slide) = reader.slide(&mut archive, part)? else {
            reader.counts.hidden_parts += 1;
            continue;
        };
        let gap = if text.is_empty() { "" } else { "\n" };
        let title = slide.title.finish().split_whitespace().collect::<Vec<_>>().join(" ");
        let colon = if title.is_empty() { "" } else { ": " };
        text.push_str(&format!(
            "{gap}{}{}Slide {}{colon}{title}\n",
            marks::page(i + 1),
            marks::heading(1),
            i + 1
        ));
        reader.counts.unfilled_rows += slide.writer.unfilled_rows();
        let body = slide.writer.finish();
        if !body.is_empty() {
            text.push('\n');
            text.push_str(&body);
        }
        if text.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    let text = reader.page_texts.around(text, Vec::new());
    let notes = chooser.note()?.into_iter().chain(reader.counts.notes()).collect();
    Ok(Converted { text, notes, ..Converted::default() })
}

/// What slides have in common.
#[derive(Default)]
struct Reader {
    counts: Counts,
    /// The width and the height of slides.
    size: Option<[i64; 2]>,
    /// How text looks by the presentation. Its colours depend on the layout.
    texts: TextLooks,
    layouts: Layouts,
    page_texts: PageTexts,
}

/// A length of an element; 0 where there is none.
fn length(element: &Element, name: &str) -> i64 {
    element.attribute(name).and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// What the text of a shape is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    #[default]
    Text,
    /// Paragraphs are items of a list unless they say otherwise.
    Body,
    Title,
    /// Footers and dates, which slides repeat. Each is read once.
    Footer,
    /// Numbers of slides, and pictures of them.
    Number,
    /// A reader does not see the shape.
    Hidden,
}

/// A paragraph.
#[derive(Debug, Default)]
struct Paragraph {
    level: usize,
    mark: Option<Mark>,
    has_begun: bool,
    /// Whether its hidden text is counted, and its white text.
    is_counted: bool,
    has_white: bool,
    tabs: Rc<TabStops>,
    tab_distance: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
enum Mark {
    None,
    Bullet(String, String),
    Number(String, i64),
}

/// A shape.
#[derive(Debug, Default)]
struct Shape {
    look: ShapeLook,
    /// How it looks by its layout, if it is a placeholder.
    of_layout: Option<Rc<ShapeLook>>,
    /// Its left and upper end, and its width and height.
    place: Option<[i64; 2]>,
    size: Option<[i64; 2]>,
}

impl Shape {
    /// The colour behind its text, if something fills it.
    fn ground(&self) -> Option<Color> {
        self.look.ground().or_else(|| self.of_layout.as_ref()?.ground())
    }
}

/// A slide while it is read.
#[derive(Default)]
struct Slide {
    layout: Rc<Layout>,
    slide_size: Option<[i64; 2]>,
    texts: TextLooks,
    background: Background,
    shape: Shape,
    /// The colour of the cell, in a table.
    cell: Option<Color>,
    /// The colours of all cells, and how many of them have begun.
    cells: Vec<Option<Color>>,
    cell_count: usize,
    table: Table,
    /// Whether something is drawn that may be behind the next shape.
    is_drawn: bool,
    /// Groups that are open, which of them is hidden, and whether the properties of one are read.
    groups: usize,
    hidden_group: Option<usize>,
    in_group_properties: bool,
    counts: Counts,
    writer: Writer,
    title: Writer,
    footer: Writer,
    footers: Vec<String>,
    role: Role,
    is_hidden: bool,
    /// Whether it is what a speaker says to a slide.
    are_notes: bool,
    /// Depth within an element that is left out.
    skipping: usize,
    in_text: bool,
    in_run_properties: bool,
    math: Option<Omml>,
    level: Level,
    is_struck: bool,
    is_tiny: bool,
    letters: Letters,
    font: String,
    paragraph: Paragraph,
    /// Numbers of the last paragraphs of each level, with what they count.
    numbers: [Option<(Mark, i64)>; LEVELS],
    in_cell: bool,
    bullet_font: String,
    description: Option<String>,
    drawings: Drawings,
}

impl Reader {
    /// Reads a slide with its notes and comments. `None` if it is hidden.
    fn slide(&mut self, archive: &mut Archive, part: &str) -> Result<Option<Slide>, Problem> {
        let relations = Relations::of(archive, part)?;
        let mut slide = Slide {
            drawings: Drawings::of(archive, &relations)?,
            layout: self.layouts.of(archive, &relations)?,
            slide_size: self.size,
            texts: self.texts.clone(),
            ..Slide::default()
        };
        slide.part(archive, part)?;
        if slide.is_hidden {
            return Ok(None);
        }
        for (kind, name) in [("notesSlide", "Notes"), ("comments", "Comment"), ("comment", "Comment")] {
            for relation in relations.all(kind) {
                let mut notes = Slide { are_notes: true, ..Slide::default() };
                notes.part(archive, &relation.target)?;
                slide.counts.add(notes.counts);
                let text = notes.writer.finish();
                if !text.trim().is_empty() {
                    slide.writer.paragraph();
                    slide.writer.text(&format!("[{name}] {text}"));
                }
            }
        }
        self.counts.add(std::mem::take(&mut slide.counts));
        for footer in std::mem::take(&mut slide.footers) {
            self.page_texts.add(footer, true);
        }
        Ok(Some(slide))
    }
}

impl Slide {
    fn part(&mut self, archive: &mut Archive, part: &str) -> Result<(), Problem> {
        let text = archive.text(part)?;
        if text.contains(OTHER_NAMES) {
            self.layout = Rc::new(self.layout.with_other_names(part, &text));
        }
        self.writer.end_tables();
        (self.skipping, self.in_text, self.math) = (0, false, None);
        (self.cells, self.cell_count) = (tables::colors(part, &text, &self.layout.scheme), 0);
        xml::read(part, &text, |piece| {
            self.piece(piece);
            Ok(())
        })
    }

    fn piece(&mut self, piece: Piece) {
        self.background.piece(&piece, &self.layout.scheme);
        self.cell_count += usize::from(matches!(&piece, Piece::Start(element) if element.name == "tc"));
        match omml::outside(piece, &mut self.skipping, &mut self.math) {
            Some(Piece::Start(element)) => self.start(&element),
            Some(Piece::End(name)) => self.end(&name),
            Some(Piece::Text(text)) if self.in_text => self.text(&text),
            Some(Piece::Text(_)) | None => {}
        }
    }

    fn start(&mut self, element: &Element) {
        let value = |name: &str| element.attribute(name);
        let number = |name: &str| value(name).and_then(|value| value.parse::<usize>().ok());
        let is_set = |name: &str| element.is_set(name);
        match element.name.as_str() {
            "Fallback" | "tblGrid" | "extLst" | "sp3d" => self.skipping = 1,
            "sld" => self.is_hidden = value("show").is_some_and(|value| value == "0" || value == "false"),
            "grpSp" => self.groups += 1,
            "nvGrpSpPr" => self.in_group_properties = true,
            "sp" | "graphicFrame" | "pic" | "cxnSp" => {
                self.role = if self.hidden_group.is_some() { Role::Hidden } else { Role::Text };
                self.numbers = Default::default();
                self.description = None;
                (self.shape, self.cell) = (Shape::default(), None);
            }
            "cNvPr" if self.in_group_properties => {
                self.hidden_group = self.hidden_group.or(is_set("hidden").then_some(self.groups));
            }
            "cNvPr" if is_set("hidden") => self.role = Role::Hidden,
            "cNvPr" => {
                self.description = value("descr").filter(|text| !text.trim().is_empty());
            }
            "ph" if self.role != Role::Hidden => {
                self.shape.of_layout = self.layout.placeholders.look(element);
                self.role = match value("type").as_deref() {
                    Some("title" | "ctrTitle") => Role::Title,
                    Some("dt" | "ftr" | "hdr") if !self.are_notes => Role::Footer,
                    Some("sldNum" | "dt" | "ftr" | "hdr" | "sldImg") => Role::Number,
                    Some("subTitle") => Role::Text,
                    _ if self.are_notes => Role::Text,
                    _ => Role::Body,
                }
            }
            "chart" | "relIds" | "blip" if self.role == Role::Hidden => self.counts.hidden += 1,
            "chart" | "relIds" => {
                let is_written = self.drawings.write(element, &mut self.writer);
                self.counts.pictures += usize::from(!is_written);
            }
            "off" if self.shape.look.in_properties() => {
                self.shape.place = Some(["x", "y"].map(|at| length(element, at)))
            }
            "ext" if self.shape.look.in_properties() => {
                self.shape.size = Some(["cx", "cy"].map(|at| length(element, at)))
            }
            "blip" => match self.description.take() {
                Some(text) => self.text(&format!("[image: {}]", text.trim())),
                None => self.counts.pictures += 1,
            },
            "tbl" => {
                if self.role != Role::Hidden {
                    self.role = Role::Text;
                }
                // Its text looks as the style of the table says.
                self.shape.of_layout = None;
                self.table = Table::default();
                self.out().begin_table();
            }
            "tblPr" => self.table.has_header = is_set("firstRow"),
            "tableStyleId" => (self.in_text, self.table.in_style) = (true, true),
            "tr" => {
                self.table.rows += 1;
                self.out().row();
            }
            // Cells that another one covers are in the file, too.
            "tc" if is_set("hMerge") || is_set("vMerge") => self.skipping = 1,
            "tc" => {
                let span = Span::new(number("gridSpan").unwrap_or(1), number("rowSpan").unwrap_or(1));
                self.in_cell = true;
                let own = self.cells.get(self.cell_count - 1).copied().flatten();
                self.cell = Some(own.unwrap_or_else(|| self.table.ground()));
                self.out().cell(span);
            }
            "p" => self.paragraph = Paragraph::default(),
            "pPr" => {
                self.paragraph.level = number("lvl").unwrap_or(0).min(LEVELS - 1);
                self.paragraph.tab_distance = tab_distance(element);
            }
            "tab" => {
                let place = value("pos").and_then(|place| place.parse::<u32>().ok());
                let align = match value("algn").as_deref() {
                    Some("ctr") => Align::Center,
                    Some("r" | "dec") => Align::Right,
                    _ => Align::Left,
                };
                let tabs = Rc::make_mut(&mut self.paragraph.tabs);
                place.into_iter().for_each(|place| tabs.set(place / TAB_UNIT, Some(align)));
            }
            "buNone" => self.paragraph.mark = Some(Mark::None),
            "buFont" => self.bullet_font = value("typeface").unwrap_or_default(),
            "buChar" => {
                let font = std::mem::take(&mut self.bullet_font);
                self.paragraph.mark = Some(Mark::Bullet(font, value("char").unwrap_or_default()));
            }
            "buAutoNum" => {
                let start = value("startAt").and_then(|start| start.parse().ok()).unwrap_or(1);
                self.paragraph.mark = Some(Mark::Number(value("type").unwrap_or_default(), start));
            }
            "r" | "fld" => {
                (self.level, self.is_struck, self.is_tiny) = (Level::Normal, false, false);
                self.letters = Letters::default();
                self.font.clear();
                let is_number = value("type").is_some_and(|kind| kind == "slidenum");
                // The date of a footer is that of today.
                if element.name == "fld" && (is_number || self.role == Role::Footer) {
                    self.skipping = 1;
                }
            }
            "rPr" => {
                self.in_run_properties = true;
                let raised = value("baseline")
                    .and_then(|raised| raised.trim_end_matches('%').parse::<i64>().ok())
                    .unwrap_or(0);
                self.level = match raised {
                    RAISED.. => Level::Raised,
                    raised if raised <= -RAISED => Level::Lowered,
                    _ => Level::Normal,
                };
                self.is_struck = value("strike").is_some_and(|strike| strike != "noStrike");
                self.is_tiny =
                    value("sz").and_then(|size| size.parse::<u32>().ok()).is_some_and(|size| size <= TINY);
            }
            "latin" | "sym" if self.in_run_properties => {
                let font = value("typeface").filter(|font| symbols::is_symbol_font(font));
                self.font = font.unwrap_or_else(|| std::mem::take(&mut self.font));
            }
            "t" | "text" => self.in_text = true,
            "br" => {
                self.begin_text();
                self.out().line();
            }
            "oMath" => self.math = Some(Omml::default()),
            _ if self.in_run_properties => self.letters.start(element, &self.layout.scheme),
            _ => self.shape.look.start(element, &self.layout.scheme),
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            // Of a comment.
            "text" => {
                self.in_text = false;
                self.writer.line();
            }
            "rPr" => self.in_run_properties = false,
            "spPr" => {
                self.shape.look.end(name);
                self.end_shape_properties();
            }
            "tableStyleId" => (self.in_text, self.table.in_style) = (false, false),
            "nvGrpSpPr" => self.in_group_properties = false,
            "grpSp" => {
                self.hidden_group = self.hidden_group.filter(|group| *group != self.groups);
                self.groups = self.groups.saturating_sub(1);
            }
            "graphicFrame" | "pic" => self.is_drawn = true,
            "p" => {
                self.out().end_item();
                if self.paragraph.has_begun && self.role != Role::Title {
                    self.out().line();
                }
                self.paragraph = Paragraph::default();
            }
            "sp" => {
                self.writer.paragraph();
                self.is_drawn |= self.shape.ground().is_some_and(|ground| ground != Color::Transparent);
                if self.role == Role::Footer {
                    self.footers.push(std::mem::take(&mut self.footer).finish());
                }
                self.role = Role::Text;
            }
            "tc" => self.in_cell = false,
            "tbl" => {
                self.cell = None;
                self.out().end_table();
            }
            "oMath" => {
                if let Some(math) = self.math.take() {
                    let formula = math.finish();
                    self.text(&formula);
                }
            }
            _ if self.in_run_properties => self.letters.end(name),
            _ => self.shape.look.end(name),
        }
    }

    fn out(&mut self) -> &mut Writer {
        match self.role {
            Role::Title => &mut self.title,
            Role::Footer => &mut self.footer,
            _ => &mut self.writer,
        }
    }

    /// It is known now where the shape is. A title beside the slide names it for those who do not see it.
    fn end_shape_properties(&mut self) {
        let places = self.shape.place.zip(self.shape.size).zip(self.slide_size);
        if let Some(((place, size), slide)) = places
            && self.groups == 0
            && self.role != Role::Title
            && (0..2).any(|i| place[i] >= slide[i] || place[i].saturating_add(size[i]) <= 0)
        {
            self.role = Role::Hidden;
        }
    }

    /// Whether a reader sees text that looks so.
    fn sight(&self) -> Sight {
        if self.role == Role::Hidden || self.is_tiny {
            return Sight::Hidden;
        }
        let page = self.background.color.unwrap_or(self.layout.page);
        let ground = self.cell.or_else(|| self.shape.ground());
        let own = self.letters.over(&self.shape.look.text(self.paragraph.level).letters);
        let letters = own.over(&self.text_of_layout().letters);
        let on = |page| letters.sight(ground, page);
        match sight::on_page(page, self.is_drawn || self.layout.has_shapes, on) {
            // Who made the layout chose a colour that fits its ground.
            Sight::Uncertain if !own.has_color() => Sight::Seen,
            sight => sight,
        }
    }

    /// How text of the paragraph looks by the layout.
    fn text_of_layout(&self) -> TextLook {
        let look = self.shape.of_layout.as_ref();
        look.map(|look| look.text(self.paragraph.level)).unwrap_or_default()
    }

    /// How far apart the tab stops behind those of the paragraph are.
    fn tab_distance(&self) -> Option<u32> {
        let level = self.paragraph.level;
        let distance = self
            .paragraph
            .tab_distance
            .or_else(|| self.shape.look.text(level).tab_distance)
            .or_else(|| self.text_of_layout().tab_distance)
            .or_else(|| self.texts.level(level).tab_distance);
        distance.map(|distance| distance / TAB_UNIT)
    }

    fn text(&mut self, text: &str) {
        if self.table.in_style {
            self.table.has_style = !tables::is_plain(text);
            return;
        }
        if self.role == Role::Number {
            return;
        }
        let is_text = !text.trim().is_empty();
        match self.sight() {
            Sight::Seen => {}
            Sight::Uncertain => {
                self.counts.white +=
                    usize::from(is_text && !std::mem::replace(&mut self.paragraph.has_white, true));
            }
            Sight::Hidden => {
                self.counts.hidden +=
                    usize::from(is_text && !std::mem::replace(&mut self.paragraph.is_counted, true));
                return;
            }
        }
        self.begin_text();
        let (text, unknown) = match self.font.as_str() {
            "" => (text.to_owned(), 0),
            font => symbols::text(font, text),
        };
        self.counts.unknown_characters += unknown;
        let tabs = self.paragraph.tabs.clone();
        let distance = if text.contains('\t') { self.tab_distance() } else { None };
        let (level, is_struck) = (self.level, self.is_struck);
        let out = self.out();
        for (i, text) in text.split('\t').enumerate() {
            if i > 0 {
                out.tab(&tabs, distance);
            }
            out.struck(is_struck, |out| out.text_at(level, text));
        }
    }

    fn begin_text(&mut self) {
        if std::mem::replace(&mut self.paragraph.has_begun, true) {
            return;
        }
        let level = self.paragraph.level;
        let usual =
            if self.role == Role::Body { Mark::Bullet(String::new(), "•".to_owned()) } else { Mark::None };
        let mark = self.paragraph.mark.take().unwrap_or(usual);
        // Lists below this one begin anew.
        self.numbers[level + 1..].fill(None);
        let text = match &mark {
            Mark::None => String::new(),
            Mark::Bullet(font, text) => symbols::bullet(font, text).to_owned(),
            Mark::Number(kind, start) => {
                let count = match &self.numbers[level] {
                    Some((before, count)) if *before == mark => count.saturating_add(1),
                    _ => *start,
                };
                let text = numbered(kind, count);
                self.numbers[level] = Some((mark.clone(), count));
                text
            }
        };
        if !matches!(mark, Mark::Number(..)) {
            self.numbers[level] = None;
        }
        let role = self.role;
        let out = self.out();
        match text.is_empty() {
            false if role != Role::Title => out.item(level, &text),
            _ => out.line(),
        }
    }
}

/// A number of a kind such as `romanLcParenR`.
fn numbered(kind: &str, number: i64) -> String {
    let name = if kind.starts_with("alphaLc") {
        "lowerLetter"
    } else if kind.starts_with("alphaUc") {
        "upperLetter"
    } else if kind.starts_with("romanLc") {
        "lowerRoman"
    } else if kind.starts_with("romanUc") {
        "upperRoman"
    } else if kind.starts_with("circleNum") {
        "decimalEnclosedCircle"
    } else if kind.starts_with("ea1") {
        "chineseCounting"
    } else {
        "decimal"
    };
    let number = Format::of_word(name).unwrap_or_default().write(number);
    match kind {
        kind if kind.ends_with("ParenBoth") => format!("({number})"),
        kind if kind.ends_with("ParenR") => format!("{number})"),
        kind if kind.ends_with("Plain") => number,
        _ => format!("{number}."),
    }
}
