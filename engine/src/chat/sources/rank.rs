//! Which sentences of a text an answer comes from: by the attention that it paid to them, or by words alone.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::sentences::sentences;

/// BM25's saturation of repeated words, and how much the length of a sentence counts (Robertson and Zaragoza 2009).
const BM25: (f64, f64) = (1.2, 0.75);

/// What is known of where an answer comes from.
///
/// ```
/// use longhand::sources::{Evidence, Ranking, rank};
///
/// let text = "It rained. Mary's favorite number is 34251. The boat sank.";
/// let words = Evidence { text, question: "What is Mary's favorite number?", answer: "34251", ..Evidence::default() };
/// assert_eq!(&text[rank(&words, Ranking::Bm25, 1)[0].range.clone()], "Mary's favorite number is 34251.");
/// // Three tokens, of which the last one is looked at.
/// let evidence = Evidence { token_ends: &[10, 43, 58], attention: &[0.0, 0.1, 0.9], ..words };
/// let ranked = rank(&evidence, Ranking::Attention, 2);
/// assert_eq!(&text[ranked[0].range.clone()], "The boat sank.");
/// assert!(ranked[0].weight > ranked[1].weight);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// The text of the documents.
    pub text: &'a str,
    /// For each token of the text where it ends, in bytes, ascending.
    pub token_ends: &'a [usize],
    /// For each token the attention that the answer paid to it; empty where that is not known.
    pub attention: &'a [f32],
    /// What was asked.
    pub question: &'a str,
    /// What the model has answered.
    pub answer: &'a str,
}

/// How sentences are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranking {
    /// By the attention that the answer paid to their tokens.
    #[default]
    Attention,
    /// By attention and BM25 of the words of the answer, in equal shares.
    Combined,
    /// By how many words they have in common with the answer.
    CommonWords,
    /// By BM25 of the words of the question and the answer.
    Bm25,
}

/// A sentence that an answer comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// Its share of all that speaks for any sentence, from 0 to 1.
    pub weight: f32,
}

/// The sentences that an answer comes from, at most `limit`, the best first. Sentences for which nothing speaks are left
/// out. Of equal ones the first in the text comes first.
pub fn rank(evidence: &Evidence, ranking: Ranking, limit: usize) -> Vec<Ranked> {
    let sentences = sentences(evidence.text);
    let scores = match ranking {
        Ranking::Attention => attention(evidence, &sentences),
        Ranking::CommonWords => common_words(evidence, &sentences),
        Ranking::Bm25 => bm25(evidence, &sentences),
        Ranking::Combined => combined(evidence, &sentences),
    };
    let all: f64 = scores.iter().sum();
    let mut order: Vec<usize> = (0..sentences.len()).filter(|index| scores[*index] > 0.0).collect();
    order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
    order.truncate(limit);
    let ranked =
        |index: usize| Ranked { range: sentences[index].clone(), weight: (scores[index] / all) as f32 };
    order.into_iter().map(ranked).collect()
}

/// What was paid to the tokens of each sentence. A token belongs to the sentence that its last byte is in.
fn attention(evidence: &Evidence, sentences: &[Range<usize>]) -> Vec<f64> {
    let Evidence { token_ends, attention, .. } = evidence;
    let mut scores = vec![0.0; sentences.len()];
    let mut sentence = 0;
    for (end, paid) in token_ends.iter().zip(*attention) {
        while sentences.get(sentence).is_some_and(|range| range.end < *end) {
            sentence += 1;
        }
        // A token of white space before a sentence belongs to none.
        if sentences.get(sentence).is_some_and(|range| range.start < *end) {
            scores[sentence] += f64::from(*paid);
        }
    }
    scores
}

fn common_words(evidence: &Evidence, sentences: &[Range<usize>]) -> Vec<f64> {
    let answer: HashSet<String> = words(evidence.answer).collect();
    let common = |range: &Range<usize>| {
        let found: HashSet<String> =
            words(&evidence.text[range.clone()]).filter(|word| answer.contains(word)).collect();
        found.len() as f64
    };
    sentences.iter().map(common).collect()
}

fn bm25(evidence: &Evidence, sentences: &[Range<usize>]) -> Vec<f64> {
    let query: HashSet<String> = words(evidence.question).chain(words(evidence.answer)).collect();
    bm25_of(&query, evidence.text, sentences)
}

/// BM25 of the words of a query for each sentence.
fn bm25_of(query: &HashSet<String>, text: &str, sentences: &[Range<usize>]) -> Vec<f64> {
    let mut containing: HashMap<String, f64> = HashMap::new();
    let mut found = Vec::new();
    let mut all = 0.0;
    for range in sentences {
        let (mut counts, mut length) = (HashMap::new(), 0.0);
        for word in words(&text[range.clone()]) {
            length += 1.0;
            if query.contains(&word) {
                *counts.entry(word).or_insert(0.0) += 1.0;
            }
        }
        counts.keys().for_each(|word: &String| *containing.entry(word.clone()).or_default() += 1.0);
        all += length;
        found.push((counts, length));
    }
    let (n, average) = (sentences.len() as f64, all / (sentences.len() as f64).max(1.0));
    let score = |(counts, length): (HashMap<String, f64>, f64)| {
        let of_word = |(word, count): (String, f64)| {
            let rarity = (1.0 + (n - containing[&word] + 0.5) / (containing[&word] + 0.5)).ln();
            let (k, b) = BM25;
            rarity * count * (k + 1.0) / (count + k * (1.0 - b + b * length / average))
        };
        // In a fixed order: sums of floats depend on it.
        let mut counts: Vec<(String, f64)> = counts.into_iter().collect();
        counts.sort_by(|one, other| one.0.cmp(&other.0));
        counts.into_iter().map(of_word).sum()
    };
    found.into_iter().map(score).collect()
}

fn combined(evidence: &Evidence, sentences: &[Range<usize>]) -> Vec<f64> {
    let shares = |scores: Vec<f64>| {
        let all: f64 = scores.iter().sum();
        scores.into_iter().map(move |score| if all > 0.0 { score / all } else { 0.0 })
    };
    let words: HashSet<String> = words(evidence.answer).collect();
    let words = shares(bm25_of(&words, evidence.text, sentences));
    shares(attention(evidence, sentences)).zip(words).map(|(paid, words)| paid + words).collect()
}

/// The words of a text in small letters.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.unicode_words().map(str::to_lowercase)
}
