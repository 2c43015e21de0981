//! `POST /v1/messages` and `/v1/messages/count_tokens`, Anthropic's.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use longhand::Message;
use longhand::generation::{GenerateOptions, Stop};
use longhand::tools::ToolCall;
use serde_json::{Map, Value, json};

use super::fields::{self, Fields};
use super::submit::{self, Conversation};
use super::whole::{Whole, arguments, new_id, sources, with};
use super::{Answered, documents, tools};
use crate::http::error::ApiError;
use crate::http::stream::{self, Sent, Writer};
use crate::http::{Shared, json_response};
use crate::service::{Answer, Documents, Event, Wanted};

/// Fields that cannot change an answer.
const HARMLESS: &[&str] = &["anthropic_version", "cache_control", "metadata", "model", "service_tier"];

pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    in_form(try_answer(&shared, request).await)
}

pub(super) async fn count(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    in_form(try_count(&shared, request).await)
}

fn in_form(answered: Answered) -> Response<Body> {
    answered.unwrap_or_else(|error| error.response_to("/v1/messages"))
}

async fn try_answer(shared: &Shared, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let limit = fields.integer("max_tokens")?;
    let limit = limit.ok_or_else(|| ApiError::field("max_tokens", "max_tokens is missing"))?;
    let stops = submit::stops(&mut fields, "stop_sequences")?;
    let wanted = Wanted::of(&mut fields)?;
    let documents = documents::of_request(service, &mut fields).await?;
    let sources = documents::sources(service, &mut fields)?;
    let conversation = Conversation { sources, ..conversation(documents, &mut fields)? };
    let shape = shape(&mut fields)?;
    refuse_edits(&mut fields)?;
    fields.end(HARMLESS)?;
    let constraint = submit::shape(service, shape, "output_config.format").await?;
    let limit = usize::try_from(limit).unwrap_or(0);
    let options = GenerateOptions { stops: stops.clone(), limit, constraint, ..wanted.options };
    let text = submit::render(service, conversation).await?;
    let head =
        Head { id: new_id("msg_"), model: service.name().to_owned(), prompt: text.tokens.len(), stops };
    let events = submit::submit(service, text, Wanted { options, ..wanted })?;
    if is_stream {
        let writer = Stream::new(head);
        return Ok(stream::response(events, writer, shared.ping()));
    }
    let whole = Whole::collect(events).await?;
    Ok(json_response(&head.whole(&whole)))
}

async fn try_count(shared: &Shared, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let documents = documents::of_request(service, &mut fields).await?;
    let conversation = conversation(documents, &mut fields)?;
    shape(&mut fields)?;
    refuse_edits(&mut fields)?;
    // Clients send what they would send for an answer.
    fields.end(
        &[HARMLESS, &["max_tokens", "sources", "stop_sequences", "stream", "temperature", "top_k", "top_p"]]
            .concat(),
    )?;
    let text = submit::render(service, conversation).await?;
    Ok(json_response(&json!({"input_tokens": text.tokens.len()})))
}

/// System message, messages and functions, and whether the model is to think. How many tokens it may think with is not told
/// to it.
fn conversation(documents: Arc<Documents>, fields: &mut Fields) -> Result<Conversation, ApiError> {
    let mut messages = Vec::new();
    if let Some(system) = fields.take::<Value>("system")? {
        messages.push(Message::system(fields::text(system, "system")?));
    }
    let values: Vec<Value> = fields.need("messages")?;
    if values.is_empty() {
        return Err(ApiError::field("messages", "messages is empty: send one at least"));
    }
    for (number, value) in values.into_iter().enumerate() {
        add_message(&mut messages, value, format!("messages[{number}]"))?;
    }
    let thinks = match fields.take::<Map<String, Value>>("thinking")? {
        None => None,
        Some(thinking) => match thinking.get("type").and_then(Value::as_str) {
            Some("enabled") => Some(true),
            Some("disabled") => Some(false),
            Some("adaptive") => None,
            _ => {
                return Err(ApiError::field(
                    "thinking.type",
                    "thinking.type must be enabled, disabled or adaptive",
                ));
            }
        },
    };
    let tools = tools::of_messages(fields)?;
    Ok(Conversation { messages, documents, thinks, tools, sources: false })
}

/// The shape that the answer is to have, where `output_config` says so. Its effort is not told to the model.
fn shape(fields: &mut Fields) -> Result<Option<Value>, ApiError> {
    let Some(mut config) = fields.nested("output_config")? else { return Ok(None) };
    match config.take::<String>("effort")?.as_deref() {
        None | Some("low" | "medium" | "high" | "xhigh" | "max") => {}
        Some(other) => {
            return Err(config.unsupported("effort", other, "efforts are low, medium, high, xhigh and max"));
        }
    }
    let shape = config.take("format")?;
    config.end(&[])?;
    Ok(shape)
}

/// What is to be left out of a long conversation: nothing is cut here. Earlier thinking is not read again anyway.
fn refuse_edits(fields: &mut Fields) -> Result<(), ApiError> {
    let Some(mut management) = fields.nested("context_management")? else { return Ok(()) };
    management.each("edits", |mut edit| match edit.need::<String>("type")?.as_str() {
        "clear_thinking_20251015" => Ok(()),
        kind => Err(edit.unsupported("type", kind, "nothing of a conversation is cut here")),
    })?;
    management.end(&[])
}

/// Adds a message. Its blocks of calls and results are messages, or parts of them, in a conversation.
fn add_message(messages: &mut Vec<Message>, value: Value, place: String) -> Result<(), ApiError> {
    let mut fields = Fields::part(value, place)?;
    let role: String = fields.need("role")?;
    let place = fields.place_of("content");
    let content: Value = fields.need("content")?;
    fields.end(&["id", "type", "model", "stop_reason", "stop_sequence", "usage"])?;
    if !matches!(role.as_str(), "system" | "user" | "assistant") {
        let message = format!("the role {role:?} is not supported; roles are user and assistant");
        return Err(ApiError::field(place, message));
    }
    let blocks = match content {
        Value::Array(blocks) => blocks,
        text => {
            messages.push(Message::new(role, fields::text(text, &place)?));
            return Ok(());
        }
    };
    let (mut texts, mut calls, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for (number, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::part(block, format!("{place}[{number}]"))?;
        match block.need::<String>("type")?.as_str() {
            "text" => {
                texts.push(block.need::<String>("text")?);
                block.end(&["cache_control", "citations"])?;
            }
            // What the model has thought before is not read again, as chat templates have it.
            "thinking" | "redacted_thinking" => {}
            "tool_use" if role == "assistant" => {
                let (id, name): (String, String) = (block.need("id")?, block.need("name")?);
                let input = block.take::<Map<String, Value>>("input")?.unwrap_or_default();
                block.end(&["cache_control", "caller"])?;
                let call = ToolCall::new(id, name, &Value::Object(input).to_string());
                calls.push(call.map_err(|error| ApiError::field(place.clone(), error.to_string()))?);
            }
            "tool_result" if role == "user" => {
                let (id, content) = (block.need("tool_use_id")?, block.take("content")?);
                // Whether it is an error stands in its text.
                block.take::<bool>("is_error")?;
                block.end(&["cache_control"])?;
                results.push(tools::result(id, content, &format!("{place}[{number}]."), messages)?);
            }
            other => {
                return Err(block.unsupported("type", other, fields::ONLY_TEXTS));
            }
        }
    }
    // Results come first: what the user says is behind them.
    let has_results = !results.is_empty();
    messages.extend(results);
    if !has_results || !texts.is_empty() {
        messages.push(Message::new(role, texts.join("\n")).with_calls(calls));
    }
    Ok(())
}

/// What every response begins with.
pub(super) struct Head {
    id: String,
    model: String,
    prompt: usize,
    /// The stop sequences of the request.
    stops: Vec<String>,
}

impl Head {
    #[cfg(test)]
    pub(super) fn of_test() -> Head {
        Head { id: new_id("msg_"), model: "needle".to_owned(), prompt: 25, stops: Vec::new() }
    }

    fn message(&self, content: Value, usage: Value) -> Value {
        let Head { id, model, .. } = self;
        json!({
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage,
        })
    }

    /// Why an answer ended, and the stop sequence that ended it.
    fn stop_reason<'a>(&self, answer: &'a Answer) -> (&'static str, Option<&'a str>) {
        match &answer.stop {
            _ if answer.calls > 0 && answer.is_whole() => ("tool_use", None),
            Stop::Text(text) if self.stops.contains(text) => ("stop_sequence", Some(text)),
            Stop::EndToken(_) | Stop::Text(_) | Stop::Complete => ("end_turn", None),
            Stop::Length => ("max_tokens", None),
            Stop::Context | Stop::Interrupted => ("model_context_window_exceeded", None),
        }
    }

    /// Tokens that were read are counted apart from those that were not.
    fn usage(&self, cached: usize, answer: usize) -> Value {
        json!({
            "input_tokens": self.prompt - cached,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": answer,
        })
    }

    pub(super) fn whole(&self, whole: &Whole) -> Value {
        let mut content = Vec::new();
        let usage = self.usage(whole.cached, whole.tokens());
        let Some(answer) = whole.answers.first() else { return self.message(json!(content), usage) };
        if !answer.thinking.is_empty() {
            content.push(json!({"type": "thinking", "thinking": answer.thinking, "signature": ""}));
        }
        if !answer.text.is_empty() || answer.calls.is_empty() {
            content.push(json!({"type": "text", "text": answer.text}));
        }
        for call in &answer.calls {
            let input = arguments(call);
            content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}));
        }
        let mut message = self.message(json!(content), usage);
        let (reason, sequence) = self.stop_reason(&answer.result);
        (message["stop_reason"], message["stop_sequence"]) = (reason.into(), sequence.into());
        with(message, sources(&answer.result))
    }
}

/// A part of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
}

/// The events of a stream.
pub(super) struct Stream {
    head: Head,
    cached: usize,
    /// The part that is being sent.
    block: Option<Block>,
    /// How many parts have ended.
    blocks: usize,
}

impl Stream {
    pub(super) fn new(head: Head) -> Stream {
        Stream { head, cached: 0, block: None, blocks: 0 }
    }

    /// Ends the part that is being sent, and begins another one.
    fn turn_to(&mut self, block: Option<Block>) -> Vec<Sent> {
        let mut sent = Vec::new();
        if self.block == block {
            return sent;
        }
        if self.block.is_some() {
            sent.push(self.stop());
        }
        self.block = block;
        match block {
            None => {}
            Some(Block::Thinking) => {
                sent.push(self.start(json!({"type": "thinking", "thinking": "", "signature": ""})));
            }
            Some(Block::Text) => sent.push(self.start(json!({"type": "text", "text": ""}))),
        }
        sent
    }

    /// A part begins, which is empty yet.
    fn start(&self, empty: Value) -> Sent {
        event("content_block_start", json!({"index": self.blocks, "content_block": empty}))
    }

    fn stop(&mut self) -> Sent {
        self.blocks += 1;
        event("content_block_stop", json!({"index": self.blocks - 1}))
    }

    fn delta(&self, delta: Value) -> Sent {
        event("content_block_delta", json!({"index": self.blocks, "delta": delta}))
    }

    fn end(&mut self, answer: &Answer) -> Vec<Sent> {
        let mut sent = Vec::new();
        if self.block.is_none() && self.blocks == 0 {
            // An answer without text has an empty part.
            sent.extend(self.turn_to(Some(Block::Text)));
        }
        sent.extend(self.turn_to(None));
        let (reason, sequence) = self.head.stop_reason(answer);
        sent.push(event(
            "message_delta",
            json!({
                "delta": with(json!({"stop_reason": reason, "stop_sequence": sequence}), sources(answer)),
                "usage": {"output_tokens": answer.tokens},
            }),
        ));
        sent
    }
}

/// An event of this name, with these fields besides its type.
fn event(name: &'static str, fields: Value) -> Sent {
    Sent { name: Some(name), data: with(json!({"type": name}), fields).to_string() }
}

impl Writer for Stream {
    fn write(&mut self, happened: Event) -> Vec<Sent> {
        match happened {
            Event::Begun { cached } => {
                self.cached = cached;
                let message = self.head.message(json!([]), self.head.usage(cached, 0));
                vec![event("message_start", json!({"message": message}))]
            }
            Event::Reading { .. } | Event::Scored(_) => Vec::new(),
            Event::Text { split, .. } => {
                let mut sent = Vec::new();
                if !split.thinking.is_empty() {
                    sent.extend(self.turn_to(Some(Block::Thinking)));
                    sent.push(self.delta(json!({"type": "thinking_delta", "thinking": split.thinking})));
                }
                if !split.answer.is_empty() {
                    sent.extend(self.turn_to(Some(Block::Text)));
                    sent.push(self.delta(json!({"type": "text_delta", "text": split.answer})));
                }
                sent
            }
            Event::Call { call, .. } => {
                let mut sent = self.turn_to(None);
                let empty = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
                sent.push(self.start(empty));
                sent.push(self.delta(json!({"type": "input_json_delta", "partial_json": call.arguments()})));
                sent.push(self.stop());
                sent
            }
            Event::Answered { result, .. } => self.end(&result),
            Event::Done => vec![event("message_stop", json!({}))],
            Event::Failed(error) => self.failed(error.into()),
        }
    }

    fn failed(&mut self, error: ApiError) -> Vec<Sent> {
        vec![event("error", error.anthropic())]
    }

    fn ping(&mut self) -> Vec<Sent> {
        vec![event("ping", json!({}))]
    }
}
