//! Styles of OpenDocument: how text looks, and how lists and headings are numbered.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::Problem;
use crate::color::Color;
use crate::office::listings;
use crate::package::xml::{self, Element, Piece};
use crate::writer::ordinal::Format;
use crate::writer::{Align, Level, TabStops, symbols};

/// Levels of lists.
pub(super) const LEVELS: usize = 10;
/// Longest chain of styles that are based on each other. It may be a ring.
const MAX_CHAIN: usize = 32;
/// Text of so many points cannot be read.
const TINY: f64 = 1.0;
/// Longest text around a number, in bytes.
const MAX_AFFIX: usize = 100;

/// How text looks. `None` is for what is not said.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) is_hidden: Option<bool>,
    pub(super) is_tiny: Option<bool>,
    pub(super) color: Option<Color>,
    /// The colour behind it.
    pub(super) ground: Option<Color>,
    pub(super) is_struck: Option<bool>,
    pub(super) level: Option<Level>,
    pub(super) font: Option<String>,
    parent: Option<String>,
    /// The list of paragraphs of this style.
    pub(super) list: Option<String>,
    /// Whether sheets and slides of this style are hidden.
    pub(super) is_absent: Option<bool>,
    /// Whether the style is one of code.
    pub(super) is_code: Option<bool>,
    /// The tab stops of paragraphs of this style.
    pub(super) tabs: Option<Rc<TabStops>>,
    /// How far apart the stops behind them are, in twentieths of a point.
    pub(super) tab_distance: Option<u32>,
}

impl Look {
    pub(super) fn replaced_by(&self, other: &Look) -> Look {
        Look {
            is_hidden: other.is_hidden.or(self.is_hidden),
            is_tiny: other.is_tiny.or(self.is_tiny),
            color: other.color.or(self.color),
            ground: other.ground.or(self.ground),
            is_struck: other.is_struck.or(self.is_struck),
            level: other.level.or(self.level),
            font: other.font.clone().or_else(|| self.font.clone()),
            parent: None,
            list: other.list.clone().or_else(|| self.list.clone()),
            is_absent: other.is_absent.or(self.is_absent),
            is_code: other.is_code.or(self.is_code),
            tabs: other.tabs.clone().or_else(|| self.tabs.clone()),
            tab_distance: other.tab_distance.or(self.tab_distance),
        }
    }

    /// Whether text keeps its spaces.
    pub(super) fn keeps_spaces(&self) -> bool {
        self.is_code == Some(true) || self.font.as_deref().is_some_and(listings::is_font)
    }
}

/// How the items of a level are numbered.
#[derive(Clone, Debug)]
struct ListLevel {
    format: Format,
    /// Whether the format is not known. Numbers are in digits.
    is_unknown: bool,
    /// Numbers that are written, by their levels, with the text before each.
    shown: Vec<(String, usize)>,
    suffix: String,
    start: i64,
    /// The sign of a bullet and its font.
    bullet: String,
    font: String,
}

/// A list or the headings.
#[derive(Clone, Debug, Default)]
pub(super) struct ListStyle([Option<ListLevel>; LEVELS]);

impl ListStyle {
    pub(super) fn start(&self, level: usize) -> i64 {
        self.0.get(level).and_then(Option::as_ref).map_or(1, |level| level.start)
    }

    /// Whether the format of a level is not known.
    pub(super) fn is_unknown(&self, level: usize) -> bool {
        self.0.get(level).and_then(Option::as_ref).is_some_and(|level| level.is_unknown)
    }

    /// The mark of an item by the numbers of its level and those above.
    pub(super) fn mark(&self, level: usize, numbers: &[Option<i64>; LEVELS]) -> String {
        let Some(own) = self.0.get(level).and_then(Option::as_ref) else { return "-".to_owned() };
        if own.format == Format::Bullet {
            return symbols::bullet(&own.font, &own.bullet).to_owned();
        }
        let (mut mark, mut follows_none) = (String::new(), false);
        for (before, at) in &own.shown {
            let format = self.0[*at].as_ref().map_or(Format::Decimal, |level| level.format);
            // What stands before a number goes with the one before it.
            mark.push_str(if follows_none { "" } else { before });
            follows_none = format == Format::None;
            if own.format == Format::None {
                break;
            }
            mark.push_str(&format.write(numbers[*at].unwrap_or_else(|| self.start(*at))));
        }
        mark + &own.suffix
    }
}

/// The masters of pages that no style begins: of texts and of tables. In a document without them, it is the first one.
const USUAL_MASTERS: [&str; 2] = ["Standard", "Default"];

/// What pages and slides have in common: the style of their ground, and whether something is drawn before it.
#[derive(Debug, Default)]
pub(super) struct Master {
    pub(super) style: Option<String>,
    pub(super) is_drawn: bool,
    /// That of the page behind it.
    next: Option<String>,
}

/// The styles of a document by their names.
#[derive(Debug)]
pub(super) struct Styles {
    looks: HashMap<String, Look>,
    /// The families of fonts by the names that styles give them.
    fonts: HashMap<String, String>,
    /// Masters of pages and slides, the name of the first one, and those that styles of paragraphs and tables name.
    masters: HashMap<String, Master>,
    first_master: Option<String>,
    named_masters: HashSet<String>,
    lists: HashMap<String, ListStyle>,
    pub(super) headings: ListStyle,
    /// The distance of tab stops where no style says it.
    pub(super) tab_distance: Option<u32>,
    /// The colour of the pages, and whether something is drawn before it and behind the text.
    pub(super) page: Color,
    pub(super) has_behind: bool,
}

impl Default for Styles {
    fn default() -> Styles {
        Styles {
            looks: HashMap::new(),
            fonts: HashMap::new(),
            masters: HashMap::new(),
            first_master: None,
            named_masters: HashSet::new(),
            lists: HashMap::new(),
            headings: ListStyle::default(),
            tab_distance: None,
            page: Color::WHITE,
            has_behind: false,
        }
    }
}

impl Styles {
    /// Reads the styles of a part. Those of the text come after the common ones and replace them.
    ///
    /// # Errors
    /// The part is damaged.
    pub(super) fn read(&mut self, text: &str, part: &str) -> Result<(), Problem> {
        let (mut look, mut list, mut level) =
            (None::<(String, Look)>, None::<(Option<String>, ListStyle)>, 0);
        let (mut master, mut in_default) = (None::<(String, Master)>, false);
        xml::read(part, text, |piece| {
            match piece {
                Piece::Start(element) => {
                    let name = || element.attribute_of("style:name").unwrap_or_default();
                    match element.name.as_str() {
                        "default-style" => {
                            in_default =
                                element.attribute("family").is_some_and(|family| family == "paragraph");
                        }
                        "paragraph-properties" if in_default => {
                            self.tab_distance = tab_distance(&element).or(self.tab_distance);
                        }
                        "style" => {
                            let parent = element.attribute("parent-style-name");
                            self.named_masters.extend(element.attribute("master-page-name"));
                            let list = element.attribute("list-style-name").filter(|list| !list.is_empty());
                            // Styles of a document itself have numbers as names, and are based on others.
                            let is_code = listings::is_style(&name()).then_some(true);
                            look = Some((name(), Look { parent, list, is_code, ..Look::default() }));
                        }
                        "font-face" => self.fonts.extend(
                            element.attribute("font-family").map(|family| (name(), unquoted(&family))),
                        ),
                        "text-properties" | "table-properties" | "drawing-page-properties" => {
                            look.iter_mut().for_each(|(_, look)| look.set(&element));
                            if let Some((_, list)) = &mut list
                                && let Some(level) = list.0.get_mut(level).and_then(Option::as_mut)
                                && let Some(font) = font_of(&element)
                            {
                                level.font = self.family(font);
                            }
                        }
                        "paragraph-properties" | "table-cell-properties" | "graphic-properties" => {
                            let place = element.attribute("run-through");
                            self.has_behind |= place.is_some_and(|place| place == "background");
                            look.iter_mut().for_each(|(_, look)| {
                                look.set_ground(&element);
                                look.tab_distance = tab_distance(&element).or(look.tab_distance);
                            });
                        }
                        // A condition chooses another style.
                        "map" => look.iter_mut().for_each(|(_, look)| {
                            let own = look.ground.filter(|color| *color != Color::Transparent);
                            look.ground = own.or(Some(Color::Unknown));
                        }),
                        "page-layout-properties" => {
                            let is_white =
                                matches!(ground_of(&element), None | Some(Color::WHITE | Color::Transparent));
                            self.page = if is_white { self.page } else { Color::Unknown };
                        }
                        // A picture in another part of the file, or here.
                        "background-image" if element.attribute("href").is_none() => {}
                        "background-image" | "binary-data" => match &mut look {
                            Some((_, look)) => look.ground = Some(Color::Unknown),
                            None => self.has_behind = true,
                        },
                        "tab-stops" => look.iter_mut().for_each(|(_, look)| look.tabs = Some(Rc::default())),
                        "tab-stop" => {
                            if let Some((_, Look { tabs: Some(tabs), .. })) = &mut look {
                                set_tab(Rc::make_mut(tabs), &element);
                            }
                        }
                        "master-page" => {
                            let style = element.attribute_of("draw:style-name");
                            let next = element.attribute("next-style-name");
                            self.first_master.get_or_insert_with(name);
                            master = Some((name(), Master { style, is_drawn: false, next }));
                        }
                        "image" | "custom-shape" | "rect" | "ellipse" | "circle" | "polygon"
                        | "regular-polygon" | "path" => {
                            master.iter_mut().for_each(|(_, master)| master.is_drawn = true);
                        }
                        "list-style" => list = Some((Some(name()), ListStyle::default())),
                        "outline-style" => list = Some((None, ListStyle::default())),
                        "list-level-style-number"
                        | "list-level-style-bullet"
                        | "outline-level-style"
                        | "list-level-style-image" => {
                            level = number(&element, "level").unwrap_or(1).saturating_sub(1) as usize;
                            if let Some((_, list)) = &mut list
                                && let Some(place) = list.0.get_mut(level)
                            {
                                *place = Some(list_level(&element, level));
                            }
                        }
                        _ => {}
                    }
                }
                Piece::End(name) => match name.as_str() {
                    "style" => self.looks.extend(look.take()),
                    "default-style" => in_default = false,
                    "master-page" => self.masters.extend(master.take()),
                    "list-style" | "outline-style" => match list.take() {
                        Some((Some(name), style)) => _ = self.lists.insert(name, style),
                        Some((None, style)) => self.headings = style,
                        None => {}
                    },
                    _ => {}
                },
                Piece::Text(_) => {}
            }
            Ok(())
        })
    }

    /// How text of a style looks.
    pub(super) fn look(&self, name: Option<&str>) -> Look {
        let (mut chain, mut next) = (Vec::new(), name);
        while let Some(look) = next.and_then(|name| self.looks.get(name)).filter(|_| chain.len() < MAX_CHAIN)
        {
            chain.push(look);
            next = look.parent.as_deref();
        }
        let look = chain.iter().rev().fold(Look::default(), |base, look| base.replaced_by(look));
        // A style may take away the ground of the one that it is based on, and not that of the text around.
        let ground = look.ground.filter(|color| *color != Color::Transparent);
        Look { ground, font: look.font.map(|font| self.family(font)), ..look }
    }

    /// The family of a font that a style names.
    fn family(&self, font: String) -> String {
        self.fonts.get(&font).cloned().unwrap_or(font)
    }

    pub(super) fn master(&self, name: &str) -> Option<&Master> {
        self.masters.get(name)
    }

    /// The masters of the document's pages: those that styles name, the usual one, and those behind them. Programs store masters
    /// that no page has.
    pub(super) fn used_masters(&self) -> HashSet<String> {
        let is_master = |name: &&str| self.masters.contains_key(*name);
        let mut open: Vec<&str> = USUAL_MASTERS.into_iter().filter(is_master).collect();
        if open.is_empty() {
            open.extend(self.first_master.as_deref());
        }
        open.extend(self.named_masters.iter().map(String::as_str).filter(is_master));
        let mut used = HashSet::new();
        while let Some(name) = open.pop() {
            if used.insert(name.to_owned()) {
                open.extend(self.masters.get(name).and_then(|master| master.next.as_deref()));
            }
        }
        used
    }

    pub(super) fn list(&self, name: &str) -> Option<&ListStyle> {
        self.lists.get(name)
    }
}

impl Look {
    /// Takes the colour behind text.
    fn set_ground(&mut self, element: &Element) {
        self.ground = ground_of(element).or(self.ground);
    }

    fn set(&mut self, element: &Element) {
        let value = |name: &str| element.attribute(name);
        if element.name == "table-properties" {
            self.is_absent = value("display").map(|display| display == "false").or(self.is_absent);
            return;
        }
        if element.name == "drawing-page-properties" {
            self.is_absent = value("visibility").map(|value| value == "hidden").or(self.is_absent);
            return self.set_ground(element);
        }
        self.set_ground(element);
        if let Some(display) = value("display") {
            self.is_hidden = Some(display == "none");
        }
        if let Some(size) = element.attribute_of("fo:font-size").and_then(|size| points(&size)) {
            self.is_tiny = Some(size <= TINY);
        }
        self.color = match value("use-window-font-color").as_deref() {
            // It is white where the ground is dark.
            Some("true") => Some(Color::Unknown),
            _ => element.attribute_of("fo:color").map(|color| Color::parse(&color)).or(self.color),
        };
        if let Some(line) = value("text-line-through-style").or_else(|| value("text-line-through-type")) {
            self.is_struck = Some(line != "none");
        }
        if let Some(position) = value("text-position") {
            let moved = position.split_whitespace().next().unwrap_or_default();
            let share: f32 = moved.trim_end_matches('%').parse().unwrap_or(0.0);
            self.level = Some(match moved {
                "super" => Level::Raised,
                "sub" => Level::Lowered,
                _ if share > 0.0 => Level::Raised,
                _ if share < 0.0 => Level::Lowered,
                _ => Level::Normal,
            });
        }
        self.font = font_of(element).or_else(|| self.font.take());
    }
}

/// The name of the font that an element of properties names.
fn font_of(element: &Element) -> Option<String> {
    element
        .attribute("font-name")
        .or_else(|| element.attribute("font-family").map(|family| unquoted(&family)))
}

/// The name of a family, which may be in quotes.
fn unquoted(family: &str) -> String {
    family.trim_matches(['\'', '"', ' ']).to_owned()
}

/// The colour that an element of properties draws behind text.
fn ground_of(element: &Element) -> Option<Color> {
    let fill = element.attribute_of("draw:fill");
    match fill.as_deref() {
        Some("solid") => element.attribute_of("draw:fill-color").map(|color| Color::parse(&color)),
        None | Some("none") => {
            let color = element.attribute_of("fo:background-color").map(|color| Color::parse(&color));
            color.or(fill.map(|_| Color::Transparent))
        }
        // A pattern or a picture.
        Some(_) => Some(Color::Unknown),
    }
}

fn set_tab(tabs: &mut TabStops, element: &Element) {
    let align = match element.attribute("type").as_deref() {
        Some("center") => Align::Center,
        Some("right" | "char") => Align::Right,
        _ => Align::Left,
    };
    twentieths(element, "position").into_iter().for_each(|place| tabs.set(place, Some(align)));
}

fn tab_distance(element: &Element) -> Option<u32> {
    twentieths(element, "tab-stop-distance")
}

/// A length of an element in twentieths of a point.
fn twentieths(element: &Element, name: &str) -> Option<u32> {
    let points = element.attribute(name).and_then(|length| points(&length));
    points.map(|points| (points * 20.0).round() as u32)
}

/// A length such as `2.5cm`, in points.
fn points(length: &str) -> Option<f64> {
    let (number, unit) = length.trim().split_at_checked(length.trim().len().checked_sub(2)?)?;
    let points = match unit {
        "cm" => 72.0 / 2.54,
        "mm" => 7.2 / 2.54,
        "in" => 72.0,
        "pc" => 12.0,
        "pt" => 1.0,
        "px" => 0.75,
        _ => return None,
    };
    Some(number.trim().parse::<f64>().ok()? * points)
}

fn number(element: &Element, name: &str) -> Option<i64> {
    element.attribute(name).and_then(|value| value.parse().ok())
}

fn list_level(element: &Element, level: usize) -> ListLevel {
    let text = |name: &str| element.attribute(name).filter(|text| text.len() <= MAX_AFFIX);
    let affix = |name: &str| text(name).unwrap_or_default();
    // Newer files have all of it in one text, such as `§ %1%-%2%`.
    let (shown, suffix) = text("num-list-format").map_or_else(
        || {
            let count = number(element, "display-levels").unwrap_or(1).clamp(1, LEVELS as i64) as usize;
            let first = (level + 1).saturating_sub(count);
            let before = |at| if at == first { affix("num-prefix") } else { ".".to_owned() };
            ((first..=level).map(|at| (before(at), at)).collect(), affix("num-suffix"))
        },
        |format| shown_numbers(&format, level),
    );
    let is_bullet = matches!(element.name.as_str(), "list-level-style-bullet" | "list-level-style-image");
    let format = element.attribute("num-format").map(|example| Format::of_example(&example));
    let is_unknown = format == Some(None) && !is_bullet;
    let format = format.map(Option::unwrap_or_default);
    let is_repeated = element.attribute("num-letter-sync").is_some_and(|sync| sync == "true");
    let format = format.map(|format| if is_repeated { format.repeated() } else { format });
    ListLevel {
        format: if is_bullet { Format::Bullet } else { format.unwrap_or(Format::None) },
        is_unknown,
        shown,
        suffix,
        start: number(element, "start-value").unwrap_or(1),
        bullet: affix("bullet-char"),
        font: String::new(),
    }
}

/// What a text such as `§ %1%-%2%:` shows in an item of a level: numbers with the text before each, and the text behind
/// the last.
fn shown_numbers(format: &str, level: usize) -> (Vec<(String, usize)>, String) {
    let (mut shown, mut before, mut rest) = (Vec::new(), String::new(), format);
    while let Some((text, behind)) = rest.split_once('%') {
        before.push_str(text);
        let place = behind.split_once('%').and_then(|(at, behind)| Some((at.parse::<usize>().ok()?, behind)));
        match place.filter(|(at, _)| (1..=level + 1).contains(at) && shown.len() < LEVELS) {
            Some((at, behind)) => {
                shown.push((std::mem::take(&mut before), at - 1));
                rest = behind;
            }
            None => {
                before.push('%');
                rest = behind;
            }
        }
    }
    (shown, before + rest)
}
