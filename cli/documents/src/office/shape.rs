//! How shapes of DrawingML and their text look.

use super::fill::{Fill, Scheme, not_white};
use super::sight::{self, Sight};
use crate::color::Color;
use crate::package::xml::Element;

/// Levels of lists.
pub(super) const LEVELS: usize = 9;

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

    /// These letters, with the colours of others where they have none.
    pub(super) fn over(&self, other: &Letters) -> Letters {
        Letters {
            fill: self.fill.over(&other.fill),
            outline: self.outline.over(&other.outline),
            ground: self.ground.over(&other.ground),
            open: LetterPart::Fill,
        }
    }

    /// Whether they have a colour.
    pub(super) fn has_color(&self) -> bool {
        self.fill.color().or(self.outline.color()).is_some()
    }

    /// Whether a reader sees the letters by their fill or their outline.
    pub(super) fn sight(&self, ground: Option<Color>, page: Color) -> Sight {
        let grounds = [self.ground.color(), ground];
        let fill = sight::of_color(self.fill.color(), &grounds, page);
        match self.outline.color() {
            Some(outline) => fill.min(sight::of_color(Some(outline), &grounds, page)),
            None => fill,
        }
    }
}

/// How text of a level of lists looks unless its paragraphs and runs say otherwise.
#[derive(Clone, Debug, Default)]
pub(super) struct TextLook {
    pub(super) letters: Letters,
    /// How far apart tab stops are that no paragraph sets, in the units of the file.
    pub(super) tab_distance: Option<u32>,
}

/// How text of each level looks: a list of styles.
#[derive(Clone, Debug, Default)]
pub(super) struct TextLooks {
    levels: [TextLook; LEVELS],
    open: Option<usize>,
    in_run: bool,
}

impl TextLooks {
    pub(super) fn start(&mut self, element: &Element, scheme: &Scheme) {
        if let Some(level) = level_of(&element.name) {
            self.open = Some(level);
            self.levels[level].tab_distance = tab_distance(element);
        }
        let Some(look) = self.open.and_then(|level| self.levels.get_mut(level)) else { return };
        match element.name.as_str() {
            "defRPr" => self.in_run = true,
            _ if self.in_run => look.letters.start(element, scheme),
            _ => {}
        }
    }

    pub(super) fn end(&mut self, name: &str) {
        let look = self.open.and_then(|level| self.levels.get_mut(level));
        match (name, look) {
            ("defRPr", _) => self.in_run = false,
            (name, _) if level_of(name).is_some() => (self.open, self.in_run) = (None, false),
            (name, Some(look)) if self.in_run => look.letters.end(name),
            _ => {}
        }
    }

    /// How text of a level looks.
    pub(super) fn level(&self, level: usize) -> &TextLook {
        &self.levels[level.min(LEVELS - 1)]
    }

    /// These looks, with those of others where they say nothing.
    fn over(&self, other: &TextLooks) -> TextLooks {
        let level = |at: usize| {
            let (own, other) = (&self.levels[at], &other.levels[at]);
            let tab_distance = own.tab_distance.or(other.tab_distance);
            TextLook { letters: own.letters.over(&other.letters), tab_distance }
        };
        TextLooks { levels: std::array::from_fn(level), ..TextLooks::default() }
    }
}

/// The level, from 0 on, of an element such as `lvl1pPr`.
fn level_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix("lvl")?.strip_suffix("pPr")?;
    number.parse::<usize>().ok()?.checked_sub(1).filter(|level| *level < LEVELS)
}

/// The distance of tab stops that a paragraph or a level of a list says.
pub(super) fn tab_distance(element: &Element) -> Option<u32> {
    element.attribute("defTabSz").and_then(|distance| distance.parse().ok())
}

/// How a shape looks, and its text unless that says otherwise.
#[derive(Clone, Debug, Default)]
pub(super) struct ShapeLook {
    fill: Fill,
    /// What a style of the theme fills it with, which may be lighter or darker than its colour.
    style: Option<Fill>,
    letters: Letters,
    texts: TextLooks,
    open: Open,
    /// Depth within extensions. They keep colours that are not drawn, such as the fill that a shape had before.
    extensions: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Open {
    #[default]
    None,
    Properties,
    Line,
    Style,
    Letters,
    Texts,
}

impl ShapeLook {
    /// A shape whose text looks so.
    pub(super) fn of_texts(texts: TextLooks) -> ShapeLook {
        ShapeLook { texts, ..ShapeLook::default() }
    }

    pub(super) fn start(&mut self, element: &Element, scheme: &Scheme) {
        match (self.open, element.name.as_str()) {
            (_, "extLst") => self.extensions += 1,
            _ if self.extensions > 0 => {}
            (_, "spPr") => self.open = Open::Properties,
            (Open::Properties, "ln") => self.open = Open::Line,
            (_, "fillRef") if element.attribute("idx").is_some_and(|index| index != "0") => {
                (self.open, self.style) = (Open::Style, Some(Fill::solid()));
            }
            (_, "fontRef") => {
                self.letters = Letters { fill: Fill::solid(), ..Letters::default() };
                self.open = Open::Letters;
            }
            (_, name) if level_of(name).is_some() => {
                self.open = Open::Texts;
                self.texts.start(element, scheme);
            }
            (Open::Properties, _) => self.fill.start(element, scheme),
            (Open::Style, _) => self.style.iter_mut().for_each(|style| style.start(element, scheme)),
            (Open::Letters, _) => self.letters.start(element, scheme),
            (Open::Texts, _) => self.texts.start(element, scheme),
            (Open::None | Open::Line, _) => {}
        }
    }

    pub(super) fn end(&mut self, name: &str) {
        match (self.open, name) {
            (_, "extLst") => self.extensions = self.extensions.saturating_sub(1),
            _ if self.extensions > 0 => {}
            (_, "spPr" | "fillRef" | "fontRef") => self.open = Open::None,
            (Open::Line, "ln") => self.open = Open::Properties,
            (Open::Properties, _) => self.fill.end(name),
            (Open::Style, _) => self.style.iter_mut().for_each(|style| style.end(name)),
            (Open::Letters, _) => self.letters.end(name),
            (Open::Texts, _) => {
                self.texts.end(name);
                self.open = if level_of(name).is_some() { Open::None } else { Open::Texts };
            }
            (Open::None | Open::Line, _) => {}
        }
    }

    /// Whether the properties of the shape are read, and not those of its line.
    pub(super) fn in_properties(&self) -> bool {
        self.open == Open::Properties
    }

    /// How its text of a level looks.
    pub(super) fn text(&self, level: usize) -> TextLook {
        let of_level = self.texts.level(level);
        TextLook { letters: of_level.letters.over(&self.letters), ..of_level.clone() }
    }

    /// This look, with that of another shape where it says nothing.
    pub(super) fn over(&self, other: &ShapeLook) -> ShapeLook {
        ShapeLook {
            fill: self.fill.over(&other.fill),
            style: self.style.clone().or_else(|| other.style.clone()),
            letters: self.letters.over(&other.letters),
            texts: self.texts.over(&other.texts),
            open: Open::None,
            extensions: 0,
        }
    }

    /// The colour behind the text, if something fills the shape.
    pub(super) fn ground(&self) -> Option<Color> {
        let of_style = || self.style.as_ref().map(|style| style.color().map_or(Color::Unknown, not_white));
        self.fill.color().or_else(of_style)
    }
}
