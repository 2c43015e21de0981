//! How long a model writes what it writes with a full cache in f16. The answer of the full cache is written with every
//! cache, token by token, so that one early difference does not change all that follows.

use anyhow::Result;
use longhand::gguf::Tokenizer;
use longhand::{EngineError, Session};
use serde::{Deserialize, Serialize};
use terminal::format;

use crate::Lab;
use crate::eval::compare::prediction::{follow, most_likely};
use crate::examine::Text;

/// What is asked about a part of a book.
pub const QUESTION: &str = "\n\nSummarize the text above in detail, from its beginning to its end.";

/// How far a model agrees with itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Share, from 0 to 1, of the answer's tokens that are the most likely ones here, too.
    pub share: f64,
    /// Tokens before the first that is not.
    pub tokens_before_difference: f64,
    /// Tokens of the answer, with the one that ends it.
    pub tokens: f64,
}

impl Agreement {
    /// The means of several; `None` of none.
    pub fn mean<'a>(agreements: impl Iterator<Item = &'a Agreement>) -> Option<Agreement> {
        let all: Vec<&Agreement> = agreements.collect();
        let mean = |value: fn(&Agreement) -> f64| {
            all.iter().map(|agreement| value(agreement)).sum::<f64>() / all.len() as f64
        };
        (!all.is_empty()).then(|| Agreement {
            share: mean(|agreement| agreement.share),
            tokens_before_difference: mean(|agreement| agreement.tokens_before_difference),
            tokens: mean(|agreement| agreement.tokens),
        })
    }
}

/// The answer of a full cache: its most likely tokens, with the one that ends it.
pub struct FullAnswer(Vec<u32>);

impl FullAnswer {
    /// Writes the answer.
    ///
    /// # Errors
    /// Where the computation fails, or Ctrl-C was pressed.
    pub fn new(
        lab: &Lab,
        session: &mut Session,
        tokenizer: &Tokenizer,
        text: &Text,
    ) -> Result<FullAnswer, EngineError> {
        lab.interrupt.computing(|| session.sync(&text.document, &mut |_| ()))?;
        let mut tokens = [text.document.as_slice(), &text.questions[0]].concat();
        let begin = tokens.len();
        while tokens.len() < begin + text.answer_limit {
            lab.interrupt.computing(|| session.sync(&tokens, &mut |_| ()))?;
            let Some(token) = most_likely(session.logits()) else { break };
            tokens.push(token as u32);
            if tokenizer.is_eog(token as u32) {
                break;
            }
        }
        Ok(FullAnswer(tokens.split_off(begin)))
    }

    /// How far a session agrees that has read the document.
    ///
    /// # Errors
    /// As for [`FullAnswer::new`].
    pub fn compare(&self, lab: &Lab, session: &mut Session, text: &Text) -> Result<Agreement, EngineError> {
        let prompt = [text.document.as_slice(), &text.questions[0]].concat();
        let mut is_same = Vec::with_capacity(self.0.len());
        follow(lab, session, &prompt, &self.0, &mut |index, logits| {
            is_same.push(most_likely(logits) == Some(self.0[index] as usize));
        })?;
        let same = is_same.iter().filter(|same| **same).count();
        Ok(Agreement {
            share: format::share(same, is_same.len()),
            tokens_before_difference: is_same.iter().take_while(|same| **same).count() as f64,
            tokens: is_same.len() as f64,
        })
    }
}
