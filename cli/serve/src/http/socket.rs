//! A WebSocket: a connection over which a client asks several times, and is answered in messages of JSON. It closes when its
//! client is silent for too long, does not read what is sent, or the server ends.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Response, StatusCode, header};
use futures_util::future::{Either, select};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{self, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
pub(crate) use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use super::Shared;
use super::error::ApiError;

/// Most of them at a time. Each may have a request of the largest size on its way, as many bytes that wait, and twice as many that
/// its client does not read.
pub(super) const MAX_SOCKETS: usize = 64;

/// What an event takes besides what it repeats of a request.
const MIN_BUFFER: usize = 1 << 20;

/// A connection to a client.
pub(crate) struct Socket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    shared: Arc<Shared>,
    /// When something came from the client, and whether it was asked since then whether it is there.
    heard: Instant,
    is_asked: bool,
}

/// The client is gone, or is to go.
pub(crate) struct Gone;

/// What has come from a client.
enum Received {
    Message(Bytes),
    /// What makes no sense, or too much of it, and why.
    Wrong(CloseCode, String),
    /// It is gone, or silent.
    Nothing,
}

/// The response that makes a WebSocket of a connection, which is then served.
///
/// # Errors
/// Where there are too many.
pub(crate) fn accept<F: Future<Output = ()> + Send>(
    shared: &Arc<Shared>,
    mut request: Request,
    serve: impl FnOnce(Socket) -> F + Send + 'static,
) -> Result<Response<Body>, ApiError> {
    let response = match create_response_with_body(&request, Body::empty) {
        Ok(response) => response,
        Err(error) => {
            let path = request.uri().path();
            let message = format!("GET {path} is for WebSockets ({error}); ask with POST otherwise");
            let mut response = ApiError::new(StatusCode::UPGRADE_REQUIRED, message).response_to(path);
            let headers = response.headers_mut();
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            return Ok(response);
        }
    };
    let place = shared.sockets.clone().try_acquire_owned().map_err(|_| ApiError {
        retry_after: Some(5),
        ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, format!("there are {MAX_SOCKETS} WebSockets already"))
    })?;
    let (upgrade, shared) = (upgrade::on(&mut request), shared.clone());
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            let most = shared.options.max_json;
            let config = WebSocketConfig::default()
                .max_message_size(Some(most))
                .max_frame_size(Some(most))
                .max_write_buffer_size(MIN_BUFFER + 2 * most);
            let stream =
                WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
            serve(Socket { stream, shared, heard: Instant::now(), is_asked: false }).await;
        }
        drop(place);
    });
    Ok(response)
}

impl Socket {
    /// The next message of the client.
    pub(crate) async fn next(&mut self) -> Result<Bytes, Gone> {
        let shared = self.shared.clone();
        let received = match select(pin!(self.message()), pin!(shared.ended())).await {
            Either::Left((received, _)) => received,
            Either::Right(_) => Received::Wrong(CloseCode::Away, "the server is going down".to_owned()),
        };
        match received {
            Received::Message(message) => Ok(message),
            Received::Wrong(code, reason) => Err(self.close(code, reason).await),
            Received::Nothing => Err(Gone),
        }
    }

    /// Waits for a message. A silent client is asked whether it is there.
    async fn message(&mut self) -> Received {
        loop {
            let half = self.shared.options.patience / 2;
            let due = self.heard + if self.is_asked { 2 * half } else { half };
            let Ok(received) = timeout_at(due, self.stream.next()).await else {
                if self.is_asked || self.write(Message::Ping(Bytes::new())).await.is_err() {
                    return Received::Nothing;
                }
                self.is_asked = true;
                continue;
            };
            (self.heard, self.is_asked) = (Instant::now(), false);
            match received {
                Some(Ok(Message::Text(text))) => return Received::Message(text.into()),
                Some(Ok(Message::Binary(bytes))) => return Received::Message(bytes),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    let code = match &error {
                        tungstenite::Error::Capacity(_) => CloseCode::Size,
                        tungstenite::Error::Utf8(_) => CloseCode::Invalid,
                        tungstenite::Error::Protocol(_) => CloseCode::Protocol,
                        _ => return Received::Nothing,
                    };
                    return Received::Wrong(code, error.to_string());
                }
                None => return Received::Nothing,
            }
        }
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, text: String) -> Result<(), Gone> {
        self.write(Message::text(text)).await
    }

    async fn write(&mut self, message: Message) -> Result<(), Gone> {
        match timeout(self.shared.options.patience, self.stream.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    /// Says why the connection ends.
    pub(crate) async fn close(&mut self, code: CloseCode, reason: String) -> Gone {
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = timeout(self.shared.options.patience, self.stream.close(Some(frame))).await;
        Gone
    }
}
