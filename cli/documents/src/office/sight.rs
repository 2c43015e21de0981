//! Whether a reader sees text of a colour on what is behind it.

use crate::color::Color;

/// Whether a reader sees a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sight {
    Seen,
    /// It is white, and what is behind it is not known.
    Uncertain,
    Hidden,
}

/// Whether a reader sees text of a colour on the first of these grounds that is not transparent, or on that of the page.
pub(super) fn of_color(color: Option<Color>, grounds: &[Option<Color>], page: Color) -> Sight {
    let ground = grounds.iter().flatten().find(|ground| **ground != Color::Transparent);
    let ground = ground.copied().unwrap_or(page);
    match color {
        Some(color) if color.is_lost_on(ground) => Sight::Hidden,
        Some(color) if ground == Color::Unknown && color.is_lost_on(Color::WHITE) => Sight::Uncertain,
        _ => Sight::Seen,
    }
}

/// Whether a reader sees a text on a page, where something may be between both.
pub(super) fn on_page(page: Color, may_be_covered: bool, on: impl Fn(Color) -> Sight) -> Sight {
    match on(page) {
        Sight::Hidden if may_be_covered => on(Color::Unknown),
        sight => sight,
    }
}
