//! The sentences of an answer, and how much its tokens tell of where it comes from.

use std::collections::HashSet;
use std::ops::Range;

use models::tokenizer::Tokenizer;
use unicode_segmentation::UnicodeSegmentation;

use super::places::bytes_of;
use super::rank::words;
use super::sentences::sentences;

/// Parts of an answer that are told apart. The attention of each takes four bytes for each token of the documents.
pub(super) const MAX_PARTS: usize = 32;
/// The share of its attention that a part of an answer pays to the documents at least if it comes from there, and at most if it
/// does not (docs/sources.md).
const FROM_DOCUMENTS: f32 = 0.25;
const FROM_NOWHERE: f32 = 0.15;
/// Words that tell something in a part of which it is said that it has no source: "Here are three points:" has none.
const MIN_WORDS: usize = 5;
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

/// A sentence of an answer, or several of a long one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerPart {
    /// Its text.
    pub text: String,
    /// For each token of the documents the attention that this part paid to it; empty where that is not known.
    pub attention: Vec<f32>,
    /// How much of its attention went to the documents: see [`PaidAttention::share`](super::PaidAttention::share).
    pub share: f32,
}

impl AnswerPart {
    /// Whether enough of its attention went to the documents for it to come from there.
    pub(super) fn is_from_documents(&self) -> bool {
        self.share >= FROM_DOCUMENTS
    }

    /// Whether it says something that the documents were not looked at for. `asked`: the words of the question.
    pub(super) fn is_from_nowhere(&self, asked: &HashSet<String>) -> bool {
        let telling = || words(&self.text).filter(|word| tells(word, asked)).count();
        self.share < FROM_NOWHERE && telling() >= MIN_WORDS
    }
}

/// The tokens of an answer.
pub(super) struct WrittenAnswer {
    text: String,
    /// For each token where it ends in the text, in bytes.
    ends: Vec<usize>,
}

impl WrittenAnswer {
    pub(super) fn new(tokenizer: &Tokenizer, tokens: &[u32]) -> WrittenAnswer {
        let (bytes, ends) = bytes_of(tokenizer, tokens);
        // An answer may end, or begin, in the middle of a character.
        let chunk =
            |chunk: std::str::Utf8Chunk| chunk.valid().to_owned() + &" ".repeat(chunk.invalid().len());
        WrittenAnswer { text: bytes.utf8_chunks().map(chunk).collect(), ends }
    }

    /// Its sentences, each with the indexes of its tokens; each token is in one of them. More than [`MAX_PARTS`] are joined.
    pub(super) fn parts(&self) -> Vec<(&str, Range<usize>)> {
        let found = sentences(&self.text);
        let joined = found.len().div_ceil(MAX_PARTS).max(1);
        let begins = found.iter().step_by(joined).skip(1).map(|sentence| sentence.start);
        let mut start = (0, 0);
        let ends = begins.map(|begin| (begin, self.ends.partition_point(|token| *token <= begin)));
        let part = |end: (usize, usize)| {
            let (from, first) = std::mem::replace(&mut start, end);
            (self.text[from..end.0].trim(), first..end.1)
        };
        ends.chain([(self.text.len(), self.ends.len())]).map(part).collect()
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

    #[test]
    fn words_of_the_question_and_punctuation_tell_little() {
        let tokenizer = tokenizer();
        let tokens = tokenizer.encode("The boat is red.", false, false).expect("tokens");
        let answer = WrittenAnswer::new(&tokenizer, &tokens);
        let little = |question| answer.token_weights(question).iter().filter(|weight| **weight < 1.0).count();
        assert_eq!(little("Who?"), 1); // the full stop
        assert!(little("Which color has the boat?") > 1);
        assert!(little("Is the boat red?") > little("Which color has the boat?"));
    }

    #[test]
    fn what_says_little_or_repeats_the_question_is_not_from_nowhere() {
        let asked = words("What should I know about a chat on Windows?").collect();
        let is_from_nowhere = |text: &str, share| {
            AnswerPart { text: text.to_owned(), attention: Vec::new(), share }.is_from_nowhere(&asked)
        };
        assert!(is_from_nowhere("Install Wine, which is a compatibility layer for Linux.", 0.05));
        assert!(!is_from_nowhere("Install Wine, which is a compatibility layer for Linux.", 0.2));
        assert!(!is_from_nowhere("What you should know about a chat on Windows:", 0.05));
        assert!(!is_from_nowhere("Certainly!", 0.0));
    }

    #[test]
    fn each_token_is_in_one_sentence() {
        let tokenizer = tokenizer();
        for (text, n) in [("", 1), ("The boat", 1), ("The boat is red. It sank.\n\nIt rained!", 3)] {
            let tokens = tokenizer.encode(text, false, false).expect("tokens");
            let answer = WrittenAnswer::new(&tokenizer, &tokens);
            let parts = answer.parts();
            assert_eq!(parts.len(), n, "{text}");
            assert_eq!(
                parts.iter().flat_map(|(_, tokens)| tokens.clone()).collect::<Vec<_>>(),
                Vec::from_iter(0..tokens.len())
            );
            assert_eq!(
                parts.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(" "),
                text.replace("\n\n", " ")
            );
        }
        let many = tokenizer.encode(&"It rained. ".repeat(100), false, false).expect("tokens");
        let answer = WrittenAnswer::new(&tokenizer, &many);
        let parts = answer.parts();
        assert_eq!((parts.len(), parts[0].0), (25, "It rained. It rained. It rained. It rained."));
    }

    #[test]
    fn half_a_character_moves_nothing() {
        let tokenizer = tokenizer();
        let tokens = tokenizer.encode("Été. The boat.", false, false).expect("tokens");
        let all = WrittenAnswer::new(&tokenizer, &tokens);
        let cut = WrittenAnswer::new(&tokenizer, &tokens[1..]);
        assert_eq!(cut.parts().last().map(|(text, _)| *text), all.parts().last().map(|(text, _)| *text));
        assert_eq!(cut.text.len(), *cut.ends.last().expect("tokens"));
    }
}
