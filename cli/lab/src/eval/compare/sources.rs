//! Which sentence of a text an answer comes from: by the attention that it paid, and by two simple rivals, the sentence with
//! most words in common with it and BM25 of question and answer. The text tells where the right answer stands.

use std::ops::Range;

use longhand::gguf::Tokenizer;
use longhand::sources::{Evidence, PromptBytes, Ranking, TextPlace, rank, token_weights};
use longhand::{ChatFormat, EngineError, Session};
use serde::{Deserialize, Serialize};

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
    /// Where the text is in the prompt.
    place: TextPlace,
}

impl Told {
    /// A text whose prompt begins with these tokens; `None` where it is not among them as it is.
    pub fn new(
        format: &ChatFormat,
        prompt: &[u32],
        [text, question]: [&str; 2],
        needles: Vec<Range<usize>>,
    ) -> Option<Told> {
        let place = PromptBytes::new(format.tokenizer(), prompt).find(text)?;
        let [text, question] = [text, question].map(str::to_owned);
        Some(Told { text, question, needles, place })
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
        let by = prompt.saturating_sub(1)..session.tokens().len();
        let counts = token_weights(tokenizer, &session.tokens()[prompt..], &told.question);
        let attention = session.attention_paid(by, *first_token..first_token + token_ends.len(), &counts)?;
        let attention = attention.unwrap_or_default();
        let evidence = Evidence {
            text: &told.text,
            token_ends,
            attention: &attention,
            question: &told.question,
            answer,
        };
        let [heads, words, bm25, combined] = RANKINGS.map(|(_, ranking)| {
            let ranked = rank(&evidence, ranking, LIMIT);
            let holds = |range: &Range<usize>, needle: &Range<usize>| {
                range.start <= needle.start && needle.end <= range.end
            };
            let found = ranked
                .iter()
                .position(|ranked| told.needles.iter().any(|needle| holds(&ranked.range, needle)));
            found.map(|index| index + 1)
        });
        Ok(SourceRanks { heads, words, bm25, combined })
    }

    fn all(&self) -> [Option<usize>; 4] {
        [self.heads, self.words, self.bm25, self.combined]
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
}

impl SourceShares {
    /// The shares of answers with their scores; `None` of none.
    pub fn of<'a>(answers: impl Iterator<Item = (f64, &'a SourceRanks)>) -> Option<SourceShares> {
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
        };
        (counted.right + counted.wrong > 0).then_some(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
