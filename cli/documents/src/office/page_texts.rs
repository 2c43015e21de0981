//! Headers and footers of pages, each once.

/// Texts with fewer letters are numbers of pages.
const MIN_LETTERS: usize = 5;

/// The headers and footers of a document, each in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct PageTexts {
    pub(super) headers: Vec<String>,
    pub(super) footers: Vec<String>,
}

impl PageTexts {
    /// Adds a header or a footer, unless it is known or the number of a page.
    pub(super) fn add(&mut self, text: String, is_footer: bool) {
        let known = if is_footer { &mut self.footers } else { &mut self.headers };
        if has_words(&text) && !known.contains(&text) {
            known.push(text);
        }
    }

    /// A text and its notes between the headers and the footers. Parts without text are left out.
    pub(super) fn around(self, text: String, notes: Vec<String>) -> String {
        let of = |parts: Vec<String>, name: &str| -> Vec<String> {
            parts.iter().map(|part| format!("[page {name}]\n{part}")).collect()
        };
        let mut parts = of(self.headers, "header");
        parts.push(text);
        parts.extend(notes);
        parts.extend(of(self.footers, "footer"));
        parts.retain(|part| !part.trim().is_empty());
        parts.join("\n")
    }
}

/// Whether a header or footer is more than the number of a page.
fn has_words(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphabetic()).count() >= MIN_LETTERS
}
