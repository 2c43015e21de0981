//! What OpenAI's two older interfaces share: `chat` and `completions` differ in what is asked and in what a choice looks like.

use std::sync::Arc;

use longhand::generation::TokenLogProbs;
use longhand::text::Split;
use longhand::tools::ToolCall;
use serde_json::{Value, json};

use super::fields::Fields;
use super::whole::{Whole, WholeAnswer, new_id, now, sources, with};
use super::{Answered, submit};
use crate::http::error::ApiError;
use crate::http::stream::{self, Sent, Writer};
use crate::http::{Shared, json_response};
use crate::service::{Answer, Event, Service, Text, Wanted};

/// Fields of OpenAI's interfaces that cannot change an answer. `store` asks to keep it, which is not done.
pub(super) const HARMLESS: [&str; 7] = [
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
];
/// The same of llama.cpp's server.
pub(super) const HARMLESS_HERE: [&str; 3] = ["cache_prompt", "id_slot", "timings_per_token"];

/// How a stream is to be.
pub(super) struct Streaming {
    pub is_wanted: bool,
    pub usage: bool,
    pub progress: bool,
}

impl Streaming {
    pub(super) fn of(fields: &mut Fields) -> Result<Streaming, ApiError> {
        let is_wanted = fields.take("stream")?.unwrap_or(false);
        let progress = fields.take("return_progress")?.unwrap_or(false);
        let mut usage = false;
        if let Some(mut options) = fields.nested("stream_options")? {
            usage = options.take("include_usage")?.unwrap_or(false);
            options.end(&["include_obfuscation"])?;
        }
        Ok(Streaming { is_wanted, usage, progress })
    }
}

/// What the choices of an interface look like, without their numbers and why they ended.
pub(super) trait Form: Send + 'static {
    /// What a response is called, and a part of one in a stream.
    const OBJECTS: (&str, &str);
    /// What its name begins with.
    const ID: &str;

    /// A whole answer. The tokens of the text have these log-probabilities, if they were asked for.
    fn whole(&self, answer: &WholeAnswer, scores: &[TokenLogProbs]) -> Value;

    /// What a token adds to an answer.
    fn piece(&self, split: Split, logprobs: Option<&TokenLogProbs>) -> Value;

    /// A call of a function, by its number in the answer.
    fn call(&self, _number: usize, _call: &ToolCall) -> Option<Value> {
        None
    }

    /// What a stream says before an answer, if anything.
    fn begin(&self) -> Option<Value> {
        None
    }

    /// What it says of the text's tokens, if that was asked for.
    fn scored(&self, _scores: &[TokenLogProbs]) -> Option<Value> {
        None
    }

    /// What it says at the end of an answer. The token that ended it may have log-probabilities.
    fn end(&self, _token: Option<&TokenLogProbs>) -> Value {
        self.piece(Split::default(), None)
    }
}

/// How many of the most likely tokens are told beside each token, by the field of this name.
pub(super) fn top_logprobs(fields: &mut Fields, name: &str, most: i64) -> Result<Option<usize>, ApiError> {
    match fields.integer(name)? {
        None => Ok(None),
        Some(top) if (0..=most).contains(&top) => Ok(Some(top as usize)),
        Some(top) => Err(ApiError::field(name, format!("{name} is {top}, but must be from 0 to {most}"))),
    }
}

/// Has a text answered, whole or as a stream.
pub(super) async fn respond<F: Form>(
    shared: &Shared,
    service: &Arc<Service>,
    form: F,
    text: Text,
    wanted: Wanted,
    streaming: Streaming,
) -> Answered {
    let response = Response {
        id: new_id(F::ID),
        created: now(),
        model: service.name().to_owned(),
        prompt: text.tokens.len(),
        answers: wanted.answers,
        form,
        streaming,
        cached: 0,
        calls: 0,
        tokens: 0,
        thinking: 0,
    };
    let events = submit::submit(service, text, wanted)?;
    if response.streaming.is_wanted {
        return Ok(stream::response(events, response, shared.ping()));
    }
    let whole = Whole::collect(events).await?;
    Ok(json_response(&response.whole(&whole)))
}

/// A response, and how far its stream is.
struct Response<F> {
    form: F,
    id: String,
    created: u64,
    model: String,
    streaming: Streaming,
    prompt: usize,
    answers: usize,
    cached: usize,
    /// Of the answer that is being sent.
    calls: usize,
    /// Of all answers.
    tokens: usize,
    /// Of these, what the model has thought with.
    thinking: usize,
}

impl<F: Form> Response<F> {
    fn object(&self, kind: &str, choices: Value) -> Value {
        let Response { id, created, model, .. } = self;
        json!({"id": id, "object": kind, "created": created, "model": model, "choices": choices})
    }

    fn whole(&self, whole: &Whole) -> Value {
        let choices = whole.answers.iter().enumerate();
        let choices = choices.map(|(index, answer)| {
            let content = with(self.form.whole(answer, &whole.scores), sources(&answer.result));
            choice(content, index, Some(finish_reason(&answer.result)))
        });
        let mut response = self.object(F::OBJECTS.0, choices.collect());
        let thinking = whole.answers.iter().map(|answer| answer.result.thinking).sum();
        response["usage"] = usage(self.prompt, whole.cached, whole.tokens(), thinking);
        if let Some(first) = whole.answers.first() {
            response["timings"] = timings(whole.cached, &first.result);
        }
        response
    }

    fn chunk(&self, index: usize, content: Value, reason: Option<&str>) -> Value {
        self.object(F::OBJECTS.1, json!([choice(content, index, reason)]))
    }

    /// A part of a stream that belongs to no answer.
    fn aside(&self, name: &str, value: Value) -> Value {
        let mut chunk = self.object(F::OBJECTS.1, json!([]));
        chunk[name] = value;
        chunk
    }
}

fn choice(mut content: Value, index: usize, reason: Option<&str>) -> Value {
    content["index"] = index.into();
    content["finish_reason"] = reason.into();
    content
}

impl<F: Form> Writer for Response<F> {
    fn write(&mut self, event: Event) -> Vec<Sent> {
        let values = match event {
            Event::Begun { cached } => {
                self.cached = cached;
                let begin = |index| Some(self.chunk(index, self.form.begin()?, None));
                (0..self.answers).filter_map(begin).collect()
            }
            Event::Reading { processed, elapsed } if self.streaming.progress => {
                let progress = json!({
                    "total": self.prompt,
                    "cache": self.cached,
                    "processed": processed,
                    "time_ms": elapsed.as_millis() as u64,
                });
                vec![self.aside("prompt_progress", progress)]
            }
            Event::Reading { .. } => Vec::new(),
            Event::Scored(scores) => {
                let scored = |index| Some(self.chunk(index, self.form.scored(&scores)?, None));
                (0..self.answers).filter_map(scored).collect()
            }
            Event::Text { answer, split, logprobs } => {
                vec![self.chunk(answer, self.form.piece(split, logprobs.as_ref()), None)]
            }
            Event::Call { answer, call } => {
                self.calls += 1;
                let content = self.form.call(self.calls - 1, &call);
                content.map(|content| self.chunk(answer, content, None)).into_iter().collect()
            }
            Event::Answered { answer, result } => {
                self.calls = 0;
                self.tokens += result.tokens;
                self.thinking += result.thinking;
                let end = with(self.form.end(result.end.as_ref()), sources(&result));
                let mut chunk = self.chunk(answer, end, Some(finish_reason(&result)));
                chunk["timings"] = timings(self.cached, &result);
                vec![chunk]
            }
            Event::Done => {
                let usage =
                    || self.aside("usage", usage(self.prompt, self.cached, self.tokens, self.thinking));
                let usage = self.streaming.usage.then(usage);
                return usage.iter().map(Sent::data).chain([Sent::end()]).collect();
            }
            Event::Failed(error) => return self.failed(error.into()),
        };
        values.iter().map(Sent::data).collect()
    }

    fn failed(&mut self, error: ApiError) -> Vec<Sent> {
        vec![Sent::data(&error.openai())]
    }
}

/// What OpenAI's interfaces say of the tokens.
fn usage(prompt: usize, cached: usize, answer: usize, thinking: usize) -> Value {
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thinking},
    })
}

/// Why an answer ended, in OpenAI's words.
fn finish_reason(answer: &Answer) -> &'static str {
    match answer.is_whole() {
        true if answer.calls > 0 => "tool_calls",
        true => "stop",
        false => "length",
    }
}

/// How fast it was, in the words of llama.cpp's server.
fn timings(cached: usize, answer: &Answer) -> Value {
    let per_second = |tokens: usize, seconds: f64| if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
    let (reading, writing) = (answer.reading.as_secs_f64(), answer.elapsed.as_secs_f64());
    json!({
        "cache_n": cached,
        "prompt_n": answer.read,
        "prompt_ms": reading * 1e3,
        "prompt_per_second": per_second(answer.read, reading),
        "predicted_n": answer.tokens,
        "predicted_ms": writing * 1e3,
        "predicted_per_second": per_second(answer.tokens, writing),
    })
}
