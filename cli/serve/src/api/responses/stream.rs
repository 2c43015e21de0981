//! The events of a response while it is written.

use serde_json::{Value, json};

use super::response::{Head, Kind, status};
use crate::api::whole::with;
use crate::http::error::ApiError;
use crate::http::stream::{Sent, Writer};
use crate::service::{Answer, Event};

/// The events of a stream.
pub(in crate::api) struct Stream {
    head: Head,
    cached: usize,
    /// How many events were sent.
    sent: u64,
    /// The item that is being sent, with its text so far.
    open: Option<(Kind, String)>,
    /// The items that are complete.
    output: Vec<Value>,
    /// How the answer has ended.
    answer: Option<Answer>,
    /// Whether the last event says that it has come to an end.
    is_over: bool,
}

impl Stream {
    pub(in crate::api) fn new(head: Head) -> Stream {
        Stream { head, cached: 0, sent: 0, open: None, output: Vec::new(), answer: None, is_over: false }
    }

    /// The response's name and the items of its output, when it is over.
    pub(super) fn output(&self) -> Option<(&str, &[Value])> {
        self.is_over.then_some((self.head.id.as_str(), &self.output))
    }

    /// An event with these fields.
    fn event(&mut self, kind: &'static str, mut fields: Value) -> Sent {
        fields["type"] = kind.into();
        fields["sequence_number"] = self.sent.into();
        self.sent += 1;
        Sent { name: Some(kind), data: fields.to_string() }
    }

    /// What comes first, once. A queue, or a text that is being read for another request, may come before the reading.
    fn start(&mut self) -> Vec<Sent> {
        if self.sent > 0 {
            return Vec::new();
        }
        let response = self.head.response("in_progress", json!([]));
        let fields = || json!({"response": response});
        vec![self.event("response.created", fields()), self.event("response.in_progress", fields())]
    }

    /// A piece of the text of an item, which begins if it is another one than before.
    fn text(&mut self, kind: Kind, text: &str) -> Vec<Sent> {
        let mut sent = Vec::new();
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            sent.extend(self.close("completed"));
            sent.extend(self.begin(kind));
        }
        if let Some((_, all)) = &mut self.open {
            all.push_str(text);
        }
        let place = self.place(kind);
        sent.push(self.event(kind.events().0, with(place, json!({"delta": text, "logprobs": []}))));
        sent
    }

    fn place(&self, kind: Kind) -> Value {
        json!({"item_id": self.head.id(kind), "output_index": self.output.len(), "content_index": 0})
    }

    fn begin(&mut self, kind: Kind) -> [Sent; 2] {
        self.open = Some((kind, String::new()));
        let (index, item) = (self.output.len(), self.head.item(kind, "in_progress", ""));
        let place = self.place(kind);
        [
            self.event("response.output_item.added", json!({"output_index": index, "item": item})),
            self.event("response.content_part.added", with(place, json!({"part": kind.part("")}))),
        ]
    }

    /// Ends the item that is being sent.
    fn close(&mut self, status: &str) -> Vec<Sent> {
        let Some((kind, text)) = self.open.take() else { return Vec::new() };
        let (place, index) = (self.place(kind), self.output.len());
        let item = self.head.item(kind, status, &text);
        self.output.push(item.clone());
        vec![
            self.event(kind.events().1, with(place.clone(), json!({"text": text, "logprobs": []}))),
            self.event("response.content_part.done", with(place, json!({"part": kind.part(&text)}))),
            self.event("response.output_item.done", json!({"output_index": index, "item": item})),
        ]
    }
}

impl Writer for Stream {
    fn write(&mut self, event: Event) -> Vec<Sent> {
        match event {
            Event::Begun { cached } => {
                self.cached = cached;
                self.start()
            }
            Event::Reading { .. } | Event::Scored(_) => Vec::new(),
            Event::Text { split, .. } => {
                let parts = [(Kind::Thinking, split.thinking), (Kind::Message, split.answer)];
                let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
                parts.flat_map(|(kind, text)| self.text(kind, &text)).collect()
            }
            Event::Call { call: made, .. } => {
                let mut sent = self.close("completed");
                let (index, item) = (self.output.len(), self.head.call(&made));
                let mut begun = item.clone();
                (begun["status"], begun["arguments"]) = ("in_progress".into(), "".into());
                let place = json!({"item_id": item["id"], "output_index": index});
                let arguments = with(place.clone(), json!({"arguments": made.arguments()}));
                let delta = with(place, json!({"delta": made.arguments()}));
                sent.push(
                    self.event("response.output_item.added", json!({"output_index": index, "item": begun})),
                );
                sent.push(self.event("response.function_call_arguments.delta", delta));
                sent.push(self.event("response.function_call_arguments.done", arguments));
                sent.push(
                    self.event("response.output_item.done", json!({"output_index": index, "item": item})),
                );
                self.output.push(item);
                sent
            }
            Event::Answered { result, .. } => {
                let mut sent = Vec::new();
                let has_message = self.open.as_ref().is_some_and(|(kind, _)| *kind == Kind::Message);
                if !has_message && result.calls == 0 {
                    // An answer without text is a message, too.
                    sent.extend(self.close("completed"));
                    sent.extend(self.begin(Kind::Message));
                }
                sent.extend(self.close(status(&result)));
                self.answer = Some(result);
                sent
            }
            Event::Done => {
                self.is_over = true;
                let response = match self.answer.take() {
                    Some(answer) => self.head.ended(json!(self.output), self.cached, &answer),
                    None => self.head.read(self.cached),
                };
                let kind = match response["status"] == "completed" {
                    true => "response.completed",
                    false => "response.incomplete",
                };
                vec![self.event(kind, json!({"response": response})), Sent::end()]
            }
            Event::Failed(error) => self.failed(error.into()),
        }
    }

    fn failed(&mut self, error: ApiError) -> Vec<Sent> {
        let mut response = self.head.response("failed", json!(self.output));
        response["error"] = json!({"code": error.code.unwrap_or("server_error"), "message": error.message});
        vec![self.event("response.failed", json!({"response": response}))]
    }

    /// Codex takes comments for silence.
    fn ping(&mut self) -> Vec<Sent> {
        if self.sent == 0 {
            return self.start();
        }
        let response = self.head.response("in_progress", json!(self.output));
        vec![self.event("response.in_progress", json!({"response": response}))]
    }
}
