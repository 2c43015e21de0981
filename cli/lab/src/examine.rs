//! Reads a text into several sessions at once, and asks each of them questions about it. Every question is asked from
//! the state of the cache after the text.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use longhand::generation::{Sampler, SamplerOptions, Stop, generate};
use longhand::heads::HeadProfile;
use longhand::policy::PolicyChoice;
use longhand::reading::{Prefill, sync_all};
use longhand::setup::{HeadSource, Profiles, plan_session};
use longhand::store::KvUsage;
use longhand::{ChatFormat, Engine, EngineError, Progress, Session, SessionOptions, SetupOptions};
use terminal::failure::Failure;
use terminal::format;

use crate::Lab;

/// A text and its questions, as tokens.
pub struct Text {
    /// The prompt up to the end of the text.
    pub document: Vec<u32>,
    /// What follows the text in the prompt of each question, up to where the answer is generated.
    pub questions: Vec<Vec<u32>>,
    /// Most tokens of an answer.
    pub answer_limit: usize,
}

impl Text {
    /// Tokens of a session that answers any of the questions.
    pub fn context(&self) -> usize {
        let question = self.questions.iter().map(Vec::len).max().unwrap_or(0);
        self.document.len() + question + self.answer_limit
    }
}

/// An answer, and the session that has just given it.
pub struct Answer<'a> {
    /// The index of the session.
    pub session: usize,
    /// The index of the question.
    pub question: usize,
    /// The session's KV cache after the text.
    pub usage: KvUsage,
    /// The session as the answer has left it.
    pub state: &'a mut Session,
    /// Tokens before the answer.
    pub prompt: usize,
    /// The answer.
    pub text: &'a str,
}

/// Reads a text once into all sessions, and asks each of them all questions. `progress` receives the share that is
/// done, from 0 to 1.
///
/// # Errors
/// Where `on_answer` fails, the computation does, or Ctrl-C was pressed.
pub fn examine(
    lab: &Lab,
    format: &ChatFormat,
    sessions: &mut [Session],
    text: &Text,
    progress: &mut dyn FnMut(f64),
    on_answer: &mut dyn FnMut(Answer) -> Result<()>,
) -> Result<()> {
    let stops: Vec<String> = format.template().stop_strings().iter().map(|stop| (*stop).to_owned()).collect();
    let mut sampler = Sampler::new(SamplerOptions::greedy())?;
    read(lab, sessions, &text.document, &mut |share| progress(share / 2.0))?;
    let all = sessions.len() * text.questions.len();
    let mut asked = 0;
    for (index, session) in sessions.iter_mut().enumerate() {
        let usage = session.kv_usage();
        for (number, question) in text.questions.iter().enumerate() {
            let prompt = [text.document.as_slice(), question].concat();
            let on_text = &mut |_: &str| ControlFlow::Continue(());
            let answer = lab.interrupt.computing(|| {
                // Return to the end of the text first. Syncing from one question directly to the next would return to
                // where the two differ, and move the session's undo point there. A later question may differ earlier.
                session.sync(&text.document, &mut |_| ())?;
                session.sync(&prompt, &mut |_| ())?;
                generate(session, format.tokenizer(), &mut sampler, &stops, text.answer_limit, on_text)
            })?;
            if answer.stop == Stop::Interrupted {
                return Err(Failure::interrupted().into());
            }
            let (prompt, text) = (prompt.len(), answer.text.as_str());
            on_answer(Answer { session: index, question: number, usage, state: session, prompt, text })?;
            asked += 1;
            progress(0.5 + format::share(asked, all) / 2.0);
        }
    }
    Ok(())
}

/// Reads a text into the sessions of one of the [`groups`]. `progress` receives the share that is done, from 0 to 1.
///
/// # Errors
/// Where the computation fails, or Ctrl-C was pressed.
pub fn read(
    lab: &Lab,
    sessions: &mut [Session],
    tokens: &[u32],
    progress: &mut dyn FnMut(f64),
) -> Result<(), EngineError> {
    let progress = &mut |reading: Progress| progress(reading.share);
    lab.interrupt.computing(|| match sessions {
        [session] if session.options().prefill == Prefill::Streaming => {
            session.sync(tokens, progress).map(|_| ())
        }
        _ => sync_all(sessions, tokens, progress),
    })
}

/// The head profile of a policy: the one in the file `heads`, else the model's saved one, else a new calibration.
/// `None` for a policy that uses none.
///
/// # Errors
/// Where the file is of no use, or the calibration fails or was stopped.
pub fn find_profile(
    lab: &Lab,
    engine: &Arc<Engine>,
    options: &SetupOptions,
    heads: Option<&Path>,
    policy: &PolicyChoice,
) -> Result<Option<HeadProfile>, EngineError> {
    let heads = match heads.filter(|_| policy.uses_profile()) {
        Some(path) => HeadSource::File(path.to_owned()),
        None => HeadSource::Auto,
    };
    let options = SetupOptions { heads, ..options.clone() };
    let profiles = Profiles::new(engine.model(), &options);
    lab.interrupt.computing(|| profiles.find_or_calibrate(engine, policy, &mut lab.reporter()))
}

/// Divides items with the options of their sessions into few groups that can read a text together: they have the same
/// cache types, arithmetic and prefill, and their sessions fit `available` bytes. An item that does not fit alone is a group of its own, and so is
/// one with streaming prefill: what it computes depends on the rows that it keeps.
/// `prompt`: tokens that are read at once.
///
/// # Errors
/// Where a session cannot be planned.
pub fn groups<T>(
    engine: &Arc<Engine>,
    items: impl IntoIterator<Item = (T, SessionOptions)>,
    prompt: usize,
    available: usize,
) -> Result<Vec<Vec<(T, SessionOptions)>>> {
    let mut groups: Vec<(usize, Vec<(T, SessionOptions)>)> = Vec::new();
    for (item, options) in items {
        let needed = bytes_beside_weights(engine, &options, prompt)?;
        let fits = |(free, group): &&mut (usize, Vec<(T, SessionOptions)>)| {
            let is_alike = |first: &SessionOptions| {
                first.types == options.types
                    && first.prefill == options.prefill
                    && first.int8 == options.int8
                    && first.prefill.is_by_layer()
            };
            needed <= *free && group.first().is_some_and(|(_, first)| is_alike(first))
        };
        match groups.iter_mut().find(fits) {
            Some((free, group)) => {
                *free -= needed;
                group.push((item, options));
            }
            None => groups.push((available.saturating_sub(needed), vec![(item, options)])),
        }
    }
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

/// Bytes of host memory that a session needs besides the weights.
///
/// # Errors
/// Where the session cannot be planned.
pub fn bytes_beside_weights(engine: &Engine, options: &SessionOptions, prompt: usize) -> Result<usize> {
    let (_, plan) = plan_session(engine, options.clone(), None, prompt)?;
    Ok(plan.total() - plan.weights.on_host())
}

#[cfg(test)]
mod tests {
    use longhand::{EngineOptions, ModelSource, Type};

    use super::*;

    #[test]
    fn groups_fit_the_memory_and_have_one_type() {
        let engine = Engine::open(&ModelSource::Embedded, &EngineOptions::default()).expect("embedded model");
        let options = |name: &str, ty| SessionOptions {
            policy: name.parse().expect("a policy"),
            types: (ty, ty),
            ..SessionOptions::default()
        };
        let items = [("full", Type::F16), ("streaming", Type::F16), ("h2o", Type::F16), ("full", Type::F16)]
            .map(|(name, ty)| (name, options(name, ty)));
        let needed = |index: usize| bytes_beside_weights(&engine, &items[index].1, 4000).expect("a plan");
        let three = needed(0) + needed(1) + needed(2);
        let sizes = |items: Vec<(&str, SessionOptions)>, available| {
            let groups = groups(&engine, items, 4000, available).expect("plans");
            groups.iter().map(Vec::len).collect::<Vec<_>>()
        };
        for (available, expected) in
            [(usize::MAX, vec![4]), (three, vec![3, 1]), (three - 1, vec![2, 2]), (0, vec![1; 4])]
        {
            assert_eq!(sizes(items.to_vec(), available), expected, "{available}");
        }
        let mixed = [Type::F16, Type::Q8_0, Type::F16].map(|ty| ("full", options("full", ty)));
        assert_eq!(sizes(mixed.to_vec(), usize::MAX), [2, 1]);
        let streaming = (["h2o", "streaming"])
            .map(|name| (name, SessionOptions { prefill: Prefill::Streaming, ..options(name, Type::F16) }));
        let all = [&streaming[..], &items, &streaming].concat();
        assert_eq!(sizes(all, usize::MAX), [1, 1, 4, 1, 1]);
    }
}
