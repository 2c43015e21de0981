//! The functions that a model may call, as OpenAI's interface describes them.

use std::sync::Arc;

use serde_json::{Value, json};
use thiserror::Error;

/// Functions that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tools {
    definitions: Arc<Value>,
}

/// Definitions of functions cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// There are none.
    #[error("there is no function among the tools")]
    Empty,
    /// A tool is not a function.
    #[error("tool {} is not of the form {{\"type\": \"function\", \"function\": {{\"name\": …}}}}", .index + 1)]
    NotFunction {
        /// Its place in the list.
        index: usize,
    },
    /// A function's name is none.
    #[error("the name of tool {}, {name:?}, is not of 1 to 128 letters, digits, \"_\", \"-\", \".\", \":\" and \"/\"", .index + 1)]
    Name {
        /// Its place in the list.
        index: usize,
        /// The name.
        name: String,
    },
    /// Two functions have the same name.
    #[error("two tools have the name {name:?}")]
    Twice {
        /// The name.
        name: String,
    },
    /// The parameters are not described by an object.
    #[error("the parameters of the tool {name:?} are not a JSON schema of an object")]
    Parameters {
        /// The function.
        name: String,
    },
}

impl Tools {
    /// Functions of the form `{"type": "function", "function": {"name": …, "description": …, "parameters": …}}`, with a
    /// JSON schema for the parameters.
    ///
    /// # Errors
    /// A definition has another form, or two have the same name.
    pub fn new(definitions: Vec<Value>) -> Result<Tools, ToolsError> {
        if definitions.is_empty() {
            return Err(ToolsError::Empty);
        }
        for (index, definition) in definitions.iter().enumerate() {
            let Some(name) = name(definition).filter(|_| definition["type"] == "function") else {
                return Err(ToolsError::NotFunction { index });
            };
            let is_known = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
            if !(1..=128).contains(&name.len()) || !name.chars().all(is_known) {
                return Err(ToolsError::Name { index, name: name.chars().take(128).collect() });
            }
            if definitions[..index].iter().any(|other| self::name(other) == Some(name)) {
                return Err(ToolsError::Twice { name: name.to_owned() });
            }
            let parameters = &definition["function"]["parameters"];
            if !parameters.is_object() && !parameters.is_null() {
                return Err(ToolsError::Parameters { name: name.to_owned() });
            }
        }
        Ok(Tools { definitions: Arc::new(Value::Array(definitions)) })
    }

    /// Whether there is a function of this name.
    pub fn has(&self, name: &str) -> bool {
        self.definition(name).is_some()
    }

    /// The schema of a function's parameter; null where none is given.
    pub(crate) fn parameter(&self, function: &str, parameter: &str) -> &Value {
        static NULL: Value = Value::Null;
        let definition = self.definition(function).unwrap_or(&NULL);
        &definition["function"]["parameters"]["properties"][parameter]
    }

    /// The same functions with parameters that are any JSON object.
    pub fn with_any_arguments(&self) -> Tools {
        let loose = |definition: &Value| {
            let mut definition = definition.clone();
            definition["function"]["parameters"] = json!({"type": "object"});
            definition
        };
        Tools { definitions: Arc::new(self.list().iter().map(loose).collect()) }
    }

    /// The names of the functions, and the schemas of their parameters; null where none is given.
    pub(super) fn functions(&self) -> impl Iterator<Item = (&str, &Value)> {
        let functions = self.list().iter();
        functions.filter_map(|definition| Some((name(definition)?, &definition["function"]["parameters"])))
    }

    /// All definitions, as a list.
    pub(crate) fn value(&self) -> &Value {
        &self.definitions
    }

    fn definition(&self, function: &str) -> Option<&Value> {
        self.list().iter().find(|definition| name(definition) == Some(function))
    }

    fn list(&self) -> &[Value] {
        self.definitions.as_array().map_or(&[], Vec::as_slice)
    }
}

fn name(definition: &Value) -> Option<&str> {
    definition["function"]["name"].as_str()
}
