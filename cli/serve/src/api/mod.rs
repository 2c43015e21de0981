//! What is asked and answered. Each file is an interface: it turns the fields of a request into work for the service, and the
//! events of the service into answers of its form.
//!
//! A field that is not known is refused by its name if it has a value: it might change the answer. Those that cannot are left
//! out without a word.

mod anthropic;
#[cfg(test)]
mod call_tests;
mod chat;
mod completions;
mod documents;
mod fields;
mod native;
mod ollama;
mod openai;
mod responses;
mod submit;
mod tools;
mod whole;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};

use crate::http::Shared;
use crate::http::error::ApiError;

/// What a handler gives.
type Answered = Result<Response<Body>, ApiError>;

/// The part of an address that is a name, without escapes.
type Name = Result<Path<String>, PathRejection>;

/// All addresses, and what answers there. `openapi.json` describes them.
fn routes() -> Vec<(&'static str, MethodRouter<Arc<Shared>>)> {
    vec![
        ("/", get(ollama::root)),
        ("/health", get(native::health)),
        ("/v1/health", get(native::health)),
        ("/openapi.json", get(native::openapi)),
        ("/props", get(native::props)),
        ("/metrics", get(native::metrics)),
        ("/tokenize", post(native::tokenize)),
        ("/tokenizer_info", get(native::tokenizer_info)),
        ("/detokenize", post(native::detokenize)),
        ("/v1/models", get(native::models)),
        ("/models", get(native::models)),
        ("/v1/models/{name}", get(native::model)),
        ("/v1/chat/completions", post(chat::answer)),
        ("/chat/completions", post(chat::answer)),
        ("/v1/completions", post(completions::answer)),
        ("/v1/responses", get(responses::connect).post(responses::answer)),
        ("/v1/responses/compact", post(responses::compact)),
        ("/v1/messages", post(anthropic::answer)),
        ("/v1/messages/count_tokens", post(anthropic::count)),
        ("/api/chat", post(ollama::chat)),
        ("/api/generate", post(ollama::generate)),
        ("/api/ps", get(ollama::ps)),
        ("/api/show", post(ollama::show)),
        ("/api/tags", get(ollama::tags)),
        ("/api/version", get(ollama::version)),
        ("/v1/documents", get(documents::list).post(documents::add)),
        ("/v1/documents/{id}", get(documents::show).delete(documents::remove)),
        ("/v1/documents/{id}/text", get(documents::text)),
    ]
}

/// What answers at all addresses.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let routes = routes().into_iter();
    let router = routes.fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    router.fallback(unknown).method_not_allowed_fallback(wrong_method).with_state(shared)
}

/// An address that is not there.
async fn unknown(request: Request) -> Response<Body> {
    let (method, path) = (request.method(), request.uri().path());
    ApiError::new(StatusCode::NOT_FOUND, format!("there is no {method} {path} here")).response_to(path)
}

/// An address that is there for other methods.
async fn wrong_method(request: Request) -> Response<Body> {
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("{path} is there, but not for {method}");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message).response_to(path)
}

impl From<PathRejection> for ApiError {
    fn from(_: PathRejection) -> ApiError {
        ApiError::bad("the name in the address is not UTF-8: percent-encode its UTF-8 bytes")
    }
}

impl IntoResponse for ApiError {
    /// In OpenAI's form, which llama.cpp's server has, too.
    fn into_response(self) -> Response<Body> {
        self.response_to("")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn all_addresses_are_described() {
        let described: Value = serde_json::from_str(native::OPENAPI).expect("JSON");
        let mut paths: Vec<&String> = described["paths"].as_object().expect("addresses").keys().collect();
        let mut routes: Vec<&str> = routes().iter().map(|(path, _)| *path).collect();
        paths.sort_unstable();
        routes.sort_unstable();
        assert_eq!(paths, routes);
        assert_eq!(described["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
