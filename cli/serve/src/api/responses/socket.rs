//! Responses over a WebSocket. One is written at a time. The connection remembers the last of them, so that a request can continue
//! it with what is new; nothing of that outlives the connection.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use futures_util::future::{Either, select};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{Stream, begin, not_found};
use crate::api::Answered;
use crate::api::fields::Fields;
use crate::http::error::ApiError;
use crate::http::socket::{self, Gone, Socket};
use crate::http::stream::{Feed, Sent};
use crate::http::{self, Shared};

/// How long a connection may last, after the specification.
const MAX_TIME: Duration = Duration::from_secs(60 * 60);
/// Requests that may come while another one is answered.
const MAX_WAITING: usize = 4;

pub(in crate::api) async fn connect(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    shared.service()?;
    let of_connection = shared.clone();
    socket::accept(&shared, request, move |socket| {
        let connection = Connection { socket, shared: of_connection, waiting: VecDeque::new(), last: None };
        connection.serve()
    })
}

/// A connection to a client.
struct Connection {
    socket: Socket,
    shared: Arc<Shared>,
    /// Requests that came while another one was answered.
    waiting: VecDeque<Bytes>,
    /// The response that can be continued.
    last: Option<Last>,
}

/// A response that can be continued.
struct Last {
    id: String,
    /// The items of its conversation, with those of its output.
    items: Vec<Value>,
}

impl Connection {
    async fn serve(mut self) {
        let end = Instant::now() + MAX_TIME;
        while let Ok(request) = self.next(end).await {
            match self.begin(request).await {
                Ok((feed, items)) => {
                    if self.answer(feed, items).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    if self.socket.send(envelope(&error)).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// The next request.
    async fn next(&mut self, end: Instant) -> Result<Bytes, Gone> {
        let is_over = Instant::now() >= end;
        if let Some(request) = self.waiting.pop_front().filter(|_| !is_over) {
            return Ok(request);
        }
        match timeout_at(end, self.socket.next()).await {
            Ok(request) => request,
            Err(_) => {
                let minutes = MAX_TIME.as_secs() / 60;
                let error = ApiError::bad(format!("a WebSocket lasts {minutes} minutes: open another one"));
                let error = ApiError { code: Some("websocket_connection_limit_reached"), ..error };
                let _ = self.socket.send(envelope(&error)).await;
                Err(Gone)
            }
        }
    }

    /// Begins to answer a request. Returns what is sent and the items of the whole conversation.
    async fn begin(&mut self, request: Bytes) -> Result<(Feed<Stream>, Vec<Value>), ApiError> {
        let mut object = http::parse(request).await?;
        if object.remove("type").is_none_or(|kind| kind != "response.create") {
            return Err(ApiError::field("type", "type must be \"response.create\""));
        }
        // There is no other way to answer here.
        object.remove("stream");
        let mut items = match object.remove("input") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(Value::String(text)) => vec![json!({"type": "message", "role": "user", "content": text})],
            Some(_) => return Err(ApiError::field("input", "input must be a text, or a list of messages")),
        };
        let mut fields = Fields::new(object);
        let previous: Option<String> = fields.take("previous_response_id")?;
        if let Some(id) = &previous {
            // If this request fails, nothing is left to be continued.
            let last = self.last.take_if(|last| last.id == *id);
            let hint = "a WebSocket has the last response only, until an error: send the whole conversation";
            items.splice(0..0, last.ok_or_else(|| not_found(id, hint))?.items);
        }
        fields.put("input", items.clone().into());
        // Codex has its instructions read while its user still types.
        let answers = usize::from(fields.take("generate")?.unwrap_or(true));
        let (head, events) = begin(self.shared.service()?, fields, previous, answers).await?;
        Ok((Feed::new(events, Stream::new(head), self.shared.ping()), items))
    }

    /// Sends a response while it is written.
    async fn answer(&mut self, mut feed: Feed<Stream>, mut items: Vec<Value>) -> Result<(), Gone> {
        loop {
            let sent = match select(pin!(feed.next()), pin!(self.socket.next())).await {
                Either::Left((Some(sent), _)) => sent,
                Either::Left((None, _)) => break,
                Either::Right((request, _)) => {
                    self.waiting.push_back(request?);
                    if self.waiting.len() > MAX_WAITING {
                        return Err(Gone);
                    }
                    continue;
                }
            };
            // What ends a stream of events is no event.
            for Sent { data, .. } in sent.into_iter().filter(|sent| sent.name.is_some()) {
                self.socket.send(data).await?;
            }
        }
        if let Some((id, output)) = feed.writer().output() {
            items.extend_from_slice(output);
            self.last = Some(Last { id: id.to_owned(), items });
        }
        Ok(())
    }
}

/// An error as a message.
fn envelope(error: &ApiError) -> String {
    let mut message = error.openai();
    message["type"] = "error".into();
    message["status"] = error.status.as_u16().into();
    let code = error.code.unwrap_or(error.kind());
    message["error"]["code"] = code.into();
    message.to_string()
}
