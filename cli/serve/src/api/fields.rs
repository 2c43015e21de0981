//! The fields of a request, taken one by one. What is left at the end is refused, unless it cannot change the answer.

use std::sync::LazyLock;

use longhand::Message;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::tools;
use crate::http::error::ApiError;

/// A request, or a part of one.
pub(super) struct Fields {
    object: Map<String, Value>,
    /// Where it stands in the request, for errors: empty, or with a dot at its end.
    place: String,
}

/// Values with which a field asks for what is done anyway.
static NEUTRAL: LazyLock<[(&str, Value); 10]> = LazyLock::new(|| {
    [
        ("best_of", json!(1)),
        ("function_call", json!("none")),
        ("modalities", json!(["text"])),
        ("penalize_newline", json!(true)),
        ("reasoning_format", json!("auto")),
        ("tfs_z", json!(1)),
        ("tfs_z", json!(1.0)),
        ("typical_p", json!(1)),
        ("typical_p", json!(1.0)),
        ("verbosity", json!("medium")),
    ]
});

impl Fields {
    pub(super) fn new(object: Map<String, Value>) -> Fields {
        Fields { object, place: String::new() }
    }

    /// A part of a request, which stands at this place of it.
    pub(super) fn part(value: Value, place: String) -> Result<Fields, ApiError> {
        match value {
            Value::Object(object) => Ok(Fields { object, place: format!("{place}.") }),
            _ => Err(ApiError::field(place.clone(), format!("{place} must be an object"))),
        }
    }

    /// A field, which need not be there. `null` is as if it were not.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        let place = self.place_of(name);
        match self.object.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match serde_json::from_value(value) {
                Ok(value) => Ok(Some(value)),
                Err(error) => {
                    Err(ApiError::field(place.clone(), format!("{place}: {}", in_words_of_json(&error))))
                }
            },
        }
    }

    /// A whole number. Some languages write `5.0`.
    pub(super) fn integer(&mut self, name: &str) -> Result<Option<i64>, ApiError> {
        let place = self.place_of(name);
        let Some(number) = self.take::<serde_json::Number>(name)? else { return Ok(None) };
        let whole = number.as_f64().filter(|number| number.fract() == 0.0);
        let exact = whole.filter(|number| number.abs() < 1e15).map(|number| number as i64);
        let wrong = if whole.is_some() { "which is out of range" } else { "but must be a whole number" };
        let error = || ApiError::field(place.clone(), format!("{place} is {number}, {wrong}"));
        number.as_i64().or(exact).map(Some).ok_or_else(error)
    }

    /// A field as it stands.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.object.get(name)
    }

    /// A field that must be there.
    pub(super) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ApiError> {
        let place = self.place_of(name);
        self.take(name)?.ok_or_else(|| ApiError::field(place.clone(), format!("{place} is missing")))
    }

    /// A field that is an object, for its own fields.
    pub(super) fn nested(&mut self, name: &str) -> Result<Option<Fields>, ApiError> {
        let place = self.place_of(name);
        Ok(self.take::<Map<String, Value>>(name)?.map(|object| Fields { object, place: format!("{place}.") }))
    }

    /// What each of the objects in a list is read as. Without the list there are none.
    pub(super) fn each<T>(
        &mut self,
        name: &str,
        read: impl Fn(Fields) -> Result<T, ApiError>,
    ) -> Result<Vec<T>, ApiError> {
        let place = self.place_of(name);
        let values = self.take::<Vec<Value>>(name)?.unwrap_or_default().into_iter().enumerate();
        values.map(|(number, value)| read(Fields::part(value, format!("{place}[{number}]"))?)).collect()
    }

    /// The error of a field with a value that is not supported. `known` says what is.
    pub(super) fn unsupported(&self, name: &str, value: &str, known: &str) -> ApiError {
        let place = self.place_of(name);
        ApiError::field(place.clone(), format!("{place}: {value:?} is not supported; {known}"))
    }

    /// Where a field stands in the request.
    pub(super) fn place_of(&self, name: &str) -> String {
        format!("{}{name}", self.place)
    }

    /// Refuses what is left, but for fields that cannot change the answer: `harmless` by their names, and all that are empty,
    /// zero or false.
    pub(super) fn end(self, harmless: &[&str]) -> Result<(), ApiError> {
        let says_nothing = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(values) => values.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::Bool(true) => false,
        };
        let says_nothing = |name: &str, value: &Value| {
            says_nothing(value) || NEUTRAL.iter().any(|(known, usual)| *known == name && value == usual)
        };
        let left = self
            .object
            .iter()
            .find(|(name, value)| !harmless.contains(&name.as_str()) && !says_nothing(name, value));
        match left {
            None => Ok(()),
            Some((name, _)) => {
                let place = self.place_of(name);
                let message = format!("{place} is not supported: leave it out");
                Err(ApiError::field(place, message))
            }
        }
    }
}

/// An error about a value of another type than is wanted, in the words of JSON instead of Rust's. Others stay as they are.
fn in_words_of_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let parts = text.strip_prefix("invalid type: ").or_else(|| text.strip_prefix("invalid value: "));
    let Some((found, expected)) = parts.and_then(|parts| parts.rsplit_once(", expected ")) else {
        return text;
    };
    let found = match found {
        "sequence" => "a list",
        "map" => "an object",
        "null" => "null",
        found => match found.split_once(' ') {
            Some(("integer" | "string" | "boolean", value)) => value.trim_matches('`'),
            _ => found.strip_prefix("floating point ").map_or(found, |value| value.trim_matches('`')),
        },
    };
    let expected = match expected {
        "f32" | "f64" | "a JSON number" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "a sequence" => "a list",
        "a map" => "an object",
        "a boolean" => "true or false",
        expected => expected,
    };
    format!("{expected} is wanted, and not {found}")
}

/// The messages of OpenAI's chat.
pub(super) fn messages(values: Vec<Value>) -> Result<Vec<Message>, ApiError> {
    if values.is_empty() {
        return Err(ApiError::field("messages", "messages is empty: send one at least"));
    }
    let mut messages = Vec::new();
    for (number, value) in values.into_iter().enumerate() {
        messages.push(message(value, format!("messages[{number}]"), &messages)?);
    }
    Ok(messages)
}

/// A message, which stands at this place of the request, behind others.
pub(super) fn message(value: Value, place: String, before: &[Message]) -> Result<Message, ApiError> {
    let mut fields = Fields::part(value, place)?;
    let role: String = fields.need("role")?;
    let role = match role.as_str() {
        // What OpenAI calls it for newer models.
        "developer" => "system",
        "system" | "user" | "assistant" => &role,
        "tool" => {
            let (id, content) = (fields.need("tool_call_id")?, fields.take("content")?);
            let result = tools::result(id, content, &fields.place, before)?;
            fields.end(&["name"])?;
            return Ok(result);
        }
        other => {
            return Err(fields.unsupported("role", other, "roles are system, user, assistant and tool"));
        }
    };
    let place = fields.place_of("content");
    let content =
        fields.take::<Value>("content")?.map_or(Ok(String::new()), |content| text(content, &place))?;
    let message = Message::new(role, content).with_calls(tools::calls(&mut fields)?);
    // What an answer has said beside its text is not read again, as chat templates have it.
    fields.end(&[
        "name",
        "reasoning_content",
        "reasoning",
        "refusal",
        "id",
        "type",
        "status",
        "annotations",
        "phase",
    ])?;
    Ok(message)
}

/// What messages consist of.
pub(super) const ONLY_TEXTS: &str = "this model reads texts";

/// A text, or a list of parts that are texts.
pub(super) fn text(value: Value, place: &str) -> Result<String, ApiError> {
    let parts = match value {
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        _ => return Err(ApiError::field(place, format!("{place} must be a text, or a list of parts"))),
    };
    let texts = parts.into_iter().enumerate().map(|(number, part)| {
        let mut part = Fields::part(part, format!("{place}[{number}]"))?;
        let kind: String = part.need("type")?;
        if !matches!(kind.as_str(), "text" | "input_text" | "output_text") {
            return Err(part.unsupported("type", &kind, ONLY_TEXTS));
        }
        let text: String = part.need("text")?;
        part.end(&["cache_control", "annotations", "citations"])?;
        Ok(text)
    });
    Ok(texts.collect::<Result<Vec<String>, ApiError>>()?.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_wrong_types_are_refused_in_the_words_of_json() {
        fn refused<T: DeserializeOwned>(value: Value) -> String {
            let error = serde_json::from_value::<T>(value).err().expect("another type");
            in_words_of_json(&error)
        }
        for (found, expected) in [
            (refused::<f32>(json!("hot")), "a number is wanted, and not \"hot\""),
            (refused::<u32>(json!(-1)), "a whole number that is not negative is wanted, and not -1"),
            (refused::<u32>(json!(1.5)), "a whole number that is not negative is wanted, and not 1.5"),
            (refused::<String>(json!(5)), "a string is wanted, and not 5"),
            (refused::<String>(json!([1])), "a string is wanted, and not a list"),
            (refused::<Vec<String>>(json!({})), "a list is wanted, and not an object"),
            (refused::<Vec<String>>(json!(["a", true])), "a string is wanted, and not true"),
            (refused::<bool>(json!("a, expected b")), "true or false is wanted, and not \"a, expected b\""),
            (refused::<Map<String, Value>>(json!(null)), "an object is wanted, and not null"),
        ] {
            assert_eq!(found, expected);
        }
    }
}
