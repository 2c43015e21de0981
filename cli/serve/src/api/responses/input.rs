//! From the items of a request to messages.

use longhand::Message;
use serde_json::Value;

use super::compact;
use crate::api::fields::{self, Fields};
use crate::api::tools;
use crate::http::error::ApiError;

/// The messages of a conversation, with the system message in front, if there are instructions.
pub(super) fn with_instructions(instructions: Option<&String>, messages: &[Message]) -> Vec<Message> {
    let mut all: Vec<Message> = instructions.into_iter().map(Message::system).collect();
    all.extend_from_slice(messages);
    if instructions.is_some() && all.get(1).is_some_and(|second| second.role == "system") {
        // Chat templates have one system message.
        let second = all.remove(1);
        all[0].content += &format!("\n\n{}", second.content);
    }
    all
}

/// Adds the `input` of a request to a conversation: a text, or a list of items. What the model has thought before is not read
/// again.
pub(super) fn read(fields: &mut Fields, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let is_first = messages.is_empty();
    match fields.take::<Value>("input")? {
        Some(Value::String(text)) => messages.push(Message::user(text)),
        Some(Value::Array(items)) => add_items(items, messages)?,
        Some(_) => return Err(ApiError::field("input", "input must be a text, or a list of messages")),
        None if is_first => return Err(ApiError::field("input", "input is missing")),
        None => {}
    }
    match messages.is_empty() {
        true => Err(ApiError::field("input", "input has no message: send one at least")),
        false => Ok(()),
    }
}

/// Adds items to a conversation.
pub(super) fn add_items(items: Vec<Value>, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    for (number, item) in items.into_iter().enumerate() {
        let place = format!("input[{number}]");
        match item.get("type").and_then(Value::as_str).unwrap_or("message") {
            "message" => messages.push(fields::message(item, place, messages)?),
            "function_call" => add_call(messages, Fields::part(item, place)?)?,
            "function_call_output" => {
                let mut output = Fields::part(item, place.clone())?;
                let (id, content) = (output.need("call_id")?, output.take("output")?);
                output.end(&["id", "status", "type"])?;
                messages.push(tools::result(id, content, &format!("{place}."), messages)?);
            }
            "compaction" => messages.extend(compact::expand(Fields::part(item, place)?)?),
            "reasoning" => {}
            other => {
                let place = format!("{place}.type");
                let message = format!("{place}: {other:?} is not supported; input is messages");
                return Err(ApiError::field(place, message));
            }
        }
    }
    Ok(())
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
