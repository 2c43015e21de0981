//! PPTX (ECMA-376, PresentationML): the slides in their order, each with its title, text, tables, notes and comments.
//! Hidden slides are left out.

use super::drawings::Drawings;
use super::omml::{self, Omml};
use super::relations::{Relations, main_part};
use crate::counts::Counts;
use crate::marks;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::selection::Chooser;
use crate::writer::ordinal::Format;
use crate::writer::{Level, Span, Writer, symbols};
use crate::{Converted, Options, Problem, Unit};

const PRESENTATION: &str = "ppt/presentation.xml";
/// Levels of lists.
const LEVELS: usize = 9;
/// A run is raised or lowered from so many thousandths of a percent on.
const RAISED: i64 = 5_000;

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
    xml::read(&part, &archive.text(&part)?, |piece| {
        if let Piece::Start(element) = piece
            && element.name == "sldId"
        {
            // Its own number has the same name without a prefix.
            ids.extend(element.attribute_of("r:id").or_else(|| element.attribute("id")));
        }
        Ok(())
    })?;
    let (mut text, mut counts) = (String::new(), Counts::default());
    let mut chooser = Chooser::new(options.selection.as_ref(), Unit::Slide);
    for (i, part) in ids.iter().filter_map(|id| relations.target(id)).enumerate() {
        if !chooser.takes_next() {
            continue;
        }
        let Some(slide) = Slide::read(&mut archive, part, &mut counts)? else {
            counts.hidden_parts += 1;
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
        counts.unfilled_rows += slide.writer.unfilled_rows();
        let body = slide.writer.finish();
        if !body.is_empty() {
            text.push('\n');
            text.push_str(&body);
        }
        if text.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    let notes = chooser.note()?.into_iter().chain(counts.notes()).collect();
    Ok(Converted { text, notes, ..Converted::default() })
}

/// What the text of a shape is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    #[default]
    Text,
    /// Paragraphs are items of a list unless they say otherwise.
    Body,
    Title,
    /// Numbers of slides, dates and footers, which each slide repeats.
    Repeated,
}

/// A paragraph.
#[derive(Debug, Default)]
struct Paragraph {
    level: usize,
    mark: Option<Mark>,
    has_begun: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Mark {
    None,
    Bullet(String, String),
    Number(String, i64),
}

/// A slide while it is read.
#[derive(Default)]
struct Slide {
    writer: Writer,
    title: Writer,
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
    font: String,
    paragraph: Paragraph,
    /// Numbers of the last paragraphs of each level, with what they count.
    numbers: [Option<(Mark, i64)>; LEVELS],
    in_cell: bool,
    bullet_font: String,
    description: Option<String>,
    drawings: Drawings,
    unknown: usize,
    pictures: usize,
}

impl Slide {
    /// Reads a slide with its notes and comments. `None` if it is hidden.
    fn read(archive: &mut Archive, part: &str, counts: &mut Counts) -> Result<Option<Slide>, Problem> {
        let relations = Relations::of(archive, part)?;
        let mut slide = Slide { drawings: Drawings::of(archive, &relations)?, ..Slide::default() };
        slide.part(archive, part)?;
        if slide.is_hidden {
            return Ok(None);
        }
        for (kind, name) in [("notesSlide", "Notes"), ("comments", "Comment"), ("comment", "Comment")] {
            for relation in relations.all(kind) {
                let mut notes = Slide { are_notes: true, ..Slide::default() };
                notes.part(archive, &relation.target)?;
                let text = notes.writer.finish();
                if !text.trim().is_empty() {
                    slide.writer.paragraph();
                    slide.writer.text(&format!("[{name}] {text}"));
                }
            }
        }
        counts.unknown_characters += slide.unknown;
        counts.pictures += slide.pictures;
        Ok(Some(slide))
    }

    fn part(&mut self, archive: &mut Archive, part: &str) -> Result<(), Problem> {
        let text = archive.text(part)?;
        self.writer.end_tables();
        (self.skipping, self.in_text, self.math) = (0, false, None);
        xml::read(part, &text, |piece| {
            self.piece(piece);
            Ok(())
        })
    }

    fn piece(&mut self, piece: Piece) {
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
        let is_set = |name: &str| value(name).is_some_and(|value| value == "1" || value == "true");
        match element.name.as_str() {
            "Fallback" | "tblPr" | "tblGrid" | "extLst" | "sp3d" => self.skipping = 1,
            "sld" => self.is_hidden = value("show").is_some_and(|value| value == "0" || value == "false"),
            "sp" | "graphicFrame" | "pic" | "cxnSp" => {
                self.role = Role::Text;
                self.numbers = Default::default();
                self.description = None;
            }
            "cNvPr" if is_set("hidden") => self.role = Role::Repeated,
            "cNvPr" => {
                self.description = value("descr").filter(|text| !text.trim().is_empty());
            }
            "ph" => {
                self.role = match value("type").as_deref() {
                    Some("title" | "ctrTitle") => Role::Title,
                    Some("sldNum" | "dt" | "ftr" | "hdr" | "sldImg") => Role::Repeated,
                    Some("subTitle") => Role::Text,
                    _ if self.are_notes => Role::Text,
                    _ => Role::Body,
                }
            }
            "chart" | "relIds" => {
                let is_written = self.drawings.write(element, &mut self.writer);
                self.pictures += usize::from(!is_written);
            }
            "blip" => match self.description.take() {
                Some(text) => self.text(&format!("[image: {}]", text.trim())),
                None => self.pictures += 1,
            },
            "tbl" => {
                self.role = Role::Text;
                self.out().begin_table();
            }
            "tr" => self.out().row(),
            // Cells that another one covers are in the file, too.
            "tc" if is_set("hMerge") || is_set("vMerge") => self.skipping = 1,
            "tc" => {
                let span = Span::new(number("gridSpan").unwrap_or(1), number("rowSpan").unwrap_or(1));
                self.in_cell = true;
                self.out().cell(span);
            }
            "p" => self.paragraph = Paragraph::default(),
            "pPr" => self.paragraph.level = number("lvl").unwrap_or(0).min(LEVELS - 1),
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
                (self.level, self.is_struck) = (Level::Normal, false);
                self.font.clear();
                if element.name == "fld" && value("type").is_some_and(|kind| kind == "slidenum") {
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
            _ => {}
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
            "p" => {
                self.out().end_item();
                if self.paragraph.has_begun && self.role != Role::Title {
                    self.out().line();
                }
                self.paragraph = Paragraph::default();
            }
            "sp" => {
                self.writer.paragraph();
                self.role = Role::Text;
            }
            "tc" => self.in_cell = false,
            "tbl" => self.out().end_table(),
            "oMath" => {
                if let Some(math) = self.math.take() {
                    let formula = math.finish();
                    self.text(&formula);
                }
            }
            _ => {}
        }
    }

    fn out(&mut self) -> &mut Writer {
        if self.role == Role::Title { &mut self.title } else { &mut self.writer }
    }

    fn text(&mut self, text: &str) {
        if self.role == Role::Repeated {
            return;
        }
        self.begin_text();
        let (text, unknown) = match self.font.as_str() {
            "" => (text.to_owned(), 0),
            font => symbols::text(font, text),
        };
        self.unknown += unknown;
        let (level, is_struck) = (self.level, self.is_struck);
        let out = self.out();
        if is_struck {
            out.begin_struck();
        }
        out.text_at(level, &text);
        if is_struck {
            out.end_struck();
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
