//! `POST /v1/chat/completions`, OpenAI's, with what llama.cpp's server adds: `return_progress`, `timings`, `top_k` and the like,
//! and `reasoning_content`.

use std::sync::Arc;

use axum::extract::{Request, State};
use longhand::{LogProb, TokenLogProbs};
use serde_json::{Map, Value, json};

use super::fields::{self, Fields};
use super::submit::{self, Wanted};
use super::whole::{Whole, finish_reason, new_id, now, timings, usage};
use super::{Answered, documents};
use crate::http::error::ApiError;
use crate::http::stream::{self, Sent, Writer};
use crate::http::{Shared, json_response};
use crate::service::{Event, Service};

/// Fields that cannot change an answer.
pub(super) const HARMLESS: &[&str] = &[
    "cache_prompt",
    "id_slot",
    "metadata",
    "model",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "timings_per_token",
    "user",
];

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
        let usage = match fields.take::<Map<String, Value>>("stream_options")? {
            None => false,
            Some(options) => {
                let mut options = Fields::part(Value::Object(options), "stream_options".to_owned())?;
                let usage = options.take("include_usage")?.unwrap_or(false);
                options.end(&["include_obfuscation"])?;
                usage
            }
        };
        Ok(Streaming { is_wanted, usage, progress })
    }
}

pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let messages = fields::messages(fields.need("messages")?)?;
    let streaming = Streaming::of(&mut fields)?;
    let mut wanted = Wanted::of(&mut fields, &["max_tokens", "max_completion_tokens"])?;
    wanted.options.logprobs = logprobs(&mut fields)?;
    let documents = documents::of_request(service, &mut fields)?;
    let thinks = thinking(&mut fields)?;
    refuse_tools(&mut fields)?;
    let shape: Option<Value> = fields.take("response_format")?;
    fields.end(HARMLESS)?;
    if let Some(shape) = shape {
        wanted.options.constraint = submit::shape(service, shape, "response_format").await?;
    }
    let text = submit::render(service, &documents, thinks, messages).await?;
    let (prompt, answers) = (text.tokens.len(), wanted.answers);
    let events = submit::submit(service, text, wanted)?;
    let head = Head { id: new_id("chatcmpl-"), created: now(), service: service.clone() };
    if streaming.is_wanted {
        let writer = Stream { head, streaming, prompt, answers, cached: 0, tokens: 0 };
        return Ok(stream::response(events, writer, shared.ping()));
    }
    let whole = Whole::collect(events).await?;
    Ok(json_response(&head.whole(prompt, &whole)))
}

/// Whether the model is to think, where the request says so.
fn thinking(fields: &mut Fields) -> Result<Option<bool>, ApiError> {
    let mut thinks = None;
    if let Some(arguments) = fields.take::<Map<String, Value>>("chat_template_kwargs")? {
        let mut arguments = Fields::part(Value::Object(arguments), "chat_template_kwargs".to_owned())?;
        thinks = arguments.take("enable_thinking")?;
        arguments.end(&[])?;
    }
    Ok(thinks.or(thinks_with(fields.take::<String>("reasoning_effort")?.as_deref())))
}

/// Whether the model thinks with so much effort. How much is its own choice: its chat template is not told.
pub(super) fn thinks_with(effort: Option<&str>) -> Option<bool> {
    (effort == Some("none")).then_some(false)
}

/// Tools are not there yet. What asks for none of them is fine.
fn refuse_tools(fields: &mut Fields) -> Result<(), ApiError> {
    if let Some(choice) = fields.take::<Value>("tool_choice")?
        && choice != "none"
        && choice != "auto"
    {
        return Err(ApiError::field("tool_choice", "tool_choice: tools are not supported"));
    }
    fields.take::<bool>("parallel_tool_calls").map(|_| ())
}

/// How many of the most likely tokens are told beside each token of an answer, if anything is.
fn logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    /// OpenAI's limit.
    const MOST: usize = 20;
    let is_wanted = fields.take("logprobs")?.unwrap_or(false);
    let top = fields.take("top_logprobs")?.unwrap_or(0);
    match top {
        0..=MOST => Ok(is_wanted.then_some(top)),
        _ => {
            Err(ApiError::field("top_logprobs", format!("top_logprobs is {top}, but must be at most {MOST}")))
        }
    }
}

/// What every part of a response begins with.
struct Head {
    id: String,
    created: u64,
    service: Arc<Service>,
}

impl Head {
    fn object(&self, kind: &str, choices: Value) -> Value {
        let Head { id, created, service } = self;
        json!({"id": id, "object": kind, "created": created, "model": service.name(), "choices": choices})
    }

    /// Tokens and how likely the model found them; `null` where there are none.
    fn logprobs(&self, tokens: &[TokenLogProbs]) -> Value {
        let tokenizer = self.service.format().tokenizer();
        let entry = |one: &LogProb| {
            // Control tokens have no bytes, but a name.
            let name = || tokenizer.token_text(one.token).unwrap_or_default().as_bytes();
            let bytes =
                tokenizer.token_bytes(one.token).filter(|bytes| !bytes.is_empty()).unwrap_or_else(name);
            json!({"token": String::from_utf8_lossy(bytes), "logprob": one.logprob, "bytes": bytes})
        };
        let content = tokens.iter().map(|one| {
            let mut token = entry(&one.token);
            token["top_logprobs"] = one.top.iter().map(entry).collect();
            token
        });
        if tokens.is_empty() { Value::Null } else { json!({"content": content.collect::<Value>()}) }
    }

    fn whole(&self, prompt: usize, whole: &Whole) -> Value {
        let choices = whole.answers.iter().enumerate().map(|(index, answer)| {
            let mut message = json!({"role": "assistant", "content": answer.text});
            if !answer.thinking.is_empty() {
                message["reasoning_content"] = answer.thinking.as_str().into();
            }
            let reason = finish_reason(&answer.result);
            let logprobs = self.logprobs(&answer.logprobs);
            json!({"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason})
        });
        let mut response = self.object("chat.completion", choices.collect());
        response["usage"] = usage(prompt, whole.cached, whole.tokens());
        if let Some(first) = whole.answers.first() {
            response["timings"] = timings(whole.cached, &first.result);
        }
        response
    }
}

/// The chunks of a stream.
struct Stream {
    head: Head,
    streaming: Streaming,
    prompt: usize,
    answers: usize,
    cached: usize,
    /// Of all answers.
    tokens: usize,
}

impl Stream {
    fn chunk(&self, index: usize, delta: Value, reason: Option<&str>) -> Value {
        let choices = json!([{"index": index, "delta": delta, "logprobs": null, "finish_reason": reason}]);
        self.head.object("chat.completion.chunk", choices)
    }
}

impl Writer for Stream {
    fn write(&mut self, event: Event) -> Vec<Sent> {
        let values = match event {
            Event::Begun { cached } => {
                self.cached = cached;
                let role = || json!({"role": "assistant", "content": ""});
                (0..self.answers).map(|index| self.chunk(index, role(), None)).collect()
            }
            Event::Reading { processed, elapsed } if self.streaming.progress => {
                let mut chunk = self.head.object("chat.completion.chunk", json!([]));
                chunk["prompt_progress"] = json!({
                    "total": self.prompt,
                    "cache": self.cached,
                    "processed": processed,
                    "time_ms": elapsed.as_millis() as u64,
                });
                vec![chunk]
            }
            Event::Reading { .. } => Vec::new(),
            Event::Text { answer, split, logprobs } => {
                let mut delta = Map::new();
                let parts = [("reasoning_content", split.thinking), ("content", split.answer)];
                let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
                delta.extend(parts.map(|(name, text)| (name.to_owned(), text.into())));
                let mut chunk = self.chunk(answer, Value::Object(delta), None);
                chunk["choices"][0]["logprobs"] = self.head.logprobs(logprobs.as_slice());
                vec![chunk]
            }
            Event::Answered { answer, result } => {
                self.tokens += result.tokens;
                let mut chunk = self.chunk(answer, json!({}), Some(finish_reason(&result)));
                chunk["timings"] = timings(self.cached, &result);
                vec![chunk]
            }
            Event::Done => {
                let mut last = Vec::new();
                if self.streaming.usage {
                    let mut chunk = self.head.object("chat.completion.chunk", json!([]));
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
