//! How an element that is not a block of itself stands beside its neighbours. It is a part of a word, has words of its own,
//! or stands on lines of its own.

use super::style::pixels;

/// A gap of so many pixels divides numbers.
const GAP: f32 = 3.0;

/// What declarations say of it. `None` is for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Layout {
    display: Option<Display>,
    floats: Option<bool>,
    is_wide: Option<bool>,
    has_gap: Option<bool>,
    /// Whether lines are drawn beside it.
    is_framed: Option<bool>,
    /// Whether a line is drawn above or below it.
    has_rule: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Display {
    Inline,
    InlineBlock,
    Block,
    Cell,
    /// Its parts stand beside each other, and it is a block or not.
    Flex,
    InlineFlex,
}

/// Where the text of an element stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It goes on with the text around it.
    Within,
    /// There is a gap, which matters between numbers.
    Gap,
    /// It has words of its own.
    Word,
    Line,
}

impl Layout {
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let is_gap = |value: &str| pixels(value).is_some_and(|gap| gap >= GAP);
        match name {
            "display" => {
                self.display = match value {
                    "inline" | "contents" => Some(Display::Inline),
                    "inline-block" | "inline-table" => Some(Display::InlineBlock),
                    "block" | "list-item" | "flow-root" | "table" | "table-row" | "table-caption" => {
                        Some(Display::Block)
                    }
                    "table-cell" => Some(Display::Cell),
                    "flex" | "grid" | "-webkit-flex" | "-webkit-box" => Some(Display::Flex),
                    "inline-flex" | "inline-grid" => Some(Display::InlineFlex),
                    _ => self.display,
                }
            }
            "border" | "border-left" | "border-right" => {
                self.is_framed = Some(is_drawn(value) || self.is_framed == Some(true));
            }
            "float" => self.floats = Some(value == "left" || value == "right"),
            "width" | "min-width" => {
                self.is_wide =
                    Some(self.is_wide == Some(true) || pixels(value).is_some_and(|width| width > 0.0))
            }
            "padding" | "margin" => {
                let sides: Vec<&str> = value.split_whitespace().collect();
                let beside = [sides.get(1).or(sides.first()), sides.get(3)];
                self.has_gap = Some(beside.into_iter().flatten().any(|side| is_gap(side)));
            }
            "padding-left" | "padding-right" | "margin-left" | "margin-right" => {
                self.has_gap = Some(self.has_gap == Some(true) || is_gap(value));
            }
            "border-top" | "border-bottom" => {
                self.has_rule = Some(is_drawn(value) || self.has_rule == Some(true));
            }
            _ => {}
        }
    }

    /// These declarations, and others that replace them.
    pub(crate) fn replaced_by(self, other: Layout) -> Layout {
        Layout {
            display: other.display.or(self.display),
            floats: other.floats.or(self.floats),
            is_wide: other.is_wide.or(self.is_wide),
            has_gap: other.has_gap.or(self.has_gap),
            is_framed: other.is_framed.or(self.is_framed),
            has_rule: other.has_rule.or(self.has_rule),
        }
    }

    /// Whether the parts of the element stand beside each other, each on its own.
    pub(crate) fn divides(self) -> bool {
        matches!(self.display, Some(Display::Flex | Display::InlineFlex))
    }

    /// Whether the element is a box within a line of text.
    pub(crate) fn is_box_in_line(self) -> bool {
        self.display == Some(Display::InlineBlock) && !self.floats()
    }

    pub(crate) fn floats(self) -> bool {
        self.floats == Some(true)
    }

    /// Whether a line is drawn above or below the element.
    pub(crate) fn has_rule(self) -> bool {
        self.has_rule == Some(true)
    }

    /// Whether the element is a part of a line of text, and no box in it.
    pub(crate) fn is_in_line(self) -> bool {
        matches!(self.display, None | Some(Display::Inline)) && !self.floats()
    }

    /// Where an element stands that is no block of itself. Its parent may divide its parts.
    pub(crate) fn stand(self, is_divided: bool) -> Stand {
        let has_gap = self.has_gap == Some(true) || self.is_framed == Some(true);
        match self.display.unwrap_or(Display::Inline) {
            _ if is_divided || self.floats() => Stand::Word,
            Display::Block | Display::Flex => Stand::Line,
            Display::Cell | Display::InlineFlex => Stand::Word,
            Display::InlineBlock if has_gap || self.is_wide == Some(true) => Stand::Word,
            Display::Inline | Display::InlineBlock if has_gap => Stand::Gap,
            Display::Inline | Display::InlineBlock => Stand::Within,
        }
    }
}

/// Whether the value of a border draws a line.
fn is_drawn(value: &str) -> bool {
    let is_nothing =
        |part| matches!(part, "none" | "hidden" | "inherit" | "unset") || pixels(part) == Some(0.0);
    !value.split_whitespace().any(is_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_say_where_text_stands() {
        for (declarations, is_divided, wanted) in [
            (&[][..], false, Stand::Within),
            (&[], true, Stand::Word),
            (&[("display", "block")], false, Stand::Line),
            (&[("display", "block"), ("display", "inline")], false, Stand::Within),
            (&[("display", "inline-block")], false, Stand::Within),
            (&[("display", "inline-block"), ("width", "5em")], false, Stand::Word),
            (&[("width", "5em")], false, Stand::Within),
            (&[("padding", "2px 8px")], false, Stand::Gap),
            (&[("padding", "8px 0")], false, Stand::Within),
            (&[("border", "1px solid red")], false, Stand::Gap),
            (&[("border", "0 solid")], false, Stand::Within),
            (&[("margin-right", "1em"), ("margin-left", "0")], false, Stand::Gap),
            (&[("float", "left")], false, Stand::Word),
            (&[("float", "none"), ("display", "table-cell")], false, Stand::Word),
        ] {
            let mut layout = Layout::default();
            declarations.iter().for_each(|(name, value)| layout.set(name, value));
            assert_eq!(layout.stand(is_divided), wanted, "{declarations:?}");
        }
    }
}
