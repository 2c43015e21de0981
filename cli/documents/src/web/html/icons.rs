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

/// Classes of what is not seen at first.
const HIDDEN: &[&str] = &["d-none", "hidden", "is-hidden"];

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
    /// What describes it, if it has no text; and whether it says that it is a picture.
    Label(String, bool),
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
        if let (Kind::Unknown, Some(sign)) = (&self.kind, sign(&name.to_ascii_lowercase(), true)) {
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
    let class = tag.attribute("class").unwrap_or_default().to_ascii_lowercase();
    let mut words = class.split_ascii_whitespace();
    if words.clone().any(|word| HIDDEN.contains(&word)) {
        return None;
    }
    let sign = words.clone().find_map(|word| sign(word, name == b"svg"));
    let is_icon = name == b"svg" || sign.is_some() || words.any(|word| set(word).is_some());
    let is_picture = is_icon || tag.is("role", "img");
    // Places of a page, such as the beginnings of printed ones, have titles as well, and citations have some for programs.
    let is_place = ["id", "epub:type", "role"].iter().any(|name| tag.has(name));
    let is_title = |title: &String| is_picture || !is_place && !title.contains('=');
    let title = || tag.attribute("title").filter(is_title);
    let label = tag.attribute("aria-label").or_else(title).filter(|label| !label.trim().is_empty());
    let label = label.filter(|_| !tag.is("aria-hidden", "true"));
    match (label, sign) {
        (Some(label), _) => Some(Kind::Label(label.trim().to_owned(), is_picture)),
        (None, Some(sign)) => Some(Kind::Sign(sign)),
        (None, None) => is_icon.then_some(Kind::Unknown),
    }
}

/// Whether an element is a box that may have a mark.
pub(super) fn is_box(tag: &Tag) -> bool {
    let class = tag.attribute("class").unwrap_or_default();
    class.split_ascii_whitespace().any(|word| box_sign(word).is_some())
}

/// The name of an icon behind that of its set.
fn set(word: &str) -> Option<&str> {
    let (set, name) = word.split_once('-')?;
    SETS.contains(&set).then_some(name)
}

/// The sign of a box that says by its class whether it is ticked.
fn box_sign(word: &str) -> Option<&'static str> {
    match word {
        "checkbox-on" | "checkbox-checked" => Some(TICKED),
        "checkbox-off" | "checkbox-unchecked" => Some(EMPTY),
        _ => None,
    }
}

/// The sign of an icon that says yes or no by its name.
fn sign(word: &str, is_drawing: bool) -> Option<&'static str> {
    if let Some(sign) = box_sign(word) {
        return Some(sign);
    }
    // Without a set, the name is that of a part of a form, unless it is that of a drawing.
    let name = set(word).or(is_drawing.then_some(word))?;
    let parts = || name.split(['-', '_']);
    let says = |words: &[&str]| parts().any(|part| words.contains(&part));
    let is_sign = parts().all(|part| [YES, NO, LOOKS, &["square"]].iter().any(|words| words.contains(&part)));
    match (says(YES), says(NO)) {
        _ if !is_sign => None,
        (true, false) if says(&["square"]) => Some(TICKED),
        (true, false) => Some("✓"),
        (false, true) => Some("✗"),
        _ => None,
    }
}
