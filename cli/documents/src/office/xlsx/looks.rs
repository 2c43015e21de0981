//! The styles of cells: the codes of their numbers, whether their text is struck out, whether a reader sees it, whether they
//! show a box.

use crate::color::Color;
use crate::office::fill::Scheme;
use crate::office::sight::{self, Sight};
use crate::package::xml::Element;

/// Text of so many points cannot be read.
const TINY: f64 = 1.0;

/// The looks of the styles of cells.
#[derive(Debug, Default)]
pub(super) struct Looks {
    fonts: Vec<Font>,
    fills: Vec<Color>,
    cells: Vec<Cell>,
    open: Open,
    /// Whether the fill that is read has one colour.
    is_solid: bool,
    /// The colours of the theme.
    pub(super) scheme: Scheme,
    /// Whether the workbook has a list of colours of its own.
    pub(super) has_own_list: bool,
}

#[derive(Debug, Default)]
struct Font {
    name: String,
    is_struck: bool,
    is_tiny: bool,
    color: Option<Color>,
}

/// A style of cells: the numbers of its code, its font and its fill, and whether it shows a value as a box.
#[derive(Debug)]
struct Cell {
    code: usize,
    font: usize,
    fill: usize,
    is_box: bool,
}

/// The list that is read.
#[derive(Clone, Copy, Debug, Default)]
enum Open {
    #[default]
    None,
    Fonts,
    Fills,
    Cells,
}

impl Looks {
    pub(super) fn start(&mut self, element: &Element) {
        let number = |name: &str| element.attribute(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        let named = || color(element, &self.scheme, self.has_own_list);
        let (font, fill) = (self.fonts.last_mut(), self.fills.last_mut());
        match (self.open, element.name.as_str(), font, fill) {
            (_, "fonts", ..) => self.open = Open::Fonts,
            (_, "fills", ..) => self.open = Open::Fills,
            (_, "cellXfs", ..) => self.open = Open::Cells,
            (Open::Fonts, "font", ..) => self.fonts.push(Font::default()),
            (Open::Fonts, "name", Some(font), _) => font.name = element.attribute("val").unwrap_or_default(),
            (Open::Fonts, "strike", Some(font), _) => font.is_struck = element.is_on(),
            (Open::Fonts, "sz", Some(font), _) => {
                let size = element.attribute("val").and_then(|size| size.parse::<f64>().ok());
                font.is_tiny = size.is_some_and(|size| size <= TINY);
            }
            (Open::Fonts, "color", Some(font), _) => font.color = Some(named()),
            (Open::Fills, "fill", ..) => self.fills.push(Color::Transparent),
            (Open::Fills, "patternFill", _, Some(fill)) => {
                let kind = element.attribute("patternType").filter(|kind| kind != "none");
                *fill = if kind.is_some() { Color::Unknown } else { Color::Transparent };
                self.is_solid = kind.is_some_and(|kind| kind == "solid");
            }
            (Open::Fills, "fgColor", _, Some(fill)) if self.is_solid => *fill = named(),
            (Open::Fills, "gradientFill", _, Some(fill)) => *fill = Color::Unknown,
            (Open::Cells, "xf", ..) => {
                let (code, font, fill) = (number("numFmtId"), number("fontId"), number("fillId"));
                self.cells.push(Cell { code, font, fill, is_box: false });
            }
            (Open::Cells, "xfComplement", ..) => {
                self.cells.iter_mut().last().into_iter().for_each(|cell| cell.is_box = true);
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, name: &str) {
        if matches!(name, "fonts" | "fills" | "cellXfs") {
            self.open = Open::None;
        }
    }

    /// The colour of a part of a text.
    pub(super) fn color(&self, element: &Element) -> Color {
        color(element, &self.scheme, self.has_own_list)
    }

    /// The number of the code of a style; 0 is that of no style.
    pub(super) fn code(&self, style: usize) -> usize {
        self.cells.get(style).map_or(0, |cell| cell.code)
    }

    fn font(&self, style: usize) -> Option<&Font> {
        self.cells.get(style).and_then(|cell| self.fonts.get(cell.font))
    }

    fn fill(&self, style: usize) -> Option<Color> {
        self.cells.get(style).and_then(|cell| self.fills.get(cell.fill)).copied()
    }

    /// Whether something fills cells of a style.
    pub(super) fn has_fill(&self, style: usize) -> bool {
        self.fill(style).is_some_and(|fill| fill != Color::Transparent)
    }

    /// Whether cells of a style are struck out.
    pub(super) fn is_struck(&self, style: usize) -> bool {
        self.font(style).is_some_and(|font| font.is_struck)
    }

    /// The font of cells of a style.
    pub(super) fn font_name(&self, style: usize) -> Option<&str> {
        self.font(style).map(|font| font.name.as_str())
    }

    /// Whether cells of a style show TRUE and FALSE as boxes.
    pub(super) fn is_box(&self, style: usize) -> bool {
        self.cells.get(style).is_some_and(|cell| cell.is_box)
    }

    /// Whether a reader sees the text of cells of a style, or of a part of it with another colour. Where they have no fill,
    /// it is uncertain for white text: rules of the sheet may fill them.
    pub(super) fn sight(&self, style: usize, color: Option<Color>) -> Sight {
        let font = self.font(style);
        match font.is_some_and(|font| font.is_tiny) {
            true => Sight::Hidden,
            false => {
                let color = color.or(font.and_then(|font| font.color));
                sight::of_color(color, &[self.fill(style)], Color::Unknown)
            }
        }
    }
}

/// The colour of a font or a fill. Numbers 1 and 9 of the usual list are white, and no other one is nearly so.
fn color(element: &Element, scheme: &Scheme, has_own_list: bool) -> Color {
    let value = |name: &str| element.attribute(name);
    let tint = value("tint").and_then(|tint| tint.parse::<f64>().ok()).unwrap_or(0.0);
    let color = match (value("rgb"), value("theme"), value("indexed")) {
        // How opaque it is counts for nothing, and some programs leave out these first two digits.
        (Some(digits), ..) => {
            let start = digits.len().saturating_sub(6);
            Color::of_digits(digits.get(start..).unwrap_or_default())
        }
        (None, Some(number), _) => number.parse().map_or(Color::Unknown, |number| scheme.numbered(number)),
        (None, None, Some(number)) => match number.parse::<usize>() {
            Ok(1 | 9) if !has_own_list => Color::WHITE,
            Ok(..64) if !has_own_list => Color::NotWhite,
            _ => Color::Unknown,
        },
        _ => Color::Unknown,
    };
    tinted(color, tint)
}

/// A colour that is made lighter (from 0 to 1) or darker (from 0 to -1).
fn tinted(color: Color, tint: f64) -> Color {
    let tint = tint.clamp(-1.0, 1.0);
    let part = |part: u8| match tint < 0.0 {
        true => (f64::from(part) * (1.0 + tint)) as u8,
        false => (f64::from(part) + (255.0 - f64::from(part)) * tint) as u8,
    };
    match color {
        Color::Known(r, g, b) => Color::Known(part(r), part(g), part(b)),
        Color::NotWhite if tint > 0.0 => Color::Unknown,
        color => color,
    }
}
