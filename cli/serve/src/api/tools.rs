//! Functions that the model may call, in the words of each interface: what they are, whether they may be called, and the
//! calls and results in a conversation.

use longhand::Message;
use longhand::tools::{ToolCall, Tools};
use serde_json::{Value, json};

use super::fields::{Fields, text};
use crate::http::error::ApiError;

/// The functions of a request, and whether it wants one call at most.
#[derive(Clone, Default)]
pub(super) struct Wanted {
    pub tools: Option<Tools>,
    pub one_call: bool,
}

/// The functions of OpenAI's chat: `tools`, `tool_choice` and `parallel_tool_calls`.
pub(super) fn of_chat(fields: &mut Fields) -> Result<Wanted, ApiError> {
    let definitions = fields.take("tools")?.unwrap_or_default();
    openais(fields, definitions)
}

/// Those of OpenAI's responses, whose functions are described in the list itself.
pub(super) fn of_responses(fields: &mut Fields) -> Result<Wanted, ApiError> {
    let definitions = each(fields, |mut tool| {
        tool.need("type").and_then(|kind: String| check_kind(&tool, &kind))?;
        function(tool, "parameters", &["strict"])
    })?;
    openais(fields, definitions)
}

/// Those of Anthropic's messages.
pub(super) fn of_messages(fields: &mut Fields) -> Result<Wanted, ApiError> {
    let definitions = each(fields, |mut tool| match tool.take::<String>("type")?.as_deref() {
        None | Some("custom") => function(tool, "input_schema", &["cache_control", "strict"]),
        Some(kind) => Err(tool.unsupported("type", kind, "tools are functions of the caller")),
    })?;
    let choice = fields.take::<Value>("tool_choice")?;
    let alone = choice.as_ref().is_some_and(|choice| choice["disable_parallel_tool_use"] == true);
    wanted(definitions, may_call(choice, |choice| choice["type"].as_str())?, alone)
}

/// What OpenAI's interfaces say beside the functions.
fn openais(fields: &mut Fields, definitions: Vec<Value>) -> Result<Wanted, ApiError> {
    let choice = fields.take::<Value>("tool_choice")?;
    let parallel = fields.take::<bool>("parallel_tool_calls")?.unwrap_or(true);
    wanted(definitions, may_call(choice, Value::as_str)?, !parallel)
}

/// Each of the `tools`, as a function in the form of OpenAI's chat.
fn each(
    fields: &mut Fields,
    read: impl Fn(Fields) -> Result<Value, ApiError>,
) -> Result<Vec<Value>, ApiError> {
    let tools = fields.take::<Vec<Value>>("tools")?.unwrap_or_default();
    let tools = tools.into_iter().enumerate();
    tools.map(|(number, tool)| read(Fields::part(tool, format!("tools[{number}]"))?)).collect()
}

/// Refuses what is no function.
fn check_kind(fields: &Fields, kind: &str) -> Result<(), ApiError> {
    match kind {
        "function" => Ok(()),
        kind => Err(fields.unsupported("type", kind, "functions are")),
    }
}

/// A function in the form of OpenAI's chat, whose parameters are in this field.
fn function(mut tool: Fields, parameters: &str, harmless: &[&str]) -> Result<Value, ApiError> {
    let name: String = tool.need("name")?;
    let mut function = json!({"name": name});
    if let Some(description) = tool.take::<String>("description")? {
        function["description"] = description.into();
    }
    if let Some(parameters) = tool.take::<Value>(parameters)? {
        function["parameters"] = parameters;
    }
    tool.end(harmless)?;
    Ok(json!({"type": "function", "function": function}))
}

/// Whether functions may be called. That one must be called cannot be promised.
fn may_call<'a>(choice: Option<Value>, word: impl Fn(&Value) -> Option<&str> + 'a) -> Result<bool, ApiError> {
    match choice.as_ref().map(word) {
        None | Some(Some("auto")) => Ok(true),
        Some(Some("none")) => Ok(false),
        Some(_) => Err(ApiError::field(
            "tool_choice",
            "tool_choice: auto and none are supported; that a function is called cannot be promised",
        )),
    }
}

fn wanted(definitions: Vec<Value>, may_call: bool, one_call: bool) -> Result<Wanted, ApiError> {
    if definitions.is_empty() || !may_call {
        return Ok(Wanted::default());
    }
    let tools =
        Tools::new(definitions).map_err(|error| ApiError::field("tools", format!("tools: {error}")))?;
    Ok(Wanted { tools: Some(tools), one_call })
}

/// The calls of a message of OpenAI's chat.
pub(super) fn calls(fields: &mut Fields) -> Result<Vec<ToolCall>, ApiError> {
    let calls = fields.take::<Vec<Value>>("tool_calls")?.unwrap_or_default();
    let place = fields.place_of("tool_calls");
    let read = |(number, value): (usize, Value)| {
        let mut call = Fields::part(value, format!("{place}[{number}]"))?;
        let id: String = call.need("id")?;
        if let Some(kind) = call.take::<String>("type")? {
            check_kind(&call, &kind)?;
        }
        let mut function = Fields::part(call.need("function")?, call.place_of("function"))?;
        call.end(&["index"])?;
        let made = made(id, &mut function)?;
        function.end(&[])?;
        Ok(made)
    };
    calls.into_iter().enumerate().map(read).collect()
}

/// A call with the `name` and the `arguments` of these fields.
pub(super) fn made(id: String, fields: &mut Fields) -> Result<ToolCall, ApiError> {
    let (name, place): (String, _) = (fields.need("name")?, fields.place_of("arguments"));
    let arguments: String = fields.take("arguments")?.unwrap_or_default();
    let wrong =
        |error| ApiError::field(place.clone(), format!("{place} must be the text of a JSON object: {error}"));
    ToolCall::new(id, name, &arguments).map_err(wrong)
}

/// What a function has returned: a message whose call is one of those before it.
pub(super) fn result(
    id: String,
    content: Option<Value>,
    place: &str,
    before: &[Message],
) -> Result<Message, ApiError> {
    let content = content.map_or(Ok(String::new()), |content| text(content, &format!("{place}content")))?;
    let mut calls = before.iter().rev().flat_map(|message| &message.tool_calls);
    match calls.find(|call| call.id == id) {
        Some(call) => Ok(Message::tool_result(call, content)),
        None => {
            let message = format!("{place}: there is no call {id:?} before this result");
            Err(ApiError::field(place.trim_end_matches('.'), message))
        }
    }
}
