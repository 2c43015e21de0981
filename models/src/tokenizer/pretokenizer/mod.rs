//! Pre-tokenizers of BPE vocabularies: regular expressions that split a text into words before merging. The
//! metadata key `tokenizer.ggml.pre` names the pre-tokenizer. [`TABLE`] has all of them.
//!
//! The splitting is that of llama.cpp, also where llama.cpp differs from the model's own tokenizer. For instance, it
//! tells upper from lower case in ASCII only.
//!
//! The published patterns end in `\s+(?!\S)|\s+`. Look-ahead needs a backtracking engine, which is slow and
//! fails on long runs of spaces. Here the pattern ends in `\s+` only, and [`Spaces`] says how its match is
//! shortened if a word follows, which has the same effect. Splitting then takes linear time.

mod table;

use std::ops::Range;

use regex::Regex;

use self::table::Rule::{CutBeforeThrees, CutBehindThrees, Split};
use self::table::{Entry, PARTS, Rule, TABLE};
use super::TokenizerError;

/// A pre-tokenizer.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    /// Applied one after another, each to the words from the one before.
    steps: Vec<Step>,
    pub(super) unmerged: Unmerged,
    pub(super) bos: Bos,
    pub(super) alphabet: Alphabet,
    /// Whether a file may have no merges. Every byte is then a token.
    pub(super) may_lack_merges: bool,
}

/// Words that become one token without merging, if they are in the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unmerged {
    Nothing,
    Words,
    LineEnds,
}

/// Whether a beginning-of-text token is added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bos {
    /// Only if the file says so.
    No,
    /// Unless the file says otherwise.
    Yes,
    /// Whatever the file says.
    Always,
}

/// How a vocabulary writes its tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Alphabet {
    /// One letter for each byte of the text.
    Bytes,
    /// The text itself, with ▁ for spaces. Characters without a token are encoded as bytes.
    Characters,
}

/// What happens to a match of the last alternative `\s+` that a word follows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Spaces {
    /// Nothing: the pattern does not end in `\s+`.
    Whole,
    /// Its last character belongs to the next word.
    LastLeaves,
    /// The same, except for matches that end in a line end. They come from another alternative.
    LastLeavesUnlessLineEnd,
    /// The same, and the rest is split into 512, 256, 128, … characters.
    LastLeavesRestHalves,
}

#[derive(Debug)]
enum Step {
    Split(Regex, Spaces),
    Threes { ascii: bool },
}

/// Gets one word after the other, so that the words of a long text need no memory.
type Visit<'a> = &'a mut dyn FnMut(Range<usize>) -> Result<(), TokenizerError>;

impl Step {
    /// Calls `visit` with the ranges of one word in `text` after the other.
    fn split(&self, text: &str, visit: Visit) -> Result<(), TokenizerError> {
        match self {
            Step::Split(regex, spaces) => split_at_matches(regex, *spaces, text, visit),
            Step::Threes { ascii } => split_digits(*ascii, text, visit),
        }
    }
}

fn split_at_matches(regex: &Regex, spaces: Spaces, text: &str, visit: Visit) -> Result<(), TokenizerError> {
    let mut at = 0;
    while let Some(found) = regex.find_at(text, at) {
        let mut start = found.start();
        let end = match_end(spaces, text, start, found.end());
        if start > at {
            visit(at..start)?;
        }
        if end == start {
            break; // no pattern matches the empty text; this prevents an endless loop if one did
        }
        if spaces == Spaces::LastLeavesRestHalves && text[start..end].ends_with(char::is_whitespace) {
            start = visit_halves(text, start, end, visit)?;
        }
        if start < end {
            visit(start..end)?;
        }
        at = end;
    }
    if at < text.len() { visit(at..text.len()) } else { Ok(()) }
}

/// The end of the match `start..end` with look-ahead.
fn match_end(spaces: Spaces, text: &str, start: usize, end: usize) -> usize {
    if spaces == Spaces::Whole || end == text.len() {
        return end;
    }
    let Some(last) = text[start..end].chars().next_back() else {
        return end;
    };
    let is_space_match =
        last.is_whitespace() && (spaces == Spaces::LastLeaves || !matches!(last, '\r' | '\n'));
    let shorter = end - last.len_utf8();
    if is_space_match && shorter > start { shorter } else { end }
}

/// Visits words of 512, 256, 128, … white space characters. Returns where they end. A match that ends in a
/// line end is one word.
fn visit_halves(text: &str, start: usize, end: usize, visit: Visit) -> Result<usize, TokenizerError> {
    if text[start..end].ends_with(['\r', '\n']) {
        return Ok(start);
    }
    let mut characters = text[start..end].chars();
    let mut left = characters.clone().count();
    let mut at = start;
    while left > 0 {
        let word = 1 << left.ilog2().min(9);
        let bytes: usize = characters.by_ref().take(word).map(char::len_utf8).sum();
        visit(at..at + bytes)?;
        at += bytes;
        left -= word;
    }
    Ok(at)
}

fn split_digits(ascii: bool, text: &str, visit: Visit) -> Result<(), TokenizerError> {
    let is_digit = |c: char| if ascii { c.is_ascii_digit() } else { c.is_numeric() };
    let (mut word, mut at) = (0, 0);
    while let Some(found) = text[at..].find(is_digit) {
        at += found;
        let digits = text[at..].chars().take_while(|&c| is_digit(c)).count();
        for (i, c) in text[at..].chars().take(digits).enumerate() {
            let cut = (digits - i) % 3 == 0 && (ascii || i > 0);
            if cut && at > word {
                visit(word..at)?;
                word = at;
            }
            at += c.len_utf8();
        }
        if !ascii {
            visit(word..at)?;
            word = at;
        }
    }
    if word < text.len() { visit(word..text.len()) } else { Ok(()) }
}

/// The supported names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|entry| entry.names).copied()
}

/// One name of each pre-tokenizer.
#[cfg(test)]
pub(super) fn different_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter_map(|entry| entry.names.first()).copied()
}

impl PreTokenizer {
    /// The pre-tokenizer of this name; `None` if the name is not one of [`names`].
    pub(super) fn by_name(name: &str) -> Option<Result<PreTokenizer, regex::Error>> {
        let entry = TABLE.iter().find(|entry| entry.names.contains(&name))?;
        let steps = entry.rules.iter().map(step).collect::<Result<Vec<Step>, regex::Error>>();
        let &Entry { unmerged, bos, alphabet, may_lack_merges, .. } = entry;
        Some(steps.map(|steps| PreTokenizer { steps, unmerged, bos, alphabet, may_lack_merges }))
    }

    /// Splits `text` into words and calls `visit` with one after the other, as byte ranges that cover the
    /// text without gaps.
    ///
    /// # Errors
    /// Those of `visit`.
    pub(super) fn split(&self, text: &str, visit: Visit) -> Result<(), TokenizerError> {
        if text.is_empty() { Ok(()) } else { split_further(&self.steps, text, 0..text.len(), visit) }
    }
}

fn step(rule: &Rule) -> Result<Step, regex::Error> {
    let (pattern, spaces) = match *rule {
        CutBeforeThrees => return Ok(Step::Threes { ascii: true }),
        CutBehindThrees => return Ok(Step::Threes { ascii: false }),
        Split(pattern, spaces) => (pattern, spaces),
    };
    let with_parts = |pattern: String, &(name, part): &(&str, &str)| pattern.replace(name, part);
    let pattern = PARTS.iter().fold(pattern.to_owned(), with_parts);
    Ok(Step::Split(Regex::new(&pattern)?, spaces))
}

/// Splits a word of `text` with the remaining steps.
fn split_further(steps: &[Step], text: &str, word: Range<usize>, visit: Visit) -> Result<(), TokenizerError> {
    let Some((step, further)) = steps.split_first() else {
        return visit(word);
    };
    step.split(&text[word.clone()], &mut |part| {
        split_further(further, text, word.start + part.start..word.start + part.end, visit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        let pre = PreTokenizer::by_name(name).expect("known name").expect("good pattern");
        let mut ranges = Vec::new();
        let mut visit = |range| {
            ranges.push(range);
            Ok(())
        };
        pre.split(text, &mut visit).expect("splits");
        let covered: String = ranges.iter().map(|r| &text[r.clone()]).collect();
        assert_eq!(covered, text, "{name} must cover the text");
        ranges.into_iter().map(|r| &text[r]).collect()
    }

    #[test]
    fn every_listed_name_is_supported_and_unknown_names_are_not() {
        for name in names() {
            assert!(matches!(PreTokenizer::by_name(name), Some(Ok(_))), "{name}");
            assert_eq!(words(name, ""), Vec::<&str>::new());
            assert_eq!(words(name, " "), [" "]);
        }
        assert!(PreTokenizer::by_name("qwen").is_none());
    }

    #[test]
    fn the_last_space_of_a_run_belongs_to_the_next_word() {
        for name in ["gpt-2", "qwen2", "llama-bpe"] {
            assert_eq!(words(name, "a   b"), ["a", "  ", " b"], "{name}");
            assert_eq!(words(name, "a   "), ["a", "   "], "{name}");
            assert_eq!(words(name, "a b"), ["a", " b"], "{name}");
        }
        assert_eq!(words("gpt-2", "a\t\tb"), ["a", "\t", "\t", "b"]);
        assert_eq!(words("qwen2", "a\t\tb"), ["a", "\t", "\tb"]);
    }

    #[test]
    fn line_ends_digits_and_contractions_are_split_as_in_each_family() {
        assert_eq!(words("gpt-2", "x\n\n y"), ["x", "\n\n", " y"]);
        assert_eq!(words("gpt-2", "x\n\ny"), ["x", "\n", "\n", "y"]);
        assert_eq!(words("qwen2", "x \n\n y"), ["x", " \n\n", " y"]);
        assert_eq!(words("qwen2", "12345"), ["1", "2", "3", "4", "5"]);
        assert_eq!(words("llama-bpe", "12345"), ["123", "45"]);
        assert_eq!(words("gpt-2", "12345"), ["12345"]);
        assert_eq!(words("starcoder", "a12"), ["a", "1", "2"]);
        assert_eq!(words("gpt-2", "we'LL"), ["we", "'", "LL"]);
        assert_eq!(words("qwen2", "we'LL"), ["we", "'LL"]);
        assert_eq!(words("default", "1234567"), ["123", "456", "7"]);
        assert_eq!(words("tekken", "helloWorld/\n"), ["hello", "World", "/\n"]);
    }

    #[test]
    fn numbers_are_grouped_from_the_right_where_llama_cpp_does_so() {
        assert_eq!(words("superbpe", "a bc 1234567!"), ["a bc ", "1", "234", "567", "!"]);
        assert_eq!(words("superbpe", "123٣4567"), ["123٣4", "567"]);
        assert_eq!(words("afmoe", "a1234 12b"), ["a", "1", "234", " ", "12", "b"]);
        assert_eq!(words("tiny_aya", "1234567"), ["1", "234", "567"]);
    }

    #[test]
    fn white_space_is_halved_for_jais_2() {
        let lengths = |text: &str| words("jais-2", text).iter().map(|word| word.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&format!("{}x", " ".repeat(1039))), [512, 512, 8, 4, 2, 2]);
        assert_eq!(lengths(&" ".repeat(7)), [4, 2, 1]);
        assert_eq!(words("jais-2", "  \n  x"), ["  \n", " ", " x"]);
    }

    #[test]
    fn the_words_of_other_families_are_theirs() {
        assert_eq!(words("kimi-k2", "a中文b 中"), ["a", "中文", "b", " ", "中"]);
        // Its list of punctuation has ASCII's letters.
        assert_eq!(words("deepseek-llm", "Übung 12中文 "), ["Ü", "bung", " ", "12", "中文", " "]);
        assert_eq!(words("bloom", "a b, c"), ["a", " b", ",", " c"]);
        assert_eq!(words("viking", "a 12"), ["a", " ", "1", "2"]);
        assert_eq!(words("chameleon", "aIMGIMGABZ  b"), ["a", "IMGIMGABZ", "  ", "b"]);
        assert_eq!(words("exaone-moe", "ab cd  e"), ["ab cd", " ", " e"]);
        assert_eq!(words("laguna", "a \n b"), ["a", " ", "\n", " b"]);
        assert_eq!(words("spark2_5", "x \n\ny"), ["x", " \n", "\n", "y"]);
    }

    #[test]
    fn long_runs_of_one_character_are_split() {
        let spaces = " ".repeat(1 << 16);
        let letters = "a".repeat(1 << 16);
        let marks = "!".repeat(1 << 16);
        for name in different_names() {
            assert_eq!(words(name, &spaces).concat().len(), 1 << 16, "{name}");
            assert_eq!(words(name, &letters).concat().len(), 1 << 16, "{name}");
            assert_eq!(words(name, &marks).concat().len(), 1 << 16, "{name}");
        }
    }
}
