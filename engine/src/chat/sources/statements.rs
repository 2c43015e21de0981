//! The statements of an answer, and how much its tokens tell of where it comes from.

use std::collections::HashSet;
use std::ops::Range;

use models::tokenizer::Tokenizer;
use unicode_segmentation::UnicodeSegmentation;

use super::places::bytes_of;
use super::rank::words;
use super::sentences::sentences;

/// Statements of an answer that are told apart. The attention of each takes four bytes for each token of the documents.
pub(super) const MAX_STATEMENTS: usize = 24;
/// What a statement that has a source copies from the documents at least: see [`Statement::share`]
/// (tests/results/2026-11-26-sources.md).
const MIN_SHARE: f32 = 0.25;
/// What a token of a word that tells little, or one without a word, counts beside another one.
const TELLS_LITTLE: f32 = 0.2;
/// Yes and no: such words of an answer are not from the text, wherever it has them.
#[rustfmt::skip] // one word a line is too long
const YES_AND_NO: &[&str] = &[
    "yes", "no", "yeah", "ja", "nein", "doch", "oui", "non", "si", "sí", "sì", "sim", "não", "nee",
    "nej", "nei", "jo", "kyllä", "ei", "tak", "nie", "ano", "ne", "igen", "nem", "da", "nu", "evet",
    "hayır", "ναι", "όχι", "да", "нет", "так", "ні", "是", "否", "不", "네", "예", "아니요", "نعم",
    "لا", "כן", "לא",
];

/// Whether a word of an answer, in small letters, tells where the answer comes from: not if the question has it.
pub(super) fn tells(word: &str, asked: &HashSet<String>) -> bool {
    !asked.contains(word) && !YES_AND_NO.contains(&word)
}

/// A sentence of an answer, or several of a long one, and what its tokens looked at. Thoughts before the answer, and what else is
/// written and not shown, are a statement with an empty range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    /// Its bytes in the answer.
    pub range: Range<usize>,
    /// For each token of the documents the attention that was paid to it; empty where that is not known.
    pub attention: Vec<f32>,
    /// How much of it is copied from the documents: see [`PaidAttention::share`](super::PaidAttention::share).
    pub share: f32,
}

impl Statement {
    /// Whether it is a part of the answer that is shown.
    pub(super) fn is_shown(&self) -> bool {
        !self.range.is_empty()
    }

    /// Whether enough of it is copied for it to have a source.
    pub(super) fn is_copied(&self) -> bool {
        self.share >= MIN_SHARE && self.is_shown()
    }
}

/// The tokens of an answer.
pub(super) struct WrittenAnswer {
    /// All that was written. A byte that is part of no character is a space.
    text: String,
    /// For each token where it ends in the text, in bytes.
    ends: Vec<usize>,
    /// Where in the text the answer begins that is shown.
    shown_from: usize,
    /// The sentences of the answer that is shown.
    sentences: Vec<Range<usize>>,
}

impl WrittenAnswer {
    /// These tokens, of which this text is shown; its end may not be among them yet.
    pub(super) fn new(tokenizer: &Tokenizer, tokens: &[u32], shown: &str) -> WrittenAnswer {
        let (bytes, ends) = bytes_of(tokenizer, tokens);
        let is_whole = |from: &usize| bytes[*from..].starts_with(shown.as_bytes());
        let is_cut = |from: &usize| shown.as_bytes().starts_with(&bytes[*from..]);
        // Thoughts may have the same text.
        let whole = (0..bytes.len()).rev().find(is_whole);
        let shown_from = whole.or_else(|| (0..bytes.len()).find(is_cut)).unwrap_or(bytes.len());
        let chunk =
            |chunk: std::str::Utf8Chunk| chunk.valid().to_owned() + &" ".repeat(chunk.invalid().len());
        let text = bytes.utf8_chunks().map(chunk).collect();
        WrittenAnswer { text, ends, shown_from, sentences: sentences(shown) }
    }

    /// The statements, each with its bytes in the answer and the index of its first token. The first begins with the first token.
    pub(super) fn statements(&self) -> Vec<(Range<usize>, usize)> {
        let n = self.sentences.len().min(MAX_STATEMENTS);
        let first_of = |statement: usize| statement * self.sentences.len() / n;
        let mut found = Vec::new();
        let before = self.text.get(..self.shown_from).unwrap_or(&self.text);
        if n == 0 || before.contains(char::is_alphanumeric) {
            found.push((0..0, 0));
        }
        for statement in 0..n {
            let of = &self.sentences[first_of(statement)..first_of(statement + 1)];
            let range = of[0].start..of[of.len() - 1].end;
            let at = self.shown_from + range.start;
            let token = if found.is_empty() { 0 } else { self.ends.partition_point(|end| *end <= at) };
            found.push((range, token));
        }
        found
    }

    /// How much each token tells of where the answer comes from, up to 1. "The bridge in Penridge was built in 1871" repeats
    /// its question but for the year, and the other words may stand in many places.
    pub(super) fn token_weights(&self, question: &str) -> Vec<f32> {
        let mut weights = vec![TELLS_LITTLE; self.ends.len()];
        let asked: HashSet<String> = words(question).collect();
        for (start, word) in self.text.unicode_word_indices() {
            if tells(&word.to_lowercase(), &asked) {
                let first = self.ends.partition_point(|token| *token <= start);
                let last = self.ends.partition_point(|token| *token < start + word.len());
                weights[first..=last].fill(1.0);
            }
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, ModelSource};

    fn tokenizer() -> Tokenizer {
        let model = Model::open(ModelSource::Embedded).expect("the embedded model");
        Tokenizer::from_gguf(model.gguf()).expect("a tokenizer")
    }

    /// The statements of an answer that was written as `written`, and the text of their tokens.
    fn statements(written: &str, shown: &str) -> Vec<(String, String)> {
        let tokenizer = tokenizer();
        let tokens = tokenizer.encode(written, false, false).expect("tokens");
        let answer = WrittenAnswer::new(&tokenizer, &tokens, shown);
        let found = answer.statements();
        assert_eq!(found[0].1, 0, "each token is in one statement");
        let ends = found.iter().skip(1).map(|(_, token)| *token).chain([tokens.len()]);
        let text = |((range, first), end): (&(Range<usize>, usize), usize)| {
            let of = tokenizer.decode(&tokens[*first..end], true);
            (shown[range.clone()].to_owned(), String::from_utf8_lossy(&of).trim().to_owned())
        };
        found.iter().zip(ends).map(text).collect()
    }

    #[test]
    fn words_of_the_question_and_punctuation_tell_little() {
        let (tokenizer, text) = (tokenizer(), "The boat is red.");
        let tokens = tokenizer.encode(text, false, false).expect("tokens");
        let answer = WrittenAnswer::new(&tokenizer, &tokens, text);
        let little = |question| answer.token_weights(question).iter().filter(|weight| **weight < 1.0).count();
        assert_eq!(little("Who?"), 1); // the full stop
        assert!(little("Which color has the boat?") > 1);
        assert!(little("Is the boat red?") > little("Which color has the boat?"));
    }

    #[test]
    fn each_sentence_is_a_statement() {
        let same = |text: &str| (text.to_owned(), text.to_owned());
        let text = "The boat is red. It sank.\n\nIt rained!";
        assert_eq!(statements(text, text), [same("The boat is red."), same("It sank."), same("It rained!")]);
        assert_eq!(statements("The boat", "The boat"), [same("The boat")]);
        assert_eq!(statements("", ""), [same("")]);
        // The last token of an answer may not be there yet.
        let cut = statements("It sank. It rai", "It sank. It rained!");
        assert_eq!(cut, [same("It sank."), ("It rained!".to_owned(), "It rai".to_owned())]);
        let many = "It rained. ".repeat(40);
        let many = statements(&many, &many);
        assert_eq!(many.len(), MAX_STATEMENTS);
        assert_eq!((many[0].0.as_str(), many[1].0.as_str()), ("It rained.", "It rained. It rained."));
    }

    #[test]
    fn thoughts_are_no_statements_of_the_answer() {
        let found =
            statements("<think>The boat sank. It rained.</think>\n\nIt rained. Yes.", "It rained. Yes.");
        assert_eq!(found.len(), 3);
        assert!(found[0].0.is_empty() && found[0].1.starts_with("<think>The boat"), "{found:?}");
        assert_eq!((found[1].0.as_str(), found[2].0.as_str()), ("It rained.", "Yes."));
        let drafted = statements("<think>Yes. It rained.</think> Yes. It rained.", "Yes. It rained.");
        assert_eq!((drafted[0].0.as_str(), drafted[0].1.as_str()), ("", "<think>Yes. It rained.</think>"));
        // White space before the answer is none.
        assert_eq!(statements("\n\nIt rained.", "It rained.").len(), 1);
        // What is shown is not what was written.
        assert_eq!(statements("It rained. Yes.", "No.")[0].0, "");
    }

    #[test]
    fn half_a_character_moves_nothing() {
        let tokenizer = tokenizer();
        let tokens = tokenizer.encode("Été. The boat.", false, false).expect("tokens");
        let cut = WrittenAnswer::new(&tokenizer, &tokens[1..], "The boat.");
        assert_eq!(cut.text.len(), *cut.ends.last().expect("tokens"));
        assert!(cut.text.ends_with("té. The boat."), "{}", cut.text);
        assert_eq!(cut.statements().last().expect("a statement").0, 0..9);
    }
}
