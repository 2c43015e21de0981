//! Pre-tokenizers of byte-level BPE vocabularies: how a text is cut into words before merging, by the name that
//! `tokenizer.ggml.pre` gives.
//!
//! The published patterns end in `\s+(?!\S)|\s+`. A look-ahead needs a backtracking engine, which is slow and gives up
//! on long runs of spaces; here the pattern only says `\s+` and [`Step::cut`] hands the run's last character back when
//! a word follows, which is what the look-ahead does. The rest is plain regular, so splitting is linear in the text.

use std::ops::Range;

use regex::Regex;

/// What a pre-tokenizer name stands for.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    /// Applied one after another, each to the pieces of the one before.
    steps: Vec<Step>,
    /// A word that is in the vocabulary as a whole is taken without merging.
    pub(super) ignore_merges: bool,
    /// Whether a beginning-of-text token is added when the file does not say.
    pub(super) add_bos: bool,
}

/// Words that a `\s+` match must not swallow the last blank of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Blanks {
    /// The pattern has no `\s+` alternative.
    Plain,
    /// Every match that ends in white space came from `\s+`.
    Any,
    /// So did every one that ends in white space other than a line end (line ends have their own alternative).
    NotLineEnd,
}

#[derive(Debug)]
struct Step {
    regex: Regex,
    blanks: Blanks,
}

impl Step {
    /// Where the match `start..end` really ends.
    fn cut(&self, text: &str, start: usize, end: usize) -> usize {
        if self.blanks == Blanks::Plain || end == text.len() {
            return end;
        }
        let Some(last) = text[start..end].chars().next_back() else {
            return end;
        };
        let from_blanks =
            last.is_whitespace() && (self.blanks == Blanks::Any || !matches!(last, '\r' | '\n'));
        let shorter = end - last.len_utf8();
        if from_blanks && shorter > start { shorter } else { end }
    }

    fn split(&self, text: &str, base: usize, out: &mut Vec<Range<usize>>) {
        let mut at = 0;
        while let Some(found) = self.regex.find_at(text, at) {
            let end = self.cut(text, found.start(), found.end());
            if found.start() > at {
                out.push(base + at..base + found.start());
            }
            if end == found.start() {
                break; // no pattern matches the empty text; without this a mistake in one would loop for ever
            }
            out.push(base + found.start()..base + end);
            at = end;
        }
        if at < text.len() {
            out.push(base + at..base + text.len());
        }
    }
}

/// English contractions in any case.
const CONTRACTION: &str = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]";
/// GPT-2's pattern.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";

/// The pattern of GPT-4's family: contractions, letters with one leading mark, `digits`, symbols, line ends, blanks.
fn gpt4(contraction: &str, digits: &str) -> String {
    format!(
        r"{contraction}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+"
    )
}

/// The pattern of GPT-4o's family, which also cuts at a change from lower to upper case (ASCII only, as llama.cpp reads
/// it); `tail` follows a word (contractions), `digits` are numbers.
fn gpt4o(tail: &str, digits: &str) -> String {
    let upper = r"[\p{L}&&[^a-z]]";
    let lower = r"[\p{L}&&[^A-Z]]";
    format!(
        r"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+{tail}|[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*{tail}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+"
    )
}

/// Names that are understood, for error messages.
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
    /// The pre-tokenizer of this name, or `None` where the name is not one of [`NAMES`].
    pub(super) fn by_name(name: &str) -> Option<Result<PreTokenizer, regex::Error>> {
        use Blanks::{Any, NotLineEnd, Plain};
        let own = |pattern: &str| pattern.to_owned();
        let (patterns, ignore_merges, add_bos): (Vec<(String, Blanks)>, bool, bool) = match name {
            "default" => (
                vec![
                    (own(r"[\p{P}$+<=>^~|]+"), Plain),
                    (own(GPT2), Any),
                    (own(r"\p{N}+"), Plain),
                    (own(r"[0-9][0-9][0-9]"), Plain),
                ],
                false,
                false,
            ),
            "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "pixtral" => {
                (vec![(gpt4(CONTRACTION, r"\p{N}{1,3}"), NotLineEnd)], true, true)
            }
            "dbrx" | "smaug-bpe" | "chatglm-bpe" => {
                (vec![(gpt4(CONTRACTION, r"\p{N}{1,3}"), NotLineEnd)], false, false)
            }
            "glm4" => (vec![(gpt4(CONTRACTION, r"\p{N}{1,3}"), NotLineEnd)], true, false),
            "qwen2" | "deepseek-r1-qwen" | "megrez" | "stablelm2" => {
                (vec![(gpt4(CONTRACTION, r"\p{N}"), NotLineEnd)], false, false)
            }
            // like qwen2 except that combining marks belong to words
            "qwen35" => (
                vec![(
                    format!(
                        r"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+"
                    ),
                    NotLineEnd,
                )],
                false,
                false,
            ),
            "gpt-2" | "phi-2" | "mpt" | "olmo" | "exaone4" => (vec![(own(GPT2), Any)], false, false),
            "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" | "minerva-7b" => {
                (vec![(own(r"\p{N}"), Plain), (own(GPT2), Any)], false, false)
            }
            "falcon" => (
                vec![(own(r"[\p{P}$+<=>^~|`]+"), Plain), (own(GPT2), Any), (own(r"[0-9][0-9][0-9]"), Plain)],
                false,
                false,
            ),
            "deepseek-coder" => (
                vec![
                    (own(r"[\r\n]"), Plain),
                    (own(r"\s?\p{L}+"), Plain),
                    (own(r"\s?\p{P}+"), Plain),
                    (own("[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+"), Plain),
                    (own(r"\p{N}"), Plain),
                ],
                false,
                false,
            ),
            "deepseek-v3" => (
                vec![
                    (own(r"\p{N}{1,3}"), Plain),
                    (own("[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+"), Plain),
                    (
                        own(
                            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+"##,
                        ),
                        NotLineEnd,
                    ),
                ],
                false,
                false,
            ),
            "tekken" => (vec![(gpt4o("", r"\p{N}"), NotLineEnd)], true, true),
            "gpt-4o" | "llama4" => {
                (vec![(gpt4o(&format!("(?:{CONTRACTION})?"), r"\p{N}{1,3}"), NotLineEnd)], false, false)
            }
            "seed-coder" => (
                vec![(
                    format!(
                        r"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+"
                    ),
                    NotLineEnd,
                )],
                false,
                false,
            ),
            "bailingmoe" => (
                vec![(
                    format!(
                        r"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]|\s+"
                    ),
                    NotLineEnd,
                )],
                false,
                false,
            ),
            _ => return None,
        };
        let steps = patterns
            .into_iter()
            .map(|(pattern, blanks)| Ok(Step { regex: Regex::new(&pattern)?, blanks }))
            .collect::<Result<Vec<Step>, regex::Error>>();
        Some(steps.map(|steps| PreTokenizer { steps, ignore_merges, add_bos }))
    }

    /// Cuts `text` into words that cover it without gaps, as byte ranges.
    pub(super) fn split(&self, text: &str) -> Vec<Range<usize>> {
        let mut words = Vec::new();
        if !text.is_empty() {
            words.push(0..text.len());
        }
        for step in &self.steps {
            let mut finer = Vec::with_capacity(words.len());
            for word in words {
                let base = word.start;
                step.split(&text[word], base, &mut finer);
            }
            words = finer;
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        let pre = PreTokenizer::by_name(name).expect("known name").expect("good pattern");
        let ranges = pre.split(text);
        let covered: String = ranges.iter().map(|r| &text[r.clone()]).collect();
        assert_eq!(covered, text, "{name} must cover the text");
        ranges.into_iter().map(|r| &text[r]).collect()
    }

    #[test]
    fn every_listed_name_compiles_and_no_other_is_known() {
        for name in NAMES {
            assert!(matches!(PreTokenizer::by_name(name), Some(Ok(_))), "{name}");
            assert_eq!(words(name, ""), Vec::<&str>::new());
            assert_eq!(words(name, " "), [" "]);
        }
        assert!(PreTokenizer::by_name("qwen").is_none());
    }

    #[test]
    fn the_last_blank_of_a_run_goes_to_the_word_that_follows() {
        for name in ["gpt-2", "qwen2", "llama-bpe"] {
            assert_eq!(words(name, "a   b"), ["a", "  ", " b"], "{name}");
            assert_eq!(words(name, "a   "), ["a", "   "], "{name}");
            assert_eq!(words(name, "a b"), ["a", " b"], "{name}");
        }
        assert_eq!(words("gpt-2", "a\t\tb"), ["a", "\t", "\t", "b"]);
        assert_eq!(words("qwen2", "a\t\tb"), ["a", "\t", "\tb"]);
    }

    #[test]
    fn line_ends_digits_and_contractions_by_family() {
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
    fn long_runs_of_one_character_are_cut_at_once() {
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
