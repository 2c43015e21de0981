//! Answers that are sent when they are complete, and what all interfaces tell of an answer.

use std::mem::take;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};
use longhand::generation::TokenLogProbs;
use longhand::tools::ToolCall;
use lookup::absent::Absent;
use serde_json::{Value, json};

use crate::http::error::ApiError;
use crate::http::stream::Events;
use crate::service::{Answer, AnswerSources, Event};

/// All answers to a request.
#[derive(Default)]
pub(super) struct Whole {
    /// Tokens of the text that were not read again.
    pub cached: usize,
    /// Log-probabilities of the text's tokens, without the first, if they were asked for.
    pub scores: Vec<TokenLogProbs>,
    pub answers: Vec<WholeAnswer>,
}

/// One of them.
pub(super) struct WholeAnswer {
    pub thinking: String,
    pub text: String,
    /// The functions that it calls.
    pub calls: Vec<ToolCall>,
    /// Of its tokens, if they were asked for.
    pub logprobs: Vec<TokenLogProbs>,
    pub result: Answer,
}

impl Whole {
    /// Waits for all answers.
    ///
    /// # Errors
    /// The request's own, or the server goes down.
    pub(super) async fn collect(mut events: Events) -> Result<Whole, ApiError> {
        let mut whole = Whole::default();
        let (mut thinking, mut text) = (String::new(), String::new());
        let (mut calls, mut all) = (Vec::new(), Vec::new());
        while let Some(event) = events.next().await {
            match event {
                Event::Begun { cached } => whole.cached = cached,
                Event::Reading { .. } => {}
                Event::Scored(scores) => whole.scores = scores,
                Event::Text { split, logprobs, .. } => {
                    thinking += &split.thinking;
                    text += &split.answer;
                    all.extend(logprobs);
                }
                Event::Call { call, .. } => calls.push(call),
                Event::Answered { result, .. } => {
                    whole.answers.push(WholeAnswer {
                        thinking: take(&mut thinking),
                        text: take(&mut text),
                        calls: take(&mut calls),
                        logprobs: take(&mut all),
                        result,
                    });
                }
                Event::Done => return Ok(whole),
                Event::Failed(error) => return Err(error.into()),
            }
        }
        Err(ApiError::lost())
    }

    /// Tokens of all answers.
    pub(super) fn tokens(&self) -> usize {
        self.answers.iter().map(|answer| answer.result.tokens).sum()
    }
}

/// Fields that say where an answer comes from, if that was asked for. `not_in_documents` is of its text, in bytes.
pub(super) fn sources(answer: &Answer) -> Value {
    let Some(AnswerSources { found, missing, absent }) = &answer.sources else { return json!({}) };
    let absent = absent.as_ref().map(|absent| {
        let part = |(Absent { kind, range }, text): &(Absent, String)| {
            json!({"text": text, "kind": kind.name(), "start": range.start, "end": range.end})
        };
        absent.iter().map(part).collect::<Value>()
    });
    let mut fields = json!({"sources": found, "not_in_documents": absent});
    if let Some(why) = missing {
        fields["no_sources"] = why.as_str().into();
    }
    fields
}

/// What a function is called with, as an object.
pub(super) fn arguments(call: &ToolCall) -> Value {
    serde_json::from_str(call.arguments()).unwrap_or_default()
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// A date as JSON has it.
pub(super) fn date(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// A name for a response that no other one has.
pub(super) fn new_id(kind: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{kind}{:016x}{number:08x}", crate::random())
}

/// An object with the fields of another one.
pub(super) fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}
