//! The little of CSS that says whether a reader sees a text, and how: inline styles, and rules of `<style>` with simple
//! selectors. Rules with selectors that look at other elements are left out.

use std::collections::HashMap;

use super::Tag;
use super::layout::Layout;
use crate::writer::Level;
use crate::writer::ordinal::Format;

/// Rules that are used. A page with more is generated, and its other rules decide little.
const MAX_RULES: usize = 20_000;
/// Rules of one class, name or element, and classes of an element.
const MAX_RULES_OF_KEY: usize = 32;
const MAX_CLASSES: usize = 32;
/// Distances from which on text is beside the page, in pixels.
const FAR: f32 = -900.0;
/// Text of at most so many pixels cannot be read.
const TINY: f32 = 1.5;
/// Colours that differ less, summed over red, green and blue, look the same.
const SAME: i32 = 24;

/// A colour, or that there is one which is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Color {
    Known(u8, u8, u8),
    Transparent,
    Unknown,
}

impl Color {
    pub(super) const WHITE: Color = Color::Known(255, 255, 255);

    /// Whether text of this colour cannot be seen on that one.
    pub(super) fn is_lost_on(self, ground: Color) -> bool {
        match (self, ground) {
            (Color::Transparent, _) => true,
            (Color::Known(r, g, b), Color::Known(red, green, blue)) => {
                let differ = |a: u8, b: u8| (i32::from(a) - i32::from(b)).abs();
                differ(r, red) + differ(g, green) + differ(b, blue) < SAME
            }
            _ => false,
        }
    }

    /// A colour of CSS or of an old attribute.
    pub(super) fn parse(text: &str) -> Color {
        const NAMES: &[(&str, (u8, u8, u8))] = &[
            ("white", (255, 255, 255)),
            ("black", (0, 0, 0)),
            ("snow", (255, 250, 250)),
            ("ivory", (255, 255, 240)),
            ("ghostwhite", (248, 248, 255)),
            ("whitesmoke", (245, 245, 245)),
            ("floralwhite", (255, 250, 240)),
            ("red", (255, 0, 0)),
            ("green", (0, 128, 0)),
            ("lime", (0, 255, 0)),
            ("blue", (0, 0, 255)),
            ("yellow", (255, 255, 0)),
            ("navy", (0, 0, 128)),
            ("gray", (128, 128, 128)),
            ("grey", (128, 128, 128)),
            ("silver", (192, 192, 192)),
            ("lightgray", (211, 211, 211)),
            ("lightgrey", (211, 211, 211)),
            ("orange", (255, 165, 0)),
            ("purple", (128, 0, 128)),
            ("teal", (0, 128, 128)),
            ("maroon", (128, 0, 0)),
        ];
        let text = text.trim().to_ascii_lowercase();
        if text == "transparent" {
            return Color::Transparent;
        }
        if let Some((_, (r, g, b))) = NAMES.iter().find(|(name, _)| *name == text) {
            return Color::Known(*r, *g, *b);
        }
        if let Some(digits) = text.strip_prefix('#') {
            return hexadecimal(digits).unwrap_or(Color::Unknown);
        }
        let inner = text.strip_prefix("rgba(").or_else(|| text.strip_prefix("rgb("));
        let Some(inner) = inner.and_then(|inner| inner.strip_suffix(')')) else { return Color::Unknown };
        let parts = inner.split([',', ' ', '/']).filter(|part| !part.is_empty());
        let numbers: Option<Vec<f32>> = parts.map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some([.., alpha]) if numbers.as_ref().is_some_and(|all| all.len() == 4) && *alpha < 0.05 => {
                Color::Transparent
            }
            Some([r, g, b, ..]) => Color::Known(*r as u8, *g as u8, *b as u8),
            _ => Color::Unknown,
        }
    }
}

fn hexadecimal(digits: &str) -> Option<Color> {
    let digit = |at: usize| digits.as_bytes().get(at).and_then(|c| char::from(*c).to_digit(16));
    let byte = |at: usize| Some((digit(at)? * 16 + digit(at + 1)?) as u8);
    match digits.len() {
        3 | 4 => {
            let part = |at: usize| Some(digit(at)? as u8 * 17);
            Some(Color::Known(part(0)?, part(1)?, part(2)?))
        }
        8 if byte(6)? < 13 => Some(Color::Transparent),
        6 | 8 => Some(Color::Known(byte(0)?, byte(2)?, byte(4)?)),
        _ => None,
    }
}

/// What declarations say. `None` is for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Declared {
    /// Whether the element is not there at all.
    pub(super) is_absent: Option<bool>,
    /// Whether it cannot be seen, though parts of it may say otherwise.
    pub(super) is_invisible: Option<bool>,
    /// Whether all of it is cut off or outside of the page: one of several ways.
    pub(super) is_outside: Option<bool>,
    pub(super) is_tiny: Option<bool>,
    pub(super) is_struck: Option<bool>,
    pub(super) color: Option<Color>,
    pub(super) background: Option<Color>,
    pub(super) level: Option<Level>,
    pub(super) list: Option<Format>,
    pub(super) layout: Layout,
    /// Two halves of one way to be cut off.
    is_flat: Option<bool>,
    hides_overflow: Option<bool>,
}

impl Declared {
    /// The declarations of a `style` attribute or of a rule.
    pub(super) fn parse(text: &str) -> Declared {
        let mut declared = Declared::default();
        for declaration in text.split(';') {
            if let Some((name, value)) = declaration.split_once(':') {
                let value = value.split('!').next().unwrap_or_default().trim().to_ascii_lowercase();
                declared.set(name.trim().to_ascii_lowercase().as_str(), &value);
            }
        }
        if declared.is_flat == Some(true) && declared.hides_overflow == Some(true) {
            declared.is_outside = Some(true);
        }
        declared
    }

    fn set(&mut self, name: &str, value: &str) {
        let is_zero = || pixels(value) == Some(0.0);
        self.layout.set(name, value);
        match name {
            "display" => self.is_absent = Some(value == "none"),
            "visibility" => self.is_invisible = Some(value == "hidden" || value == "collapse"),
            "content-visibility" if value == "hidden" => self.is_absent = Some(true),
            "mso-hide" if value == "all" => self.is_absent = Some(true),
            "opacity" => {
                self.is_outside = Some(value.trim_end_matches('%').parse::<f32>().is_ok_and(|n| n < 0.05))
            }
            "left" | "top" | "right" | "bottom" | "margin-left" | "margin-top" | "text-indent"
                if pixels(value).is_some_and(|distance| distance <= FAR) =>
            {
                self.is_outside = Some(true);
            }
            "clip" => {
                let inner = value.strip_prefix("rect(").and_then(|inner| inner.strip_suffix(')'));
                let mut sides = inner.into_iter().flat_map(|inner| inner.split([',', ' ']));
                let is_point = sides.all(|side| side.is_empty() || pixels(side).is_some_and(|n| n <= 1.0));
                self.is_outside = Some(inner.is_some() && is_point);
            }
            "clip-path" => {
                let inset = value.strip_prefix("inset(").and_then(|inner| inner.strip_suffix(')'));
                let share = inset.and_then(|inner| inner.trim().strip_suffix('%')?.parse::<f32>().ok());
                self.is_outside = Some(share.is_some_and(|share| share >= 50.0));
            }
            "transform" => self.is_outside = Some(value.replace(' ', "") == "scale(0)"),
            "width" | "height" | "max-height" | "max-width" => {
                self.is_flat = Some(self.is_flat == Some(true) || is_zero());
            }
            "overflow" => self.hides_overflow = Some(value == "hidden" || value == "clip"),
            "font-size" => self.is_tiny = Some(pixels(value).is_some_and(|size| size <= TINY)),
            "font" => {
                let size = value.split_whitespace().find_map(|part| pixels(part.split('/').next()?));
                self.is_tiny = Some(size.is_some_and(|size| size <= TINY));
            }
            "color" if value != "inherit" => self.color = Some(Color::parse(value)),
            "background-color" if value != "inherit" => self.background = Some(Color::parse(value)),
            "background" if value != "none" && value != "inherit" => {
                self.background = Some(Color::parse(value))
            }
            "background-image" if value != "none" => self.background = Some(Color::Unknown),
            "text-decoration" | "text-decoration-line" => {
                self.is_struck = Some(value.contains("line-through")).filter(|is_struck| *is_struck);
            }
            "vertical-align" => {
                self.level = match value {
                    "super" => Some(Level::Raised),
                    "sub" => Some(Level::Lowered),
                    "baseline" => Some(Level::Normal),
                    _ => None,
                }
            }
            "list-style-type" | "list-style" => {
                self.list = value.split_whitespace().find_map(Format::of_css);
            }
            _ => {}
        }
    }

    /// These declarations, and others that replace them.
    pub(super) fn replaced_by(self, other: Declared) -> Declared {
        Declared {
            is_absent: other.is_absent.or(self.is_absent),
            is_invisible: other.is_invisible.or(self.is_invisible),
            is_outside: other.is_outside.or(self.is_outside),
            is_tiny: other.is_tiny.or(self.is_tiny),
            is_struck: other.is_struck.or(self.is_struck),
            color: other.color.or(self.color),
            background: other.background.or(self.background),
            level: other.level.or(self.level),
            list: other.list.or(self.list),
            layout: self.layout.replaced_by(other.layout),
            is_flat: other.is_flat.or(self.is_flat),
            hides_overflow: other.hides_overflow.or(self.hides_overflow),
        }
    }
}

/// A length in pixels. Lengths that depend on others are `None`.
pub(super) fn pixels(value: &str) -> Option<f32> {
    let end = value.find(|c: char| c.is_ascii_alphabetic() || c == '%').unwrap_or(value.len());
    let number: f32 = value[..end].trim().parse().ok()?;
    Some(match &value[end..] {
        "px" => number,
        "pt" => number * 4.0 / 3.0,
        "em" | "rem" | "ex" | "ch" => number * 16.0,
        "cm" => number * 37.8,
        "mm" => number * 3.78,
        "in" => number * 96.0,
        "vw" | "vh" => number * 10.0,
        // 100 % is not far, and 0 % is nothing.
        "%" => number * 0.16,
        "" if number == 0.0 => 0.0,
        "" => number,
        _ => return None,
    })
}

/// A selector of one element.
#[derive(Debug, Default, PartialEq)]
struct Selector {
    element: Option<String>,
    id: Option<String>,
    classes: Vec<String>,
}

impl Selector {
    /// `None` for one that looks at other elements, states or attributes.
    fn parse(text: &str) -> Option<Selector> {
        let text = text.trim();
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || ">+~:[]*\\&".contains(c)) {
            return None;
        }
        let mut selector = Selector::default();
        let starts = text.match_indices(['.', '#']).map(|(at, _)| at);
        let bounds: Vec<usize> =
            std::iter::once(0).chain(starts.filter(|at| *at > 0)).chain([text.len()]).collect();
        for part in bounds.windows(2).map(|bounds| &text[bounds[0]..bounds[1]]) {
            match (part.strip_prefix('.'), part.strip_prefix('#')) {
                (Some(class), _) => selector.classes.push(class.to_owned()),
                (_, Some(id)) => selector.id = Some(id.to_owned()),
                _ => selector.element = Some(part.to_ascii_lowercase()),
            }
        }
        Some(selector)
    }

    fn specificity(&self) -> usize {
        let count = |is: bool| usize::from(is);
        count(self.id.is_some()) * 10_000 + self.classes.len().min(99) * 100 + count(self.element.is_some())
    }

    /// What an element must have; there may be more.
    fn key(&self) -> String {
        match (&self.id, self.classes.first(), &self.element) {
            (Some(id), _, _) => format!("#{id}"),
            (_, Some(class), _) => format!(".{class}"),
            (_, _, element) => element.clone().unwrap_or_default(),
        }
    }

    fn matches(&self, name: &str, id: Option<&str>, classes: &[&str]) -> bool {
        self.element.as_deref().is_none_or(|element| element == name)
            && self.id.as_deref().is_none_or(|own| Some(own) == id)
            && self.classes.iter().all(|class| classes.contains(&class.as_str()))
    }
}

/// The rules of a page.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    rules: HashMap<String, Vec<(Selector, usize, Declared)>>,
    count: usize,
    /// Whether something else may give elements a background.
    pub(super) hides_background: bool,
}

impl Sheet {
    /// Reads the content of a `<style>` element.
    pub(super) fn read(&mut self, text: &str) {
        let mut rest = &*without_comments(text);
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '}' || c == ';');
            let Some(at) = rest.find(['{', ';']) else { return };
            let (prelude, after) = (rest[..at].trim(), &rest[at + 1..]);
            if rest[at..].starts_with(';') {
                self.hides_background |= prelude.starts_with("@import");
                rest = after;
            } else if let Some(rule) = prelude.strip_prefix('@') {
                let rule = rule.to_ascii_lowercase();
                let condition = rule.strip_prefix("media").map(str::trim);
                // What holds on each screen: its rules follow. Others are passed over.
                rest = match condition {
                    Some("screen" | "all" | "only screen") => after,
                    _ => &after[block_length(after)..],
                };
            } else {
                let length = after.find('}').unwrap_or(after.len());
                self.add(prelude, &after[..length]);
                rest = &after[length..];
            }
        }
    }

    fn add(&mut self, selectors: &str, body: &str) {
        let declared = Declared::parse(body);
        if declared == Declared::default() {
            return;
        }
        for text in selectors.split(',') {
            let Some(selector) = Selector::parse(text) else {
                self.hides_background |= declared.background.is_some();
                continue;
            };
            if self.count < MAX_RULES {
                let rules = self.rules.entry(selector.key()).or_default();
                if rules.len() < MAX_RULES_OF_KEY {
                    rules.push((selector, self.count, declared));
                    self.count += 1;
                }
            }
        }
    }

    /// What rules and attributes say of an element.
    pub(super) fn of(&self, tag: &Tag) -> Declared {
        let mut declared = Declared::default();
        if self.count > 0 {
            let name = String::from_utf8_lossy(&tag.name);
            let (id, class) = (tag.attribute("id"), tag.attribute("class").unwrap_or_default());
            let classes: Vec<&str> = class.split_ascii_whitespace().take(MAX_CLASSES).collect();
            let keys = std::iter::once(name.clone().into_owned())
                .chain(id.iter().map(|id| format!("#{id}")))
                .chain(classes.iter().map(|class| format!(".{class}")));
            let mut matching: Vec<_> = keys
                .filter_map(|key| self.rules.get(&key))
                .flatten()
                .filter(|(selector, _, _)| selector.matches(&name, id.as_deref(), &classes))
                .collect();
            matching.sort_by_key(|(selector, order, _)| (selector.specificity(), *order));
            declared = matching.iter().fold(declared, |declared, (_, _, rule)| declared.replaced_by(*rule));
        }
        match tag.attribute("style") {
            Some(style) => declared.replaced_by(Declared::parse(&style)),
            None => declared,
        }
    }
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// Bytes up to the end of the block that begins before this text.
fn block_length(text: &str) -> usize {
    let mut depth = 1;
    for (at, c) in text.bytes().enumerate() {
        match c {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sheet: &str, element: &str, class: &str, style: &str) -> Declared {
        let mut rules = Sheet::default();
        rules.read(sheet);
        let attribute = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let attributes = vec![attribute("class", class), attribute("style", style), attribute("id", "i")];
        rules.of(&Tag { name: element.as_bytes().to_vec(), attributes, is_closed: false })
    }

    #[test]
    fn simple_rules_are_found() {
        for sheet in [
            ".a{display:none}",
            "p { display : none ! important }",
            "/* p{} */ b, p.a { color: red; display: none }",
            "#i{display:none} p{display:block}",
            "@media print{ p{display:block} } @media screen { .a { display:none } }",
            "@charset 'x'; @font-face { src: x } .b.a { display: none }",
        ] {
            assert_eq!(of(sheet, "p", "a b", "").is_absent, Some(true), "{sheet}");
        }
        for sheet in [
            ".c{display:none}",
            "div p{display:none}",
            ".a:hover{display:none}",
            "@media print{.a{display:none}}",
            ".a{display:none} .a.b{display:block}",
            "@media print{.a{color:red}.a{display:none}} .b{color:red}",
        ] {
            assert_ne!(of(sheet, "p", "a b", "").is_absent, Some(true), "{sheet}");
        }
        assert_eq!(of(".a{display:none}", "p", "a", "display:inline").is_absent, Some(false));
    }

    #[test]
    fn ways_to_hide_are_known() {
        for style in [
            "opacity:0",
            "position:absolute; left:-9999px",
            "text-indent:-100em",
            "clip: rect(0 0 0 0)",
            "clip:rect(1px, 1px, 1px, 1px)",
            "clip-path: inset(50%)",
            "height:0;overflow:hidden",
        ] {
            assert_eq!(Declared::parse(style).is_outside, Some(true), "{style}");
        }
        for style in
            ["opacity:.9", "left:-20px", "height:0", "overflow:hidden", "clip: auto", "text-indent:-2em"]
        {
            assert_ne!(Declared::parse(style).is_outside, Some(true), "{style}");
        }
        assert_eq!(Declared::parse("visibility:hidden").is_invisible, Some(true));
        assert_eq!(Declared::parse("font-size:0").is_tiny, Some(true));
        assert_eq!(Declared::parse("font-size:80%").is_tiny, Some(false));
        assert_eq!(Declared::parse("font: bold 1px/2 Arial").is_tiny, Some(true));
    }

    #[test]
    fn colours_are_compared() {
        let lost = |text: &str, ground: &str| Color::parse(text).is_lost_on(Color::parse(ground));
        assert!(lost("#FFF", "white"));
        assert!(lost("rgb(254, 254, 254)", "#ffffff"));
        assert!(lost("rgba(0,0,0,0)", "white"));
        assert!(!lost("#ccc", "white"));
        assert!(!lost("var(--x)", "white"));
        assert!(!lost("white", "url(x.png)"));
    }
}
