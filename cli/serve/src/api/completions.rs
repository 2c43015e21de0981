//! `POST /v1/completions`, OpenAI's: a text is continued, without a chat template.

use std::sync::Arc;

use axum::extract::{Request, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Answered;
use super::chat::{HARMLESS, Streaming};
use super::fields::Fields;
use super::submit::{self, Text, Wanted};
use super::whole::{Whole, finish_reason, new_id, now, timings, usage};
use crate::http::error::ApiError;
use crate::http::stream::{self, Sent, Writer};
use crate::http::{Shared, json_response};
use crate::service::Event;

/// A text, or its tokens.
#[derive(Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
    /// A list of one.
    Texts([String; 1]),
}

pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let prompt = fields.need("prompt")?;
    let streaming = Streaming::of(&mut fields)?;
    let wanted = Wanted::of(&mut fields, &["n_predict", "max_tokens"])?;
    fields.end(HARMLESS)?;
    let text = match prompt {
        Prompt::Text(text) | Prompt::Texts([text]) => submit::encode(service, text).await?,
        Prompt::Tokens(tokens) => Text::of_tokens(service, tokens)?,
    };
    if text.tokens.is_empty() {
        return Err(ApiError::field("prompt", "prompt is empty: this model begins with no text of its own"));
    }
    let prompt = text.tokens.len();
    let events = submit::submit(service, text, wanted)?;
    let head = Head { id: new_id("cmpl-"), created: now(), model: service.name().to_owned() };
    if streaming.is_wanted {
        let writer = Stream { head, streaming, prompt, cached: 0, tokens: 0 };
        return Ok(stream::response(events, writer, shared.ping()));
    }
    let whole = Whole::collect(events).await?;
    Ok(json_response(&head.whole(prompt, &whole)))
}

/// What every part of a response begins with.
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    fn object(&self, choices: Value) -> Value {
        let Head { id, created, model } = self;
        json!({"id": id, "object": "text_completion", "created": created, "model": model, "choices": choices})
    }

    fn choice(&self, index: usize, text: &str, reason: Option<&str>) -> Value {
        self.object(json!([choice(index, text, reason)]))
    }

    fn whole(&self, prompt: usize, whole: &Whole) -> Value {
        let answers = whole.answers.iter().enumerate();
        let choices =
            answers.map(|(index, answer)| choice(index, &answer.text, Some(finish_reason(&answer.result))));
        let mut response = self.object(choices.collect());
        response["usage"] = usage(prompt, whole.cached, whole.tokens());
        if let Some(first) = whole.answers.first() {
            response["timings"] = timings(whole.cached, &first.result);
        }
        response
    }
}

fn choice(index: usize, text: &str, reason: Option<&str>) -> Value {
    json!({"index": index, "text": text, "logprobs": null, "finish_reason": reason})
}

/// The chunks of a stream.
struct Stream {
    head: Head,
    streaming: Streaming,
    prompt: usize,
    cached: usize,
    /// Of all answers.
    tokens: usize,
}

impl Writer for Stream {
    fn write(&mut self, event: Event) -> Vec<Sent> {
        let values = match event {
            Event::Begun { cached } => {
                self.cached = cached;
                Vec::new()
            }
            Event::Reading { .. } => Vec::new(),
            Event::Text { answer, split, .. } => vec![self.head.choice(answer, &split.answer, None)],
            Event::Answered { answer, result } => {
                self.tokens += result.tokens;
                let mut chunk = self.head.choice(answer, "", Some(finish_reason(&result)));
                chunk["timings"] = timings(self.cached, &result);
                vec![chunk]
            }
            Event::Done => {
                let mut last = Vec::new();
                if self.streaming.usage {
                    let mut chunk = self.head.object(json!([]));
                    chunk["usage"] = usage(self.prompt, self.cached, self.tokens);
                    last.push(Sent::data(&chunk));
                }
                last.push(Sent { name: None, data: "[DONE]".to_owned() });
                return last;
            }
            Event::Failed(error) => vec![ApiError::from(error).openai()],
        };
        values.iter().map(Sent::data).collect()
    }
}
