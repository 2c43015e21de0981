//! How shapes of DrawingML and their text look.

use super::fill::{Fill, Scheme, not_white};
use super::sight::{self, Sight};
use crate::color::Color;
use crate::package::xml::Element;

/// The colours of letters: what fills them, their outline, and what is behind them.
#[derive(Clone, Debug, Default)]
pub(super) struct Letters {
    fill: Fill,
    outline: Fill,
    ground: Fill,
    open: LetterPart,
}

#[derive(Clone, Copy, Debug, Default)]
enum LetterPart {
    #[default]
    Fill,
    Outline,
    Ground,
    Underline,
}

impl Letters {
    pub(super) fn start(&mut self, element: &Element, scheme: &Scheme) {
        match element.name.as_str() {
            "ln" => self.open = LetterPart::Outline,
            "highlight" => (self.open, self.ground) = (LetterPart::Ground, Fill::solid()),
            "uFill" | "uLn" => self.open = LetterPart::Underline,
            _ => self.part().into_iter().for_each(|fill| fill.start(element, scheme)),
        }
    }

    pub(super) fn end(&mut self, name: &str) {
        match name {
            "ln" | "highlight" | "uFill" | "uLn" => self.open = LetterPart::Fill,
            _ => self.part().into_iter().for_each(|fill| fill.end(name)),
        }
    }

    fn part(&mut self) -> Option<&mut Fill> {
        match self.open {
            LetterPart::Fill => Some(&mut self.fill),
            LetterPart::Outline => Some(&mut self.outline),
            LetterPart::Ground => Some(&mut self.ground),
            LetterPart::Underline => None,
        }
    }

    /// Whether a reader sees letters of a shape by their fill or their outline.
    pub(super) fn sight(&self, shape: &Letters, ground: Option<Color>, page: Color) -> Sight {
        let grounds = [self.ground.color(), ground];
        let fill = sight::of_color(self.fill.color().or(shape.fill.color()), &grounds, page);
        match self.outline.color().or(shape.outline.color()) {
            Some(outline) => fill.min(sight::of_color(Some(outline), &grounds, page)),
            None => fill,
        }
    }
}

/// How a shape looks, and its text unless that says otherwise.
#[derive(Debug, Default)]
pub(super) struct ShapeLook {
    fill: Fill,
    /// What a style of the theme fills it with, which may be lighter or darker than its colour.
    style: Option<Fill>,
    pub(super) letters: Letters,
    open: Open,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Open {
    #[default]
    None,
    Properties,
    Line,
    Style,
    Letters,
}

impl ShapeLook {
    pub(super) fn start(&mut self, element: &Element, scheme: &Scheme) {
        match (self.open, element.name.as_str()) {
            (_, "spPr") => self.open = Open::Properties,
            (Open::Properties, "ln") => self.open = Open::Line,
            (_, "fillRef") if element.attribute("idx").is_some_and(|index| index != "0") => {
                (self.open, self.style) = (Open::Style, Some(Fill::solid()));
            }
            (_, "fontRef") => {
                self.letters = Letters { fill: Fill::solid(), ..Letters::default() };
                self.open = Open::Letters;
            }
            (_, "defRPr") => self.open = Open::Letters,
            (Open::Properties, _) => self.fill.start(element, scheme),
            (Open::Style, _) => self.style.iter_mut().for_each(|style| style.start(element, scheme)),
            (Open::Letters, _) => self.letters.start(element, scheme),
            (Open::None | Open::Line, _) => {}
        }
    }

    pub(super) fn end(&mut self, name: &str) {
        match (self.open, name) {
            (_, "spPr" | "fillRef" | "fontRef" | "defRPr") => self.open = Open::None,
            (Open::Line, "ln") => self.open = Open::Properties,
            (Open::Properties, _) => self.fill.end(name),
            (Open::Style, _) => self.style.iter_mut().for_each(|style| style.end(name)),
            (Open::Letters, _) => self.letters.end(name),
            (Open::None | Open::Line, _) => {}
        }
    }

    /// Whether the properties of the shape are read, and not those of its line.
    pub(super) fn in_properties(&self) -> bool {
        self.open == Open::Properties
    }

    /// The colour behind the text, if something fills the shape.
    pub(super) fn ground(&self) -> Option<Color> {
        let of_style = || self.style.as_ref().map(|style| style.color().map_or(Color::Unknown, not_white));
        self.fill.color().or_else(of_style)
    }
}
