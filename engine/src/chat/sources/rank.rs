//! Which sentences of a text an answer comes from: by the attention that it paid to them, by words, or by both.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::sentences::sentences;
use super::statements::{Statement, tells};

/// BM25's saturation of repeated words, and how much the length of a sentence counts (Robertson and Zaragoza 2009).
const BM25: (f64, f64) = (1.2, 0.75);

/// Sentences with a smaller share of the attention are no sources: heads look a little at many tokens.
const MIN_PAID: f64 = 0.02;
/// The best sentence for a statement is its source with a share of its attention from here on
/// (tests/results/2026-11-26-sources.md).
const MIN_OF_SOURCE: f64 = 0.1;
/// What a word of the question counts for a sentence that has it, and for those that are one, two and three sentences away.
const NEAR: [f64; 4] = [1.0, 0.9, 0.8, 0.7];
/// What is added to a sentence's share of new words, where the best has 1: they at most double what it counts. The only new
/// word may be "not".
const NO_NEW_WORDS: f64 = 1.0;
/// The same for words of the question near the sentence.
const NOT_ASKED: f64 = 0.3;
/// What a sentence that asks counts beside one that says something. It may have the words of question and answer.
const ASKS: f64 = 0.5;

/// What is known of where an answer comes from.
///
/// ```
/// use longhand::sources::{Evidence, Ranking, Statement, rank};
///
/// let text = "It rained. Mary's favorite number is 34251. The boat sank.";
/// let (question, answer) = ("What is Mary's favorite number?", "34251");
/// let words = Evidence { text, question, answer, ..Evidence::default() };
/// assert_eq!(&text[rank(&words, Ranking::Bm25, 1)[0].range.clone()], "Mary's favorite number is 34251.");
/// // Three tokens, of which the last one is looked at.
/// let statements = [Statement { range: 0..answer.len(), attention: vec![0.0, 0.1, 0.9], share: 0.9 }];
/// let evidence = Evidence { token_ends: &[10, 43, 58], statements: &statements, ..words };
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
    /// What was asked.
    pub question: &'a str,
    /// What the model has answered.
    pub answer: &'a str,
    /// The sentences of the answer, and what the model looked at; empty where that is not known.
    pub statements: &'a [Statement],
}

/// How sentences are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranking {
    /// Those with at least 2 % of the attention, ordered by attention and words. What counts is the fourth root of the share,
    /// multiplied by two factors. One is BM25 of the answer's words that the question does not have, without yes and no. The other
    /// is words of the question in the sentence or near it. A sentence that asks counts half. An answer of several statements
    /// may come from several places. There attention alone orders them, and the factors tell which is the source of each
    /// statement.
    #[default]
    Combined,
    /// By the attention that the answer paid to their tokens.
    Attention,
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
    /// The statements of the answer that come from it, by their indexes, where the answer has several and
    /// [`Ranking::Combined`] ranks.
    pub statements: Vec<usize>,
}

/// The sentences that an answer comes from, the best first: the first `limit`, and those that are the source of a statement.
/// Sentences for which nothing speaks are left out. Of equal ones the first in the text comes first.
pub fn rank(evidence: &Evidence, ranking: Ranking, limit: usize) -> Vec<Ranked> {
    let sentences = sentences(evidence.text);
    let (scores, mut statements) = match ranking {
        Ranking::Attention => (attention(evidence, &sentences), Vec::new()),
        Ranking::CommonWords => (common_words(evidence, &sentences), Vec::new()),
        Ranking::Bm25 => (bm25(evidence, &sentences), Vec::new()),
        Ranking::Combined => combined(evidence, &sentences),
    };
    let all: f64 = scores.iter().sum();
    let mut order: Vec<usize> = (0..sentences.len()).filter(|index| scores[*index] > 0.0).collect();
    order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
    let ranked = |(rank, index): (usize, usize)| {
        let statements = statements.get_mut(index).map(std::mem::take).unwrap_or_default();
        let (range, weight) = (sentences[index].clone(), (scores[index] / all) as f32);
        (rank < limit || !statements.is_empty()).then_some(Ranked { range, weight, statements })
    };
    order.into_iter().enumerate().filter_map(ranked).collect()
}

fn attention(evidence: &Evidence, sentences: &[Range<usize>]) -> Vec<f64> {
    let mut scores = vec![0.0; sentences.len()];
    for statement in evidence.statements {
        let paid = paid_by(statement, evidence.token_ends, sentences);
        scores.iter_mut().zip(paid).for_each(|(score, paid)| *score += paid);
    }
    scores
}

/// What a statement paid to the tokens of each sentence. A token belongs to the sentence that its last byte is in.
fn paid_by(statement: &Statement, token_ends: &[usize], sentences: &[Range<usize>]) -> Vec<f64> {
    let mut scores = vec![0.0; sentences.len()];
    let mut sentence = 0;
    for (end, paid) in token_ends.iter().zip(&statement.attention) {
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
    FoundWords::new(&query, evidence.text, sentences).bm25(&query)
}

/// By attention and words: of a statement, for each sentence.
struct Combined<'a> {
    evidence: &'a Evidence<'a>,
    asked: &'a HashSet<String>,
    found: FoundWords<'a>,
    /// What each sentence counts by how many words of the question are near it, and by whether it asks.
    is_about: Vec<f64>,
}

impl Combined<'_> {
    /// `paid`: what the statement paid to each sentence.
    fn scores(&self, statement: &Statement, paid: &[f64]) -> Vec<f64> {
        let all: f64 = paid.iter().sum();
        let text = self.evidence.answer.get(statement.range.clone()).unwrap_or_default();
        let new_words: HashSet<String> = words(text).filter(|word| tells(word, self.asked)).collect();
        let says = beside_best(self.found.bm25(&new_words));
        let score = |(&paid, (says, is_about)): (&f64, (f64, &f64))| {
            let share = if paid > 0.0 && paid >= MIN_PAID * all { paid / all } else { 0.0 };
            share.powf(0.25) * (says + NO_NEW_WORDS) * is_about
        };
        paid.iter().zip(says.into_iter().zip(&self.is_about)).map(score).collect()
    }

    /// The sentence that a statement comes from, if it comes from one.
    fn source(&self, statement: &Statement, paid: &[f64]) -> Option<usize> {
        if !statement.is_copied() {
            return None;
        }
        let scores = self.scores(statement, paid);
        let best = (0..scores.len()).rev().max_by(|one, other| scores[*one].total_cmp(&scores[*other]))?;
        (paid[best] >= MIN_OF_SOURCE * paid.iter().sum::<f64>()).then_some(best)
    }
}

/// The scores of sentences, and the statements for which each is the source, where an answer has several.
fn combined(evidence: &Evidence, sentences: &[Range<usize>]) -> (Vec<f64>, Vec<Vec<usize>>) {
    let asked: HashSet<String> = words(evidence.question).collect();
    let query: HashSet<String> = asked.iter().cloned().chain(words(evidence.answer)).collect();
    let found = FoundWords::new(&query, evidence.text, sentences);
    let near = beside_best(found.near(&asked)).into_iter().zip(sentences);
    let is_about = near.map(|(near, range)| {
        let asks = if asks(&evidence.text[range.clone()]) { ASKS } else { 1.0 };
        (near + NOT_ASKED) * asks
    });
    let is_about = is_about.collect();
    let combined = Combined { evidence, asked: &asked, found, is_about };
    let (mut scores, mut sources) = (vec![0.0; sentences.len()], vec![Vec::new(); sentences.len()]);
    // Thoughts count where the answer itself copies nothing.
    let copies = evidence.statements.iter().any(Statement::is_copied);
    let counted = evidence.statements.iter().enumerate();
    let counted: Vec<_> = counted.filter(|(_, statement)| statement.is_shown() || !copies).collect();
    for (index, statement) in &counted {
        let paid = paid_by(statement, evidence.token_ends, sentences);
        if counted.len() == 1 {
            return (combined.scores(statement, &paid), Vec::new());
        }
        combined.source(statement, &paid).into_iter().for_each(|source| sources[source].push(*index));
        scores.iter_mut().zip(paid).for_each(|(score, paid)| *score += paid);
    }
    let least = MIN_PAID * scores.iter().sum::<f64>();
    for (score, of) in scores.iter_mut().zip(&sources) {
        if *score < least && of.is_empty() {
            *score = 0.0;
        }
    }
    (scores, sources)
}

/// Whether a sentence is a question.
fn asks(sentence: &str) -> bool {
    let end = sentence.trim_end_matches(|sign: char| "\"'”’»«)]*_`".contains(sign) || sign.is_whitespace());
    end.ends_with(['?', '？', '؟', '\u{37e}'])
}

/// Scores of which the best is 1; those that are all 0 stay so.
fn beside_best(mut scores: Vec<f64>) -> Vec<f64> {
    let best = scores.iter().copied().fold(0.0, f64::max);
    if best > 0.0 {
        scores.iter_mut().for_each(|score| *score /= best);
    }
    scores
}

/// Where the words of a query stand.
struct FoundWords<'q> {
    /// Those of each sentence, and how often it has them. In a fixed order: sums of floats depend on it.
    of_sentences: Vec<BTreeMap<&'q str, f64>>,
    /// How many words each sentence has.
    lengths: Vec<f64>,
    /// How many sentences have a word.
    containing: HashMap<&'q str, f64>,
}

impl<'q> FoundWords<'q> {
    fn new(query: &'q HashSet<String>, text: &str, sentences: &[Range<usize>]) -> FoundWords<'q> {
        let mut found =
            FoundWords { of_sentences: Vec::new(), lengths: Vec::new(), containing: HashMap::new() };
        for range in sentences {
            let (mut counts, mut length) = (BTreeMap::new(), 0.0);
            for word in words(&text[range.clone()]) {
                length += 1.0;
                if let Some(word) = query.get(&word) {
                    *counts.entry(word.as_str()).or_insert(0.0) += 1.0;
                }
            }
            counts.keys().for_each(|word| *found.containing.entry(word).or_default() += 1.0);
            found.of_sentences.push(counts);
            found.lengths.push(length);
        }
        found
    }

    /// BM25 of these words of the query for each sentence.
    fn bm25(&self, of: &HashSet<String>) -> Vec<f64> {
        let average = self.lengths.iter().sum::<f64>() / (self.lengths.len() as f64).max(1.0);
        let score = |(counts, length): (&BTreeMap<&str, f64>, &f64)| {
            let of_word = |(word, count): (&&str, &f64)| {
                let (k, b) = BM25;
                self.rarity(word) * count * (k + 1.0) / (count + k * (1.0 - b + b * length / average))
            };
            counts.iter().filter(|(word, _)| of.contains(**word)).map(of_word).sum()
        };
        self.of_sentences.iter().zip(&self.lengths).map(score).collect()
    }

    /// How many of these words of the query stand in each sentence or near it, rare ones counting more: each word where it is
    /// nearest.
    fn near(&self, of: &HashSet<String>) -> Vec<f64> {
        let found = &self.of_sentences;
        let near = |index: usize| {
            let (mut counted, mut score) = (HashSet::new(), 0.0);
            for (distance, counts) in NEAR.iter().enumerate() {
                let before = index.checked_sub(distance).map(|before| &found[before]);
                let behind = found.get(index + distance).filter(|_| distance > 0);
                for word in before.into_iter().chain(behind).flat_map(BTreeMap::keys) {
                    if of.contains(*word) && counted.insert(*word) {
                        score += counts * self.rarity(word);
                    }
                }
            }
            score
        };
        (0..found.len()).map(near).collect()
    }

    /// How rare a word is among the sentences.
    fn rarity(&self, word: &str) -> f64 {
        let (all, containing) = (self.of_sentences.len() as f64, self.containing[word]);
        (1.0 + (all - containing + 0.5) / (containing + 0.5)).ln()
    }
}

/// The words of a text in small letters.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    text.unicode_words().map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Aldmoor lies on the Wey. A stone bridge was built there in 1784. The school opened in 1784.\n\n\
        It rained. It rained. It rained.\n\n\
        Penridge lies on the Ouse. A stone bridge was built there in 1871. The school opened in 1784.\n\n\
        It rained. It rained. It rained.\n\n\
        Norwell lies on the Tarn. A stone bridge was built there in 1784. The school opened in 1871.";

    /// Attention of one token for each sentence, from 0 to 1.
    fn best(question: &str, answer: &str, paid: &[f32]) -> Vec<usize> {
        let all = sentences(TEXT);
        let token_ends: Vec<usize> = all.iter().map(|sentence| sentence.end).collect();
        assert_eq!(paid.len(), all.len());
        let statements = [Statement { range: 0..answer.len(), attention: paid.to_vec(), share: 0.1 }];
        let evidence =
            Evidence { text: TEXT, token_ends: &token_ends, question, answer, statements: &statements };
        let ranked = rank(&evidence, Ranking::Combined, 3);
        ranked
            .iter()
            .map(|ranked| all.iter().position(|range| *range == ranked.range).expect("one"))
            .collect()
    }

    #[test]
    fn words_of_the_question_near_a_sentence_decide_among_those_that_are_looked_at() {
        let mut paid = [0.0; 15];
        (paid[1], paid[7], paid[14]) = (0.35, 0.3, 0.35);
        let question = "When was the stone bridge in Penridge built?";
        // Sentence 14 has the year, but no bridge; sentence 1 the bridge of another village.
        assert_eq!(best(question, "The stone bridge in Penridge was built in 1871.", &paid), [7, 14, 1]);
        // Words alone make no source.
        paid[7] = 0.01;
        assert!(!best(question, "The stone bridge in Penridge was built in 1871.", &paid).contains(&7));
    }

    #[test]
    fn a_word_that_no_sentence_needs_is_not_what_decides() {
        let text = "The pool is heated with wood. It rained. No boat came. It rained. It rained. It rained.";
        let token_ends: Vec<usize> = sentences(text).iter().map(|sentence| sentence.end).collect();
        let question = "Is the pool heated with oil?";
        let answer = "No, the pool is heated with wood.";
        let attention = vec![0.5, 0.0, 0.5, 0.0, 0.0, 0.0];
        let statements = [Statement { range: 0..answer.len(), attention, share: 0.9 }];
        let evidence = Evidence { text, token_ends: &token_ends, question, answer, statements: &statements };
        let ranked = rank(&evidence, Ranking::Combined, 1);
        assert_eq!(&text[ranked[0].range.clone()], "The pool is heated with wood.");
    }

    #[test]
    fn a_sentence_that_asks_is_no_source_beside_one_that_says_so() {
        let text = "\u{201c}What is Mary's favorite food, falafel or not?\u{201d} It rained. Mary's favorite food is falafel.";
        let all = sentences(text);
        assert!(asks(&text[all[0].clone()]) && !asks(&text[all[2].clone()]));
        assert!(asks("好吗？") && !asks("What? No."));
        let token_ends: Vec<usize> = all.iter().map(|sentence| sentence.end).collect();
        let (question, answer) = ("What is Mary's favorite food?", "Mary's favorite food is falafel.");
        let best = |attention: [f32; 3]| {
            let statements =
                [Statement { range: 0..answer.len(), attention: attention.to_vec(), share: 0.9 }];
            let evidence =
                Evidence { text, token_ends: &token_ends, question, answer, statements: &statements };
            rank(&evidence, Ranking::Combined, 1)[0].range.clone()
        };
        assert_eq!(best([0.6, 0.0, 0.4]), all[2]);
        assert_eq!(best([1.0, 0.0, 0.0]), all[0]);
    }

    #[test]
    fn each_statement_has_a_source_of_its_own() {
        let all = sentences(TEXT);
        let token_ends: Vec<usize> = all.iter().map(|sentence| sentence.end).collect();
        let everywhere: Vec<(usize, f32)> = (0..15).map(|sentence| (sentence, 1.0)).collect();
        let said = [
            ("", &[(5, 8.0)][..], 0.9), // thoughts
            ("Here are two bridges.", &[(2, 0.1), (3, 0.1)], 0.1),
            ("Aldmoor has one since 1784.", &[(1, 6.0), (7, 4.0)], 0.5),
            ("So has Penridge, since 1871.", &[(7, 9.0), (1, 1.0)], 0.5),
            ("All villages lie on rivers.", &everywhere, 0.5),
            ("It rained in Norwell.", &[(11, 0.3)], 0.5),
        ];
        let (mut answer, mut statements) = (String::new(), Vec::new());
        for (text, looked_at, share) in said {
            let start = answer.len();
            answer += text;
            let mut attention = vec![0.0; all.len()];
            looked_at.iter().for_each(|(sentence, paid)| attention[*sentence] = *paid);
            statements.push(Statement { range: start..answer.len(), attention, share });
        }
        let evidence = Evidence {
            text: TEXT,
            token_ends: &token_ends,
            question: "Which bridges are there?",
            answer: &answer,
            statements: &statements,
        };
        let ranked = |ranking, limit| {
            let number = |range| all.iter().position(|sentence| *sentence == range).expect("a sentence");
            let ranked = rank(&evidence, ranking, limit).into_iter();
            ranked.map(|ranked| (number(ranked.range), ranked.statements)).collect::<Vec<_>>()
        };
        // By attention; the source of a statement is among them, however little that is. Thoughts do not count.
        assert_eq!(ranked(Ranking::Combined, 1), [(7, vec![3]), (1, vec![2]), (11, vec![5])]);
        assert_eq!(ranked(Ranking::Combined, 4), [(7, vec![3]), (1, vec![2]), (11, vec![5]), (2, vec![])]);
        assert_eq!(ranked(Ranking::Attention, 2), [(7, vec![]), (5, vec![])]);
    }

    #[test]
    fn attention_decides_where_words_say_nothing() {
        let mut paid = [0.0; 15];
        (paid[3], paid[9], paid[10]) = (0.2, 0.1, 0.7);
        assert_eq!(best("Wie war das Wetter?", "Es regnete.", &paid), [10, 3, 9]);
    }
}
