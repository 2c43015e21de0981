//! An answer that comes piece by piece, as server-sent events. A stream without news says that it is alive. When its client is
//! gone, the work for it stops.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use futures_util::stream;
use longhand::InterruptFlag;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::error::ApiError;
use crate::service::Event;

/// The events of a request. When it is dropped before the last of them, the request is stopped.
pub(crate) struct Events {
    receiver: UnboundedReceiver<Event>,
    stop: InterruptFlag,
}

impl Events {
    pub(crate) fn new(receiver: UnboundedReceiver<Event>, stop: InterruptFlag) -> Events {
        Events { receiver, stop }
    }

    /// What stops the request.
    pub(crate) fn stop(&self) -> &InterruptFlag {
        &self.stop
    }

    /// The next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        self.receiver.recv().await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stop.set();
    }
}

/// What a stream sends: the name of the event, where it has one, and its data.
pub(crate) struct Sent {
    pub name: Option<&'static str>,
    pub data: String,
}

impl Sent {
    pub(crate) fn data(value: &Value) -> Sent {
        Sent { name: None, data: value.to_string() }
    }

    /// As it stands in the stream. JSON has no line breaks.
    fn text(&self) -> String {
        let name = self.name.map_or(String::new(), |name| format!("event: {name}\n"));
        format!("{name}data: {}\n\n", self.data)
    }
}

/// What turns the events of a request into what a stream sends.
pub(crate) trait Writer: Send + 'static {
    /// What is sent for an event.
    fn write(&mut self, event: Event) -> Vec<Sent>;

    /// What is sent where the answer does not come to its end.
    fn failed(&mut self, error: ApiError) -> Vec<Sent>;
}

fn ok(text: String) -> Result<Bytes, Infallible> {
    Ok(Bytes::from(text))
}

/// The response that sends events as they come.
pub(crate) fn response(events: Events, writer: impl Writer, ping: Duration) -> Response<Body> {
    let begun = (events, writer, false);
    let pieces = stream::unfold(begun, move |(mut events, mut writer, is_over)| async move {
        let (sent, is_over) = match tokio::time::timeout(ping, events.next()).await {
            Ok(None) if is_over => return None,
            // The work for it was lost.
            Ok(None) => (writer.failed(ApiError::lost()), true),
            Ok(Some(event)) => {
                let is_over = matches!(event, Event::Done | Event::Failed(_));
                (writer.write(event), is_over)
            }
            Err(_) => return Some((ok(": still at work\n\n".to_owned()), (events, writer, is_over))),
        };
        let text = sent.iter().map(Sent::text).collect();
        Some((ok(text), (events, writer, is_over)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would collect them otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
