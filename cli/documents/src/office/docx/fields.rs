//! The open fields of DOCX.

use crate::office::fields::{Field, Shown};
use crate::package::xml::Element;

#[derive(Debug, Default)]
struct OpenField {
    field: Field,
    /// Whether what is shown has begun.
    shows: bool,
}

/// The open fields, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<OpenField>);

impl Fields {
    pub(super) fn begin(&mut self) {
        self.0.push(OpenField::default());
    }

    /// What follows is shown, if the field shows it.
    pub(super) fn separate(&mut self) {
        self.0.iter_mut().last().into_iter().for_each(|open| open.shows = open.field.shows_result());
    }

    /// Text is shown.
    pub(super) fn show_text(&mut self) {
        self.0.iter_mut().for_each(|open| open.field.has_text = true);
    }

    /// Whether text is an instruction here.
    pub(super) fn hide_text(&self) -> bool {
        self.0.iter().any(|open| !open.shows)
    }

    pub(super) fn instruction(&mut self, text: &str) {
        self.0.iter_mut().last().into_iter().for_each(|open| open.field.instruction(text));
    }

    /// A property of an old form.
    pub(super) fn property(&mut self, element: &Element) {
        let Some(OpenField { field, .. }) = self.0.last_mut() else { return };
        let value = || element.attribute("val");
        match element.name.as_str() {
            "checkBox" => field.is_ticked = field.is_ticked.or(Some(false)),
            // It may follow what the box was at first.
            "checked" => field.is_ticked = Some(element.is_on()),
            "default" if field.is_ticked.is_some() => field.is_ticked = Some(element.is_on()),
            "result" | "default" => {
                field.chosen = value().and_then(|number| number.parse().ok()).or(field.chosen);
            }
            "listEntry" => value().into_iter().for_each(|choice| field.choice(choice)),
            _ => {}
        }
    }

    /// Ends the innermost field.
    pub(super) fn end(&mut self) -> Shown {
        self.0.pop().map_or(Shown::Nothing, |open| open.field.finish())
    }
}
