//! Which sentence of a text an answer comes from: by the attention that it paid, and by two simple rivals, the sentence with
//! most words in common with it and BM25 of question and answer. The text tells where the right answer stands.

use std::ops::Range;

use longhand::gguf::Tokenizer;
use longhand::sources::{Evidence, PromptBytes, Ranked, Ranking, TextPlace, rank};
use longhand::{ChatFormat, EngineError, Session};
use serde::{Deserialize, Serialize};
use tasks::Sample;

/// Sentences that are looked at.
const LIMIT: usize = 10;

/// Ways of ranking, in the order of the tables.
pub const RANKINGS: [(&str, Ranking); 4] = [
    ("heads", Ranking::Attention),
    ("words", Ranking::CommonWords),
    ("bm25", Ranking::Bm25),
    ("combined", Ranking::Combined),
];

/// A text of which it is known where the answer to a question stands.
pub struct Told {
    /// The text.
    pub text: String,
    /// What is asked.
    pub question: String,
    /// Where right answers stand in the text, in bytes.
    pub needles: Vec<Range<usize>>,
    /// The right answers.
    pub references: Vec<String>,
    /// Where the text is in the prompt.
    place: TextPlace,
}

impl Told {
    /// A text whose prompt begins with these tokens; `None` where it is not among them as it is.
    pub fn new(format: &ChatFormat, prompt: &[u32], sample: &Sample) -> Option<Told> {
        let place = PromptBytes::new(format.tokenizer(), prompt).find(&sample.context)?;
        let Sample { context: text, question, needles, references, .. } = sample.clone();
        Some(Told { text, question, needles, references, place })
    }
}

/// The rank of the first sentence with a right answer, from 1, by each of the [`RANKINGS`]; `None` where none of the first ten
/// has one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceRanks {
    /// By attention.
    pub heads: Option<usize>,
    /// By common words.
    pub words: Option<usize>,
    /// By BM25.
    pub bm25: Option<usize>,
    /// By attention and words.
    pub combined: Option<usize>,
    /// The statements of an answer of several that say what is right.
    pub statements: RightStatements,
}

/// Statements of answers that say what is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RightStatements {
    /// How many there are.
    pub all: usize,
    /// Those that have a source.
    pub with_source: usize,
    /// Those whose source says so.
    pub right: usize,
}

impl SourceRanks {
    /// The ranks for an answer that a session has just given, which has recorded what it attended to. `prompt`: the tokens
    /// before the answer.
    ///
    /// # Errors
    /// Where the attention cannot be computed.
    pub fn of_answer(
        session: &mut Session,
        tokenizer: &Tokenizer,
        told: &Told,
        prompt: usize,
        answer: &str,
    ) -> Result<SourceRanks, EngineError> {
        let TextPlace { first_token, token_ends } = &told.place;
        let (all, to) = (prompt..session.tokens().len(), *first_token..first_token + token_ends.len());
        let statements = session.statements(tokenizer, &told.question, answer, all, to)?.unwrap_or_default();
        let evidence = Evidence {
            text: &told.text,
            token_ends,
            question: &told.question,
            answer,
            statements: &statements,
        };
        let ranked = RANKINGS.map(|(_, ranking)| rank(&evidence, ranking, LIMIT));
        let [heads, words, bm25, combined] = ranked.each_ref().map(|ranked| {
            let is_right = |ranked: &Ranked| told.needles.iter().any(|needle| holds(ranked, needle));
            ranked.iter().take(LIMIT).position(is_right).map(|index| index + 1)
        });
        let [.., as_in_program] = &ranked;
        let statements = RightStatements::of(&evidence, told, as_in_program);
        Ok(SourceRanks { heads, words, bm25, combined, statements })
    }

    fn all(&self) -> [Option<usize>; 4] {
        [self.heads, self.words, self.bm25, self.combined]
    }
}

fn holds(ranked: &Ranked, needle: &Range<usize>) -> bool {
    ranked.range.start <= needle.start && needle.end <= ranked.range.end
}

/// Whether a text has these words, as whole words.
fn has_words(text: &str, words: &str) -> bool {
    let (text, words) = (text.to_lowercase(), words.to_lowercase());
    let is_apart = |sign: Option<char>| sign.is_none_or(|sign| !sign.is_alphanumeric());
    text.match_indices(&words).any(|(at, words)| {
        is_apart(text[..at].chars().next_back()) && is_apart(text[at + words.len()..].chars().next())
    })
}

impl RightStatements {
    /// Those of an answer. `ranked`: the sources that the program names.
    fn of(evidence: &Evidence, told: &Told, ranked: &[Ranked]) -> RightStatements {
        let mut counted = RightStatements::default();
        let [_, _, ..] = evidence.statements else { return counted };
        for (index, statement) in evidence.statements.iter().enumerate() {
            let said = evidence.answer.get(statement.range.clone()).unwrap_or_default();
            let is_said = |right: &String| has_words(said, right);
            let says = |needle: &&Range<usize>| {
                let text = told.text.get((*needle).clone()).unwrap_or_default();
                told.references.iter().any(|right| is_said(right) && has_words(text, right))
            };
            let needles: Vec<&Range<usize>> = told.needles.iter().filter(says).collect();
            if needles.is_empty() {
                continue;
            }
            counted.all += 1;
            if let Some(source) = ranked.iter().find(|ranked| ranked.statements.contains(&index)) {
                counted.with_source += 1;
                counted.right += usize::from(needles.iter().any(|needle| holds(source, needle)));
            }
        }
        counted
    }

    fn add(&mut self, other: &RightStatements) {
        self.all += other.all;
        self.with_source += other.with_source;
        self.right += other.right;
    }
}

/// Shares of answers, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Whose first source has a right answer.
    pub first: f64,
    /// Of whose first three sources one has.
    pub first_three: f64,
}

/// What several answers add up to. An answer that is right in part counts as wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceShares {
    /// Right answers.
    pub right: usize,
    /// Other answers.
    pub wrong: usize,
    /// Shares of the right answers, by ranking.
    pub of_right: [Shares; 4],
    /// Shares of the other answers, by ranking: these had their place before their eyes.
    pub of_wrong: [Shares; 4],
    /// Right sentences of all answers.
    pub statements: RightStatements,
}

impl SourceShares {
    /// The shares of answers with their scores; `None` of none.
    pub fn of<'a>(answers: impl Iterator<Item = (f64, &'a SourceRanks)>) -> Option<SourceShares> {
        let mut statements = RightStatements::default();
        let answers = answers.inspect(|(_, ranks)| statements.add(&ranks.statements));
        let (right, wrong): (Vec<_>, Vec<_>) = answers.partition(|(score, _)| *score >= 1.0);
        let shares = |answers: &[(f64, &SourceRanks)]| {
            let share = |ranking: usize, most: usize| {
                let found =
                    answers.iter().filter(|(_, ranks)| ranks.all()[ranking].is_some_and(|rank| rank <= most));
                found.count() as f64 / answers.len().max(1) as f64
            };
            std::array::from_fn(|ranking| Shares { first: share(ranking, 1), first_three: share(ranking, 3) })
        };
        let counted = SourceShares {
            right: right.len(),
            wrong: wrong.len(),
            of_right: shares(&right),
            of_wrong: shares(&wrong),
            statements,
        };
        (counted.right + counted.wrong > 0).then_some(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        assert!(
            has_words("It is Red.", "red")
                && has_words("(1843)", "1843")
                && has_words("Ada Crewe", "Ada Crewe")
        );
        assert!(!has_words("not", "no") && !has_words("18430", "1843") && !has_words("", "red"));
    }

    #[test]
    fn right_and_wrong_answers_are_counted_apart() {
        let ranks = |heads, words| SourceRanks { heads, words, ..SourceRanks::default() };
        let answers =
            [(1.0, ranks(Some(1), None)), (1.0, ranks(Some(3), Some(4))), (0.5, ranks(None, Some(1)))];
        let shares = SourceShares::of(answers.iter().map(|(score, ranks)| (*score, ranks))).expect("answers");
        assert_eq!((shares.right, shares.wrong), (2, 1));
        assert_eq!(shares.of_right[0], Shares { first: 0.5, first_three: 1.0 });
        assert_eq!(shares.of_right[1], Shares { first: 0.0, first_three: 0.0 });
        assert_eq!(shares.of_wrong[..2].iter().map(|shares| shares.first).collect::<Vec<_>>(), [0.0, 1.0]);
        assert_eq!(SourceShares::of([].into_iter()), None);
    }
}
