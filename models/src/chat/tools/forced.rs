//! Answers that must be calls: what they begin with, and a JSON schema of what follows. A format can be forced where a call is
//! JSON, or ends with JSON: what stands before it is written for the model.

use serde_json::{Deserializer, Map, Value, json};

use super::definitions::Tools;
use super::format::CALL_ID;
use super::stream::new_id;
use super::{ToolCall, ToolFormat};

/// An answer that is a call of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct ForcedCall {
    /// What the answer begins with, behind the prompt. Its marks are control tokens.
    pub opening: String,
    /// What follows and ends the answer: JSON that is valid by this schema.
    pub schema: Value,
}

/// What a template writes around the JSON of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// An object that has the function's name and arguments under these keys, alone or in a list.
    Object { before: String, name: String, arguments: String, in_list: bool },
    /// The function's name between these texts, and an object of arguments.
    Arguments { before: String, between: String },
}

impl Frame {
    /// That of an answer which is this call.
    pub(super) fn of(answer: &str, call: &ToolCall) -> Option<Frame> {
        let at = answer.find(&call.name)?;
        Frame::of_object(answer, at, call).or_else(|| {
            let behind = at + call.name.len();
            let json = behind + answer[behind..].find('{')?;
            let (arguments, _) = object(&answer[json..])?;
            let frame = || Frame::Arguments {
                before: answer[..at].to_owned(),
                between: answer[behind..json].to_owned(),
            };
            (Value::Object(arguments) == call.object()).then(frame)
        })
    }

    /// An answer with this frame that is this call.
    pub(super) fn example(&self, call: &ToolCall) -> String {
        match self {
            Frame::Object { before, name, arguments, in_list } => {
                let object = json!({name: call.name, arguments: call.object()});
                format!("{before}{}", if *in_list { json!([object]) } else { object })
            }
            Frame::Arguments { before, between } => {
                format!("{before}{}{between}{}", call.name, call.arguments())
            }
        }
    }

    /// The same where the name at this place stands in an object with the arguments.
    fn of_object(answer: &str, at: usize, call: &ToolCall) -> Option<Frame> {
        let start = answer[..at].rfind('{')?;
        let (object, length) = object(&answer[start..])?;
        let key = |is_it: &dyn Fn(&Value) -> bool| {
            object.iter().find(|(_, value)| is_it(value)).map(|(key, _)| key.clone())
        };
        let name = key(&|value| *value == call.name.as_str())?;
        let arguments = key(&|value| *value == call.object())?;
        let before = answer[..start].trim_end();
        let list = before.strip_suffix('[');
        let in_list = list.is_some() && answer[start + length..].trim_start().starts_with([']', ',']);
        let before = if in_list { list.unwrap_or(before) } else { &answer[..start] };
        Some(Frame::Object { before: before.to_owned(), name, arguments, in_list })
    }
}

/// The object that a text begins with, and how many bytes it takes.
fn object(text: &str) -> Option<(Map<String, Value>, usize)> {
    let mut values = Deserializer::from_str(text).into_iter();
    let object = values.next()?.ok()?;
    Some((object, values.byte_offset()))
}

impl ToolFormat {
    /// An answer that calls one of these functions, or the one of this name. Where the format allows several calls, the answer
    /// may have more, unless `one_call` is set. `None` where there is no such function, or the format has no place for JSON
    /// that holds a choice of these functions and their arguments.
    ///
    /// An answer is a call without thinking before it.
    pub fn forced(&self, tools: &Tools, function: Option<&str>, one_call: bool) -> Option<ForcedCall> {
        let functions: Vec<(&str, &Value)> =
            tools.functions().filter(|(name, _)| function.is_none_or(|function| function == *name)).collect();
        match (self.frame()?, &functions[..]) {
            (_, []) => None,
            (Frame::Arguments { before, between }, [(name, parameters)]) => {
                let id = new_id();
                let [before, between] = [before, between].map(|text| text.replace(CALL_ID, &id));
                Some(ForcedCall {
                    opening: format!("{before}{name}{between}"),
                    schema: arguments_schema(parameters, "#"),
                })
            }
            (Frame::Arguments { .. }, _) => None,
            (Frame::Object { before, name, arguments, in_list }, functions) => {
                let place = if *in_list { "#/items" } else { "#" };
                let one = |(function, parameters): &(&str, &Value), place: &str| {
                    let parameters = arguments_schema(parameters, &format!("{place}/properties/{arguments}"));
                    json!({
                        "type": "object",
                        "properties": {name: {"const": function}, arguments: parameters},
                        "required": [name, arguments],
                        "additionalProperties": false,
                    })
                };
                let schema = match functions {
                    [function] => one(function, place),
                    several => {
                        let several = several.iter().enumerate();
                        let option = |(number, function)| one(function, &format!("{place}/anyOf/{number}"));
                        json!({"anyOf": several.map(option).collect::<Value>()})
                    }
                };
                let schema = match (in_list, one_call) {
                    (false, _) => schema,
                    (true, false) => json!({"type": "array", "items": schema, "minItems": 1}),
                    (true, true) => json!({"type": "array", "items": schema, "minItems": 1, "maxItems": 1}),
                };
                Some(ForcedCall { opening: before.clone(), schema })
            }
        }
    }
}

/// The schema of a function's arguments, which stands at this place of another one: an object in any case.
fn arguments_schema(parameters: &Value, place: &str) -> Value {
    let Value::Object(parameters) = parameters else { return json!({"type": "object"}) };
    let mut schema = parameters.clone();
    schema.insert("type".to_owned(), "object".into());
    let mut schema = Value::Object(schema);
    move_references(&mut schema, place);
    schema
}

/// Changes references to places of a schema that now stands at `place` of another one.
fn move_references(value: &mut Value, place: &str) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| move_references(value, place)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("$ref", Value::String(reference)) => {
                        if let Some(rest) = reference.strip_prefix('#') {
                            // Both mean the whole schema.
                            *reference =
                                if rest == "/" { place.to_owned() } else { format!("{place}{rest}") };
                        }
                    }
                    // Data, whatever it looks like.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(named)) => {
                        named.values_mut().for_each(|schema| move_references(schema, place));
                    }
                    (_, value) => move_references(value, place),
                }
            }
        }
        _ => {}
    }
}
