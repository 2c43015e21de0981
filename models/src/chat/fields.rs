//! What tools and calls say beside the contents of messages: names, descriptions, arguments. As contents they are replaced by
//! placeholders, so that it is known where a template writes them, and whether it does.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::prompt::{placeholder, placeholders};
use super::{ChatError, Loss, Message, ToolCall, Tools};

/// Keys of definitions whose texts are free. Templates look at others, such as `type`.
const FREE: [&str; 8] = ["name", "description", "title", "default", "enum", "const", "examples", "pattern"];

/// Tools and calls whose texts are replaced by placeholders.
#[derive(Debug, Default)]
pub(super) struct MaskedFields<'a> {
    /// The definitions of tools.
    pub(super) tools: Option<String>,
    /// The calls of each message.
    pub(super) calls: Vec<Vec<ToolCall>>,
    /// The number of the first placeholder.
    first: u64,
    hidden: Vec<Field<'a>>,
    /// Texts that are not replaced.
    open: Vec<Cow<'a, str>>,
}

/// What a placeholder replaces.
#[derive(Debug)]
struct Field<'a> {
    text: Cow<'a, str>,
    of: Owner,
    /// Whether a template must write it.
    is_required: bool,
}

/// What a field is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The tool with this index.
    Tool(usize),
    /// The call with this index, of the message with this index.
    Call(usize, usize),
}

impl<'a> MaskedFields<'a> {
    /// Replaces the texts of tools and calls by placeholders with numbers from `first` on.
    pub(super) fn new(messages: &'a [Message], tools: Option<&'a Tools>, first: u64) -> MaskedFields<'a> {
        let mut fields = MaskedFields { first, ..MaskedFields::default() };
        if let Some(tools) = tools {
            let list = tools.value().as_array().map_or(&[][..], Vec::as_slice);
            let masked = list.iter().enumerate().map(|(index, tool)| fields.definition(index, tool, ""));
            fields.tools = Some(masked.collect::<Value>().to_string());
        }
        for (index, message) in messages.iter().enumerate() {
            let calls = message.tool_calls.iter().enumerate();
            let calls = calls.map(|(call, each)| fields.call(Owner::Call(index, call), each)).collect();
            fields.calls.push(calls);
            fields.open.extend(message.tool_call_id.as_deref().map(Cow::Borrowed));
            fields.open.extend(message.name.as_deref().map(Cow::Borrowed));
        }
        fields
    }

    /// How many texts are replaced.
    pub(super) fn len(&self) -> usize {
        self.hidden.len()
    }

    /// The text that a placeholder replaces.
    pub(super) fn text(&self, number: u64) -> Option<&str> {
        self.field(number).map(|field| &*field.text)
    }

    /// Names of parameters, numbers of calls and the like, which are not replaced.
    pub(super) fn open_texts(&self) -> impl Iterator<Item = &str> {
        self.open.iter().map(|text| &**text)
    }

    /// All texts.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.open_texts().chain(self.hidden.iter().map(|field| &*field.text))
    }

    fn field(&self, number: u64) -> Option<&Field<'a>> {
        self.hidden.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Whether a template writes tools and calls: their names, the descriptions of the functions and the arguments.
    ///
    /// # Errors
    /// [`ChatError::NoTools`], [`ChatError::Lost`].
    pub(super) fn check(&self, rendered: &str, messages: &[Message]) -> Result<(), ChatError> {
        let mut found = vec![false; self.hidden.len()];
        for (_, number) in placeholders(rendered) {
            let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
            if let Some(found) = index.and_then(|index| found.get_mut(index)) {
                *found = true;
            }
        }
        let is_tool = |field: &Field| matches!(field.of, Owner::Tool(_));
        let mut tools =
            self.hidden.iter().zip(&found).filter(|(field, _)| is_tool(field) && field.is_required);
        if self.tools.is_some() && !tools.any(|(_, found)| *found) {
            return Err(ChatError::NoTools);
        }
        let lost = self.hidden.iter().zip(&found).find(|(field, found)| field.is_required && !**found);
        let Some((Field { of, .. }, _)) = lost else { return Ok(()) };
        let name = self.hidden.iter().find(|field| field.of == *of).map_or("", |field| &*field.text);
        let messages = match *of {
            Owner::Tool(_) => format!("the description of the tool {name:?}"),
            Owner::Call(message, _) => {
                let answers =
                    messages[..=message].iter().filter(|message| message.role == "assistant").count();
                format!("the call of {name:?} in answer {answers}")
            }
        };
        Err(ChatError::Lost { loss: Loss::Dropped, messages })
    }

    /// A part of a tool's definition, which has this key.
    fn definition(&mut self, tool: usize, value: &'a Value, key: &str) -> Value {
        match value {
            Value::String(text) if FREE.contains(&key) => self.hide(text, Owner::Tool(tool), false),
            Value::String(text) => {
                self.open.push(text.into());
                value.clone()
            }
            Value::Array(items) => items.iter().map(|item| self.definition(tool, item, key)).collect(),
            Value::Object(map) => {
                let keys = map.keys().map(|key| Cow::Borrowed(key.as_str()));
                self.open.extend(keys);
                let mut masked = Map::new();
                for (name, value) in map {
                    let value = match (key, value) {
                        // Of the function itself.
                        ("function", Value::String(text))
                            if ["name", "description"].contains(&name.as_str()) =>
                        {
                            self.hide(text, Owner::Tool(tool), true)
                        }
                        _ if key == "default" || key == "examples" || key == "const" => {
                            self.definition(tool, value, key)
                        }
                        _ => self.definition(tool, value, name),
                    };
                    masked.insert(name.clone(), value);
                }
                Value::Object(masked)
            }
            _ => value.clone(),
        }
    }

    fn call(&mut self, owner: Owner, call: &'a ToolCall) -> ToolCall {
        self.open.push(call.id.as_str().into());
        let name = self.hide(&call.name, owner, true);
        let arguments = self.argument(owner, call.object());
        call.masked(name.as_str().unwrap_or_default().to_owned(), &arguments)
    }

    fn argument(&mut self, owner: Owner, value: Value) -> Value {
        match value {
            Value::String(text) => self.hide(text, owner, true),
            Value::Array(items) => items.into_iter().map(|item| self.argument(owner, item)).collect(),
            Value::Object(map) => {
                let map = map.into_iter().map(|(key, value)| {
                    self.open.push(key.clone().into());
                    let value = self.argument(owner, value);
                    (key, value)
                });
                Value::Object(map.collect())
            }
            _ => value,
        }
    }

    /// A placeholder for a text, but for the white space around it, which templates trim.
    fn hide(&mut self, text: impl Into<Cow<'a, str>>, of: Owner, is_required: bool) -> Value {
        let text = text.into();
        let inner = text.trim();
        if inner.is_empty() {
            return Value::String(text.into_owned());
        }
        let (before, behind) = text.split_once(inner).unwrap_or_default();
        let masked = [before, &placeholder(self.first + self.hidden.len() as u64), behind].concat();
        let text = match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
            Cow::Owned(_) => Cow::Owned(inner.to_owned()),
        };
        self.hidden.push(Field { text, of, is_required });
        Value::String(masked)
    }
}
