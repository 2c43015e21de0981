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
mod openai;
mod responses;
mod submit;
mod tools;
mod whole;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};

use crate::http::Shared;
use crate::http::error::ApiError;

/// What a handler gives.
type Answered = Result<Response<Body>, ApiError>;

/// All addresses.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/health", get(native::health))
        .route("/v1/health", get(native::health))
        .route("/props", get(native::props))
        .route("/metrics", get(native::metrics))
        .route("/tokenize", post(native::tokenize))
        .route("/detokenize", post(native::detokenize))
        .route("/v1/models", get(native::models))
        .route("/models", get(native::models))
        .route("/v1/models/{name}", get(native::model))
        .route("/v1/chat/completions", post(chat::answer))
        .route("/chat/completions", post(chat::answer))
        .route("/v1/completions", post(completions::answer))
        .route("/v1/responses", post(responses::answer))
        .route("/v1/messages", post(anthropic::answer))
        .route("/v1/messages/count_tokens", post(anthropic::count))
        .route("/v1/documents", get(documents::list).post(documents::add))
        .route("/v1/documents/{id}", get(documents::show).delete(documents::remove))
        .route("/v1/documents/{id}/text", get(documents::text))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .with_state(shared)
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

impl IntoResponse for ApiError {
    /// In OpenAI's form, which llama.cpp's server has, too.
    fn into_response(self) -> Response<Body> {
        self.response_to("")
    }
}
