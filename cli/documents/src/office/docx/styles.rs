//! Styles of DOCX: what paragraphs and runs are unless they say otherwise.

use std::collections::HashMap;
use std::rc::Rc;

use super::numbering::NumberOf;
use super::table_styles::TableParts;
use crate::Problem;
use crate::color::Color;
use crate::office::listings;
use crate::package::Archive;
use crate::package::xml::{self, Element, Piece};
use crate::writer::{Align, Level, TabStops};

/// Longest chain of styles that are based on each other. It may be a ring.
const MAX_CHAIN: usize = 32;
/// Text of so many half points cannot be read.
const TINY: u32 = 2;
/// Text that is moved so many half points is above or below the line.
const MOVED: i32 = 4;

/// How a run of text looks. `None` is for what is not said.
#[derive(Clone, Debug, Default)]
pub(super) struct RunLook {
    pub(super) is_hidden: Option<bool>,
    pub(super) is_struck: Option<bool>,
    pub(super) level: Option<Level>,
    pub(super) font: Option<String>,
    pub(super) is_tiny: Option<bool>,
    pub(super) color: Option<Color>,
    /// The colour that is drawn behind it.
    pub(super) ground: Option<Color>,
    /// The colour of the outline of its letters, and whether its properties are open.
    pub(super) outline: Option<Color>,
    in_outline: bool,
    /// Whether its style is one of code.
    pub(super) is_code: Option<bool>,
}

impl RunLook {
    /// Takes a property.
    pub(super) fn set(&mut self, element: &Element) {
        let value = element.attribute("val");
        match element.name.as_str() {
            "vanish" => self.is_hidden = Some(element.is_on()),
            "strike" | "dstrike" => self.is_struck = Some(element.is_on()),
            "vertAlign" => {
                self.level = match value.as_deref() {
                    Some("superscript") => Some(Level::Raised),
                    Some("subscript") => Some(Level::Lowered),
                    _ => Some(Level::Normal),
                }
            }
            "position" => {
                let moved = value.and_then(|value| value.parse::<i32>().ok()).unwrap_or(0);
                if self.level.is_none() && moved.abs() >= MOVED {
                    self.level = Some(if moved > 0 { Level::Raised } else { Level::Lowered });
                }
            }
            "rFonts" => self.font = element.attribute("ascii").or_else(|| element.attribute("hAnsi")),
            "color" => self.color = value.map(|digits| Color::of_digits(&digits)),
            "sz" => self.is_tiny = value.and_then(|size| size.parse::<u32>().ok()).map(|size| size <= TINY),
            "highlight" => {
                let is_none = value.as_deref().is_none_or(|color| color == "none");
                self.ground =
                    Some(value.filter(|_| !is_none).map_or(Color::Transparent, |name| highlight(&name)));
            }
            "shd" => self.ground = Some(shading(element)),
            "outline" => {
                self.outline = Some(if element.is_on() { Color::Unknown } else { Color::Transparent })
            }
            "textOutline" => self.in_outline = true,
            // It follows the outline.
            "textFill" => self.in_outline = false,
            "noFill" if self.in_outline => self.outline = Some(Color::Transparent),
            "srgbClr" if self.in_outline => self.outline = value.map(|digits| Color::of_digits(&digits)),
            "schemeClr" if self.in_outline => {
                let is_white = value.is_some_and(|name| matches!(name.as_str(), "bg1" | "lt1"));
                self.outline = Some(if is_white { Color::WHITE } else { Color::Unknown });
            }
            _ => {}
        }
    }

    /// This look, and another one that replaces it.
    pub(super) fn replaced_by(&self, other: &RunLook) -> RunLook {
        RunLook {
            is_hidden: other.is_hidden.or(self.is_hidden),
            is_struck: other.is_struck.or(self.is_struck),
            level: other.level.or(self.level),
            font: other.font.clone().or_else(|| self.font.clone()),
            is_tiny: other.is_tiny.or(self.is_tiny),
            color: other.color.or(self.color),
            ground: other.ground.or(self.ground),
            outline: other.outline.or(self.outline),
            in_outline: other.in_outline,
            is_code: other.is_code.or(self.is_code),
        }
    }

    /// Whether it keeps its spaces.
    pub(super) fn keeps_spaces(&self) -> bool {
        self.is_code == Some(true) || self.font.as_deref().is_some_and(listings::is_font)
    }
}

/// The colour of a highlight by its name, of which there are few.
fn highlight(name: &str) -> Color {
    match name {
        "black" => Color::Known(0, 0, 0),
        "blue" => Color::Known(0, 0, 255),
        "cyan" => Color::Known(0, 255, 255),
        "darkBlue" => Color::Known(0, 0, 128),
        "darkCyan" => Color::Known(0, 128, 128),
        "darkGray" => Color::Known(128, 128, 128),
        "darkGreen" => Color::Known(0, 128, 0),
        "darkMagenta" => Color::Known(128, 0, 128),
        "darkRed" => Color::Known(128, 0, 0),
        "darkYellow" => Color::Known(128, 128, 0),
        "green" => Color::Known(0, 255, 0),
        "lightGray" => Color::Known(192, 192, 192),
        "magenta" => Color::Known(255, 0, 255),
        "red" => Color::Known(255, 0, 0),
        "white" => Color::WHITE,
        "yellow" => Color::Known(255, 255, 0),
        _ => Color::Unknown,
    }
}

/// The colour of a shading.
pub(super) fn shading(element: &Element) -> Color {
    match (element.attribute("val").as_deref(), element.attribute("fill").as_deref()) {
        (None | Some("clear" | "nil"), None | Some("" | "auto")) => Color::Transparent,
        (None | Some("clear"), Some(fill)) => Color::of_digits(fill),
        // A pattern, or another colour before it.
        _ => Color::Unknown,
    }
}

/// Takes a tab stop or the indentation of a paragraph or a style.
pub(super) fn set_tabs(tabs: &mut Rc<TabStops>, element: &Element) {
    let number = |name: &str| element.attribute(name).and_then(|place| place.parse::<u32>().ok());
    match (element.name.as_str(), element.attribute("val").as_deref()) {
        ("tab", Some(value)) => {
            let align = match value {
                // A line that is drawn.
                "bar" => return,
                "clear" => None,
                "center" => Some(Align::Center),
                "right" | "end" | "decimal" => Some(Align::Right),
                _ => Some(Align::Left),
            };
            number("pos").into_iter().for_each(|place| Rc::make_mut(tabs).set(place, align));
        }
        ("ind", _) => {
            let tabs = Rc::make_mut(tabs);
            tabs.left = number("left").or_else(|| number("start"));
            (tabs.first_line, tabs.hanging) = (number("firstLine"), number("hanging"));
        }
        _ => {}
    }
}

/// A style.
#[derive(Clone, Debug, Default)]
pub(super) struct Style {
    based_on: Option<String>,
    /// The level of a heading, from 1 on.
    pub(super) heading: Option<usize>,
    /// Its place in a list.
    pub(super) number: NumberOf,
    pub(super) run: RunLook,
    pub(super) ground: Option<Color>,
    pub(super) tabs: Rc<TabStops>,
    /// How parts of tables look.
    pub(super) parts: TableParts,
}

/// The styles of a document by their ids, with what they take over from others. Ids are in the language of the program that
/// wrote the file, names are in English.
#[derive(Debug, Default)]
pub(super) struct Styles {
    styles: HashMap<String, Rc<Style>>,
    default: Option<String>,
    default_table: Option<String>,
    /// How runs look of which no style says it, and the colour of those of which no style of a table says it either.
    run: RunLook,
    pub(super) color: Option<Color>,
}

impl Styles {
    /// Reads the part with the styles.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn read(archive: &mut Archive, part: Option<&str>) -> Result<Styles, Problem> {
        let mut styles = Styles::default();
        let Some(part) = part else { return Ok(styles) };
        let (mut style, mut skipping, mut in_defaults) = (None::<(String, Style)>, 0, false);
        // The part of a table that is read, and the styles without what they take over.
        let (mut part_of_table, mut own) = (None::<String>, HashMap::new());
        xml::read(part, &archive.text(part)?, |piece| {
            match piece {
                // Former properties.
                Piece::Start(element)
                    if skipping > 0 || matches!(element.name.as_str(), "rPrChange" | "pPrChange") =>
                {
                    skipping += 1;
                }
                Piece::End(_) if skipping > 0 => skipping -= 1,
                Piece::Start(element) if element.name == "style" => {
                    let id = element.attribute("styleId").unwrap_or_default();
                    let is_default = element.is_set("default");
                    match element.attribute("type").as_deref() {
                        None | Some("paragraph") if is_default => styles.default = Some(id.clone()),
                        Some("table") if is_default => styles.default_table = Some(id.clone()),
                        _ => {}
                    }
                    style = Some((id, Style::default()));
                }
                Piece::Start(element) => match &mut style {
                    Some(_) if element.name == "tblStylePr" => {
                        part_of_table = Some(element.attribute("type").unwrap_or_default());
                    }
                    Some((_, style)) => match &part_of_table {
                        Some(part) => style.parts.set(part, &element),
                        None => style.set(&element),
                    },
                    None if element.name == "rPrDefault" => in_defaults = true,
                    // A document whose usual font is that of a typewriter is no listing.
                    None if in_defaults && element.name != "rFonts" => styles.run.set(&element),
                    None => {}
                },
                Piece::End(name) if name == "rPrDefault" => in_defaults = false,
                Piece::End(name) if name == "tblStylePr" => part_of_table = None,
                Piece::End(name) if name == "style" => own.extend(style.take()),
                _ => {}
            }
            Ok(())
        })?;
        styles.color = styles.run.color.take();
        styles.styles = own.keys().map(|id| (id.clone(), Rc::new(whole(&own, id)))).collect();
        Ok(styles)
    }

    /// A style; the usual one for no id.
    pub(super) fn get(&self, id: Option<&str>) -> Rc<Style> {
        let style = id.or(self.default.as_deref()).and_then(|id| self.styles.get(id));
        style.cloned().unwrap_or_default()
    }

    /// A style of tables; the usual one for no id.
    pub(super) fn table(&self, id: Option<&str>) -> Rc<Style> {
        let style = id.or(self.default_table.as_deref()).and_then(|id| self.styles.get(id));
        style.cloned().unwrap_or_default()
    }

    /// How runs of a paragraph of this style look.
    pub(super) fn run(&self, id: Option<&str>) -> RunLook {
        self.run.replaced_by(&self.get(id).run)
    }

    /// The list that a style of lists stands for.
    pub(super) fn list(&self, id: &str) -> Option<String> {
        self.get(Some(id)).number.list.clone()
    }
}

/// A style with what it takes over from others.
fn whole(styles: &HashMap<String, Style>, id: &str) -> Style {
    let (mut chain, mut next) = (Vec::new(), Some(id));
    while let Some(style) = next.and_then(|id| styles.get(id)).filter(|_| chain.len() < MAX_CHAIN) {
        chain.push(style);
        next = style.based_on.as_deref();
    }
    chain.iter().rev().fold(Style::default(), |base, style| Style {
        based_on: None,
        heading: style.heading.or(base.heading),
        number: base.number.replaced_by(&style.number),
        run: base.run.replaced_by(&style.run),
        ground: style.ground.or(base.ground),
        tabs: base.tabs.replaced_by(&style.tabs),
        parts: base.parts.replaced_by(&style.parts),
    })
}

impl Style {
    fn set(&mut self, element: &Element) {
        let value = || element.attribute("val");
        if element.name == "name" && value().is_some_and(|name| listings::is_style(&name)) {
            self.run.is_code = Some(true);
        }
        let level = match element.name.as_str() {
            "name" => value().and_then(|name| match name.to_lowercase().as_str() {
                "title" => Some(1),
                name => name.strip_prefix("heading ")?.parse().ok(),
            }),
            "outlineLvl" => {
                value().and_then(|level| level.parse::<usize>().ok()).map(|level| level.saturating_add(1))
            }
            "basedOn" => {
                self.based_on = value();
                None
            }
            "shd" => {
                self.ground = Some(shading(element));
                None
            }
            _ => None,
        };
        if let Some(level @ 1..=9) = level {
            self.heading.get_or_insert(level);
        }
        self.number.set(element);
        self.run.set(element);
        set_tabs(&mut self.tabs, element);
    }
}
