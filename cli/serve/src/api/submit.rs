//! From a conversation to events: what all interfaces share.

use std::collections::HashMap;
use std::sync::Arc;

use longhand::error::ConstraintError;
use longhand::generation::{Constraint, GenerateOptions, Sampler, SamplerOptions};
use longhand::text::begun_thinking;
use longhand::{ChatFormat, EngineError, Hint, InterruptFlag, Message};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task;

use super::fields::Fields;
use super::tools;
use crate::http::error::ApiError;
use crate::http::stream::Events;
use crate::service::{
    CallReader, Documents, Event, Rendered, Request, Service, SourceSearch, Text, Wanted, Work,
};

impl Text {
    /// A text that comes as its tokens.
    ///
    /// # Errors
    /// Where one is outside the vocabulary, or the text is longer than the context.
    pub(super) fn of_tokens(service: &Service, tokens: Vec<u32>) -> Result<Text, ApiError> {
        check_tokens(service, &tokens)?;
        check_length(service, tokens.len())?;
        Ok(Text { documents: 0, ..Text::of_documents(tokens, Vec::new()) })
    }

    /// Documents alone.
    pub(super) fn of_documents(tokens: Vec<u32>, names: Vec<String>) -> Text {
        let (documents, opening, stops) = (tokens.len(), String::new(), Vec::new());
        Text { tokens, documents, names, opening, has_thinking: false, calls: None, stops, sources: None }
    }
}

/// Most answers to one request.
const MAX_ANSWERS: usize = 16;

impl Wanted {
    /// One answer, sampled as the request says, in the words of OpenAI and of llama.cpp's server.
    pub(super) fn of(fields: &mut Fields) -> Result<Wanted, ApiError> {
        // Any name of a model is taken. What is no name is a mistake.
        fields.take::<String>("model")?;
        let usual = SamplerOptions::default();
        let sampling = SamplerOptions {
            temperature: fields.take("temperature")?.unwrap_or(usual.temperature),
            top_k: fields.integer("top_k")?.map_or(usual.top_k, |k| usize::try_from(k).unwrap_or(0)),
            top_p: fields.take("top_p")?.unwrap_or(usual.top_p),
            min_p: fields.take("min_p")?.unwrap_or(usual.min_p),
            repeat_penalty: fields.take("repeat_penalty")?.unwrap_or(usual.repeat_penalty),
            repeat_last_n: fields
                .integer("repeat_last_n")?
                .map_or(usual.repeat_last_n, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            presence_penalty: fields.take("presence_penalty")?.unwrap_or(usual.presence_penalty),
            frequency_penalty: fields.take("frequency_penalty")?.unwrap_or(usual.frequency_penalty),
            logit_bias: logit_bias(fields)?,
            // A negative seed is any.
            seed: match fields.integer("seed")? {
                Some(seed) if seed >= 0 => seed.unsigned_abs(),
                _ => crate::random(),
            },
        };
        Ok(Wanted { answers: 1, sampling, ..Wanted::default() })
    }

    /// The same with what only OpenAI's older interfaces have: `n`, `stop`, and limits by several names, the last of which
    /// counts.
    pub(super) fn with_openais(self, fields: &mut Fields, limits: &[&str]) -> Result<Wanted, ApiError> {
        let n = fields.integer("n")?.unwrap_or(1);
        let answers = usize::try_from(n).ok().filter(|n| (1..=MAX_ANSWERS).contains(n));
        let answers = answers
            .ok_or_else(|| ApiError::field("n", format!("n is {n}, but must be from 1 to {MAX_ANSWERS}")))?;
        let mut limit = None;
        for name in limits {
            // llama.cpp's server takes -1 for no limit.
            limit = fields.integer(name)?.map_or(limit, |tokens| usize::try_from(tokens).ok());
        }
        let (stops, limit) = (stops(fields, "stop")?, limit.unwrap_or(usize::MAX));
        Ok(Wanted { answers, options: GenerateOptions { stops, limit, ..self.options }, ..self })
    }
}

/// Tokens by their numbers, and what is added to their logits.
fn logit_bias(fields: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let biases: HashMap<String, f32> = fields.take("logit_bias")?.unwrap_or_default();
    let token = |(token, bias): (String, f32)| match token.parse::<u32>() {
        Ok(number) if number.to_string() == token => Ok((number, bias)),
        _ => {
            Err(ApiError::field("logit_bias", format!("logit_bias: {token:?} is not the number of a token")))
        }
    };
    let mut biases = biases.into_iter().map(token).collect::<Result<Vec<_>, ApiError>>()?;
    biases.sort_unstable_by_key(|(token, _)| *token);
    Ok(biases)
}

/// Sequences that end an answer: one, or a list.
pub(super) fn stops(fields: &mut Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let place = fields.place_of(name);
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        _ => None,
    };
    let stops = match fields.take::<Value>(name)? {
        None => Some(Vec::new()),
        Some(Value::Array(values)) => values.into_iter().map(text).collect(),
        Some(value) => text(value).map(|one| vec![one]),
    };
    stops.ok_or_else(|| ApiError::field(place.clone(), format!("{place} must be a text, or a list of texts")))
}

/// A conversation that is to be answered.
pub(super) struct Conversation {
    pub messages: Vec<Message>,
    pub documents: Arc<Documents>,
    /// Whether the model is to think; `None` where its chat template decides.
    pub thinks: Option<bool>,
    pub tools: tools::Wanted,
    /// Whether answers say where in the documents they come from.
    pub sources: bool,
}

/// The tokens of a conversation.
///
/// # Errors
/// Where the chat template refuses it or knows no tools, or it is longer than the context.
pub(super) async fn render(service: &Arc<Service>, conversation: Conversation) -> Result<Text, ApiError> {
    let service = service.clone();
    in_background(move || {
        let Conversation { messages, documents, thinks, tools, sources } = conversation;
        let tools::Wanted { tools, one_call, choice } = tools;
        let mut format = service.format().clone();
        if messages.last().is_some_and(|last| last.role == "assistant") {
            let message =
                "messages: the last one is the assistant's, and an answer that has begun is not continued here";
            return Err(ApiError::field("messages", message));
        }
        match thinks.map(|thinks| (thinks, format.with_thinking(thinks))) {
            None => {}
            Some((_, Ok(changed))) => format = changed,
            // Who wants no thinking has what he wants, as far as is known.
            Some((false, Err(error))) if error.hint() == Some(Hint::OmitThinking) => {}
            Some((_, Err(error))) => return Err(ApiError { field: None, ..error.into() }),
        }
        let mut forced = None;
        let reader = match tools {
            None => None,
            Some(tools) => {
                format = format
                    .with_tools(&tools)
                    .map_err(|error| ApiError { field: Some("tools".into()), ..error.into() })?;
                let (written, controls) = service.tool_format()?.cloned().ok_or_else(|| {
                    ApiError::field("tools", "tools: how this model calls functions is not known here")
                })?;
                forced = tools::force(&format, &tools, &choice, one_call)?;
                let constraint = forced.as_ref().map(|(_, constraint)| constraint.clone());
                Some(CallReader { format: written, controls, tools, one_call, constraint })
            }
        };
        let mut rendered = match service.render(&format, &documents, &messages) {
            // Some chat templates take one system message, and let user and assistant alternate. Agents send several.
            Err(error @ EngineError::Chat { .. }) => {
                let joined = joined(&messages).ok_or(error)?;
                service.render(&format, &documents, &joined)?
            }
            rendered => rendered?,
        };
        let stops = format.template().stop_strings().iter().map(|stop| (*stop).to_owned()).collect();
        let mut opening = begun_thinking(&rendered.tokens, format.tokenizer()).opening;
        if let Some((begun, _)) = forced {
            let tokens = format.tokenizer().encode_prompt(&begun, &[], false);
            rendered.tokens.extend(tokens.map_err(|error| ApiError::field("tool_choice", error.to_string()))?);
            opening += &begun;
        }
        check_length(&service, rendered.tokens.len())?;
        let sources = sources.then(|| SourceSearch::new(documents, &messages));
        let Rendered { tokens, documents, names } = rendered;
        Ok(Text { tokens, documents, names, opening, has_thinking: true, calls: reader, stops, sources })
    })
    .await
}

/// A conversation whose neighbours of the same role are one message. `None` where there are none, results of calls aside.
fn joined(messages: &[Message]) -> Option<Vec<Message>> {
    let mut joined: Vec<Message> = Vec::new();
    for message in messages {
        match joined.last_mut() {
            Some(last) if last.role == message.role && last.role != "tool" => {
                let texts = [&last.content, &message.content].map(String::as_str);
                last.content =
                    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
                last.tool_calls.extend(message.tool_calls.iter().cloned());
            }
            _ => joined.push(message.clone()),
        }
    }
    (joined.len() < messages.len()).then_some(joined)
}

/// The tokens of a text that is to be continued.
///
/// # Errors
/// Where it cannot be encoded, or is longer than the context.
pub(super) async fn encode(service: &Arc<Service>, text: String) -> Result<Text, ApiError> {
    let service = service.clone();
    in_background(move || {
        // Who writes the whole text writes the control tokens, too.
        let tokens = service.format().tokenizer().encode(&text, true, true);
        Text::of_tokens(&service, tokens.map_err(|error| ApiError::field("prompt", error.to_string()))?)
    })
    .await
}

/// The shape that an answer is to have, if it is to have one, compiled: any JSON object, what a schema says, or what a grammar or
/// a regular expression allows.
///
/// # Errors
/// Where the shape is of another kind, or cannot be used.
pub(super) async fn shape(
    service: &Arc<Service>,
    value: Option<Value>,
    place: &str,
) -> Result<Option<Constraint>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    let mut fields = Fields::part(value, place.to_owned())?;
    let kind: String = fields.need("type")?;
    // How it is compiled, and what.
    type Compile = fn(&ChatFormat, &str) -> Result<Constraint, ConstraintError>;
    let (compile, definition): (Compile, String) = match kind.as_str() {
        "text" => {
            fields.end(&[])?;
            return Ok(None);
        }
        // llama.cpp's server takes a schema with it.
        "json_object" => {
            let schema: Option<Value> = fields.take("schema")?;
            (Constraint::json_schema, schema.unwrap_or_else(|| json!({"type": "object"})).to_string())
        }
        "json_schema" => {
            let schema: Value = match fields.take::<Value>("json_schema")? {
                Some(nested) => {
                    let mut nested = Fields::part(nested, fields.place_of("json_schema"))?;
                    let schema = nested.need("schema")?;
                    nested.end(SCHEMA_WORDS)?;
                    schema
                }
                None => fields.need("schema")?,
            };
            (Constraint::json_schema, schema.to_string())
        }
        // In the words with which OpenAI describes the input of tools.
        "grammar" => {
            let syntax: String = fields.need("syntax")?;
            let compile: Compile = match syntax.as_str() {
                "lark" => Constraint::grammar,
                "regex" => Constraint::regex,
                other => return Err(fields.unsupported("syntax", other, "lark and regex are")),
            };
            (compile, fields.need("definition")?)
        }
        other => {
            let known = "text, json_object, json_schema and grammar are";
            return Err(fields.unsupported("type", other, known));
        }
    };
    fields.end(SCHEMA_WORDS)?;
    let (service, place) = (service.clone(), place.to_owned());
    let compile = move || {
        let constraint = compile(service.format(), &definition);
        constraint.map(Some).map_err(|error| ApiError::field(place.clone(), format!("{place}: {error}")))
    };
    in_background(compile).await
}

/// What is said of a schema beside it. An answer always is as the schema says.
const SCHEMA_WORDS: &[&str] = &["description", "name", "strict"];

/// Work that takes a while, so that the thread of the connections does not wait for it.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    use axum::http::StatusCode;
    let failed =
        |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the server could not look at the request");
    task::spawn_blocking(work).await.map_err(failed)?
}

/// Refuses sampling options that make no sense.
pub(super) fn check_sampling(service: &Service, options: &SamplerOptions) -> Result<(), ApiError> {
    Sampler::for_model(options.clone(), service.model().spec().n_vocab)?;
    Ok(())
}

/// Refuses tokens that the model does not have.
pub(super) fn check_tokens(service: &Service, tokens: &[u32]) -> Result<(), EngineError> {
    let vocabulary = service.model().spec().n_vocab;
    match tokens.iter().find(|token| **token as usize >= vocabulary).copied() {
        None => Ok(()),
        Some(token) => Err(EngineError::Token { token, vocabulary }),
    }
}

/// Nothing is cut: a text without room for an answer is refused.
pub(super) fn check_length(service: &Service, tokens: usize) -> Result<(), EngineError> {
    let context = service.context();
    match tokens < context {
        true => Ok(()),
        false => Err(EngineError::ContextFull { needed: tokens + 1, context }),
    }
}

/// Gives a text to the service. Its events come as they happen.
///
/// # Errors
/// Where too many wait already, the server goes down, or a sampling option makes no sense.
pub(super) fn submit(service: &Arc<Service>, mut text: Text, mut wanted: Wanted) -> Result<Events, ApiError> {
    // What is wrong with an option is said before anything is read.
    check_sampling(service, &wanted.sampling)?;
    let (sender, receiver) = mpsc::unbounded_channel::<Event>();
    let stop = InterruptFlag::new();
    wanted.options.stops.extend(std::mem::take(&mut text.stops));
    if let Some(calls) = &text.calls {
        if wanted.options.constraint.is_some() {
            return Err(ApiError::field(
                "tools",
                "tools: an answer of a given shape can call no functions; leave one of them out",
            ));
        }
        wanted.options.constraint.clone_from(&calls.constraint);
        wanted.options.shown_controls.clone_from(&calls.controls);
    }
    let request = Request { stop: stop.clone(), text, wanted };
    service.submit(Work { request, events: sender })?;
    Ok(Events::new(receiver, stop))
}
