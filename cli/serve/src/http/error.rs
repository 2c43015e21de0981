//! Why a request is not answered, with the status and the words of OpenAI's interface. Anthropic's and Ollama's have the
//! same message in forms of their own.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use longhand::EngineError;
use longhand::error::SamplerError;
use serde_json::{Value, json};

use crate::service::Refused;

/// An error, as it is sent.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub status: StatusCode,
    pub message: String,
    /// The field that is wrong.
    pub field: Option<String>,
    /// One word for programs, where there is one.
    pub code: Option<&'static str>,
    /// Seconds after which asking again makes sense.
    pub retry_after: Option<u32>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError { status, message: message.into(), field: None, code: None, retry_after: None }
    }

    /// A request that makes no sense.
    pub(crate) fn bad(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// A request with a field that makes no sense.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError { field: Some(field.into()), ..ApiError::bad(message) }
    }

    /// The model is not loaded yet.
    pub(crate) fn loading() -> ApiError {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the model is being loaded");
        ApiError { code: Some("loading"), retry_after: Some(2), ..error }
    }

    /// An answer that does not come to its end.
    pub(crate) fn lost() -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer was lost: the server has failed")
    }

    /// The kind of an error in OpenAI's words.
    pub(crate) fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "unavailable_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// In OpenAI's form.
    pub(crate) fn openai(&self) -> Value {
        let ApiError { message, field, code, .. } = self;
        json!({"error": {"message": message, "type": self.kind(), "param": field, "code": code}})
    }

    /// In Anthropic's form.
    pub(crate) fn anthropic(&self) -> Value {
        let kind = match self.status {
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.is_server_error() => "api_error",
            _ => self.kind(),
        };
        json!({"type": "error", "error": {"type": kind, "message": self.message}})
    }

    /// In Ollama's form.
    pub(crate) fn ollama(&self) -> Value {
        json!({"error": self.message})
    }

    /// The response to a request for this path, in the form of its interface.
    pub(crate) fn response_to(&self, path: &str) -> Response<Body> {
        let text = match path {
            path if path.starts_with("/v1/messages") => self.anthropic(),
            path if path.starts_with("/api/") => self.ollama(),
            _ => self.openai(),
        };
        let mut response = super::json_response(&text);
        *response.status_mut() = self.status;
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> ApiError {
        match refused {
            Refused::Busy { waiting } => ApiError {
                retry_after: Some(5),
                ..ApiError::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    format!("all conversations are at work, and {waiting} requests wait already"),
                )
            },
            Refused::Closing => ApiError {
                retry_after: Some(5),
                ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is going down")
            },
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> ApiError {
        let hint = error.hint().map_or(String::new(), |hint| format!("; {hint}"));
        let message = format!("{error}{hint}");
        match error {
            EngineError::ContextFull { needed, context } => {
                // In Anthropic's words, by which agents know that they must shorten a conversation.
                let message = format!(
                    "prompt is too long: {needed} tokens > {context} maximum; send less, or start the server with a \
                     larger context (-c)"
                );
                ApiError { code: Some("context_length_exceeded"), ..ApiError::bad(message) }
            }
            EngineError::Chat { .. } => ApiError::field("messages", message),
            // In the words of requests: no flags, and names with underscores.
            EngineError::Sampling(SamplerError { option, value, range }) => {
                let field = option.replace('-', "_");
                let message = format!("{field} is {value}, but must be {range}");
                ApiError::field(field, message)
            }
            EngineError::Tokenizer { .. } | EngineError::Token { .. } | EngineError::Setting { .. } => {
                ApiError::bad(message)
            }
            EngineError::Memory(_) => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message),
            error if error.is_interrupt() => ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the answer was stopped: the server is going down",
            ),
            _ => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message),
        }
    }
}
