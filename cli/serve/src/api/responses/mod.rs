//! `/v1/responses`, OpenAI's newer interface, after the Open Responses specification of 2026-04-24. Nothing is stored. Each
//! request has the whole conversation, or over a WebSocket (`socket`) what is new since the last response.
//!
//! `input` makes messages of what a request has, `response` is what an answer looks like, `stream` the events while it is
//! written, and `compact` makes a long conversation a short one.

mod compact;
mod input;
mod response;
mod socket;
mod stream;

use std::sync::Arc;

use axum::extract::{Request, State};
use longhand::Message;
use longhand::generation::GenerateOptions;
use serde_json::{Value, json};

pub(super) use self::compact::compact;
pub(super) use self::response::Head;
pub(super) use self::socket::connect;
pub(super) use self::stream::Stream;
use super::chat::thinks_with;
use super::fields::Fields;
use super::openai::HARMLESS;
use super::submit::{self, Conversation};
use super::whole::{Whole, new_id, now};
use super::{Answered, documents, tools};
use crate::http::error::ApiError;
use crate::http::stream::{self as http_stream, Events};
use crate::http::{Shared, json_response};
use crate::service::{Service, Wanted};

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
    refuse_previous(&mut fields)?;
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let (head, events) = begin(service, fields, &mut Past::default()).await?;
    if is_stream {
        return Ok(http_stream::response(events, Stream::new(head), shared.ping()));
    }
    let whole = Whole::collect(events).await?;
    Ok(json_response(&head.whole(&whole)))
}

/// Nothing is stored between requests.
fn refuse_previous(fields: &mut Fields) -> Result<(), ApiError> {
    match fields.take::<String>("previous_response_id")? {
        None => Ok(()),
        Some(id) => Err(not_found(&id, "nothing is stored here: send the whole conversation")),
    }
}

/// The error about a response that is to be continued, and is not there. `hint` says what to do.
fn not_found(id: &str, hint: &str) -> ApiError {
    let error = ApiError::field("previous_response_id", format!("there is no response {id:?}; {hint}"));
    ApiError { code: Some("previous_response_not_found"), ..error }
}

/// What comes before a request.
#[derive(Default)]
struct Past {
    /// The response that it continues.
    id: Option<String>,
    /// The conversation so far, without instructions.
    messages: Vec<Message>,
}

/// Begins to answer a request. Its messages are added to those before it.
///
/// # Errors
/// Where it makes no sense, is longer than the context, or cannot be taken now.
async fn begin(
    service: &Arc<Service>,
    mut fields: Fields,
    past: &mut Past,
) -> Result<(Head, Events), ApiError> {
    input::read(&mut fields, &mut past.messages)?;
    let instructions: Option<String> = fields.take("instructions")?;
    let messages = input::with_instructions(instructions.as_ref(), &past.messages);
    // Codex has its instructions read while its user still types.
    let answers = usize::from(fields.take("generate")?.unwrap_or(true));
    let definitions = fields.get("tools").filter(|tools| tools.is_array()).map(listed);
    let repeated = REPEATED.iter().filter_map(|(name, is_right)| {
        let value = fields.get(name).filter(|value| is_right(value))?;
        (value.to_string().len() <= MOST_REPEATED).then(|| ((*name).to_owned(), value.clone()))
    });
    let repeated = repeated.collect();
    let choice = fields.get("tool_choice").filter(|choice| !choice.is_null()).cloned();
    let parallel = fields.get("parallel_tool_calls").and_then(Value::as_bool).unwrap_or(true);
    let tools = tools::of_responses(&mut fields)?;
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
        previous: past.id.clone(),
    };
    let options = GenerateOptions { limit: limit.unwrap_or(usize::MAX), constraint, ..wanted.options };
    let events = submit::submit(service, text, Wanted { options, answers, ..wanted })?;
    Ok((head, events))
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
