//! What a full cache in f16 does with a text that it reads in f32, and how other caches differ from it.

use std::sync::Arc;

use longhand::store::last_attention;
use longhand::{ChatFormat, Engine, EngineError, Session, SessionOptions};

use crate::Lab;
use crate::eval::compare::agreement::FullAnswer;
use crate::eval::compare::attention_loss::AttentionLoss;
use crate::eval::compare::prediction::Reference;
use crate::eval::compare::retention;
use crate::eval::results::records::Record;
use crate::eval::texts::exercise::{Content, Exercise};

/// What a full cache in f16 does.
pub enum FullCache {
    /// Nothing that others are compared with.
    None,
    /// Predicts the next tokens.
    Predicts(Reference),
    /// Writes an answer.
    Answers(FullAnswer),
    /// Attends to each token, `[layers][heads][tokens]`.
    Attends(Vec<Vec<Vec<f32>>>),
}

impl FullCache {
    /// Computes what the exercise needs.
    ///
    /// # Errors
    /// Where the computation fails, or Ctrl-C was pressed.
    pub fn new(
        lab: &Lab,
        engine: &Arc<Engine>,
        format: &ChatFormat,
        exercise: &Exercise,
    ) -> Result<FullCache, EngineError> {
        let options =
            || SessionOptions { context: exercise.context(), int8: false, ..SessionOptions::default() };
        let session = || lab.interrupt.new_session(engine, options());
        Ok(match &exercise.content {
            Content::Question(_) | Content::Retention(_) => FullCache::None,
            Content::Prediction(text, rest) => {
                FullCache::Predicts(Reference::new(lab, &mut session()?, text, rest)?)
            }
            Content::Agreement(text) => {
                FullCache::Answers(FullAnswer::new(lab, &mut session()?, format.tokenizer(), text)?)
            }
            Content::AttentionLoss(text, next) => {
                let tokens = [text, next.as_slice()].concat();
                let flag = lab.interrupt.flag();
                let mut attention =
                    lab.interrupt.computing(|| last_attention(engine, &tokens, &flag, &mut |_| ()))?;
                // What the token pays to itself cannot be lost.
                attention.iter_mut().flatten().for_each(|weights| weights.truncate(text.len()));
                FullCache::Attends(attention)
            }
        })
    }

    /// Records how a session differs that has read the text.
    ///
    /// # Errors
    /// As for [`FullCache::new`].
    pub fn compare(
        &self,
        lab: &Lab,
        exercise: &Exercise,
        session: &mut Session,
        record: &mut Record,
    ) -> Result<(), EngineError> {
        match (self, &exercise.content) {
            (FullCache::Predicts(reference), Content::Prediction(text, rest)) => {
                record.prediction = Some(reference.compare(lab, session, text, rest)?);
            }
            (FullCache::Answers(answer), Content::Agreement(text)) => {
                let agreement = answer.compare(lab, session, text)?;
                record.score = agreement.share;
                record.agreement = Some(agreement);
            }
            (FullCache::Attends(attention), _) => {
                record.attention_loss = Some(AttentionLoss::of_session(session, attention));
            }
            _ => record.retention = Some(retention::of_session(session)),
        }
        Ok(())
    }
}
