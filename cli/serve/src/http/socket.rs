//! A WebSocket: a connection over which a client asks several times, and is answered in messages of JSON. It closes when its
//! client is silent for too long, does not read what is sent, or the server ends.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use futures_util::future::{Either, select};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{self, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use super::Shared;
use super::error::ApiError;

/// Most of them at a time. Each may hold a request of the largest size.
pub(super) const MAX_SOCKETS: usize = 64;

/// A connection to a client.
pub(crate) struct Socket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    shared: Arc<Shared>,
}

/// The client is gone, or is to go.
pub(crate) struct Gone;

/// The response that makes a WebSocket of a connection, which is then served.
///
/// # Errors
/// Where the request does not ask for one, or there are too many.
pub(crate) fn accept<F: Future<Output = ()> + Send>(
    shared: &Arc<Shared>,
    mut request: Request,
    serve: impl FnOnce(Socket) -> F + Send + 'static,
) -> Result<Response<Body>, ApiError> {
    let response = create_response_with_body(&request, Body::empty).map_err(|error| {
        let path = request.uri().path();
        let message = format!("GET {path} is for WebSockets ({error}); ask with POST otherwise");
        ApiError::new(StatusCode::UPGRADE_REQUIRED, message)
    })?;
    let place = shared.sockets.clone().try_acquire_owned().map_err(|_| ApiError {
        retry_after: Some(5),
        ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, format!("there are {MAX_SOCKETS} WebSockets already"))
    })?;
    let (upgrade, shared) = (upgrade::on(&mut request), shared.clone());
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            let most = Some(shared.options.max_json);
            let config = WebSocketConfig::default().max_message_size(most).max_frame_size(most);
            let stream =
                WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
            serve(Socket { stream, shared }).await;
        }
        drop(place);
    });
    Ok(response)
}

impl Socket {
    /// The next message of the client.
    pub(crate) async fn next(&mut self) -> Result<Bytes, Gone> {
        let shared = self.shared.clone();
        let refused = match select(pin!(self.message()), pin!(shared.ended())).await {
            Either::Left((Ok(message), _)) => return Ok(message),
            Either::Left((Err(refused), _)) => refused,
            Either::Right(_) => Some((CloseCode::Away, "the server is going down".to_owned())),
        };
        match refused {
            Some((code, reason)) => Err(self.close(code, reason).await),
            None => Err(Gone),
        }
    }

    /// The next message, or why there is none, if the client is to be told. A silent client is asked whether it is there.
    async fn message(&mut self) -> Result<Bytes, Option<(CloseCode, String)>> {
        let mut is_asked = false;
        loop {
            let Ok(received) = timeout(self.shared.options.patience / 2, self.stream.next()).await else {
                if is_asked || self.write(Message::Ping(Bytes::new())).await.is_err() {
                    return Err(None);
                }
                is_asked = true;
                continue;
            };
            is_asked = false;
            match received {
                Some(Ok(Message::Text(text))) => return Ok(text.into()),
                Some(Ok(Message::Binary(bytes))) => return Ok(bytes),
                Some(Ok(_)) => {}
                Some(Err(tungstenite::Error::Capacity(error))) => {
                    return Err(Some((CloseCode::Size, error.to_string())));
                }
                Some(Err(_)) | None => return Err(None),
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
    async fn close(&mut self, code: CloseCode, reason: String) -> Gone {
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = timeout(self.shared.options.patience, self.stream.close(Some(frame))).await;
        Gone
    }
}
