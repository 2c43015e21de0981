//! Colours of DrawingML (ECMA-376, part 1, 20.1): what fills a shape, and the colour of its text.

use std::collections::HashMap;

use super::relations::Relations;
use crate::Problem;
use crate::color::Color;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};

/// Text less opaque than this is not seen, in thousandths of a percent.
const CLEAR: i64 = 5_000;
/// The whole of a colour, and the share of white from which on less is not white.
const WHOLE: i64 = 100_000;
const DARKER: i64 = 85_000;
/// The element of a slide or a layout that calls the colours of the theme otherwise than its master does.
pub(super) const OTHER_NAMES: &str = "overrideClrMapping";
/// Colours of a theme that are read. It has twelve.
const MAX_COLORS: usize = 16;

/// The colours of a theme, and which of them slides call how.
#[derive(Clone, Debug, Default)]
pub(super) struct Scheme {
    colors: HashMap<String, Color>,
    names: HashMap<String, String>,
}

impl Scheme {
    /// The colours of the theme of a part. Damage leaves some out.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(super) fn of(archive: &mut Archive, relations: &Relations) -> Result<Scheme, Problem> {
        let themes = relations.read_all(archive, "theme", |text, part| {
            let mut scheme = Scheme::default();
            scheme.read_theme(part, text);
            Some(scheme)
        })?;
        Ok(themes.into_values().next().unwrap_or_default())
    }

    fn read_theme(&mut self, part: &str, text: &str) {
        let (mut in_scheme, mut name) = (false, String::new());
        let _ = xml::read(part, text, |piece| {
            match piece {
                Piece::Start(element) if element.name == "clrScheme" => in_scheme = true,
                Piece::End(name) if name == "clrScheme" => in_scheme = false,
                Piece::Start(element) if in_scheme && self.colors.len() < MAX_COLORS => {
                    match self.color(&element) {
                        // The file need not say which colour that of the system is.
                        Some(Color::Unknown) => {}
                        Some(color) => _ = self.colors.insert(std::mem::take(&mut name), color),
                        None => name = element.name,
                    }
                }
                _ => {}
            }
            Ok(())
        });
    }

    /// The colour that workbooks call by a number.
    pub(super) fn numbered(&self, number: usize) -> Color {
        const NAMES: [&str; 10] =
            ["lt1", "dk1", "lt2", "dk2", "accent1", "accent2", "accent3", "accent4", "accent5", "accent6"];
        NAMES.get(number).map_or(Color::Unknown, |name| self.of_theme(name))
    }

    /// A colour by its name in the theme.
    fn of_theme(&self, name: &str) -> Color {
        let usual = if name == "lt1" { Color::WHITE } else { Color::Unknown };
        self.colors.get(name).copied().unwrap_or(usual)
    }

    /// Reads how slides call the colours of the theme.
    pub(super) fn read_names(&mut self, part: &str, text: &str) {
        let _ = xml::read(part, text, |piece| {
            if let Piece::Start(element) = piece
                && matches!(element.name.as_str(), "clrMap" | OTHER_NAMES)
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
            "srgbClr" => Color::of_digits(&value("val")),
            "sysClr" => Color::of_digits(&value("lastClr")),
            "schemeClr" => {
                let name = value("val");
                let usual = match name.as_str() {
                    "bg1" => "lt1",
                    "tx1" => "dk1",
                    "bg2" => "lt2",
                    "tx2" => "dk2",
                    name => name,
                };
                self.of_theme(self.names.get(&name).map_or(usual, String::as_str))
            }
            "prstClr" => Color::parse(&value("val")),
            "scrgbClr" | "hslClr" => Color::Unknown,
            _ => return None,
        })
    }
}

/// What is between the tags of an element that fills something.
#[derive(Clone, Debug, Default)]
pub(super) struct Fill {
    color: Option<Color>,
    /// The colour that the file names, before it is made lighter or darker.
    named: Option<Color>,
    is_open: bool,
    /// What the colours of a gradient have in common.
    gradient: Option<Color>,
}

impl Fill {
    /// One whose colour follows.
    pub(super) fn solid() -> Fill {
        Fill { is_open: true, ..Fill::default() }
    }

    pub(super) fn start(&mut self, element: &Element, scheme: &Scheme) {
        match element.name.as_str() {
            "solidFill" | "gs" => {
                *self = Fill { color: Some(Color::Unknown), gradient: self.gradient, ..Fill::solid() };
            }
            "gradFill" | "blipFill" | "pattFill" | "grpFill" => self.color = Some(Color::Unknown),
            "noFill" => self.color = Some(Color::Transparent),
            name @ ("alpha" | "lumMod" | "lumOff" | "tint" | "shade" | "satMod") if self.is_open => {
                let share = element.attribute("val");
                let share = share.and_then(|share| share.trim_end_matches('%').parse().ok());
                self.color = Some(self.changed(name, share.unwrap_or(WHOLE)));
            }
            _ if self.is_open => {
                if let Some(color) = scheme.color(element) {
                    (self.named, self.color) = (Some(color), Some(color));
                }
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, name: &str) {
        match name {
            "solidFill" => self.is_open = false,
            "gs" => {
                self.is_open = false;
                let own = self.color.map_or(Color::Unknown, not_white);
                self.gradient = self.gradient.filter(|color| *color == Color::Unknown).or(Some(own));
            }
            "gradFill" => self.color = self.gradient.take().or(self.color),
            _ => {}
        }
    }

    /// The colour after a change by a share, in thousandths of a percent.
    fn changed(&self, name: &str, share: i64) -> Color {
        let (color, named) = (self.color.unwrap_or(Color::Unknown), self.named.unwrap_or(Color::Unknown));
        let stays_dark = match name {
            "alpha" if share < CLEAR => return Color::Transparent,
            "alpha" if share >= WHOLE => return color,
            "alpha" | "tint" => share >= WHOLE / 5,
            "lumOff" => share <= WHOLE - WHOLE / 5,
            "lumMod" => share <= WHOLE,
            _ => true,
        };
        let is_darker_white =
            named.is_lost_on(Color::WHITE) && matches!(name, "lumMod" | "shade") && share <= DARKER;
        match color {
            Color::Transparent | Color::Unknown => color,
            _ if is_darker_white || (stays_dark && named.is_far_from_white()) => Color::NotWhite,
            _ => Color::Unknown,
        }
    }

    /// This fill, or another one where it has no colour.
    pub(super) fn over(&self, other: &Fill) -> Fill {
        if self.color.is_some() { self.clone() } else { other.clone() }
    }

    /// The colour of text or of a shape.
    pub(super) fn color(&self) -> Option<Color> {
        self.color
    }
}

/// What is certain of a colour that is made lighter or darker in a way that is not known.
pub(super) fn not_white(color: Color) -> Color {
    match color {
        Color::NotWhite => Color::NotWhite,
        color if color.is_far_from_white() => Color::NotWhite,
        _ => Color::Unknown,
    }
}
