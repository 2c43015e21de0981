//! `/api/chat`, `/api/generate`, `/api/show`, `/api/tags`, `/api/ps`, `/api/version` and `/`, Ollama's. An answer is a stream of lines,
//! each an object of JSON, unless the request says otherwise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use chrono::Utc;
use longhand::Message;
use longhand::generation::GenerateOptions;
use longhand::tools::ToolCall;
use serde_json::{Map, Value, json};

use super::chat::thinks_with;
use super::fields::Fields;
use super::native::{no_model, written};
use super::submit::{self, Conversation};
use super::whole::{Whole, arguments, date, new_id, sources, with};
use super::{Answered, documents, tools};
use crate::http::error::ApiError;
use crate::http::stream::{self, Sent, Writer};
use crate::http::{Shared, json_response, text_response};
use crate::service::{Answer, Event, Service, Text, Wanted};

/// Fields that cannot change an answer: the model stays loaded, and nothing is cut.
const HARMLESS: &[&str] = &["keep_alive", "shift", "truncate"];
/// Options that cannot change an answer. They are about how a model is loaded, and about what is cut, which nothing is.
const HARMLESS_OPTIONS: &[&str] = &[
    "draft_num_predict",
    "embedding_only",
    "f16_kv",
    "logits_all",
    "low_vram",
    "main_gpu",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_gqa",
    "num_keep",
    "num_thread",
    "numa",
    "use_mlock",
    "use_mmap",
    "vocab_only",
];

pub(super) async fn chat(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    in_form(try_chat(&shared, request).await)
}

pub(super) async fn generate(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    in_form(try_generate(&shared, request).await)
}

pub(super) async fn show(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    in_form(try_show(&shared, request).await)
}

/// All models, which is one.
pub(super) async fn tags(State(shared): State<Arc<Shared>>) -> Response<Body> {
    in_form(shared.service().map(|service| json_response(&json!({"models": [listed(service)]}))))
}

/// The models that are loaded.
pub(super) async fn ps(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let loaded = |service: &Arc<Service>| {
        // It stays.
        let more = json!({"expires_at": "9999-12-31T23:59:59Z", "context_length": service.context(), "size_vram": 0});
        json_response(&json!({"models": [with(listed(service), more)]}))
    };
    in_form(shared.service().map(loaded))
}

/// Clients refuse servers of older interfaces than they know.
pub(super) async fn version() -> Response<Body> {
    json_response(&json!({"version": INTERFACE, "longhand": env!("CARGO_PKG_VERSION")}))
}

/// The version of Ollama whose interface this is: the first one with `think`.
const INTERFACE: &str = "0.9.0";

/// Clients ask whether anybody is there.
pub(super) async fn root() -> Response<Body> {
    text_response("text/plain; charset=utf-8", "longhand is running".to_owned())
}

fn in_form(answered: Answered) -> Response<Body> {
    answered.unwrap_or_else(|error| error.response_to("/api/"))
}

async fn try_chat(shared: &Shared, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let values: Vec<Value> = fields.take("messages")?.unwrap_or_default();
    let messages = messages(values)?;
    let tools = tools::of_chat(&mut fields)?;
    let asked = Asked::of(&mut fields)?;
    let thinks = thinks(&mut fields)?;
    let documents = documents::of_request(service, &mut fields).await?;
    let sources = documents::sources(service, &mut fields)?;
    fields.end(HARMLESS)?;
    if messages.is_empty() {
        submit::check_sampling(service, &asked.wanted.sampling)?;
        return Ok(json_response(&Form::Chat.loaded(service)));
    }
    let conversation = Conversation { messages, documents, thinks, tools, sources };
    let text = submit::render(service, conversation).await?;
    respond(shared, service, Form::Chat, text, asked).await
}

async fn try_generate(shared: &Shared, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    let prompt: String = fields.take("prompt")?.unwrap_or_default();
    let is_raw = fields.take("raw")?.unwrap_or(false);
    let asked = Asked::of(&mut fields)?;
    let conversation = match is_raw {
        true => None,
        false => Some(question(service, &mut fields, &prompt).await?),
    };
    fields.end(HARMLESS)?;
    if prompt.is_empty() {
        submit::check_sampling(service, &asked.wanted.sampling)?;
        return Ok(json_response(&Form::Generate.loaded(service)));
    }
    let text = match conversation {
        Some(conversation) => submit::render(service, conversation).await?,
        None => submit::encode(service, prompt).await?,
    };
    respond(shared, service, Form::Generate, text, asked).await
}

/// The conversation of a single question.
async fn question(
    service: &Arc<Service>,
    fields: &mut Fields,
    prompt: &str,
) -> Result<Conversation, ApiError> {
    let system: Option<String> = fields.take("system")?;
    let system = system.filter(|system| !system.is_empty()).map(Message::system);
    let messages = system.into_iter().chain([Message::user(prompt)]).collect();
    let (thinks, tools) = (thinks(fields)?, tools::Wanted::default());
    let documents = documents::of_request(service, fields).await?;
    Ok(Conversation { messages, documents, thinks, tools, sources: documents::sources(service, fields)? })
}

async fn try_show(shared: &Shared, request: Request) -> Answered {
    let service = shared.service()?;
    let mut fields = Fields::new(shared.object(request).await?);
    // Older clients have a name, and an empty model.
    let names: [Option<String>; 2] = [fields.take("model")?, fields.take("name")?];
    let name = names.into_iter().flatten().find(|name| !name.is_empty());
    let name = name.ok_or_else(|| ApiError::field("model", "model is missing"))?;
    fields.end(&["options", "system", "template", "verbose"])?;
    // A name without a tag has this one.
    let without_tag = |name: &str| name.strip_suffix(":latest").unwrap_or(name).to_ascii_lowercase();
    if without_tag(&name) != without_tag(service.name()) {
        return Err(no_model(service, &name));
    }
    let (spec, format) = (service.model().spec(), service.format());
    let arch = spec.arch.name();
    let mut capabilities = vec!["completion"];
    capabilities.extend(service.tool_format()?.map(|_| "tools"));
    capabilities.extend(format.with_thinking(true).ok().map(|_| "thinking"));
    let mut info = json!({"general.architecture": arch, "general.parameter_count": spec.parameters()});
    // What fits here, and not what the model was trained for.
    info[format!("{arch}.context_length")] = service.context().into();
    Ok(json_response(&json!({
        "modified_at": date(written(service)),
        "details": details(service),
        "model_info": info,
        "capabilities": capabilities,
        "parameters": format!("num_ctx {}", service.context()),
    })))
}

/// The model in a list of models.
fn listed(service: &Service) -> Value {
    let gguf = service.model().gguf();
    let bytes: usize = (0..gguf.shards()).map(|shard| gguf.shard_bytes(shard).len()).sum();
    json!({
        "name": service.name(),
        "model": service.name(),
        "modified_at": date(written(service)),
        "size": bytes,
        // Clients show its beginning.
        "digest": service.model().known_fingerprint().map_or_else(|| "0".repeat(64), str::to_owned),
        "details": details(service),
    })
}

fn details(service: &Service) -> Value {
    let (spec, gguf) = (service.model().spec(), service.model().gguf());
    let (arch, parameters) = (spec.arch.name(), spec.parameters() as f64);
    let (size, unit) = if parameters < 1e9 { (parameters / 1e6, "M") } else { (parameters / 1e9, "B") };
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": arch,
        "families": [arch],
        "parameter_size": format!("{size:.1}{unit}"),
        "quantization_level": gguf.file_type(),
    })
}

/// How a request is to be answered.
struct Asked {
    is_stream: bool,
    wanted: Wanted,
    /// The shape of the answer, in OpenAI's words.
    shape: Option<Value>,
}

impl Asked {
    fn of(fields: &mut Fields) -> Result<Asked, ApiError> {
        // Any name of a model is taken.
        fields.take::<String>("model")?;
        let is_stream = fields.take("stream")?.unwrap_or(true);
        let mut options = fields.nested("options")?.unwrap_or_else(|| Fields::new(Map::new()));
        let wanted = Wanted::of(&mut options)?;
        let stops = submit::stops(&mut options, "stop")?;
        // Numbers below 1 are no limit.
        let limit = options.integer("num_predict")?.filter(|tokens| *tokens > 0);
        let limit = limit.and_then(|tokens| usize::try_from(tokens).ok());
        options.end(HARMLESS_OPTIONS)?;
        let options = GenerateOptions { stops, limit: limit.unwrap_or(usize::MAX), ..wanted.options };
        Ok(Asked { is_stream, wanted: Wanted { options, ..wanted }, shape: shape(fields)? })
    }
}

/// Whether the model is to think, where the request says so.
fn thinks(fields: &mut Fields) -> Result<Option<bool>, ApiError> {
    match fields.get("think") {
        Some(Value::Bool(_)) => fields.take("think"),
        _ => thinks_with(fields, "think"),
    }
}

/// The shape that an answer is to have: any JSON, or a schema.
fn shape(fields: &mut Fields) -> Result<Option<Value>, ApiError> {
    match fields.take::<Value>("format")? {
        None => Ok(None),
        Some(Value::String(word)) if word.is_empty() => Ok(None),
        Some(Value::String(word)) if word == "json" => Ok(Some(json!({"type": "json_object"}))),
        Some(schema @ Value::Object(_)) => Ok(Some(json!({"type": "json_schema", "schema": schema}))),
        Some(_) => Err(ApiError::field("format", "format must be \"json\" or a JSON schema")),
    }
}

fn messages(values: Vec<Value>) -> Result<Vec<Message>, ApiError> {
    let mut messages = Vec::new();
    // Calls without a result yet, and whether the request has their names. Results need not name theirs.
    let mut open: Vec<(ToolCall, bool)> = Vec::new();
    for (number, value) in values.into_iter().enumerate() {
        let mut fields = Fields::part(value, format!("messages[{number}]"))?;
        let role: String = fields.need("role")?;
        let content = fields.take::<String>("content")?.unwrap_or_default();
        let message = match role.as_str() {
            "system" | "user" => Message::new(role, content),
            "assistant" => {
                let calls = calls(&mut fields)?;
                open.extend(calls.iter().cloned());
                Message::new(role, content).with_calls(calls.into_iter().map(|(call, _)| call).collect())
            }
            "tool" => {
                let id: Option<String> = fields.take("tool_call_id")?;
                let older: Option<String> = fields.take("name")?;
                let name = fields.take("tool_name")?.or(older);
                let is_its = |(call, has_id): &(ToolCall, bool)| match (&id, &name) {
                    (Some(id), _) if *has_id => call.id == *id,
                    (_, Some(name)) => call.name == *name,
                    (_, None) => true,
                };
                let error = || {
                    let place = format!("messages[{number}]");
                    let its = id.as_ref().or(name.as_ref()).map_or(String::new(), |its| format!(" {its:?}"));
                    let message =
                        format!("{place}: there is no call{its} before this that waits for a result");
                    ApiError::field(place, message)
                };
                let (call, _) = open.remove(open.iter().position(is_its).ok_or_else(error)?);
                Message::tool_result(&call, content)
            }
            other => {
                return Err(fields.unsupported("role", other, "roles are system, user, assistant and tool"));
            }
        };
        // What an answer has thought is not read again, as chat templates have it.
        fields.end(&["thinking"])?;
        messages.push(message);
    }
    Ok(messages)
}

/// The calls of a message, and whether it has their names. Their arguments are objects.
fn calls(fields: &mut Fields) -> Result<Vec<(ToolCall, bool)>, ApiError> {
    fields.each("tool_calls", |mut call| {
        let id = call.take::<String>("id")?.filter(|id| !id.is_empty());
        let has_id = id.is_some();
        let place = call.place_of("function");
        let mut function = Fields::part(call.need("function")?, place.clone())?;
        call.end(&["index", "type"])?;
        let name: String = function.need("name")?;
        let arguments = function.take::<Map<String, Value>>("arguments")?.unwrap_or_default();
        function.end(&["description", "index"])?;
        let made =
            ToolCall::new(id.unwrap_or_else(|| new_id("call_")), name, &Value::Object(arguments).to_string());
        let made = made.map_err(|error| ApiError::field(&place, error.to_string()))?;
        Ok((made, has_id))
    })
}

/// Has a text answered, whole or as a stream.
async fn respond(shared: &Shared, service: &Arc<Service>, form: Form, text: Text, asked: Asked) -> Answered {
    let constraint = submit::shape(service, asked.shape, "format").await?;
    let (model, prompt, begun) = (service.name().to_owned(), text.tokens.len(), Instant::now());
    let head = Head { form, model, prompt, begun, calls: 0 };
    let options = GenerateOptions { constraint, ..asked.wanted.options };
    let events = submit::submit(service, text, Wanted { options, ..asked.wanted })?;
    if asked.is_stream {
        return Ok(stream::response(events, head, shared.ping()));
    }
    let whole = Whole::collect(events).await?;
    let answer = whole.answers.first().ok_or_else(ApiError::lost)?;
    let calls = answer.calls.iter().enumerate().map(|(number, made)| call(number, made));
    let content = head.form.content(&answer.text, &answer.thinking, calls.collect());
    Ok(json_response(&head.end(content, &answer.result)))
}

/// Where the text of an answer stands.
#[derive(Clone, Copy)]
enum Form {
    /// In `message`.
    Chat,
    /// In `response`.
    Generate,
}

impl Form {
    fn content(self, text: &str, thinking: &str, calls: Vec<Value>) -> Value {
        let mut content = match self {
            Form::Chat => json!({"role": "assistant", "content": text}),
            Form::Generate => json!({"response": text}),
        };
        if !thinking.is_empty() {
            content["thinking"] = thinking.into();
        }
        if !calls.is_empty() {
            content["tool_calls"] = calls.into();
        }
        match self {
            Form::Chat => json!({"message": content}),
            Form::Generate => content,
        }
    }

    /// What is answered to a request without a text, which asks that the model be loaded.
    fn loaded(self, service: &Service) -> Value {
        let created = date(Utc::now());
        let head =
            json!({"model": service.name(), "created_at": created, "done": true, "done_reason": "load"});
        with(head, self.content("", "", Vec::new()))
    }
}

/// A call, by its number in the answer.
fn call(number: usize, call: &ToolCall) -> Value {
    json!({"id": call.id, "function": {"index": number, "name": call.name, "arguments": arguments(call)}})
}

/// What all parts of an answer have.
struct Head {
    form: Form,
    model: String,
    /// Tokens of the text.
    prompt: usize,
    begun: Instant,
    /// How many were sent.
    calls: usize,
}

impl Head {
    fn part(&self, content: Value) -> Value {
        with(json!({"model": self.model, "created_at": date(Utc::now()), "done": false}), content)
    }

    /// The last part. Times are in nanoseconds.
    fn end(&self, content: Value, answer: &Answer) -> Value {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let counts = json!({
            "done": true,
            "done_reason": if answer.is_whole() { "stop" } else { "length" },
            "total_duration": nanoseconds(self.begun.elapsed()),
            "load_duration": 0,
            "prompt_eval_count": self.prompt,
            "prompt_eval_duration": nanoseconds(answer.reading),
            "eval_count": answer.tokens,
            "eval_duration": nanoseconds(answer.elapsed),
        });
        with(with(self.part(content), counts), sources(answer))
    }
}

impl Writer for Head {
    const CONTENT_TYPE: &'static str = "application/x-ndjson";
    /// A space, which may stand before an object of JSON. Clients would try to read an empty line as an object.
    const QUIET: &'static str = " ";

    fn write(&mut self, event: Event) -> Vec<Sent> {
        let value = match event {
            Event::Begun { .. } | Event::Reading { .. } | Event::Scored(_) | Event::Done => {
                return Vec::new();
            }
            Event::Text { split, .. } => {
                self.part(self.form.content(&split.answer, &split.thinking, Vec::new()))
            }
            Event::Call { call: made, .. } => {
                self.calls += 1;
                self.part(self.form.content("", "", vec![call(self.calls - 1, &made)]))
            }
            Event::Answered { result, .. } => self.end(self.form.content("", "", Vec::new()), &result),
            Event::Failed(error) => return self.failed(error.into()),
        };
        vec![Sent::data(&value)]
    }

    fn failed(&mut self, error: ApiError) -> Vec<Sent> {
        vec![Sent::data(&error.ollama())]
    }

    fn text(sent: &Sent) -> String {
        format!("{}\n", sent.data)
    }
}
