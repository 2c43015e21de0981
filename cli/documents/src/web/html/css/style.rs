//! The little of CSS that says whether a reader sees a text, and how.

use super::counter_styles::ListStyle;
use super::font::{FontSize, is_icon_font, symbol_font};
use super::layout::Layout;
use super::outside::Outside;
use super::shift::Shift;
use super::values::declarations;
use crate::color::Color;

/// What becomes of white space.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Space {
    #[default]
    Joined,
    /// Ends of lines are kept, or all of it.
    Lines,
    Kept,
}

/// What declarations say. `None` is for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Declared {
    /// Whether the element is not there at all.
    pub(crate) is_absent: Option<bool>,
    /// Whether it cannot be seen, though parts of it may say otherwise.
    pub(crate) is_invisible: Option<bool>,
    /// Whether all of it is cut off or outside of the page.
    pub(crate) outside: Outside,
    pub(crate) is_tiny: Option<bool>,
    pub(crate) size: Option<FontSize>,
    pub(crate) is_struck: Option<bool>,
    /// Whether its font draws letters as icons.
    pub(crate) is_icon: Option<bool>,
    /// The name of its font, if that has signs in place of letters; else an empty one.
    pub(crate) symbols: Option<&'static str>,
    pub(crate) color: Option<Color>,
    pub(crate) background: Option<Color>,
    pub(crate) shift: Shift,
    pub(crate) list: Option<ListStyle>,
    pub(crate) layout: Layout,
    pub(crate) space: Option<Space>,
    /// Whether its letters show its background, whatever their colour.
    pub(crate) shows_ground: Option<bool>,
}

/// The declarations of a `style` attribute or of a rule. Those that are important replace all others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Declarations {
    pub(crate) usual: Declared,
    pub(crate) important: Option<Declared>,
}

impl Declarations {
    pub(crate) fn parse(text: &str) -> Declarations {
        Declarations::of(&declarations(text).collect::<Vec<_>>())
    }

    /// Those of these names and values.
    pub(crate) fn of(body: &[(String, &str)]) -> Declarations {
        let mut all = Declarations::default();
        for (name, value) in body.iter().map(|(name, value)| (name, *value)) {
            let (value, declared) = match important(value) {
                Some(value) => (value, all.important.get_or_insert_default()),
                None => (value, &mut all.usual),
            };
            match name.as_str() {
                "list-style-type" | "list-style" => declared.list = ListStyle::parse(value),
                name => declared.set(name, &value.trim().to_ascii_lowercase()),
            }
        }
        let together = all.together();
        all.usual.outside.end_rule(&together.outside);
        all
    }

    pub(crate) fn together(&self) -> Declared {
        self.usual.clone().replaced_by(self.important.clone().unwrap_or_default())
    }
}

impl Declared {
    /// Whether an element can be seen, if the declarations say so.
    pub(crate) fn is_seen(&self) -> Option<bool> {
        let ways = [self.is_absent, self.is_invisible, self.outside.is_outside(), self.is_tiny];
        ways.into_iter().flatten().reduce(|one, other| one || other).map(|is_hidden| !is_hidden)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.layout.set(name, value);
        self.outside.set(name, value);
        self.shift.set(name, value);
        match name {
            "display" => self.is_absent = Some(value == "none"),
            "visibility" => self.is_invisible = Some(value == "hidden" || value == "collapse"),
            "content-visibility" if value == "hidden" => self.is_absent = Some(true),
            "mso-hide" if value == "all" => self.is_absent = Some(true),
            "font-size" => self.set_size(FontSize::parse(value)),
            "font-family" => self.set_family(value),
            "font" => {
                let font = FontSize::of_font(value);
                self.set_size(font.map(|(size, _)| size));
                self.set_family(font.map_or(value, |(_, families)| families));
            }
            "white-space" | "white-space-collapse" => {
                self.space = match value {
                    "pre" | "pre-wrap" | "-moz-pre-wrap" | "break-spaces" | "preserve" => Some(Space::Kept),
                    "pre-line" | "preserve-breaks" => Some(Space::Lines),
                    "normal" | "nowrap" | "initial" | "collapse" => Some(Space::Joined),
                    _ => self.space,
                }
            }
            "color" if value != "inherit" => self.color = Some(Color::parse(value)),
            "background-color" if value != "inherit" => self.background = Some(Color::parse(value)),
            "background" if value != "none" && value != "inherit" => {
                self.background = Some(Color::parse(value))
            }
            "background-clip" | "-webkit-background-clip" => self.shows_ground = Some(value == "text"),
            "background-image" if value != "none" => self.background = Some(Color::Unknown),
            "text-decoration" | "text-decoration-line" => {
                self.is_struck = Some(value.contains("line-through")).filter(|is_struck| *is_struck);
            }
            _ => {}
        }
    }

    fn set_size(&mut self, size: Option<FontSize>) {
        self.is_tiny = Some(size.is_some_and(FontSize::is_tiny));
        self.size = size.or(self.size);
    }

    fn set_family(&mut self, families: &str) {
        self.is_icon = is_icon_font(families).then_some(true);
        self.symbols = Some(symbol_font(families));
    }

    /// These declarations, and others that replace them.
    pub(crate) fn replaced_by(self, other: Declared) -> Declared {
        Declared {
            is_absent: other.is_absent.or(self.is_absent),
            is_invisible: other.is_invisible.or(self.is_invisible),
            outside: self.outside.replaced_by(other.outside),
            is_tiny: other.is_tiny.or(self.is_tiny),
            size: other.size.or(self.size),
            is_struck: other.is_struck.or(self.is_struck),
            is_icon: other.is_icon.or(self.is_icon),
            symbols: other.symbols.or(self.symbols),
            color: other.color.or(self.color),
            background: other.background.or(self.background),
            shift: self.shift.replaced_by(other.shift),
            list: other.list.or(self.list),
            space: other.space.or(self.space),
            layout: self.layout.replaced_by(other.layout),
            shows_ground: other.shows_ground.or(self.shows_ground),
        }
    }
}

/// The value of a declaration that replaces others, before its mark.
pub(crate) fn important(value: &str) -> Option<&str> {
    let (value, mark) = value.rsplit_once('!')?;
    mark.trim().eq_ignore_ascii_case("important").then_some(value)
}

/// A length in pixels. Lengths that depend on others are `None`.
pub(crate) fn pixels(value: &str) -> Option<f32> {
    let end = value.find(|c: char| c.is_ascii_alphabetic() || c == '%').unwrap_or(value.len());
    let number: f32 = value[..end].trim().parse().ok()?;
    Some(match &value[end..] {
        "px" => number,
        "pt" => number * 4.0 / 3.0,
        "em" | "rem" => number * 16.0,
        "ex" | "ch" => number * 8.0,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(style: &str) -> Declared {
        Declarations::parse(style).together()
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
            "position:absolute;width:1px;height:1px;overflow:hidden",
            "clip-path: circle(0)",
            "clip-path: polygon(0 0, 0 0, 0 0)",
            "transform: scaleY(0)",
            "transform: translateX(-9999px)",
            "filter: opacity(0%)",
            "max-width:1px;max-height:1px;overflow:hidden!important",
            "opacity:0;filter:alpha(opacity=100)",
            "left:-9999px;filter:none",
            "clip:rect(1px,1px,1px,1px);filter:blur(1px)",
            "opacity:0;transform:translateY(10px)",
            "clip-path: inset(0 0 100%)",
            "transform: translate(0, -9999px)",
        ] {
            assert_eq!(of(style).outside.is_outside(), Some(true), "{style}");
        }
        for style in [
            "opacity:.9",
            "left:-20px",
            "height:0",
            "overflow:hidden",
            "clip: auto",
            "text-indent:-2em",
            "transform: scale(0.9)",
            "transform: translate(-50%, -50%)",
            "clip-path: circle(50%)",
            "filter: blur(0)",
            "height:20px;overflow:hidden",
            "height:1%;overflow:hidden",
            "width:5%;overflow:hidden",
            "height:1px;overflow:hidden",
            "max-height:1px;max-width:1px;min-height:3em;overflow:hidden",
            "flex:1;width:0;overflow:hidden",
            "transform:scale(0);transform:none",
            "clip-path: inset(50% 0 0 0)",
            "clip-path: inset(0 50% 40% 0 round 100%)",
        ] {
            assert_ne!(of(style).outside.is_outside(), Some(true), "{style}");
        }
        assert_eq!(of("visibility:hidden").is_invisible, Some(true));
        assert_eq!(of("font-size:0").is_tiny, Some(true));
        assert_eq!(of("font-size:80%").is_tiny, Some(false));
        assert_eq!(of("font: bold 1px/2 Arial").is_tiny, Some(true));
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
