//! Functions that the model may call, in the words of each interface: what they are, whether they may be called, and the
//! calls and results in a conversation.

use longhand::generation::Constraint;
use longhand::tools::{ForcedCall, ToolCall, Tools};
use longhand::{ChatFormat, Message};
use serde_json::{Value, json};

use super::fields::{Fields, text};
use crate::http::error::ApiError;

/// The functions of a request, and how they may be called.
#[derive(Default)]
pub(super) struct Wanted {
    pub tools: Option<Tools>,
    /// Whether one call at most is wanted.
    pub one_call: bool,
    pub choice: Choice,
}

/// Whether a function is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Choice {
    /// The model decides.
    #[default]
    Auto,
    /// No function is called, and the model is told of none.
    None,
    /// One at least is called.
    Any,
    /// The function of this name is called.
    Function(String),
}

impl Choice {
    /// A word of OpenAI's interfaces, if it is one.
    fn of_word(word: &str) -> Option<Choice> {
        match word {
            "auto" => Some(Choice::Auto),
            "none" => Some(Choice::None),
            "required" => Some(Choice::Any),
            _ => None,
        }
    }

    /// The choice of OpenAI's interfaces: a word, or an object that names a function or those that are allowed. Of the
    /// `definitions`, those that are not allowed are removed.
    fn of_openai(choice: Option<Value>, definitions: &mut Vec<Value>) -> Result<Choice, ApiError> {
        let object = match choice {
            None => return Ok(Choice::Auto),
            Some(Value::String(word)) => {
                let unknown =
                    || unknown_choice(&word, "auto, none, required, a function and allowed_tools are");
                return Choice::of_word(&word).ok_or_else(unknown);
            }
            Some(object) => object,
        };
        let fields = Fields::part(object, CHOICE.to_owned())?;
        if fields.get("type").is_none_or(|kind| kind != ALLOWED) {
            return Ok(Choice::Function(name(fields)?));
        }
        let (choice, allowed) = allowed(fields)?;
        for name in &allowed {
            if !definitions.iter().any(|definition| definition["function"]["name"] == **name) {
                return Err(no_function(name));
            }
        }
        definitions.retain(|definition| allowed.iter().any(|name| definition["function"]["name"] == **name));
        Ok(choice)
    }
}

/// The name of the function that an object of a choice stands for.
fn name(mut fields: Fields) -> Result<String, ApiError> {
    let kind: String = fields.need("type")?;
    check_kind(&fields, &kind)?;
    // Chat has the name in an object of its own.
    let name = match fields.nested("function")? {
        Some(mut function) => {
            let name = function.need("name")?;
            function.end(&[])?;
            name
        }
        None => fields.need("name")?,
    };
    fields.end(&[])?;
    Ok(name)
}

/// Whether one is called of the functions that an object allows, and their names.
fn allowed(mut fields: Fields) -> Result<(Choice, Vec<String>), ApiError> {
    // Chat has them in an object of their own.
    let mut inner = fields.nested(ALLOWED)?;
    let object = inner.as_mut().unwrap_or(&mut fields);
    let mode: String = object.need("mode")?;
    let unknown = || object.unsupported("mode", &mode, "auto, none and required are");
    let choice = Choice::of_word(&mode).ok_or_else(unknown)?;
    let allowed = (choice, object.each("tools", name)?);
    if let Some(inner) = inner {
        inner.end(&[])?;
    }
    fields.end(&["type"])?;
    Ok(allowed)
}

/// The field with the choice, in all interfaces.
const CHOICE: &str = "tool_choice";
/// The type of a choice that allows some of the functions.
const ALLOWED: &str = "allowed_tools";

fn no_function(name: &str) -> ApiError {
    ApiError::field(CHOICE, format!("{CHOICE}: there is no function {name:?} among the tools"))
}

fn unknown_choice(word: &str, known: &str) -> ApiError {
    ApiError::field(CHOICE, format!("{CHOICE}: {word:?} is not supported; {known}"))
}

/// The functions of OpenAI's chat: `tools`, `tool_choice` and `parallel_tool_calls`.
pub(super) fn of_chat(fields: &mut Fields) -> Result<Wanted, ApiError> {
    let definitions = fields.take("tools")?.unwrap_or_default();
    openais(fields, definitions)
}

/// Those of OpenAI's responses, whose functions are described in the list itself, or in a namespace of it.
pub(super) fn of_responses(fields: &mut Fields) -> Result<Wanted, ApiError> {
    let listed = fields.each("tools", |mut tool| match tool.need::<String>("type")?.as_str() {
        "namespace" => namespace(tool),
        kind => {
            check_kind(&tool, kind)?;
            Ok(vec![function(tool, "parameters", &["strict"])?])
        }
    })?;
    openais(fields, listed.into_iter().flatten().collect())
}

/// Functions of a namespace. The model knows them by both names. What is said of all stands before what is said of the first.
fn namespace(mut tool: Fields) -> Result<Vec<Value>, ApiError> {
    let (namespace, about): (String, Option<String>) = (tool.need("name")?, tool.take("description")?);
    let place = tool.place_of("tools");
    let mut functions = tool.each("tools", |mut tool| {
        tool.need("type").and_then(|kind: String| check_kind(&tool, &kind))?;
        let mut function = function(tool, "parameters", &["strict"])?;
        let name = function["function"]["name"].as_str().unwrap_or_default();
        function["function"]["name"] = in_namespace(&namespace, name).into();
        Ok(function)
    })?;
    tool.end(&[])?;
    let Some(first) = functions.first_mut() else {
        return Err(ApiError::field(place.clone(), format!("{place} is empty: give one function at least")));
    };
    if let Some(about) = about.filter(|about| !about.is_empty()) {
        let own = first["function"]["description"].as_str().unwrap_or_default();
        first["function"]["description"] = format!("{about}\n{own}").trim_end().into();
    }
    Ok(functions)
}

/// The name by which the model knows a function of a namespace.
pub(super) fn in_namespace(namespace: &str, name: &str) -> String {
    format!("{}__{name}", namespace.trim_end_matches("__"))
}

/// The namespace and the name of the function that the model knows by this name, if it is one of a namespace of these tools,
/// which are as a request has them.
pub(super) fn namespace_of<'a>(tools: &'a Value, known: &str) -> Option<(&'a str, &'a str)> {
    let namespaces = tools.as_array()?.iter().filter(|tool| tool["type"] == "namespace");
    let functions = namespaces.filter_map(|tool| Some((tool["name"].as_str()?, tool["tools"].as_array()?)));
    let mut names = functions.flat_map(|(namespace, functions)| {
        functions.iter().filter_map(move |function| Some((namespace, function["name"].as_str()?)))
    });
    names.find(|(namespace, name)| in_namespace(namespace, name) == known)
}

/// Those of Anthropic's messages.
pub(super) fn of_messages(fields: &mut Fields) -> Result<Wanted, ApiError> {
    let definitions = fields.each("tools", |mut tool| match tool.take::<String>("type")?.as_deref() {
        None | Some("custom") => function(tool, "input_schema", &["cache_control", "strict"]),
        Some(kind) => Err(tool.unsupported("type", kind, "tools are functions of the caller")),
    })?;
    let Some(mut choice) = fields.nested(CHOICE)? else { return wanted(definitions, Choice::Auto, false) };
    let alone = choice.take("disable_parallel_tool_use")?.unwrap_or(false);
    let which = match choice.need::<String>("type")?.as_str() {
        "auto" => Choice::Auto,
        "none" => Choice::None,
        "any" => Choice::Any,
        "tool" => Choice::Function(choice.need("name")?),
        word => return Err(unknown_choice(word, "auto, none, any and tool are")),
    };
    choice.end(&[])?;
    wanted(definitions, which, alone)
}

/// What OpenAI's interfaces say beside the functions.
fn openais(fields: &mut Fields, mut definitions: Vec<Value>) -> Result<Wanted, ApiError> {
    let choice = Choice::of_openai(fields.take(CHOICE)?, &mut definitions)?;
    let parallel = fields.take::<bool>("parallel_tool_calls")?.unwrap_or(true);
    wanted(definitions, choice, !parallel)
}

/// Refuses what is no function.
fn check_kind(fields: &Fields, kind: &str) -> Result<(), ApiError> {
    match kind {
        "function" => Ok(()),
        kind => Err(fields.unsupported(
            "type",
            kind,
            "tools are functions of the caller; turn this tool off there",
        )),
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

fn wanted(definitions: Vec<Value>, choice: Choice, one_call: bool) -> Result<Wanted, ApiError> {
    let refused = |message: String| Err(ApiError::field(CHOICE, format!("{CHOICE}: {message}")));
    if definitions.is_empty() && matches!(choice, Choice::Any | Choice::Function(_)) {
        return refused("there are no tools to call; give tools, or leave it out".to_owned());
    }
    if definitions.is_empty() || choice == Choice::None {
        return Ok(Wanted::default());
    }
    let tools =
        Tools::new(definitions).map_err(|error| ApiError::field("tools", format!("tools: {error}")))?;
    match &choice {
        Choice::Function(name) if !tools.has(name) => Err(no_function(name)),
        _ => Ok(Wanted { tools: Some(tools), one_call, choice }),
    }
}

/// What an answer begins with so that it is a call, and the shape of the rest. Arguments are valid by the schema of their
/// function, where such schemas can be enforced; else they are any JSON object, as where nothing is forced.
///
/// # Errors
/// Where calls of this model cannot be forced.
pub(super) fn force(
    format: &ChatFormat,
    tools: &Tools,
    choice: &Choice,
    one_call: bool,
) -> Result<Option<(String, Constraint)>, ApiError> {
    let refused = |message: String| ApiError::field(CHOICE, format!("{CHOICE}: {message}"));
    let function = match choice {
        Choice::Auto | Choice::None => return Ok(None),
        Choice::Any => None,
        Choice::Function(name) => Some(name.as_str()),
    };
    let written = format.tool_format()?;
    let forced = |tools: &Tools| written.as_ref()?.forced(tools, function, one_call);
    let ForcedCall { opening, schema } = forced(tools).ok_or_else(|| {
        refused(match function {
            Some(_) => "calls of this model cannot be enforced; use auto".to_owned(),
            None => "calls of this model cannot be enforced, or only of one function; name one, or use auto"
                .to_owned(),
        })
    })?;
    let compile = |schema: &Value| Constraint::json_schema(format, &schema.to_string());
    let constraint = compile(&schema).or_else(|error| {
        forced(&tools.with_any_arguments()).map_or(Err(error), |loose| compile(&loose.schema))
    });
    let constraint = constraint.map_err(|error| refused(error.to_string()))?;
    Ok(Some((opening, constraint.beginning_at_once())))
}

/// The calls of a message of OpenAI's chat.
pub(super) fn calls(fields: &mut Fields) -> Result<Vec<ToolCall>, ApiError> {
    fields.each("tool_calls", |mut call| {
        let id: String = call.need("id")?;
        if let Some(kind) = call.take::<String>("type")? {
            check_kind(&call, &kind)?;
        }
        let mut function = Fields::part(call.need("function")?, call.place_of("function"))?;
        call.end(&["index"])?;
        let made = made(id, &mut function)?;
        function.end(&[])?;
        Ok(made)
    })
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
            let place = place.trim_end_matches('.');
            Err(ApiError::field(place, format!("{place}: there is no call {id:?} before this result")))
        }
    }
}
