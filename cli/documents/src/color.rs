//! Colours of documents, and which of them look the same.

/// Colours that differ less, summed over red, green and blue, look the same.
const SAME: i32 = 24;

/// A colour, or that there is one which is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Color {
    Known(u8, u8, u8),
    Transparent,
    /// One that is not known, but not white.
    NotWhite,
    #[default]
    Unknown,
}

impl Color {
    pub(crate) const WHITE: Color = Color::Known(255, 255, 255);

    /// Whether text of this colour cannot be seen on that one.
    pub(crate) fn is_lost_on(self, ground: Color) -> bool {
        match (self, ground) {
            (Color::Transparent, _) => true,
            (Color::Known(r, g, b), Color::Known(red, green, blue)) => {
                let differ = |a: u8, b: u8| (i32::from(a) - i32::from(b)).abs();
                differ(r, red) + differ(g, green) + differ(b, blue) < SAME
            }
            _ => false,
        }
    }

    /// Whether it is so far from white that a fifth of it is still not white.
    pub(crate) fn is_far_from_white(self) -> bool {
        match self {
            Color::Known(r, g, b) => {
                [r, g, b].map(|part| 255 - i32::from(part)).iter().sum::<i32>() > 5 * SAME
            }
            Color::NotWhite | Color::Transparent | Color::Unknown => false,
        }
    }

    /// A colour by its hexadecimal digits. What is none, such as the `auto` of Word, is not known.
    pub(crate) fn of_digits(digits: &str) -> Color {
        hexadecimal(digits.trim_end()).unwrap_or(Color::Unknown)
    }

    /// A colour of CSS or of an old attribute.
    pub(crate) fn parse(text: &str) -> Color {
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
            return Color::of_digits(digits);
        }
        let inner = text.strip_prefix("rgba(").or_else(|| text.strip_prefix("rgb("));
        let Some(inner) = inner.and_then(|inner| inner.strip_suffix(')')) else { return Color::Unknown };
        let parts = inner.split([',', ' ', '/']).filter(|part| !part.is_empty());
        let numbers: Option<Vec<f32>> = parts.map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some([_, _, _, alpha]) if *alpha < 0.05 => Color::Transparent,
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
