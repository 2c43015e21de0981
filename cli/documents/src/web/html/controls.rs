//! Fields of forms: what stands in them, and which boxes are ticked.

use super::Tag;
use crate::writer::symbols::{CHOSEN, EMPTY, NOT_CHOSEN, TICKED};

/// Choices of a list that are all written. Of longer ones, only those that are chosen.
const MAX_CHOICES: usize = 12;

/// What an `input` shows.
pub(super) fn input(tag: &Tag) -> Option<String> {
    let kind = tag.attribute("type").unwrap_or_default().trim().to_ascii_lowercase();
    let is_checked = tag.has("checked");
    let value = || tag.attribute("value").filter(|value| !value.trim().is_empty());
    match kind.as_str() {
        "checkbox" => Some((if is_checked { TICKED } else { EMPTY }).to_owned()),
        "radio" => Some((if is_checked { CHOSEN } else { NOT_CHOSEN }).to_owned()),
        "hidden" | "password" | "file" | "color" => None,
        "image" => tag.attribute("alt").filter(|alt| !alt.trim().is_empty()),
        _ => value(),
    }
}

/// Whether a field is there for scripts and styles only: a box that is not seen and opens a menu.
pub(super) fn is_switch(tag: &Tag) -> bool {
    let class = tag.attribute("class").unwrap_or_default();
    let is_hidden = |class: &str| matches!(class, "hidden" | "sr-only" | "visually-hidden");
    tag.is("aria-hidden", "true") || class.split_ascii_whitespace().any(is_hidden)
}

/// The box that another element plays.
pub(super) fn role(tag: &Tag) -> Option<&'static str> {
    let is_checked = tag.is("aria-checked", "true");
    let role = tag.attribute("role").filter(|_| tag.has("aria-checked"))?;
    match role.trim() {
        "checkbox" | "switch" | "menuitemcheckbox" => Some(if is_checked { TICKED } else { EMPTY }),
        "radio" | "menuitemradio" => Some(if is_checked { CHOSEN } else { NOT_CHOSEN }),
        _ => None,
    }
}

/// A list of choices while it is read.
#[derive(Debug, Default)]
pub(super) struct Choices {
    choices: Vec<(String, bool)>,
    takes_several: bool,
    /// Whether several choices are seen at a time.
    is_open: bool,
}

impl Choices {
    pub(super) fn new(tag: &Tag) -> Choices {
        let is_open = tag.number("size").is_some_and(|size| size > 1);
        Choices { choices: Vec::new(), takes_several: tag.has("multiple"), is_open }
    }

    pub(super) fn begin(&mut self, tag: &Tag) {
        self.choices.push((tag.attribute("label").unwrap_or_default(), tag.has("selected")));
    }

    pub(super) fn text(&mut self, text: &str) {
        if let Some((choice, _)) = self.choices.last_mut() {
            choice.push_str(text);
        }
    }

    /// The choices with their marks.
    pub(super) fn finish(mut self) -> Vec<String> {
        let count = self.choices.len();
        // Without a choice, the first one is shown as chosen.
        if !self.takes_several && !self.is_open && !self.choices.iter().any(|(_, is_chosen)| *is_chosen) {
            self.choices.iter_mut().take(1).for_each(|(_, is_chosen)| *is_chosen = true);
        }
        let (yes, no) = if self.takes_several { (TICKED, EMPTY) } else { (CHOSEN, NOT_CHOSEN) };
        let is_short = count <= MAX_CHOICES;
        let mut written: Vec<String> = self
            .choices
            .iter()
            .filter(|(text, is_chosen)| !text.trim().is_empty() && (is_short || *is_chosen))
            .map(|(text, is_chosen)| format!("{} {}", if *is_chosen { yes } else { no }, text.trim()))
            .collect();
        if !is_short {
            written.push(format!("({count} choices)"));
        }
        written
    }
}
