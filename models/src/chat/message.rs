//! Messages of a conversation, and the calls of functions in them.

use serde_json::{Map, Value};

/// One message of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or another role that the template supports.
    pub role: String,
    /// The text; of a message of the role `tool`, what the function has returned.
    pub content: String,
    /// The functions that an answer calls.
    pub tool_calls: Vec<ToolCall>,
    /// Of a message of the role `tool`: the [`ToolCall::id`] of the call that it answers.
    pub tool_call_id: Option<String>,
    /// Of a message of the role `tool`: the function's name.
    pub name: Option<String>,
}

impl Message {
    /// A message of this role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into(), ..Message::default() }
    }

    /// A message with instructions for the model.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new("system", content)
    }

    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new("user", content)
    }

    /// An answer of the model.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new("assistant", content)
    }

    /// What the function of a call has returned.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Message {
        let (id, name) = (Some(call.id.clone()), Some(call.name.clone()));
        Message { tool_call_id: id, name, ..Message::new("tool", content) }
    }

    /// The same with calls of functions.
    pub fn with_calls(self, tool_calls: Vec<ToolCall>) -> Message {
        Message { tool_calls, ..self }
    }
}

/// A call of a function, in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// What the message with its result names it by.
    pub id: String,
    /// The function.
    pub name: String,
    arguments: String,
}

impl ToolCall {
    /// A call with these arguments: the text of a JSON object. Blank text stands for no arguments.
    ///
    /// # Errors
    /// The arguments are no JSON object.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: &str,
    ) -> Result<ToolCall, serde_json::Error> {
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments.trim() };
        serde_json::from_str::<Map<String, Value>>(arguments)?;
        Ok(ToolCall { id: id.into(), name: name.into(), arguments: arguments.to_owned() })
    }

    /// The arguments: the text of a JSON object, as it was given.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The arguments as a value.
    pub(super) fn object(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap_or_default()
    }

    /// The same call with other texts in it.
    pub(super) fn masked(&self, name: String, arguments: &Value) -> ToolCall {
        ToolCall { id: self.id.clone(), name, arguments: arguments.to_string() }
    }
}
