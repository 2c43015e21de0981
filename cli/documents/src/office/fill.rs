//! Colours of DrawingML (ECMA-376, part 1, 20.1): what fills a shape, and the colour of its text.

use std::collections::HashMap;

use crate::package::xml::{self, Element, Piece};
use crate::web::html::Color;

/// Text less opaque than this is not seen, in thousandths of a percent.
const CLEAR: i64 = 5_000;
/// Colours of a theme that are read. It has twelve.
const MAX_COLORS: usize = 16;

/// The colours of a theme, and which of them slides call how.
#[derive(Debug, Default)]
pub(super) struct Scheme {
    colors: HashMap<String, Color>,
    names: HashMap<String, String>,
}

impl Scheme {
    /// Reads the colours of a theme. What comes before damage counts.
    pub(super) fn read_theme(&mut self, part: &str, text: &str) {
        let (mut in_scheme, mut name) = (false, String::new());
        let _ = xml::read(part, text, |piece| {
            match piece {
                Piece::Start(element) if element.name == "clrScheme" => in_scheme = true,
                Piece::End(name) if name == "clrScheme" => in_scheme = false,
                Piece::Start(element) if in_scheme && self.colors.len() < MAX_COLORS => {
                    match self.color(&element) {
                        Some(color) => _ = self.colors.insert(std::mem::take(&mut name), color),
                        None => name = element.name,
                    }
                }
                _ => {}
            }
            Ok(())
        });
    }

    /// Reads how slides call the colours of the theme.
    pub(super) fn read_names(&mut self, part: &str, text: &str) {
        let _ = xml::read(part, text, |piece| {
            if let Piece::Start(element) = piece
                && element.name == "clrMap"
            {
                for name in ["bg1", "tx1", "bg2", "tx2"] {
                    self.names.extend(element.attribute(name).map(|color| (name.to_owned(), color)));
                }
            }
            Ok(())
        });
    }

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
    /// One whose colour follows.
    pub(super) fn solid() -> Fill {
        Fill { color: None, in_solid: true }
    }

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
