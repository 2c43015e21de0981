//! Pre-tokenizers of byte-level BPE vocabularies: regular expressions that split a text into words before
//! merging. The metadata key `tokenizer.ggml.pre` names the pre-tokenizer.
//!
//! The published patterns end in `\s+(?!\S)|\s+`. Look-ahead needs a backtracking engine, which is slow and
//! fails on long runs of spaces. Here the pattern ends in `\s+` only, and [`Step::match_end`] removes the
//! last character of the match if a word follows, which has the same effect. Splitting then takes linear
//! time.

use std::ops::Range;

use regex::Regex;

use super::TokenizerError;

/// A pre-tokenizer.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    /// Applied one after another, each to the words from the one before.
    steps: Vec<Step>,
    /// Whether a word that is in the vocabulary becomes one token without merging.
    pub(super) ignore_merges: bool,
    /// Whether a beginning-of-text token is added if the file does not decide it.
    pub(super) add_bos: bool,
}

/// Which matches of a pattern come from its last alternative `\s+`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SpaceMatches {
    /// No match: the pattern does not end in `\s+`.
    Never,
    /// All that end in white space.
    WhiteSpace,
    /// All that end in white space other than a line end. Line ends have an alternative of their own.
    NotLineEnd,
}

#[derive(Debug)]
struct Step {
    regex: Regex,
    space_matches: SpaceMatches,
}

impl Step {
    /// The end of the match `start..end` with look-ahead.
    fn match_end(&self, text: &str, start: usize, end: usize) -> usize {
        if self.space_matches == SpaceMatches::Never || end == text.len() {
            return end;
        }
        let Some(last) = text[start..end].chars().next_back() else {
            return end;
        };
        let is_space_match = last.is_whitespace()
            && (self.space_matches == SpaceMatches::WhiteSpace || !matches!(last, '\r' | '\n'));
        let shorter = end - last.len_utf8();
        if is_space_match && shorter > start { shorter } else { end }
    }

    /// Calls `visit` with the ranges of one word in `text` after the other.
    fn split(&self, text: &str, visit: Visit) -> Result<(), TokenizerError> {
        let mut at = 0;
        while let Some(found) = self.regex.find_at(text, at) {
            let end = self.match_end(text, found.start(), found.end());
            if found.start() > at {
                visit(at..found.start())?;
            }
            if end == found.start() {
                break; // no pattern matches the empty text; this prevents an endless loop if one did
            }
            visit(found.start()..end)?;
            at = end;
        }
        if at < text.len() { visit(at..text.len()) } else { Ok(()) }
    }
}

/// Gets one word after the other, so that the words of a long text need no memory.
type Visit<'a> = &'a mut dyn FnMut(Range<usize>) -> Result<(), TokenizerError>;

/// English contractions, in upper or lower case.
const CONTRACTION: &str = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]";
/// GPT-2's pattern.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";

/// The pattern of the GPT-4 family: contractions, letters after at most one other character, `digits`,
/// symbols, line ends, spaces.
fn gpt4(contraction: &str, digits: &str) -> String {
    format!(
        r"{contraction}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+"
    )
}

/// The pattern of the GPT-4o family, which also splits at a change from lower to upper case (ASCII only, as
/// in llama.cpp). `tail` matches what may follow a word (contractions), `digits` matches numbers.
fn gpt4o(tail: &str, digits: &str) -> String {
    let upper = r"[\p{L}&&[^a-z]]";
    let lower = r"[\p{L}&&[^A-Z]]";
    format!(
        r"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+{tail}|[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*{tail}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+"
    )
}

/// The supported names, for error messages.
pub(super) const NAMES: &[&str] = &[
    "default",
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "pixtral",
    "dbrx",
    "smaug-bpe",
    "glm4",
    "chatglm-bpe",
    "qwen2",
    "deepseek-r1-qwen",
    "megrez",
    "stablelm2",
    "qwen35",
    "gpt-2",
    "phi-2",
    "mpt",
    "olmo",
    "exaone4",
    "starcoder",
    "refact",
    "command-r",
    "smollm",
    "codeshell",
    "exaone",
    "minerva-7b",
    "falcon",
    "deepseek-coder",
    "deepseek-v3",
    "tekken",
    "gpt-4o",
    "llama4",
    "seed-coder",
    "bailingmoe",
];

impl PreTokenizer {
    /// The pre-tokenizer of this name; `None` if the name is not one of [`NAMES`].
    pub(super) fn by_name(name: &str) -> Option<Result<PreTokenizer, regex::Error>> {
        use SpaceMatches::{Never, NotLineEnd, WhiteSpace};
        let owned = |pattern: &str| pattern.to_owned();
        let patterns: Vec<(String, SpaceMatches)> = match name {
            "default" => vec![
                (owned(r"[\p{P}$+<=>^~|]+"), Never),
                (owned(GPT2), WhiteSpace),
                (owned(r"\p{N}+"), Never),
                (owned(r"[0-9][0-9][0-9]"), Never),
            ],
            "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "pixtral" | "dbrx" | "smaug-bpe"
            | "chatglm-bpe" | "glm4" => {
                vec![(gpt4(CONTRACTION, r"\p{N}{1,3}"), NotLineEnd)]
            }
            "qwen2" | "deepseek-r1-qwen" | "megrez" | "stablelm2" => {
                vec![(gpt4(CONTRACTION, r"\p{N}"), NotLineEnd)]
            }
            // Like qwen2, except that combining marks belong to words.
            "qwen35" => vec![(
                format!(
                    r"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+"
                ),
                NotLineEnd,
            )],
            "gpt-2" | "phi-2" | "mpt" | "olmo" | "exaone4" => vec![(owned(GPT2), WhiteSpace)],
            "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" | "minerva-7b" => {
                vec![(owned(r"\p{N}"), Never), (owned(GPT2), WhiteSpace)]
            }
            "falcon" => vec![
                (owned(r"[\p{P}$+<=>^~|`]+"), Never),
                (owned(GPT2), WhiteSpace),
                (owned(r"[0-9][0-9][0-9]"), Never),
            ],
            "deepseek-coder" => vec![
                (owned(r"[\r\n]"), Never),
                (owned(r"\s?\p{L}+"), Never),
                (owned(r"\s?\p{P}+"), Never),
                (owned("[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+"), Never),
                (owned(r"\p{N}"), Never),
            ],
            "deepseek-v3" => vec![
                (owned(r"\p{N}{1,3}"), Never),
                (owned("[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+"), Never),
                (
                    owned(
                        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+"##,
                    ),
                    NotLineEnd,
                ),
            ],
            "tekken" => vec![(gpt4o("", r"\p{N}"), NotLineEnd)],
            "gpt-4o" | "llama4" => {
                vec![(gpt4o(&format!("(?:{CONTRACTION})?"), r"\p{N}{1,3}"), NotLineEnd)]
            }
            "seed-coder" => vec![(
                format!(
                    r"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+"
                ),
                NotLineEnd,
            )],
            "bailingmoe" => vec![(
                format!(
                    r"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]|\s+"
                ),
                NotLineEnd,
            )],
            _ => return None,
        };
        let steps = patterns
            .into_iter()
            .map(|(pattern, space_matches)| Ok(Step { regex: Regex::new(&pattern)?, space_matches }))
            .collect::<Result<Vec<Step>, regex::Error>>();
        let add_bos = matches!(name, "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "pixtral" | "tekken");
        let ignore_merges = add_bos || name == "glm4";
        Some(steps.map(|steps| PreTokenizer { steps, ignore_merges, add_bos }))
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
        for name in NAMES {
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
    fn long_runs_of_one_character_are_split() {
        let spaces = " ".repeat(1 << 16);
        let letters = "a".repeat(1 << 16);
        let marks = "!".repeat(1 << 16);
        for name in NAMES {
            assert_eq!(words(name, &spaces).concat().len(), 1 << 16, "{name}");
            assert_eq!(words(name, &letters).concat().len(), 1 << 16, "{name}");
            assert_eq!(words(name, &marks).concat().len(), 1 << 16, "{name}");
        }
    }
}
