//! What is drawn on a sheet: shapes with text, pictures, charts, and boxes of forms.

use std::collections::BTreeMap;

use crate::Problem;
use crate::color::Color;
use crate::counts::Counts;
use crate::office::drawings::Drawings;
use crate::office::fill::Scheme;
use crate::office::relations::Relations;
use crate::office::shape::{Letters, ShapeLook};
use crate::office::sight::Sight;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::writer::Writer;
use crate::writer::ordinal;
use crate::writer::symbols::{CHOSEN, EMPTY, NOT_CHOSEN, TICKED};

/// Boxes of a sheet that are read.
const MAX_CONTROLS: usize = 10_000;

/// What a sheet draws.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    /// Texts of shapes, pictures and boxes.
    texts: Vec<String>,
    charts: Vec<String>,
    /// Boxes and buttons by the numbers of their shapes: their signs and names.
    boxes: BTreeMap<String, (&'static str, String)>,
}

/// A control as a sheet names it.
#[derive(Debug)]
pub(super) struct Control {
    shape: String,
    name: String,
    relation: String,
}

impl Control {
    pub(super) fn of(element: &Element) -> Control {
        let value = |name: &str| element.attribute_of(name).unwrap_or_default();
        Control { shape: value("shapeId"), name: value("name"), relation: value("r:id") }
    }
}

/// A shape or a picture while it is read.
#[derive(Debug, Default)]
struct Shape {
    number: String,
    is_hidden: bool,
    description: Option<String>,
    text: String,
    look: ShapeLook,
    /// Whether it has white text that nobody may see, and whether its hidden text is counted.
    has_white: bool,
    is_counted: bool,
}

impl Drawn {
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.charts.is_empty() && self.boxes.is_empty()
    }

    /// Reads the boxes of forms. What is damaged is none.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(super) fn read_boxes(
        &mut self,
        archive: &mut Archive,
        relations: &Relations,
        controls: Vec<Control>,
    ) -> Result<(), Problem> {
        if controls.is_empty() {
            return Ok(());
        }
        let boxes = relations.read_all(archive, "ctrlProp", sign)?;
        for control in controls.into_iter().take(MAX_CONTROLS) {
            if let Some(sign) = boxes.get(&control.relation) {
                self.boxes.insert(control.shape, (*sign, control.name));
            }
        }
        Ok(())
    }

    /// Reads a drawing. What comes before damage counts.
    pub(super) fn read(
        &mut self,
        text: &str,
        part: &str,
        (drawings, scheme): (&Drawings, &Scheme),
        counts: &mut Counts,
    ) {
        let (mut in_text, mut in_body, mut in_from) = (false, false, false);
        let (mut letters, mut in_run, mut level) = (Letters::default(), false, 0);
        let (mut shape, mut anchor, mut in_anchor) = (Shape::default(), [String::new(), String::new()], None);
        let _ = xml::read(part, text, |piece| {
            match piece {
                Piece::Start(element) => match element.name.as_str() {
                    "sp" | "pic" => shape = Shape::default(),
                    "from" => (anchor, in_from) = (Default::default(), true),
                    "col" if in_from => in_anchor = Some(0),
                    "row" if in_from => in_anchor = Some(1),
                    "cNvPr" => {
                        let value = |name: &str| element.attribute(name);
                        shape.number = value("id").unwrap_or_default();
                        shape.is_hidden = element.is_set("hidden");
                        shape.description = value("descr").filter(|text| !text.trim().is_empty());
                    }
                    "chart" | "relIds" => {
                        let mut writer = Writer::default();
                        let is_written = drawings.write(&element, &mut writer);
                        counts.pictures += usize::from(!is_written);
                        self.charts.extend(Some(writer.finish()).filter(|text| !text.is_empty()));
                    }
                    "txBody" => in_body = true,
                    "p" => (shape.is_counted, level) = (false, 0),
                    "pPr" => {
                        level = element.attribute("lvl").and_then(|level| level.parse().ok()).unwrap_or(0);
                    }
                    "r" => letters = Letters::default(),
                    "rPr" => in_run = in_body,
                    "t" => in_text = in_body,
                    _ if in_run => letters.start(&element, scheme),
                    _ => shape.look.start(&element, scheme),
                },
                Piece::End(name) => match name.as_str() {
                    "t" => in_text = false,
                    "rPr" => in_run = false,
                    "txBody" => in_body = false,
                    "col" | "row" => in_anchor = None,
                    "from" => in_from = false,
                    "p" | "br" if in_body => shape.text.push('\n'),
                    "sp" => self.end_shape(std::mem::take(&mut shape), &anchor, counts),
                    "pic" => match shape.description.take() {
                        Some(text) => self.texts.push(format!("[image: {}]", text.trim())),
                        None => counts.pictures += 1,
                    },
                    _ if in_run => letters.end(&name),
                    _ => shape.look.end(&name),
                },
                Piece::Text(text) if in_text => {
                    let letters = letters.over(&shape.look.text(level).letters);
                    match letters.sight(shape.look.ground(), Color::Unknown) {
                        Sight::Hidden if text.trim().is_empty() => {}
                        Sight::Hidden => {
                            counts.hidden += usize::from(!std::mem::replace(&mut shape.is_counted, true));
                        }
                        sight => {
                            shape.has_white |= sight == Sight::Uncertain && !text.trim().is_empty();
                            shape.text.push_str(&text);
                        }
                    }
                }
                Piece::Text(text) => {
                    if let Some(at) = in_anchor {
                        anchor[at].push_str(&text);
                    }
                }
            }
            Ok(())
        });
    }

    fn end_shape(&mut self, shape: Shape, anchor: &[String; 2], counts: &mut Counts) {
        let text = shape.text.trim();
        counts.white += usize::from(shape.has_white && !shape.is_hidden);
        if let Some((sign, name)) = self.boxes.remove(&shape.number) {
            let place = cell_name(anchor).map_or(String::new(), |cell| format!("[{cell}] "));
            let label = if text.is_empty() { name.as_str() } else { text };
            return self.texts.push(format!("{place}{sign} {label}"));
        }
        match (text.is_empty(), shape.is_hidden) {
            (true, _) => {}
            (false, true) => counts.hidden += 1,
            (false, false) => self.texts.push(text.to_owned()),
        }
    }

    /// Writes it below the cells. Boxes without a shape have a name only.
    pub(super) fn write(self, writer: &mut Writer) {
        let boxes = self.boxes.into_values().map(|(sign, name)| format!("{sign} {name}"));
        for text in self.texts.into_iter().chain(boxes) {
            writer.paragraph();
            writer.text(&text);
        }
        for chart in self.charts {
            writer.paragraph();
            writer.preformatted(chart.trim_end());
        }
    }
}

/// The sign of a box or a button of a form, by whether it is ticked; `None` for other controls.
fn sign(text: &str, part: &str) -> Option<&'static str> {
    let mut sign = None;
    let _ = xml::read(part, text, |piece| {
        if let Piece::Start(element) = piece {
            let is_ticked = element.attribute("checked").is_some_and(|state| state == "Checked");
            sign = match (element.attribute("objectType").as_deref(), is_ticked) {
                (Some("CheckBox"), true) => Some(TICKED),
                (Some("CheckBox"), false) => Some(EMPTY),
                (Some("Radio"), true) => Some(CHOSEN),
                (Some("Radio"), false) => Some(NOT_CHOSEN),
                _ => sign,
            };
        }
        Ok(())
    });
    sign
}

/// The name of the cell with these numbers of its column and row, from 0 on.
fn cell_name([column, row]: &[String; 2]) -> Option<String> {
    let column = i64::from(column.trim().parse::<u16>().ok()?) + 1;
    let row = row.trim().parse::<u32>().ok()?.checked_add(1)?;
    Some(ordinal::positional(column, ordinal::LATIN_UPPER) + &row.to_string())
}
