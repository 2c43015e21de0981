//! Conditions of rules: which of them hold on the screen of a desktop.

use super::style::pixels;
use super::values::{split, words};

/// The window that pages are read in, in pixels.
const WIDTH: f32 = 1280.0;
const HEIGHT: f32 = 720.0;
/// Brackets of a condition, which may be within each other.
const MAX_BRACKETS: usize = 32;
/// What comparisons are written with.
const COMPARISONS: [char; 3] = ['<', '>', '='];

/// Whether a list of media queries holds. `None` if it is not known.
pub(crate) fn holds(queries: &str) -> Option<bool> {
    let queries = queries.to_ascii_lowercase();
    if queries.trim().is_empty() {
        return Some(true);
    }
    if queries.matches('(').count() > MAX_BRACKETS {
        return None;
    }
    let queries: Vec<Option<bool>> = split(&queries, |c| c == ',').into_iter().map(query).collect();
    any(&queries)
}

/// Whether what a page asks of the browser is supported. What all browsers have is. `None` for what one of them has
/// (`-moz-appearance`), and for a condition in brackets that must not hold.
pub(crate) fn supports(condition: &str) -> Option<bool> {
    let condition = condition.trim_start().to_ascii_lowercase();
    let negated = condition.strip_prefix("not");
    let is_of_browser = |word: &str| {
        word.strip_prefix('-').is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut words = negated.unwrap_or(&condition).split(|c| !is_of_word(c));
    (!words.any(|word| word == "not" || is_of_browser(word))).then_some(negated.is_none())
}

/// Whether one of several conditions holds.
fn any(conditions: &[Option<bool>]) -> Option<bool> {
    match (conditions.contains(&Some(true)), conditions.contains(&None)) {
        (true, _) => Some(true),
        (false, is_unknown) => (!is_unknown).then_some(false),
    }
}

/// Whether all of them hold.
pub(crate) fn all(conditions: &[Option<bool>]) -> Option<bool> {
    let negated: Vec<Option<bool>> = conditions.iter().map(|holds| holds.map(|holds| !holds)).collect();
    any(&negated).map(|fails| !fails)
}

fn query(query: &str) -> Option<bool> {
    let (mut is_negated, mut alternatives) = (false, vec![Vec::new()]);
    for word in words(query) {
        let holds = match word {
            "not" => {
                is_negated = true;
                continue;
            }
            "only" | "and" => continue,
            "or" => {
                alternatives.push(Vec::new());
                continue;
            }
            "screen" | "all" => Some(true),
            word => match word.strip_prefix('(').and_then(|word| word.strip_suffix(')')) {
                Some(inner) => feature(inner.trim()),
                // Other media are not this one.
                None => Some(false),
            },
        };
        alternatives.iter_mut().last().into_iter().for_each(|conditions| conditions.push(holds));
    }
    let alternatives: Vec<Option<bool>> = alternatives.iter().map(|conditions| all(conditions)).collect();
    any(&alternatives).map(|holds| holds != is_negated)
}

fn feature(text: &str) -> Option<bool> {
    if text.starts_with('(') || text.starts_with("not ") {
        return query(text);
    }
    if text.contains(COMPARISONS) {
        return range(text);
    }
    let Some((name, value)) = text.split_once(':') else {
        return match text {
            "hover" | "any-hover" | "pointer" | "any-pointer" | "color" | "width" | "height" | "grid" => {
                Some(text != "grid")
            }
            _ => None,
        };
    };
    let value = value.trim();
    let length = || pixels(value);
    match name.trim() {
        "min-width" | "min-device-width" => Some(WIDTH >= length()?),
        "max-width" | "max-device-width" => Some(WIDTH <= length()?),
        "min-height" | "min-device-height" => Some(HEIGHT >= length()?),
        "max-height" | "max-device-height" => Some(HEIGHT <= length()?),
        "orientation" => Some(value == "landscape"),
        "hover" | "any-hover" => Some(value == "hover"),
        "pointer" | "any-pointer" => Some(value == "fine"),
        "prefers-color-scheme" => Some(value == "light"),
        "prefers-reduced-motion" | "prefers-contrast" | "prefers-reduced-transparency" => {
            Some(value == "no-preference")
        }
        "forced-colors" | "inverted-colors" => Some(value == "none"),
        "scripting" => Some(value == "enabled"),
        "display-mode" => Some(value == "browser"),
        _ => None,
    }
}

/// `width >= 600px`, `400px < width <= 700px`.
fn range(text: &str) -> Option<bool> {
    let (first, rest) = comparison(text)?;
    let Some(rest) = rest else { return Some(first) };
    let (second, rest) = comparison(rest)?;
    rest.is_none().then_some(first && second)
}

/// Whether the first comparison of a text holds, and the text from its right side on if another follows.
fn comparison(text: &str) -> Option<(bool, Option<&str>)> {
    let value = |part: &str| match part.trim() {
        "width" => Some(WIDTH),
        "height" => Some(HEIGHT),
        part => pixels(part),
    };
    let (left, rest) = text.split_at(text.find(COMPARISONS)?);
    let right = rest.trim_start_matches(COMPARISONS);
    let end = right.find(COMPARISONS);
    let (left, value) = (value(left)?, value(&right[..end.unwrap_or(right.len())])?);
    let holds = match &rest[..rest.len() - right.len()] {
        "<" => left < value,
        "<=" => left <= value,
        ">" => left > value,
        ">=" => left >= value,
        "=" => left == value,
        _ => return None,
    };
    Some((holds, end.map(|_| right)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_on_a_desktop() {
        for (text, wanted) in [
            ("", Some(true)),
            ("screen and (min-width: 600px)", Some(true)),
            ("(min-width:80em)", Some(true)),
            ("(min-width:90em)", Some(false)),
            ("only screen and (max-width: 40rem)", Some(false)),
            ("print, (min-width: 0)", Some(true)),
            ("print", Some(false)),
            ("not print", Some(true)),
            ("not all and (min-width: 600px)", Some(false)),
            ("(width >= 600px)", Some(true)),
            ("(400px < width <= 700px)", Some(false)),
            ("(400px<width<=1280px)", Some(true)),
            ("(400px <= width < 1280px)", Some(false)),
            ("(1280px < width <= 1400px)", Some(false)),
            ("(1400px >= width > 1000px)", Some(true)),
            ("(width = 1280px)", Some(true)),
            ("(width => 600px)", None),
            ("(1px < width < 2000px < 3000px)", None),
            ("(width <)", None),
            ("(prefers-color-scheme: dark)", Some(false)),
            ("(max-width: 600px) or (orientation: landscape)", Some(true)),
            ("(min-aspect-ratio: 1/1)", None),
            ("screen and (unknown), (min-width: 1px)", Some(true)),
            ("print and (unknown)", Some(false)),
            ("not (max-width: 600px)", Some(true)),
        ] {
            assert_eq!(holds(text), wanted, "{text}");
        }
        for (text, wanted) in [
            ("(display: grid)", Some(true)),
            ("(--x: y) and (margin: -1px)", Some(true)),
            ("not (display: grid)", Some(false)),
            ("(not (display: grid))", None),
            ("(-ms-ime-align:auto)", None),
            ("( -moz-appearance:none )", None),
            ("(position: -webkit-sticky)", None),
            ("not (-webkit-touch-callout: none)", None),
        ] {
            assert_eq!(supports(text), wanted, "{text}");
        }
    }
}
