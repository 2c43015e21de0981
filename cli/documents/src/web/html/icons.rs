//! Icons: elements without text that a style sheet or a drawing shows as a sign. Some say yes or no.

use super::Tag;
use crate::writer::symbols::{EMPTY, TICKED};

/// What the names of icons of sets begin with.
const SETS: &[&str] = &[
    "bi",
    "bx",
    "codicon",
    "dashicons",
    "fa",
    "feather",
    "glyphicon",
    "icon",
    "la",
    "lucide",
    "mdi",
    "octicon",
    "pi",
    "ri",
    "ti",
    "uil",
];
/// Words of names that say yes, those that say no, and those that say how that looks.
const YES: &[&str] = &["check", "check2", "checkmark", "ok", "tick", "yes"];
const NO: &[&str] = &["close", "cross", "no", "remove", "times", "x", "xmark"];
const LOOKS: &[&str] = &[
    "alt", "bold", "circle", "fill", "icon", "large", "lg", "line", "mark", "o", "outline", "sharp", "sign",
    "small", "solid", "thick", "thin",
];

/// An element that may be an icon, while it is open.
#[derive(Debug)]
pub(super) struct Icon {
    /// How many elements are around it.
    pub(super) depth: usize,
    /// The texts before it, and the icons that are not known.
    pub(super) texts: usize,
    pub(super) unknown: usize,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// What describes it, if it has no text.
    Label(String),
    /// A sign that says yes or no.
    Sign(&'static str),
    /// It is not known what it shows.
    Unknown,
    /// A cell, in which an icon may be all there is.
    Cell,
}

impl Icon {
    /// A drawing is that of another place, which has a name.
    pub(super) fn uses(&mut self, tag: &Tag) {
        let place = ["href", "xlink:href"].iter().find_map(|name| tag.attribute(name));
        let name = place.as_deref().and_then(|place| place.rsplit('#').next()).unwrap_or_default();
        if let (Kind::Unknown, Some(sign)) = (&self.kind, sign(&name.to_ascii_lowercase())) {
            self.kind = Kind::Sign(sign);
        }
    }
}

/// What an element shows, if it may be an icon or have one.
pub(super) fn kind(tag: &Tag) -> Option<Kind> {
    let name = tag.name.as_slice();
    if matches!(name, b"td" | b"th") {
        return Some(Kind::Cell);
    }
    let may_be = matches!(name, b"svg" | b"i" | b"span" | b"em") || tag.is("role", "img") || is_box(tag);
    if !may_be {
        return None;
    }
    // Places of a page, such as the beginnings of printed ones, have titles as well.
    let is_place = ["id", "epub:type", "role"].iter().any(|name| tag.has(name)) && !tag.is("role", "img");
    let title = || tag.attribute("title").filter(|_| !is_place);
    let label = tag.attribute("aria-label").or_else(title).filter(|label| !label.trim().is_empty());
    let label = label.filter(|_| !tag.is("aria-hidden", "true"));
    let class = tag.attribute("class").unwrap_or_default().to_ascii_lowercase();
    let mut words = class.split_ascii_whitespace();
    match (label, words.clone().find_map(sign)) {
        (Some(label), _) => Some(Kind::Label(label.trim().to_owned())),
        (None, Some(sign)) => Some(Kind::Sign(sign)),
        (None, None) if name == b"svg" || words.any(|word| set(word).is_some()) => Some(Kind::Unknown),
        (None, None) => None,
    }
}

/// Whether an element is a box that may have a mark.
pub(super) fn is_box(tag: &Tag) -> bool {
    let class = tag.attribute("class").unwrap_or_default();
    class.split_ascii_whitespace().any(|word| word.starts_with("checkbox-"))
}

/// The name of an icon behind that of its set.
fn set(word: &str) -> Option<&str> {
    let (set, name) = word.split_once('-')?;
    SETS.contains(&set).then_some(name)
}

/// The sign of an icon that says yes or no by its name.
fn sign(word: &str) -> Option<&'static str> {
    match word.strip_prefix("checkbox-") {
        Some("on" | "checked") => return Some(TICKED),
        Some("off" | "unchecked") => return Some(EMPTY),
        _ => {}
    }
    let is_of_set = set(word).is_some();
    let name = set(word).unwrap_or(word);
    let parts = || name.split(['-', '_']);
    let says = |words: &[&str]| parts().any(|part| words.contains(&part));
    // Without a set, only some names are those of icons.
    let is_known = is_of_set || !says(&["close", "no", "ok", "remove", "times", "x"]);
    let is_sign = parts().all(|part| [YES, NO, LOOKS, &["square"]].iter().any(|words| words.contains(&part)));
    match (says(YES), says(NO)) {
        _ if !is_known || !is_sign => None,
        (true, false) if says(&["square"]) => Some(TICKED),
        (true, false) => Some("✓"),
        (false, true) => Some("✗"),
        _ => None,
    }
}
