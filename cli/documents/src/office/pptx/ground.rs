//! What is behind the text of a slide: the fill of its shape, the background, and what may be drawn in between.

use std::collections::HashMap;

use crate::Problem;
use crate::office::relations::Relations;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::web::html::Color;

/// Text less opaque than this is not seen, in thousandths of a percent.
const CLEAR: i64 = 5_000;

/// The colours of a theme, and which of them slides call how.
#[derive(Debug, Default)]
pub(super) struct Scheme {
    colors: HashMap<String, Color>,
    names: HashMap<String, String>,
}

impl Scheme {
    /// The colour that an element names; `None` for other elements.
    pub(super) fn color(&self, element: &Element) -> Option<Color> {
        let value = |name: &str| element.attribute(name).unwrap_or_default();
        Some(match element.name.as_str() {
            "srgbClr" => Color::parse(&format!("#{}", value("val"))),
            "sysClr" => Color::parse(&format!("#{}", value("lastClr"))),
            "schemeClr" => {
                let name = value("val");
                let name = self.names.get(&name).unwrap_or(&name);
                let usual = if name == "bg1" || name == "lt1" { Color::WHITE } else { Color::Unknown };
                self.colors.get(name).copied().unwrap_or(usual)
            }
            "prstClr" => Color::parse(&value("val")),
            "scrgbClr" | "hslClr" => Color::Unknown,
            _ => return None,
        })
    }
}

/// What is between the tags of an element that fills something.
#[derive(Debug, Default)]
pub(super) struct Fill {
    color: Option<Color>,
    in_solid: bool,
}

impl Fill {
    pub(super) fn start(&mut self, element: &Element, scheme: &Scheme) {
        match element.name.as_str() {
            "solidFill" => (self.in_solid, self.color) = (true, Some(Color::Unknown)),
            "gradFill" | "blipFill" | "pattFill" | "grpFill" => self.color = Some(Color::Unknown),
            "noFill" => self.color = Some(Color::Transparent),
            "alpha" if self.in_solid => {
                let share = element
                    .attribute("val")
                    .and_then(|share| share.trim_end_matches('%').parse::<i64>().ok());
                let is_clear = share.is_some_and(|share| share < CLEAR);
                self.color = Some(if is_clear { Color::Transparent } else { Color::Unknown });
            }
            "lumMod" | "lumOff" | "tint" | "shade" | "satMod" if self.in_solid => {
                self.color = Some(Color::Unknown)
            }
            _ if self.in_solid => self.color = scheme.color(element).or(self.color),
            _ => {}
        }
    }

    pub(super) fn end(&mut self, name: &str) {
        self.in_solid &= name != "solidFill";
    }

    /// The colour of text or of a shape.
    pub(super) fn color(&self) -> Option<Color> {
        self.color
    }
}

/// What slides of a layout have behind their text.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) scheme: Scheme,
    /// The colour of the background, if the slide has no other.
    pub(super) page: Color,
    /// Whether something else is drawn there.
    pub(super) has_shapes: bool,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { scheme: Scheme::default(), page: Color::WHITE, has_shapes: false }
    }
}

impl Layout {
    /// The layout of a slide. What is damaged is not known.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(super) fn of(archive: &mut Archive, layout: Option<&str>) -> Result<Layout, Problem> {
        let mut found = Layout::default();
        let Some(layout) = layout else { return Ok(found) };
        let relations = Relations::of(archive, layout)?;
        let master = relations.of_kind("slideMaster").map(str::to_owned);
        let of_master = master.as_deref().map(|master| Relations::of(archive, master)).transpose()?;
        let theme = of_master.as_ref().and_then(|relations| relations.of_kind("theme"));
        let mut name = String::new();
        found.part(archive, theme, |layout, piece| {
            if let Piece::Start(element) = piece {
                match (layout.scheme.color(element), element.name.as_str()) {
                    (Some(color), _) => _ = layout.scheme.colors.entry(name.clone()).or_insert(color),
                    (None, _) => name.clone_from(&element.name),
                }
            }
        })?;
        found.part(archive, master.as_deref(), |layout, piece| {
            if let Piece::Start(element) = piece
                && element.name == "clrMap"
            {
                for name in ["bg1", "tx1", "bg2", "tx2"] {
                    layout.scheme.names.extend(element.attribute(name).map(|color| (name.to_owned(), color)));
                }
            }
        })?;
        for part in [master.as_deref(), Some(layout)] {
            let mut background = Background::default();
            found.part(archive, part, |layout, piece| {
                background.piece(piece, &layout.scheme);
                if let Piece::Start(element) = piece {
                    let fills =
                        ["solidFill", "gradFill", "blipFill", "pattFill"].contains(&element.name.as_str());
                    layout.has_shapes |= background.in_shape && fills;
                }
            })?;
            found.page = background.color.unwrap_or(found.page);
        }
        Ok(found)
    }

    fn part(
        &mut self,
        archive: &mut Archive,
        part: Option<&str>,
        mut on_piece: impl FnMut(&mut Layout, &Piece),
    ) -> Result<(), Problem> {
        let Some(part) = part else { return Ok(()) };
        let text = match archive.text(part) {
            Ok(text) => text,
            Err(problem @ Problem::Unpacked { .. }) => return Err(problem),
            Err(_) => return Ok(()),
        };
        let _ = xml::read(part, &text, |piece| {
            on_piece(self, &piece);
            Ok(())
        });
        Ok(())
    }
}

/// The background of a slide, a layout or a master.
#[derive(Debug, Default)]
pub(super) struct Background {
    pub(super) color: Option<Color>,
    fill: Option<Fill>,
    /// Whether the properties of a shape or a picture are open.
    in_shape: bool,
}

impl Background {
    pub(super) fn piece(&mut self, piece: &Piece, scheme: &Scheme) {
        match piece {
            Piece::Start(element) => match element.name.as_str() {
                "bg" => self.fill = Some(Fill::default()),
                // The theme may have a picture there.
                "bgRef" if element.attribute("idx").as_deref() != Some("1001") => {
                    self.color = Some(Color::Unknown);
                    self.fill = None;
                }
                "bgRef" => self.fill = Some(Fill { color: None, in_solid: true }),
                "spPr" | "pic" => self.in_shape = true,
                _ => self.fill.iter_mut().for_each(|fill| fill.start(element, scheme)),
            },
            Piece::End(name) => match name.as_str() {
                "bg" => self.color = self.fill.take().and_then(|fill| fill.color).or(self.color),
                "spPr" | "pic" => self.in_shape = false,
                _ => self.fill.iter_mut().for_each(|fill| fill.end(name)),
            },
            Piece::Text(_) => {}
        }
    }
}
