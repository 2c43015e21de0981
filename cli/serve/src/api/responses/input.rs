//! From the items of a request to messages.

use longhand::Message;
use serde_json::Value;

use super::compact;
use crate::api::fields::{self, Fields};
use crate::api::tools;
use crate::http::error::ApiError;

/// The conversation of a request, and its instructions, which are the system message.
pub(super) fn conversation(fields: &mut Fields) -> Result<(Option<String>, Vec<Message>), ApiError> {
    let instructions: Option<String> = fields.take("instructions")?;
    let mut messages: Vec<Message> = instructions.iter().map(Message::system).collect();
    messages.extend(input(fields.need("input")?)?);
    if instructions.is_some() && messages.get(1).is_some_and(|second| second.role == "system") {
        // Chat templates have one system message.
        let second = messages.remove(1);
        messages[0].content += &format!("\n\n{}", second.content);
    }
    Ok((instructions, messages))
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
            "compaction" => {
                messages.extend(compact::expand(Fields::part(item, format!("input[{number}]"))?)?);
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
