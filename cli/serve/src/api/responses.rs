//! `POST /v1/responses`, OpenAI's newer interface, after the Open Responses specification. Nothing is stored: each request has
//! the whole conversation.

use std::sync::Arc;

use axum::extract::{Request, State};
use longhand::tools::ToolCall;
use longhand::{GenerateOptions, Message, SamplerOptions};
use serde_json::{Map, Value, json};

use super::chat::thinks_with;
use super::fields::{self, Fields};
use super::openai::HARMLESS;
use super::submit::{self, Conversation};
use super::whole::{Whole, new_id, now, sources, with};
use super::{Answered, documents, tools};
use crate::http::error::ApiError;
use crate::http::stream::{self, Sent, Writer};
use crate::http::{Shared, json_response};
use crate::service::{Answer, Event, Wanted};

/// Fields that cannot change an answer, besides those of all of OpenAI's interfaces.
const HARMLESS_HERE: [&str; 3] = ["client_metadata", "max_tool_calls", "stream_options"];
/// Those of them that a response repeats, if they are what the specification says.
const REPEATED: [(&str, IsRight); 4] = [
    ("max_tool_calls", Value::is_u64),
    ("metadata", Value::is_object),
    ("prompt_cache_key", Value::is_string),
    ("safety_identifier", Value::is_string),
];
/// Whether a value has the type of a field.
type IsRight = fn(&Value) -> bool;
/// Bytes of each at most.
const MOST_REPEATED: usize = 1 << 14;

pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let instructions: Option<String> = fields.take("instructions")?;
    let mut messages: Vec<Message> = instructions.iter().map(Message::system).collect();
    messages.extend(input(fields.need("input")?)?);
    if instructions.is_some() && messages.get(1).is_some_and(|second| second.role == "system") {
        // Chat templates have one system message.
        let second = messages.remove(1);
        messages[0].content += &format!("\n\n{}", second.content);
    }
    let definitions = fields.get("tools").filter(|tools| tools.is_array()).map(listed);
    let repeated = REPEATED.iter().filter_map(|(name, is_right)| {
        let value = fields.get(name).filter(|value| is_right(value))?;
        (value.to_string().len() <= MOST_REPEATED).then(|| ((*name).to_owned(), value.clone()))
    });
    let repeated = repeated.collect();
    let choice = fields.get("tool_choice").filter(|choice| !choice.is_null()).cloned();
    let parallel = fields.get("parallel_tool_calls").and_then(Value::as_bool).unwrap_or(true);
    let tools = tools::of_responses(&mut fields)?;
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let limit = fields.integer("max_output_tokens")?.map(|limit| usize::try_from(limit).unwrap_or(0));
    let wanted = Wanted::of(&mut fields)?;
    let documents = documents::of_request(service, &mut fields).await?;
    let sources = documents::sources(service, &mut fields)?;
    let thinks = match fields.nested("reasoning")? {
        None => None,
        Some(mut reasoning) => {
            let thinks = thinks_with(&mut reasoning, "effort")?;
            reasoning.end(&["generate_summary", "summary"])?;
            thinks
        }
    };
    refuse_includes(&mut fields)?;
    let shape = shape(&mut fields)?;
    refuse_truncation(&mut fields)?;
    fields.end(&[&HARMLESS[..], &HARMLESS_HERE].concat())?;
    let constraint = submit::shape(service, shape.clone(), "text.format").await?;
    let mut shape = shape.unwrap_or_else(|| json!({"type": "text"}));
    if shape["type"] == "json_schema" {
        complete(&mut shape, &["description"]);
        // An answer always is as the schema says.
        shape["strict"] = true.into();
    }
    let text = submit::render(service, Conversation { messages, documents, thinks, tools, sources }).await?;
    let head = Head {
        id: new_id("resp_"),
        item: new_id("msg_"),
        thinking: new_id("rs_"),
        created: now(),
        model: service.name().to_owned(),
        prompt: text.tokens.len(),
        instructions,
        limit,
        shape,
        tools: definitions.unwrap_or_else(|| json!([])),
        choice: choice.unwrap_or_else(|| "auto".into()),
        parallel,
        sampling: wanted.sampling.clone(),
        repeated,
    };
    let options = GenerateOptions { limit: limit.unwrap_or(usize::MAX), constraint, ..wanted.options };
    let wanted = Wanted { options, ..wanted };
    let events = submit::submit(service, text, wanted)?;
    if is_stream {
        return Ok(stream::response(events, Stream::new(head), shared.ping()));
    }
    let whole = Whole::collect(events).await?;
    Ok(json_response(&head.whole(&whole)))
}

/// The conversation: a text, or a list of messages. What the model has thought before is not read again.
fn input(value: Value) -> Result<Vec<Message>, ApiError> {
    let items = match value {
        Value::String(text) => return Ok(vec![Message::user(text)]),
        Value::Array(items) => items,
        _ => return Err(ApiError::field("input", "input must be a text, or a list of messages")),
    };
    let mut messages = Vec::new();
    for (number, item) in items.into_iter().enumerate() {
        match item.get("type").and_then(Value::as_str).unwrap_or("message") {
            "message" => messages.push(fields::message(item, format!("input[{number}]"), &messages)?),
            "function_call" => add_call(&mut messages, Fields::part(item, format!("input[{number}]"))?)?,
            "function_call_output" => {
                let mut output = Fields::part(item, format!("input[{number}]"))?;
                let (id, content) = (output.need("call_id")?, output.take("output")?);
                output.end(&["id", "status", "type"])?;
                messages.push(tools::result(id, content, &format!("input[{number}]."), &messages)?);
            }
            "reasoning" => {}
            other => {
                let place = format!("input[{number}].type");
                let message = format!("{place}: {other:?} is not supported; input is messages");
                return Err(ApiError::field(place, message));
            }
        }
    }
    match messages.is_empty() {
        true => Err(ApiError::field("input", "input has no message: send one at least")),
        false => Ok(messages),
    }
}

/// The tools of a request as a response lists them: functions with all their fields.
fn listed(tools: &Value) -> Value {
    let mut tools = tools.clone();
    for function in tools.as_array_mut().into_iter().flatten().filter(|tool| tool["type"] == "function") {
        complete(function, &["description", "parameters", "strict"]);
    }
    tools
}

/// Adds fields of an object that are missing: they are null in a response.
fn complete(object: &mut Value, fields: &[&str]) {
    let Value::Object(object) = object else { return };
    for field in fields {
        object.entry(*field).or_insert(Value::Null);
    }
}

/// A call belongs to the answer before it, or is one of its own.
fn add_call(messages: &mut Vec<Message>, mut fields: Fields) -> Result<(), ApiError> {
    let (id, namespace) = (fields.need("call_id")?, fields.take::<String>("namespace")?);
    let mut call = tools::made(id, &mut fields)?;
    if let Some(namespace) = namespace {
        call.name = tools::in_namespace(&namespace, &call.name);
    }
    fields.end(&["id", "status", "type"])?;
    match messages.last_mut() {
        Some(last) if last.role == "assistant" => last.tool_calls.push(call),
        _ => messages.push(Message::assistant("").with_calls(vec![call])),
    }
    Ok(())
}

/// The shape that the answer is to have, where the request says so.
fn shape(fields: &mut Fields) -> Result<Option<Value>, ApiError> {
    let Some(text) = fields.take("text")? else { return Ok(None) };
    let mut text = Fields::part(text, "text".to_owned())?;
    let shape = text.take("format")?;
    text.end(&["verbosity"])?;
    Ok(shape)
}

/// What may be asked to come with a response, and is not there anyway: the thinking in a form that only OpenAI reads.
fn refuse_includes(fields: &mut Fields) -> Result<(), ApiError> {
    let known = |include: &String| include == "reasoning.encrypted_content";
    match fields
        .take::<Vec<String>>("include")?
        .unwrap_or_default()
        .into_iter()
        .find(|include| !known(include))
    {
        None => Ok(()),
        Some(include) => Err(ApiError::field("include", format!("include: {include:?} is not supported"))),
    }
}

/// Nothing is cut. What does not ask for it is fine.
fn refuse_truncation(fields: &mut Fields) -> Result<(), ApiError> {
    match fields.take::<String>("truncation")?.as_deref() {
        None | Some("disabled") => Ok(()),
        Some(_) => Err(ApiError::field("truncation", "truncation: nothing is cut here; leave it out")),
    }
}

/// What a response is about.
pub(super) struct Head {
    id: String,
    /// Of the message, and of what the model has thought.
    item: String,
    thinking: String,
    created: u64,
    model: String,
    prompt: usize,
    instructions: Option<String>,
    limit: Option<usize>,
    /// As it was asked for.
    shape: Value,
    tools: Value,
    choice: Value,
    /// Whether several functions may be called at once.
    parallel: bool,
    sampling: SamplerOptions,
    /// Fields of the request that cannot change an answer.
    repeated: Map<String, Value>,
}

impl Head {
    #[cfg(test)]
    pub(super) fn of_test() -> Head {
        Head {
            id: new_id("resp_"),
            item: new_id("msg_"),
            thinking: new_id("rs_"),
            created: now(),
            model: "needle".to_owned(),
            prompt: 25,
            instructions: None,
            limit: None,
            shape: json!({"type": "text"}),
            tools: json!([]),
            choice: "auto".into(),
            parallel: true,
            sampling: SamplerOptions::greedy(),
            repeated: Map::new(),
        }
    }

    /// A response at a moment.
    fn response(&self, status: &str, output: Value) -> Value {
        let SamplerOptions { temperature, top_p, presence_penalty, frequency_penalty, .. } = &self.sampling;
        let response = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": null,
            "status": status,
            "incomplete_details": null,
            "model": self.model,
            "previous_response_id": null,
            "instructions": self.instructions,
            "output": output,
            "error": null,
            "tools": self.tools,
            "tool_choice": self.choice,
            "truncation": "disabled",
            "parallel_tool_calls": self.parallel,
            "text": {"format": self.shape},
            "top_p": top_p,
            "presence_penalty": presence_penalty,
            "frequency_penalty": frequency_penalty,
            "top_logprobs": 0,
            "temperature": temperature,
            "reasoning": {"effort": null, "summary": null},
            "usage": null,
            "max_output_tokens": self.limit,
            "max_tool_calls": null,
            "store": false,
            "background": false,
            "service_tier": "default",
            "metadata": {},
            "safety_identifier": null,
            "prompt_cache_key": null,
        });
        with(response, Value::Object(self.repeated.clone()))
    }

    /// A response whose answer has ended.
    fn ended(&self, output: Value, cached: usize, answer: &Answer) -> Value {
        let mut response = self.response(status(answer), output);
        match answer.is_whole() {
            true => response["completed_at"] = now().into(),
            false => response["incomplete_details"] = json!({"reason": "max_output_tokens"}),
        }
        response["usage"] = json!({
            "input_tokens": self.prompt,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": answer.tokens,
            "output_tokens_details": {"reasoning_tokens": answer.thinking},
            "total_tokens": self.prompt + answer.tokens,
        });
        with(response, sources(answer))
    }

    pub(super) fn whole(&self, whole: &Whole) -> Value {
        let Some(answer) = whole.answers.first() else { return self.response("completed", json!([])) };
        let mut output = Vec::new();
        if !answer.thinking.is_empty() {
            output.push(self.item(Kind::Thinking, "completed", &answer.thinking));
        }
        if !answer.text.is_empty() || answer.calls.is_empty() {
            output.push(self.item(Kind::Message, status(&answer.result), &answer.text));
        }
        output.extend(answer.calls.iter().map(|call| self.call(call)));
        self.ended(json!(output), whole.cached, &answer.result)
    }

    fn id(&self, kind: Kind) -> &str {
        match kind {
            Kind::Thinking => &self.thinking,
            Kind::Message => &self.item,
        }
    }

    /// An item of the output.
    fn item(&self, kind: Kind, status: &str, text: &str) -> Value {
        let content =
            if text.is_empty() && status == "in_progress" { json!([]) } else { json!([kind.part(text)]) };
        match kind {
            Kind::Thinking => {
                json!({"type": "reasoning", "id": self.thinking, "summary": [], "content": content})
            }
            Kind::Message => json!({
                "type": "message", "id": self.item, "status": status, "role": "assistant", "content": content,
            }),
        }
    }

    /// A call as an item of the output.
    fn call(&self, call: &ToolCall) -> Value {
        let mut item = json!({
            "type": "function_call",
            "id": format!("fc_{}", call.id),
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments(),
            "status": "completed",
        });
        if let Some((namespace, name)) = tools::namespace_of(&self.tools, &call.name) {
            (item["namespace"], item["name"]) = (namespace.into(), name.into());
        }
        item
    }
}

fn status(answer: &Answer) -> &'static str {
    if answer.is_whole() { "completed" } else { "incomplete" }
}

/// A kind of item of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thinking,
    Message,
}

impl Kind {
    /// Its content.
    fn part(self, text: &str) -> Value {
        match self {
            Kind::Thinking => json!({"type": "reasoning_text", "text": text}),
            Kind::Message => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
        }
    }

    /// The event of a piece of its text, and that of its end.
    fn events(self) -> (&'static str, &'static str) {
        match self {
            Kind::Thinking => ("response.reasoning_text.delta", "response.reasoning_text.done"),
            Kind::Message => ("response.output_text.delta", "response.output_text.done"),
        }
    }
}

/// The events of a stream.
pub(super) struct Stream {
    head: Head,
    cached: usize,
    /// How many events were sent.
    sent: u64,
    /// The item that is being sent, with its text so far.
    open: Option<(Kind, String)>,
    /// The items that are complete.
    output: Vec<Value>,
    /// How the answer has ended.
    answer: Option<Answer>,
}

impl Stream {
    pub(super) fn new(head: Head) -> Stream {
        Stream { head, cached: 0, sent: 0, open: None, output: Vec::new(), answer: None }
    }

    /// An event with these fields.
    fn event(&mut self, kind: &'static str, mut fields: Value) -> Sent {
        fields["type"] = kind.into();
        fields["sequence_number"] = self.sent.into();
        self.sent += 1;
        Sent { name: Some(kind), data: fields.to_string() }
    }

    /// What comes first, once. A queue, or a text that is being read for another request, may come before the reading.
    fn start(&mut self) -> Vec<Sent> {
        if self.sent > 0 {
            return Vec::new();
        }
        let response = self.head.response("in_progress", json!([]));
        let fields = || json!({"response": response});
        vec![self.event("response.created", fields()), self.event("response.in_progress", fields())]
    }

    /// A piece of the text of an item, which begins if it is another one than before.
    fn text(&mut self, kind: Kind, text: &str) -> Vec<Sent> {
        let mut sent = Vec::new();
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            sent.extend(self.close("completed"));
            sent.extend(self.begin(kind));
        }
        if let Some((_, all)) = &mut self.open {
            all.push_str(text);
        }
        let place = self.place(kind);
        sent.push(self.event(kind.events().0, with(place, json!({"delta": text, "logprobs": []}))));
        sent
    }

    fn place(&self, kind: Kind) -> Value {
        json!({"item_id": self.head.id(kind), "output_index": self.output.len(), "content_index": 0})
    }

    fn begin(&mut self, kind: Kind) -> [Sent; 2] {
        self.open = Some((kind, String::new()));
        let (index, item) = (self.output.len(), self.head.item(kind, "in_progress", ""));
        let place = self.place(kind);
        [
            self.event("response.output_item.added", json!({"output_index": index, "item": item})),
            self.event("response.content_part.added", with(place, json!({"part": kind.part("")}))),
        ]
    }

    /// Ends the item that is being sent.
    fn close(&mut self, status: &str) -> Vec<Sent> {
        let Some((kind, text)) = self.open.take() else { return Vec::new() };
        let (place, index) = (self.place(kind), self.output.len());
        let item = self.head.item(kind, status, &text);
        self.output.push(item.clone());
        vec![
            self.event(kind.events().1, with(place.clone(), json!({"text": text, "logprobs": []}))),
            self.event("response.content_part.done", with(place, json!({"part": kind.part(&text)}))),
            self.event("response.output_item.done", json!({"output_index": index, "item": item})),
        ]
    }
}

impl Writer for Stream {
    fn write(&mut self, event: Event) -> Vec<Sent> {
        match event {
            Event::Begun { cached } => {
                self.cached = cached;
                self.start()
            }
            Event::Reading { .. } | Event::Scored(_) => Vec::new(),
            Event::Text { split, .. } => {
                let parts = [(Kind::Thinking, split.thinking), (Kind::Message, split.answer)];
                let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
                parts.flat_map(|(kind, text)| self.text(kind, &text)).collect()
            }
            Event::Call { call: made, .. } => {
                let mut sent = self.close("completed");
                let (index, item) = (self.output.len(), self.head.call(&made));
                let mut begun = item.clone();
                (begun["status"], begun["arguments"]) = ("in_progress".into(), "".into());
                let place = json!({"item_id": item["id"], "output_index": index});
                let arguments = with(place.clone(), json!({"arguments": made.arguments()}));
                let delta = with(place, json!({"delta": made.arguments()}));
                sent.push(
                    self.event("response.output_item.added", json!({"output_index": index, "item": begun})),
                );
                sent.push(self.event("response.function_call_arguments.delta", delta));
                sent.push(self.event("response.function_call_arguments.done", arguments));
                sent.push(
                    self.event("response.output_item.done", json!({"output_index": index, "item": item})),
                );
                self.output.push(item);
                sent
            }
            Event::Answered { result, .. } => {
                let mut sent = Vec::new();
                let has_message = self.open.as_ref().is_some_and(|(kind, _)| *kind == Kind::Message);
                if !has_message && result.calls == 0 {
                    // An answer without text is a message, too.
                    sent.extend(self.close("completed"));
                    sent.extend(self.begin(Kind::Message));
                }
                sent.extend(self.close(status(&result)));
                self.answer = Some(result);
                sent
            }
            Event::Done => {
                let Some(answer) = self.answer.take() else { return Vec::new() };
                let response = self.head.ended(json!(self.output), self.cached, &answer);
                let kind = match answer.is_whole() {
                    true => "response.completed",
                    false => "response.incomplete",
                };
                vec![self.event(kind, json!({"response": response}))]
            }
            Event::Failed(error) => self.failed(error.into()),
        }
    }

    fn failed(&mut self, error: ApiError) -> Vec<Sent> {
        let mut response = self.head.response("failed", json!(self.output));
        response["error"] = json!({"code": error.code.unwrap_or("server_error"), "message": error.message});
        vec![self.event("response.failed", json!({"response": response}))]
    }

    /// Codex takes comments for silence.
    fn ping(&mut self) -> String {
        if self.sent == 0 {
            return self.start().iter().map(Sent::text).collect();
        }
        let response = self.head.response("in_progress", json!(self.output));
        self.event("response.in_progress", json!({"response": response})).text()
    }
}
