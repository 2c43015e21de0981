//! Forms: their controls stand before the text, which names them where they are shown.

use std::collections::HashMap;

use super::values;
use crate::package::xml::{Element, Piece};
use crate::writer::symbols::{CHOSEN, EMPTY, NOT_CHOSEN, TICKED};

/// Controls that show something.
const CONTROLS: &[&str] = &[
    "checkbox",
    "radio",
    "text",
    "textarea",
    "combobox",
    "listbox",
    "formatted-text",
    "number",
    "date",
    "time",
    "fixed-text",
    "frame",
];
/// Bytes of what one control shows.
const MAX_VALUE: usize = 1 << 20;

/// The controls of a document.
#[derive(Debug, Default)]
pub(super) struct Forms {
    /// Whether forms are read.
    pub(super) is_open: bool,
    /// What controls show, by their ids, and the id of the last one.
    controls: HashMap<String, String>,
    last: String,
    /// Whether an attribute of the last one has its text.
    has_value: bool,
}

impl Forms {
    /// What a control shows.
    pub(super) fn shown(&self, id: &str) -> Option<String> {
        self.controls.get(id).cloned()
    }

    /// Reads a piece of the forms.
    pub(super) fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Start(element) => match element.name.as_str() {
                name if CONTROLS.contains(&name) => self.control(element),
                "option" => self.choice(element),
                _ => {}
            },
            Piece::End(name) => {
                self.is_open &= name != "forms";
                if CONTROLS.contains(&name.as_str()) {
                    self.last.clear();
                }
            }
            // Text with looks of its own, unless the attribute has a copy of it.
            Piece::Text(text) => {
                let shown = self.controls.get_mut(&self.last);
                let is_new = |shown: &&mut String| !self.has_value && shown.len() + text.len() < MAX_VALUE;
                shown.filter(is_new).into_iter().for_each(|shown| shown.extend([" ", text.trim()]));
            }
        }
    }

    /// A control: its label, its box with its label, or its value.
    fn control(&mut self, element: &Element) {
        let value = |name: &str| element.attribute(name).filter(|value| !value.trim().is_empty());
        let Some(id) = element.attribute_of("xml:id").or_else(|| element.attribute_of("form:id")) else {
            return;
        };
        let state = value("current-state")
            .or_else(|| value("state"))
            .or_else(|| value("current-selected"))
            .or_else(|| value("selected"));
        let is_ticked = state.is_some_and(|state| state == "checked" || state == "true");
        let mark = match (element.name.as_str(), is_ticked) {
            ("checkbox", true) => TICKED,
            ("checkbox", false) => EMPTY,
            ("radio", true) => CHOSEN,
            ("radio", false) => NOT_CHOSEN,
            _ => "",
        };
        let text = match element.name.as_str() {
            "checkbox" | "radio" | "fixed-text" | "frame" => value("label"),
            _ => value("current-value").or_else(|| value("value")),
        };
        let text =
            text.map(|text| if element.name == "time" { values::clock(&text).unwrap_or(text) } else { text });
        self.last.clone_from(&id);
        self.has_value = text.is_some();
        self.controls.insert(id, format!("{mark} {}", text.unwrap_or_default()).trim().to_owned());
    }

    /// A choice of the list that was read last, which shows those that are chosen.
    fn choice(&mut self, element: &Element) {
        let state = element.attribute("current-selected").or_else(|| element.attribute("selected"));
        let label = element.attribute("label").filter(|_| state.is_some_and(|state| state == "true"));
        if let (Some(label), Some(shown)) = (label, self.controls.get_mut(&self.last)) {
            shown.push_str(if shown.is_empty() { "" } else { ", " });
            shown.push_str(&label);
        }
    }
}
