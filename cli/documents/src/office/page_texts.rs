//! Headers and footers of pages, each once.

/// Words beside the number of a page, and the most digits that it has.
const OF_PAGES: [&str; 12] =
    ["page", "pages", "pag", "pg", "p", "pp", "of", "seite", "von", "sur", "página", "de"];
const MAX_DIGITS: usize = 4;

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
    let is_of_page = |word: &str| match word.bytes().all(|byte| byte.is_ascii_digit()) {
        true => word.len() <= MAX_DIGITS,
        false => word.chars().count() < 2 || OF_PAGES.contains(&word.to_lowercase().as_str()),
    };
    text.split(|c: char| !c.is_alphanumeric()).any(|word| !is_of_page(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_pages_are_no_headers() {
        for text in ["", "12", "- 3 -", "Page 1 of 10", "Seite 4 von 7", "p. 3", "B 12"] {
            assert!(!has_words(text), "{text}");
        }
        for text in ["HEAD", "Ref. 4471", "Nr. 2024/17", "20240305", "ACME", "機密"] {
            assert!(has_words(text), "{text}");
        }
    }
}
