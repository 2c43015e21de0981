//! Which tokens of an answer tell little of where it comes from.

use std::collections::HashSet;

use models::tokenizer::Tokenizer;
use unicode_segmentation::UnicodeSegmentation;

use super::places::bytes_of;
use super::rank::words;

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

/// How much each of an answer's tokens tells of where the answer comes from, up to 1. "The bridge in Penridge was built in
/// 1871" repeats its question but for the year, and the other words may stand in many places.
///
/// ```
/// use longhand::gguf::Tokenizer;
/// use longhand::sources::token_weights;
///
/// let model = longhand::Model::open(longhand::ModelSource::Embedded)?;
/// let tokenizer = Tokenizer::from_gguf(model.gguf())?;
/// let answer = tokenizer.encode("The boat is red.", false, false)?;
/// let repeated = |question| {
///     let weights = token_weights(&tokenizer, &answer, question);
///     weights.into_iter().filter(|weight| *weight < 1.0).count()
/// };
/// assert_eq!(repeated("Who?"), 1); // the full stop
/// assert!(repeated("Which color has the boat?") > 1);
/// assert!(repeated("Is the boat red?") > repeated("Which color has the boat?"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn token_weights(tokenizer: &Tokenizer, answer: &[u32], question: &str) -> Vec<f32> {
    let (bytes, ends) = bytes_of(tokenizer, answer);
    let mut weights = vec![TELLS_LITTLE; answer.len()];
    let asked: HashSet<String> = words(question).collect();
    let mut from = 0;
    // An answer may end, or begin, in the middle of a character.
    for chunk in bytes.utf8_chunks() {
        for (at, word) in chunk.valid().unicode_word_indices() {
            if tells(&word.to_lowercase(), &asked) {
                let (start, end) = (from + at, from + at + word.len());
                let first = ends.partition_point(|token| *token <= start);
                let last = ends.partition_point(|token| *token < end);
                weights[first..=last].fill(1.0);
            }
        }
        from += chunk.valid().len() + chunk.invalid().len();
    }
    weights
}
