//! Responses over a WebSocket. One is written at a time. The connection remembers the last of them, so that a request can continue
//! it with what is new; nothing of that outlives the connection.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use futures_util::future::{Either, select};
use tokio::time::{Instant, timeout_at};

use super::{Past, Stream, begin, input, not_found};
use crate::api::Answered;
use crate::api::fields::Fields;
use crate::http::Shared;
use crate::http::error::ApiError;
use crate::http::socket::{self, CloseCode, Gone, Socket};
use crate::http::stream::{Feed, Sent};

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
    /// The response that can be continued, with its own messages.
    last: Option<Past>,
}

impl Connection {
    async fn serve(mut self) {
        let end = Instant::now() + MAX_TIME;
        while let Ok(request) = self.next(end).await {
            let sent = match self.begin(request).await {
                Ok((feed, past)) => self.answer(feed, past).await,
                Err(error) => self.socket.send(envelope(&error)).await,
            };
            if sent.is_err() {
                return;
            }
        }
    }

    /// The next request.
    async fn next(&mut self, end: Instant) -> Result<Bytes, Gone> {
        if Instant::now() < end {
            if let Some(request) = self.waiting.pop_front() {
                return Ok(request);
            }
            if let Ok(request) = timeout_at(end, self.socket.next()).await {
                return request;
            }
        }
        let message = format!("a WebSocket lasts {} minutes: open another one", MAX_TIME.as_secs() / 60);
        let error = ApiError::bad(message.as_str());
        let error = ApiError { code: Some("websocket_connection_limit_reached"), ..error };
        self.socket.send(envelope(&error)).await?;
        Err(self.socket.close(CloseCode::Policy, message).await)
    }

    /// Begins to answer a request. Returns what is sent, and what the next request has before it.
    async fn begin(&mut self, request: Bytes) -> Result<(Feed<Stream>, Past), ApiError> {
        let mut fields = Fields::new(self.shared.message(request).await?);
        let mut past = Past::default();
        if let Some(id) = fields.take::<String>("previous_response_id")? {
            // If this request fails, nothing is left to be continued.
            let last = self.last.take_if(|last| last.id.as_ref() == Some(&id));
            let hint = "a WebSocket has the last response only, until an error: send the whole conversation";
            past = last.ok_or_else(|| not_found(&id, hint))?;
        }
        if fields.take::<String>("type")?.as_deref() != Some("response.create") {
            return Err(ApiError::field("type", "type must be \"response.create\""));
        }
        // There is no other way to answer here.
        fields.take::<bool>("stream")?;
        let (head, events) = begin(self.shared.service()?, fields, &mut past).await?;
        Ok((Feed::new(events, Stream::new(head), self.shared.ping()), past))
    }

    /// Sends a response while it is written.
    async fn answer(&mut self, mut feed: Feed<Stream>, mut past: Past) -> Result<(), Gone> {
        loop {
            let (sent, request) = match select(pin!(feed.next()), pin!(self.socket.next())).await {
                Either::Left((Some(sent), _)) => (sent, None),
                Either::Left((None, _)) => break,
                Either::Right((request, _)) => (Vec::new(), Some(request?)),
            };
            self.waiting.extend(request);
            let bytes: usize = self.waiting.iter().map(Bytes::len).sum();
            if self.waiting.len() > MAX_WAITING || bytes > self.shared.max_json() {
                let reason =
                    format!("{MAX_WAITING} requests wait at most, of {} bytes", self.shared.max_json());
                return Err(self.socket.close(CloseCode::Policy, reason).await);
            }
            // What ends a stream of events is no event.
            for Sent { data, .. } in sent.into_iter().filter(|sent| sent.name.is_some()) {
                self.socket.send(data).await?;
            }
        }
        if let Some((id, output)) = feed.writer().output()
            && input::add_items(output.to_vec(), &mut past.messages).is_ok()
        {
            self.last = Some(Past { id: Some(id.to_owned()), ..past });
        }
        Ok(())
    }
}

/// An error as a message.
fn envelope(error: &ApiError) -> String {
    let mut message = error.openai();
    message["type"] = "error".into();
    message["status"] = error.status.as_u16().into();
    message["error"]["code"] = error.code.unwrap_or(error.kind()).into();
    message.to_string()
}
