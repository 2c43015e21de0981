//! An answer that comes piece by piece, as server-sent events or as lines. A stream without news says that it is alive.
//! When its client is gone, the work for it stops.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use futures_util::stream;
use longhand::InterruptFlag;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

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

    /// What OpenAI's streams end with.
    pub(crate) fn end() -> Sent {
        Sent { name: None, data: "[DONE]".to_owned() }
    }

    /// As it stands in a stream of events. JSON has no line breaks.
    pub(crate) fn text(&self) -> String {
        let name = self.name.map_or(String::new(), |name| format!("event: {name}\n"));
        format!("{name}data: {}\n\n", self.data)
    }
}

/// What turns the events of a request into what a stream sends.
pub(crate) trait Writer: Send + 'static {
    /// What the stream is.
    const CONTENT_TYPE: &'static str = "text/event-stream";
    /// What says that the answer is still worked at, without an event: a comment.
    const QUIET: &'static str = ": still at work\n\n";

    /// What is sent for an event.
    fn write(&mut self, event: Event) -> Vec<Sent>;

    /// What is sent where the answer does not come to its end.
    fn failed(&mut self, error: ApiError) -> Vec<Sent>;

    /// What is sent, as it stands in the stream.
    fn text(sent: &Sent) -> String {
        sent.text()
    }

    /// What is sent where nothing else was for a while, if the interface has events for that. Otherwise it is
    /// [`QUIET`](Self::QUIET).
    fn ping(&mut self) -> Vec<Sent> {
        Vec::new()
    }
}

/// What a client is sent, as it comes.
pub(crate) struct Feed<W> {
    events: Events,
    writer: W,
    /// How long it may be silent.
    ping: Duration,
    is_over: bool,
}

impl<W: Writer> Feed<W> {
    pub(crate) fn new(events: Events, writer: W, ping: Duration) -> Feed<W> {
        Feed { events, writer, ping, is_over: false }
    }

    pub(crate) fn writer(&self) -> &W {
        &self.writer
    }

    /// What is sent next. It is empty where nothing was for a while, before the end. `None` after it.
    pub(crate) async fn next(&mut self) -> Option<Vec<Sent>> {
        let due = Instant::now() + self.ping;
        loop {
            let next = match self.is_over {
                true => Ok(self.events.next().await),
                false => tokio::time::timeout_at(due, self.events.next()).await,
            };
            let sent = match next {
                Ok(None) if self.is_over => return None,
                // The work for it was lost.
                Ok(None) => {
                    self.is_over = true;
                    self.writer.failed(ApiError::lost())
                }
                Ok(Some(event)) => {
                    self.is_over = matches!(event, Event::Done | Event::Failed(_));
                    self.writer.write(event)
                }
                Err(_) => return Some(self.writer.ping()),
            };
            // An event of which the client is told nothing is no news: how far a reading is, mostly.
            if !sent.is_empty() {
                return Some(sent);
            }
        }
    }
}

/// The response that sends events as they come.
pub(crate) fn response<W: Writer>(events: Events, writer: W, ping: Duration) -> Response<Body> {
    let pieces = stream::unfold(Feed::new(events, writer, ping), async |mut feed| {
        let sent = feed.next().await?;
        let text = if sent.is_empty() { W::QUIET.to_owned() } else { sent.iter().map(W::text).collect() };
        Some((Ok::<_, Infallible>(Bytes::from(text)), feed))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(W::CONTENT_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would collect them otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use axum::body;
    use serde_json::json;
    use tokio::runtime::Builder;
    use tokio::sync::mpsc;
    use tokio::time::sleep;

    use super::*;

    /// Tells nothing but the end.
    struct Silent;

    impl Writer for Silent {
        fn write(&mut self, event: Event) -> Vec<Sent> {
            match event {
                Event::Done => vec![Sent::data(&json!("done"))],
                _ => Vec::new(),
            }
        }

        fn failed(&mut self, _: ApiError) -> Vec<Sent> {
            Vec::new()
        }
    }

    #[test]
    fn a_stream_is_not_silent_because_of_events_of_which_it_tells_nothing() {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let body = runtime.block_on(async {
            let (sender, receiver) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                for processed in 0..10 {
                    let _ = sender.send(Event::Reading { processed, elapsed: Duration::ZERO });
                    sleep(Duration::from_millis(20)).await;
                }
                let _ = sender.send(Event::Done);
                // The session is put away. A client would take what comes now for a part of the answer.
                sleep(Duration::from_millis(100)).await;
            });
            let events = Events::new(receiver, InterruptFlag::new());
            let response = response(events, Silent, Duration::from_millis(50));
            body::to_bytes(response.into_body(), 1 << 20).await.expect("a body")
        });
        let text = String::from_utf8_lossy(&body);
        assert!(text.starts_with(": still at work\n\n") && text.ends_with("data: \"done\"\n\n"), "{text}");
    }
}
