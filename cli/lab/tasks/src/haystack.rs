//! Texts that something is hidden in.

use std::borrow::Cow;

use crate::python::is_space;
use crate::{Data, DataFile, TaskError};

/// Sentences that say nothing: those of Mohtashami and Jaggi (2023), which RULER uses too.
pub(crate) const FILLER: &str =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

/// A text whose beginning of so many words is found at once.
#[derive(Clone, Debug)]
pub(crate) struct WordText {
    /// Words with single spaces between. The first and the last word may be empty, as Python's
    /// `re.sub(r'\s+', " ", text).split(" ")` has it.
    text: String,
    /// Where each word ends, in bytes.
    ends: Vec<usize>,
}

impl WordText {
    pub(crate) fn new(source: &str) -> WordText {
        let mut text = String::with_capacity(source.len());
        for c in source.chars() {
            let c = if is_space(c) { ' ' } else { c };
            if c != ' ' || !text.ends_with(' ') {
                text.push(c);
            }
        }
        let mut ends: Vec<usize> = text.match_indices(' ').map(|(end, _)| end).collect();
        ends.push(text.len());
        WordText { text, ends }
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Number of words.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The first words, or all if there are fewer.
    pub(crate) fn first(&self, words: usize) -> &str {
        match words.min(self.len()) {
            0 => "",
            words => &self.text[..self.ends[words - 1]],
        }
    }

    /// The first words of the text repeated again and again.
    fn repeated(&self, words: usize) -> Cow<'_, str> {
        if words <= self.len() {
            return Cow::Borrowed(self.first(words));
        }
        let mut text = vec![self.text.as_str(); words / self.len()];
        text.extend(Some(self.first(words % self.len())).filter(|rest| !rest.is_empty()));
        Cow::Owned(text.join(" "))
    }
}

/// The text that a sentence is hidden in: the essays where there are any, or else sentences that say nothing. Both
/// are repeated for as long as needed.
pub(crate) fn background(data: &Data) -> Result<Cow<'_, WordText>, TaskError> {
    if data.has(DataFile::Essays) {
        return data.essays().map(Cow::Borrowed);
    }
    Ok(Cow::Owned(WordText::new(FILLER)))
}

/// A text that was filled up, and its tokens.
pub(crate) struct Filled<T> {
    pub(crate) text: T,
    pub(crate) tokens: usize,
}

/// Finds how much of the background makes a text as long as possible, and returns that text. It is at most about
/// half a percent shorter than possible. `build` makes the text from a beginning of the background, `count` counts
/// its tokens.
///
/// # Errors
/// Returns the tokens of the text with no background, if these are too many.
pub(crate) fn fill<T>(
    background: &WordText,
    max_tokens: usize,
    build: &dyn Fn(&str) -> T,
    count: &dyn Fn(&T) -> usize,
) -> Result<Filled<T>, usize> {
    /// Three attempts are usual.
    const MAX_ATTEMPTS: usize = 24;
    /// No vocabulary has so long tokens that more words are needed.
    const MAX_WORDS_PER_TOKEN: usize = 8;
    let attempt = |words: usize| {
        let text = build(&background.repeated(words));
        Filled { tokens: count(&text), text }
    };

    let mut best = attempt(0);
    let empty_tokens = best.tokens;
    if empty_tokens > max_tokens {
        return Err(empty_tokens);
    }
    let mut best_words = 0;
    let mut too_many = None;
    let mut words = (max_tokens - empty_tokens) / 2;
    for number in 0..MAX_ATTEMPTS {
        let room = max_tokens - best.tokens;
        if words <= best_words || room <= max_tokens / 200 {
            break;
        }
        let now = attempt(words);
        if now.tokens > max_tokens {
            too_many = Some((words, now.tokens));
        } else {
            (best, best_words) = (now, words);
        }
        let room = (max_tokens - best.tokens) as f64;
        let more = match too_many {
            // Texts that are much denser at one end are found by halving.
            Some((most, _)) if number >= 8 && number % 2 == 0 => (most - best_words) / 2,
            Some((most, tokens)) => {
                let share = room / (tokens - best.tokens) as f64;
                ((most - best_words) as f64 * share) as usize
            }
            None => {
                let tokens_per_word = best.tokens.saturating_sub(empty_tokens) as f64 / best_words as f64;
                (room / tokens_per_word) as usize
            }
        };
        words = best_words.saturating_add(more).min(MAX_WORDS_PER_TOKEN * max_tokens);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_python() {
        let text = WordText::new(" one\n\ntwo\u{a0}\u{1f}three ");
        assert_eq!(text.len(), 5);
        assert_eq!(text.first(0), "");
        assert_eq!(text.first(3), " one two");
        assert_eq!(text.first(9), " one two three ");
    }

    #[test]
    fn a_short_text_is_repeated() {
        let text = WordText::new("one two");
        assert_eq!(text.repeated(2), "one two");
        assert_eq!(text.repeated(4), "one two one two");
        assert_eq!(text.repeated(5), "one two one two one");
    }

    #[test]
    fn a_text_is_filled_to_half_a_percent() {
        let count = |text: &String| text.split(' ').map(|word| 1 + word.len() / 3).sum();
        let source: String = (0..3000).map(|i| format!("w{} ", "x".repeat(i % 17 * (i / 1500)))).collect();
        let background = WordText::new(&source);
        for max_tokens in [20, 100, 1000, 2000, 100_000] {
            let filled =
                fill(&background, max_tokens, &|text| format!("Read this: {text}"), &count).ok().unwrap();
            assert_eq!(filled.tokens, count(&filled.text));
            assert!(filled.tokens <= max_tokens);
            assert!(filled.tokens + max_tokens / 200 + 7 >= max_tokens, "{} of {max_tokens}", filled.tokens);
        }
        assert_eq!(fill(&background, 3, &|text| format!("Read this: {text}"), &count).err(), Some(5));
    }

    #[test]
    fn a_counter_that_finds_nothing_ends() {
        let filled = fill(&WordText::new(FILLER), 1000, &str::to_owned, &|_| 0).ok().unwrap();
        assert!(filled.text.len() < 100_000);
    }
}
