//! Connections: `listener` accepts them, within limits, and `guard` says who may ask what. `error` is what a refusal looks like,
//! `stream` an answer that comes piece by piece, and `socket` a connection over which several requests come. What is asked and
//! answered is in `api`.

pub(crate) mod error;
mod guard;
mod listener;
pub(crate) mod socket;
pub(crate) mod stream;

use std::error::Error;
use std::iter::successors;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::{self, Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

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
    /// Most bytes of a file.
    pub max_body: usize,
    /// Most bytes of a request that is JSON.
    pub max_json: usize,
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
            max_json: 16 << 20,
            patience: Duration::from_secs(60),
            ping: Duration::from_secs(5),
        }
    }
}

/// Large requests that come at the same time.
const LARGE_REQUESTS: usize = 4;

/// What all requests share.
pub(crate) struct Shared {
    options: ServerOptions,
    /// Whether only programs of this machine reach the server.
    is_local: bool,
    /// Set when the model is loaded.
    service: OnceLock<Arc<Service>>,
    /// Places for large requests while they come and are parsed.
    large: Semaphore,
    /// Places for WebSockets.
    sockets: Arc<Semaphore>,
    /// Set when the server ends.
    end: watch::Receiver<bool>,
}

impl Shared {
    /// Without conversations yet. `end` is set when the server ends.
    pub(crate) fn new(options: ServerOptions, is_local: bool, end: watch::Receiver<bool>) -> Shared {
        Shared {
            options,
            is_local,
            service: OnceLock::new(),
            large: Semaphore::new(LARGE_REQUESTS),
            sockets: Arc::new(Semaphore::new(socket::MAX_SOCKETS)),
            end,
        }
    }

    /// From now on requests are answered.
    pub(crate) fn set_service(&self, service: Arc<Service>) {
        let _ = self.service.set(service);
    }

    /// The conversations, once there are some.
    pub(crate) fn service(&self) -> Result<&Arc<Service>, ApiError> {
        self.service.get().ok_or_else(ApiError::loading)
    }

    pub(crate) fn ping(&self) -> Duration {
        self.options.ping
    }

    /// Waits until the server ends.
    async fn ended(&self) {
        // An error is a server that is gone.
        let _ = self.end.clone().wait_for(|is_over| *is_over).await;
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
        let _place = self.place_for(length(&request)).await;
        let bytes = self.bytes(request, self.options.max_json).await?;
        parse(bytes).await
    }

    /// The JSON object that a message of a WebSocket is.
    ///
    /// # Errors
    /// Where it is none.
    pub(crate) async fn message(&self, bytes: Bytes) -> Result<Map<String, Value>, ApiError> {
        let _place = self.place_for(Some(bytes.len())).await;
        parse(bytes).await
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// As for [`Shared::bytes`].
    pub(crate) async fn file(&self, request: Request) -> Result<Bytes, ApiError> {
        let _place = self.place_for(length(&request)).await;
        self.bytes(request, self.options.max_body).await
    }

    /// Most bytes of a request that is JSON.
    pub(crate) fn max_json(&self) -> usize {
        self.options.max_json
    }

    /// Waits until a large request may be read: few at a time, so that their memory is bounded.
    async fn place_for(&self, length: Option<usize>) -> Option<SemaphorePermit<'_>> {
        /// Smaller ones do not wait.
        const LARGE: usize = 1 << 20;
        match length {
            Some(length) if length < LARGE => None,
            _ => self.large.acquire().await.ok(),
        }
    }

    /// The body of a request.
    ///
    /// # Errors
    /// Where it is compressed, damaged or too long, or takes too long to come.
    async fn bytes(&self, request: Request, limit: usize) -> Result<Bytes, ApiError> {
        check_encoding(request.headers())?;
        let too_long = || {
            let message = format!("the request has more than {limit} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        };
        if length(&request).is_some_and(|length| length > limit) {
            return Err(too_long());
        }
        let bytes = tokio::time::timeout(self.options.patience, body::to_bytes(request.into_body(), limit));
        let late =
            |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the request did not come to its end in time");
        bytes.await.map_err(late)?.map_err(|error| match is_of_connection(&error) {
            true => ApiError::bad("the body of the request is damaged, or was cut off"),
            false => too_long(),
        })
    }
}

/// The JSON object that these bytes are.
async fn parse(bytes: Bytes) -> Result<Map<String, Value>, ApiError> {
    // Long ones take a while.
    match tokio::task::spawn_blocking(move || serde_json::from_slice(&bytes)).await {
        Ok(Ok(Value::Object(object))) => Ok(object),
        Ok(Ok(_)) => Err(ApiError::bad("the request must be a JSON object")),
        Ok(Err(error)) => Err(ApiError::bad(format!("the request is not JSON: {error}"))),
        Err(_) => Err(ApiError::lost()),
    }
}

/// Whether a body could not be read: the other error is that it is too long.
fn is_of_connection(error: &(dyn Error + 'static)) -> bool {
    successors(Some(error), |&error| error.source()).any(|error| error.is::<hyper::Error>())
}

/// Refuses compressed bodies. Their bytes are not what they say that they are.
fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            let message =
                format!("the request is compressed ({encoding:?}): send it without Content-Encoding");
            Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
        }
        _ => Ok(()),
    }
}

/// Bytes of a request's body, where it says so.
fn length(request: &Request) -> Option<usize> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the body of a request is JSON, by what it says.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    content_type(headers).eq_ignore_ascii_case("application/json")
}

/// What the body of a request is, without parameters; empty where it does not say.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}

/// A response with JSON.
pub(crate) fn json_response(value: &Value) -> Response<Body> {
    text_response("application/json", value.to_string())
}

/// A response with text of this type.
pub(crate) fn text_response(kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
