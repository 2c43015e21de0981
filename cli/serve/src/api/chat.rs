//! `POST /v1/chat/completions`, OpenAI's, with what llama.cpp's server adds: `return_progress`, `timings`, `top_k` and the like,
//! and `reasoning_content`.

use std::sync::Arc;

use axum::extract::{Request, State};
use longhand::generation::{LogProb, TokenLogProbs};
use longhand::text::Split;
use longhand::tools::ToolCall;
use serde_json::{Map, Value, json};

use super::fields::{self, Fields};
use super::openai::{self, Form, HARMLESS, HARMLESS_HERE, Streaming};
use super::submit::{self, Conversation};
use super::whole::WholeAnswer;
use super::{Answered, documents, tools};
use crate::http::Shared;
use crate::http::error::ApiError;
use crate::service::{Service, Wanted};

pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let messages = fields::messages(fields.need("messages")?)?;
    let tools = tools::of_chat(&mut fields)?;
    let streaming = Streaming::of(&mut fields)?;
    let mut wanted =
        Wanted::of(&mut fields)?.with_openais(&mut fields, &["max_tokens", "max_completion_tokens"])?;
    wanted.options.logprobs = logprobs(&mut fields)?;
    let documents = documents::of_request(service, &mut fields).await?;
    let sources = documents::sources(service, &mut fields)?;
    let thinks = thinking(&mut fields)?;
    let shape: Option<Value> = fields.take("response_format")?;
    fields.end(&[&HARMLESS[..], &HARMLESS_HERE].concat())?;
    wanted.options.constraint = submit::shape(service, shape, "response_format").await?;
    let text = submit::render(service, Conversation { messages, documents, thinks, tools, sources }).await?;
    openai::respond(&shared, service, Chat(service.clone()), text, wanted, streaming).await
}

/// Whether the model is to think, where the request says so.
fn thinking(fields: &mut Fields) -> Result<Option<bool>, ApiError> {
    let mut thinks = None;
    if let Some(mut arguments) = fields.nested("chat_template_kwargs")? {
        thinks = arguments.take("enable_thinking")?;
        arguments.end(&[])?;
    }
    Ok(thinks.or(thinks_with(fields, "reasoning_effort")?))
}

/// Whether the model thinks with the effort of this field. How much is its own choice: its chat template is not told.
pub(super) fn thinks_with(fields: &mut Fields, name: &str) -> Result<Option<bool>, ApiError> {
    let place = fields.place_of(name);
    match fields.take::<String>(name)?.as_deref() {
        None | Some("minimal" | "low" | "medium" | "high" | "xhigh" | "max") => Ok(None),
        Some("none") => Ok(Some(false)),
        Some(effort) => Err(ApiError::field(place.clone(), format!("{place}: {effort:?} is no effort"))),
    }
}

/// How many of the most likely tokens are told beside each token of an answer, if anything is.
fn logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    /// OpenAI's limit.
    const MOST: i64 = 20;
    let is_wanted = fields.take("logprobs")?.unwrap_or(false);
    let top = openai::top_logprobs(fields, "top_logprobs", MOST)?.unwrap_or(0);
    Ok(is_wanted.then_some(top))
}

/// Messages of the assistant.
struct Chat(Arc<Service>);

impl Chat {
    /// Tokens and how likely the model found them; `null` where there are none.
    fn logprobs(&self, tokens: &[TokenLogProbs]) -> Value {
        let tokenizer = self.0.format().tokenizer();
        let entry = |one: &LogProb| {
            let bytes = tokenizer.written_bytes(one.token).unwrap_or_default();
            json!({"token": String::from_utf8_lossy(bytes), "logprob": one.logprob, "bytes": bytes})
        };
        let content = tokens.iter().map(|one| {
            let mut token = entry(&one.token);
            token["top_logprobs"] = one.top.iter().map(entry).collect();
            token
        });
        if tokens.is_empty() { Value::Null } else { json!({"content": content.collect::<Value>()}) }
    }
}

impl Form for Chat {
    const OBJECTS: (&str, &str) = ("chat.completion", "chat.completion.chunk");
    const ID: &str = "chatcmpl-";

    fn whole(&self, answer: &WholeAnswer, _: &[TokenLogProbs]) -> Value {
        json!({"message": message(answer), "logprobs": self.logprobs(&answer.logprobs)})
    }

    fn piece(&self, split: Split, logprobs: Option<&TokenLogProbs>) -> Value {
        let parts = [("reasoning_content", split.thinking), ("content", split.answer)];
        let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
        let delta: Map<String, Value> = parts.map(|(name, text)| (name.to_owned(), text.into())).collect();
        json!({"delta": delta, "logprobs": self.logprobs(logprobs.map_or(&[], std::slice::from_ref))})
    }

    fn call(&self, number: usize, call: &ToolCall) -> Option<Value> {
        Some(json!({"delta": call_delta(number, call), "logprobs": null}))
    }

    fn begin(&self) -> Option<Value> {
        Some(json!({"delta": {"role": "assistant", "content": ""}, "logprobs": null}))
    }
}

/// A whole answer as a message.
pub(super) fn message(answer: &WholeAnswer) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text});
    if !answer.thinking.is_empty() {
        message["reasoning_content"] = answer.thinking.as_str().into();
    }
    if !answer.calls.is_empty() {
        message["tool_calls"] = answer.calls.iter().map(call).collect();
        if answer.text.is_empty() {
            message["content"] = Value::Null;
        }
    }
    message
}

/// What a call adds to a message.
pub(super) fn call_delta(number: usize, made: &ToolCall) -> Value {
    let mut call = call(made);
    call["index"] = number.into();
    json!({"tool_calls": [call]})
}

fn call(call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments()});
    json!({"id": call.id, "type": "function", "function": function})
}
