//! Headers and footers of pages, each once.

/// Words beside the number of a page, and the most digits that it has.
#[rustfmt::skip] // one word a line is too long
const OF_PAGES: [&str; 38] = [
    "page", "pages", "pag", "pg", "p", "pp", "of", "seite", "von", "sur", "página", "de", "pagina", "van", "di",
    "sida", "side", "av", "af", "sivu", "strona", "z", "stránka", "strana", "oldal", "sayfa", "стр", "страница", "из",
    "сторінка", "з", "σελίδα", "από", "صفحة", "من", "עמוד", "מתוך", "페이지",
];
const MAX_DIGITS: usize = 4;
/// Signs around it.
#[rustfmt::skip] // one sign a line is too long
const SIGNS: [char; 20] = [
    '/', '-', '–', '—', '|', ':', '(', ')', '[', ']', '•', '·', '~', '*', '_', '第', '页', '頁', '共', '쪽',
];

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

/// Whether a header or footer is more than the number of a page, and that of all pages: no date and no number of a file.
fn has_words(text: &str) -> bool {
    let words = text.split(|c: char| c.is_whitespace() || SIGNS.contains(&c));
    let words = words.map(|word| word.trim_matches('.')).filter(|word| !word.is_empty());
    let (numbers, words): (Vec<&str>, Vec<&str>) =
        words.partition(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let is_of_page = |word: &str| {
        let mut characters = word.chars();
        let is_letter = characters.next().is_some_and(char::is_alphabetic) && characters.next().is_none();
        is_letter || OF_PAGES.contains(&word.to_lowercase().as_str())
    };
    let value = |number: &str| number.parse::<u16>().ok().filter(|_| number.len() <= MAX_DIGITS);
    let are_of_page = match numbers[..] {
        [] => true,
        [page] => value(page).is_some(),
        [page, last] => value(page).zip(value(last)).is_some_and(|(page, last)| page <= last),
        _ => false,
    };
    text.contains(char::is_alphanumeric) && !(are_of_page && words.into_iter().all(is_of_page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_pages_are_no_headers() {
        for text in [
            "",
            "12",
            "- 3 -",
            "Page 1 of 10",
            "Seite 4 von 7",
            "p. 3",
            "B 12",
            "3/10",
            "| 5 |",
            "Страница 2 из 9",
            "第3页 共9页",
        ] {
            assert!(!has_words(text), "{text}");
        }
        for text in ["HEAD", "Ref. 4471", "Nr. 2024/17", "20240305", "ACME", "機密", "B12"] {
            assert!(has_words(text), "{text}");
        }
        for text in
            ["4711-0815-22", "12.03.2024", "2024/17", "€ 1.200,50", "№ 12", "#12", "+49 30 1234 567", "2.1"]
        {
            assert!(has_words(text), "{text}");
        }
    }
}
