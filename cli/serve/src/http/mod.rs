//! Connections: `listener` accepts them, within limits, `guard` says who may ask what, `error` is what a refusal looks like, and
//! `stream` an answer that comes piece by piece. What is asked and answered is in `api`.

pub(crate) mod error;
mod guard;
mod listener;
pub(crate) mod stream;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::{self, Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value};

use self::error::ApiError;
pub use self::guard::Keys;
pub use self::listener::{Address, Server, ServerError};
use crate::service::Service;

/// How a server is asked.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Who may ask; empty for everybody who reaches the address.
    pub keys: Keys,
    /// Names by which clients reach the server, besides those of this machine itself. A key needs none.
    pub hosts: Vec<String>,
    /// Most connections at a time. Further ones wait.
    pub max_connections: usize,
    /// Most bytes of a request.
    pub max_body: usize,
    /// The time that a client has to send a request, and to begin the next one.
    pub patience: Duration,
    /// How often a stream without news says that it is alive.
    pub ping: Duration,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            keys: Keys::default(),
            hosts: Vec::new(),
            max_connections: 1024,
            max_body: 64 << 20,
            patience: Duration::from_secs(60),
            ping: Duration::from_secs(5),
        }
    }
}

/// What all requests share.
pub(crate) struct Shared {
    options: ServerOptions,
    /// Whether only programs of this machine reach the server.
    is_local: bool,
    /// Set when the model is loaded.
    service: OnceLock<Arc<Service>>,
}

impl Shared {
    /// The conversations, once there are some.
    pub(crate) fn service(&self) -> Result<&Arc<Service>, ApiError> {
        self.service.get().ok_or_else(ApiError::loading)
    }

    pub(crate) fn ping(&self) -> Duration {
        self.options.ping
    }

    /// The JSON object that a request has as its body.
    ///
    /// # Errors
    /// Where it is none, is too long, or takes too long to come.
    pub(crate) async fn object(&self, request: Request) -> Result<Map<String, Value>, ApiError> {
        // Web pages can send some other types to any address without asking.
        if !is_json(request.headers()) {
            let message = "the request must be JSON, with Content-Type: application/json";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        match serde_json::from_slice(&self.bytes(request).await?) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(ApiError::bad("the request must be a JSON object")),
            Err(error) => Err(ApiError::bad(format!("the request is not JSON: {error}"))),
        }
    }

    /// The body of a request.
    ///
    /// # Errors
    /// Where it is too long, or takes too long to come.
    pub(crate) async fn bytes(&self, request: Request) -> Result<Bytes, ApiError> {
        let limit = self.options.max_body;
        let too_long = || {
            let message = format!("the request has more than {limit} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        };
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        if length.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length > limit) {
            return Err(too_long());
        }
        let bytes = tokio::time::timeout(self.options.patience, body::to_bytes(request.into_body(), limit));
        let late =
            |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the request did not come to its end in time");
        bytes.await.map_err(late)?.map_err(|_| too_long())
    }
}

/// Whether the body of a request is JSON, by what it says.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// A response with JSON.
pub(crate) fn json_response(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A response with text of this type.
pub(crate) fn text_response(kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
