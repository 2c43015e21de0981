//! What belongs to no conversation: health, models, numbers for Prometheus, tokens. As llama.cpp's server has them.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::fields::Fields;
use super::submit::{check_tokens, in_background};
use super::whole::date;
use super::{Answered, Name};
use crate::http::error::ApiError;
use crate::http::{Shared, json_response, text_response};
use crate::service::Service;

/// Whether requests are answered: 503 while the model is being loaded.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Answered {
    shared.service()?;
    Ok(json_response(&json!({"status": "ok"})))
}

/// The description of all addresses, by OpenAPI 3.1.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// What can be asked. That needs no model.
pub(super) async fn openapi() -> Response<Body> {
    text_response("application/json", OPENAPI.to_owned())
}

/// The model, in a list of one that OpenAI's and Anthropic's clients understand.
pub(super) async fn models(State(shared): State<Arc<Shared>>) -> Answered {
    let model = describe(shared.service()?);
    let id = &model["id"];
    Ok(json_response(
        &json!({"object": "list", "first_id": id, "last_id": id, "has_more": false, "data": [model]}),
    ))
}

pub(super) async fn model(State(shared): State<Arc<Shared>>, name: Name) -> Answered {
    let (service, name) = (shared.service()?, name?.0);
    match name == service.name() {
        true => Ok(json_response(&describe(service))),
        false => Err(no_model(service, &name)),
    }
}

/// The error of a request about another model.
pub(super) fn no_model(service: &Service, name: &str) -> ApiError {
    let message = format!("there is no model {name:?} here; the model is {:?}", service.name());
    ApiError::new(StatusCode::NOT_FOUND, message)
}

/// When the file of the model was written; without a file, when this was asked first.
pub(super) fn written(service: &Service) -> DateTime<Utc> {
    static BUILT_IN: LazyLock<DateTime<Utc>> = LazyLock::new(Utc::now);
    let written = service.model().file().and_then(|file| file.metadata().ok()?.modified().ok());
    written.map_or(*BUILT_IN, DateTime::from)
}

/// The model in OpenAI's words and in Anthropic's.
fn describe(service: &Service) -> Value {
    let (spec, written) = (service.model().spec(), written(service));
    json!({
        "id": service.name(),
        "object": "model",
        "type": "model",
        "display_name": service.name(),
        "created": written.timestamp(),
        "created_at": date(written),
        "owned_by": "longhand",
        "meta": {"n_ctx": service.context(), "n_ctx_train": spec.n_ctx_train, "n_vocab": spec.n_vocab},
    })
}

pub(super) async fn props(State(shared): State<Arc<Shared>>) -> Answered {
    let service = shared.service()?;
    Ok(json_response(&json!({
        "model_alias": service.name(),
        "total_slots": service.sessions(),
        "default_generation_settings": {"n_ctx": service.context()},
        "documents": service.documents().names(),
        "sources": service.records_sources(),
        "build_info": concat!("longhand ", env!("CARGO_PKG_VERSION")),
    })))
}

/// In Prometheus' text format.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Answered {
    let service = shared.service()?;
    let mut text = String::new();
    let mut write = |kind: &str, name: &str, help: &str, value: f64| {
        let _ = writeln!(
            text,
            "# HELP longhand_{name} {help}\n# TYPE longhand_{name} {kind}\nlonghand_{name} {value}"
        );
    };
    for count in service.counts().all() {
        write("counter", count.name, count.help, count.value);
    }
    let load = service.load();
    write("gauge", "requests_at_work", "Requests that are answered now", load.at_work as f64);
    write("gauge", "requests_waiting", "Requests that wait for a session", load.waiting as f64);
    Ok(text_response("text/plain; version=0.0.4", text))
}

/// What lm-eval asks vLLM's server of the tokens.
pub(super) async fn tokenizer_info(State(shared): State<Arc<Shared>>) -> Answered {
    let service = shared.service()?;
    let tokenizer = service.format().tokenizer();
    let text = |token: Option<u32>| tokenizer.token_text(token?);
    Ok(json_response(&json!({"bos_token": text(tokenizer.bos()), "eos_token": text(tokenizer.eos())})))
}

/// The tokens of a text, in the words of llama.cpp's server or of vLLM's.
pub(super) async fn tokenize(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?.clone();
    let mut fields = Fields::new(shared.object(request).await?);
    // Any name of a model is taken.
    fields.take::<String>("model")?;
    let special: Option<bool> = fields.take("add_special_tokens")?;
    let special = fields.take("add_special")?.or(special);
    let (content, add_special) = match fields.take::<String>("prompt")? {
        Some(prompt) => (prompt, special.unwrap_or(true)),
        None => (fields.need("content")?, special.unwrap_or(false)),
    };
    let parse_special = fields.take("parse_special")?.unwrap_or(true);
    let with_pieces = fields.take("with_pieces")?.unwrap_or(false);
    fields.end(&[])?;
    let tokens = in_background(move || {
        let tokenizer = service.format().tokenizer();
        let tokens = tokenizer.encode(&content, add_special, parse_special);
        let tokens = tokens.map_err(|error| ApiError::field("content", error.to_string()))?;
        Ok(match with_pieces {
            false => json!(tokens),
            true => {
                let piece = |token: &u32| {
                    let bytes = tokenizer.token_bytes(*token).unwrap_or_default();
                    // What is no text on its own comes as bytes.
                    let piece = std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text));
                    json!({"id": token, "piece": piece})
                };
                tokens.iter().map(piece).collect()
            }
        })
    });
    Ok(json_response(&json!({"tokens": tokens.await?})))
}

/// The text of tokens, in the words of both.
pub(super) async fn detokenize(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let service = shared.service()?.clone();
    let mut fields = Fields::new(shared.object(request).await?);
    fields.take::<String>("model")?;
    let tokens: Vec<u32> = fields.need("tokens")?;
    fields.end(&[])?;
    let text = in_background(move || {
        check_tokens(&service, &tokens)?;
        Ok(String::from_utf8_lossy(&service.format().tokenizer().decode(&tokens, true)).into_owned())
    });
    let text = text.await?;
    Ok(json_response(&json!({"content": text, "prompt": text})))
}
