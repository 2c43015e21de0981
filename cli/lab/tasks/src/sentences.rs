//! Splits English text into sentences.
//!
//! RULER uses `sent_tokenize` of NLTK (Kiss and Strunk 2006), a model that was trained on a corpus. This is a simple
//! stand-in: a sentence ends with an end mark, perhaps within quotes or brackets, before white space. A full stop
//! after a common abbreviation or an initial does not end one, nor does an end mark before a lower-case letter.
//! `tests/golden/make.py` has the same rules in Python.

use crate::python::is_space;

const CLOSING: [char; 6] = ['"', '\'', ')', ']', '\u{201d}', '\u{2019}'];
const OPENING: [char; 6] = ['"', '\'', '(', '[', '\u{201c}', '\u{2018}'];

/// Abbreviations that are followed by a name or a number, in lower case and without their last full stop.
const ABBREVIATIONS: [&str; 15] =
    ["mr", "mrs", "ms", "dr", "prof", "st", "gen", "col", "sen", "rep", "vs", "cf", "e.g", "i.e", "fig"];

/// The sentences of a text, without the white space between them.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut words = text.split(is_space).filter(|word| !word.is_empty()).peekable();
    let mut start = None;
    while let Some(word) = words.next() {
        let first = *start.get_or_insert(word);
        if words.peek().is_none_or(|next| ends_sentence(word, next)) {
            sentences.push(between(text, first, word));
            start = None;
        }
    }
    sentences
}

/// The text from a word to a later one. Both are slices of it.
fn between<'a>(text: &'a str, first: &str, last: &str) -> &'a str {
    let offset = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    &text[offset(first)..offset(last) + last.len()]
}

fn ends_sentence(word: &str, next: &str) -> bool {
    let word = word.trim_end_matches(CLOSING);
    if next.trim_start_matches(OPENING).starts_with(char::is_lowercase) {
        return false;
    }
    match word.strip_suffix('.') {
        Some(stem) => !is_abbreviation(stem.trim_start_matches(OPENING)),
        None => word.ends_with(['!', '?', '\u{2026}']),
    }
}

fn is_abbreviation(stem: &str) -> bool {
    let mut chars = stem.chars();
    let is_initial = matches!((chars.next(), chars.next()), (Some(c), None) if c != 'I' && c.is_uppercase());
    is_initial || ABBREVIATIONS.contains(&stem.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &[&str]) {
        assert_eq!(sentences(&expected.join(" ")), expected);
    }

    #[test]
    fn end_marks_end_sentences() {
        check(&["It rains.", "Does it?", "Yes!", "Wait\u{2026}", "So"]);
        check(&["He said \"no.\"", "(She too.)", "\u{201c}Why?\u{201d}", "Because."]);
        check(&["So it was I.", "They agreed."]);
    }

    #[test]
    fn abbreviations_initials_and_numbers_do_not() {
        check(&["Mr. Smith met (Dr. J. Jones) vs. nobody."]);
        check(&["It is 3.5 m, e.g. The big one.", "Good."]);
        check(&["He asked why? and left.", "No.5 stayed."]);
    }

    #[test]
    fn white_space_between_sentences_is_dropped() {
        assert_eq!(sentences(" \n One  two.\n\n Three.\t"), ["One  two.", "Three."]);
        assert!(sentences(" \n").is_empty());
    }
}
