//! Responses over WebSockets, and summaries that take the place of conversations.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use serve::ServerOptions;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::client::Connection;
use crate::fixture::{FACT, Fixture, QUESTION, Running, filler, with};

/// A client.
struct Client(WebSocket<TcpStream>);

impl Client {
    fn connect(server: &Running) -> Client {
        let request = format!("ws://{}/v1/responses", server.address).into_client_request();
        let stream = TcpStream::connect(server.address).expect("a connection");
        let (socket, response) = client(request.expect("a request"), stream).expect("a WebSocket");
        assert_eq!(response.status(), 101);
        Client(socket)
    }

    fn send(&mut self, body: &Value) {
        self.0.send(Message::text(body.to_string())).expect("a connection");
    }

    /// The next event.
    fn event(&mut self) -> Value {
        loop {
            match self.0.read().expect("a message") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other}"),
            }
        }
    }

    /// The events up to the end of a response.
    fn events(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            events.push(self.event());
            let kind = events.last().expect("one")["type"].as_str().expect("a type");
            let is_last = ["response.completed", "response.incomplete", "response.failed", "error"];
            if is_last.contains(&kind) {
                return events;
            }
        }
    }

    /// The last event of an answer.
    fn ask(&mut self, body: &Value) -> Value {
        self.send(body);
        self.events().pop().expect("events")
    }

    /// Why the server closes the connection.
    fn closed(&mut self) -> CloseCode {
        loop {
            if let Message::Close(frame) = self.0.read().expect("a message") {
                return frame.expect("a reason").code;
            }
        }
    }
}

/// A request that creates a response.
fn create(input: impl Into<Value>) -> Value {
    json!({"type": "response.create", "model": "any", "temperature": 0, "input": input.into()})
}

#[test]
fn a_response_is_continued_with_what_is_new() {
    let server = Fixture::default().start();
    let mut client = Client::connect(&server);
    let first = format!("{FACT} {QUESTION}");
    client.send(&create(first.as_str()));
    let events = client.events();
    let stream = json!({"input": first, "temperature": 0, "stream": true});
    let same = server.post("/v1/responses", &stream).events();
    let kinds = |events: &[Value]| events.iter().map(|event| event["type"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&events), kinds(&same));
    let response = &events.last().expect("events")["response"];
    assert_eq!(response["output"][0]["content"][0]["text"], FACT);

    let again = with(create(QUESTION), "previous_response_id", response["id"].clone());
    let second = client.ask(&again)["response"].clone();
    assert_eq!(second["previous_response_id"], response["id"]);
    assert_eq!(second["output"][0]["content"][0]["text"], FACT);
    // What was read and written before is not read again.
    let used = |response: &Value, name: &str| response["usage"][name].as_u64().expect(name);
    let cached = second["usage"]["input_tokens_details"]["cached_tokens"].as_u64().expect("a number");
    assert!(cached > used(response, "input_tokens"), "{second}");
    assert!(used(&second, "input_tokens") > used(response, "total_tokens"), "{second}");

    // Each connection has its own, and only its last.
    let missing = |event: &Value| {
        assert_eq!((&event["type"], &event["status"]), (&json!("error"), &json!(400)), "{event}");
        assert_eq!(event["error"]["code"], "previous_response_not_found", "{event}");
        assert_eq!(event["error"]["param"], "previous_response_id", "{event}");
    };
    missing(&client.ask(&again));
    let latest = with(create(QUESTION), "previous_response_id", second["id"].clone());
    missing(&Client::connect(&server).ask(&latest));
    // After an error nothing is left to be continued, whatever it is.
    let mut latest = latest;
    let item = json!([{"type": "function_call_output", "call_id": "none", "output": "x"}]);
    for (name, value, param) in
        [("input", item, "input[0]"), ("input", json!(5), "input"), ("type", json!("x"), "type")]
    {
        let failed = client.ask(&with(latest.clone(), name, value));
        assert_eq!((&failed["type"], &failed["status"]), (&json!("error"), &json!(400)), "{failed}");
        assert_eq!(failed["error"]["param"], param, "{failed}");
        missing(&client.ask(&latest));
        let next = client.ask(&with(create(FACT), "max_output_tokens", 2));
        latest["previous_response_id"] = next["response"]["id"].clone();
    }
    // Over HTTP there is nothing to continue, ever.
    missing(
        &with(
            server.post("/v1/responses", &json!({"input": "x", "previous_response_id": "resp_1"})).json(),
            "type",
            "error",
        )
        .as_object()
        .map(|error| with(json!(error), "status", 400))
        .expect("an object"),
    );
}

#[test]
fn instructions_are_read_before_a_question_comes() {
    let server = Fixture::default().start();
    let mut client = Client::connect(&server);
    let ahead = client.ask(&with(create(FACT), "generate", false))["response"].clone();
    assert_eq!((&ahead["status"], &ahead["output"]), (&json!("completed"), &json!([])));
    assert_eq!(ahead["usage"]["output_tokens"], 0);
    let answer = client.ask(&with(create(QUESTION), "previous_response_id", ahead["id"].clone()));
    assert_eq!(answer["response"]["output"][0]["content"][0]["text"], FACT);
    let ahead = server.post("/v1/responses", &json!({"input": FACT, "generate": false})).json();
    assert_eq!((&ahead["output"], &ahead["usage"]["output_tokens"]), (&json!([]), &json!(0)));
}

#[test]
fn what_is_no_request_is_refused_and_the_connection_stays() {
    let server = Fixture::default().start();
    let mut client = Client::connect(&server);
    client.0.send(Message::text("no JSON")).expect("a connection");
    assert_eq!(client.events()[0]["error"]["code"], "invalid_request_error");
    for (body, field) in [
        (json!({"input": "x"}), "type"),
        (with(create("x"), "type", "response.cancel"), "type"),
        (with(create("x"), "background", true), "background"),
        (with(create("x"), "generate", "no"), "generate"),
        (create(5), "input"),
        (create(json!([])), "input"),
        (json!({"type": "response.create"}), "input"),
        (create(json!([{"type": "compaction", "encrypted_content": "gAAAA"}])), "input[0].encrypted_content"),
    ] {
        let event = client.ask(&body);
        assert_eq!((&event["type"], &event["error"]["param"]), (&json!("error"), &json!(field)), "{event}");
    }
    // Several are answered one after the other.
    for _ in 0..3 {
        client.send(&create(format!("{FACT} {QUESTION}")));
    }
    for _ in 0..3 {
        let events = client.events();
        assert_eq!(events[0]["type"], "response.created");
        assert_eq!(events.last().expect("events")["response"]["output"][0]["content"][0]["text"], FACT);
    }
}

#[test]
fn web_pages_get_no_connection_and_others_are_told_how() {
    let server = Fixture::default().start();
    let upgrade = [
        "Connection: Upgrade, close",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let ask =
        |headers: &[&str]| Connection::send(server.address, "GET", "/v1/responses", headers, "").response();
    let page = [&upgrade[..], &["Origin: http://example.com"]].concat();
    assert_eq!(ask(&page).status, 403);
    let plain = ask(&[]);
    assert_eq!((plain.status, plain.header("upgrade")), (426, Some("websocket")));
    assert!(plain.body.contains("POST"), "{}", plain.body);
    for missing in 0..upgrade.len() {
        let some: Vec<&str> =
            upgrade.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, header)| *header).collect();
        assert_eq!(ask(&some).status, 426, "without {}", upgrade[missing]);
    }
}

#[test]
fn work_stops_when_a_connection_ends() {
    let server = Fixture { context: 16_384, ..Fixture::default() }.start();
    let mut client = Client::connect(&server);
    client.send(&create(filler(8_000)));
    server.wait_until("requests_at_work", 1.0);
    drop(client);
    server.wait_until("requests_at_work", 0.0);
    assert_eq!(server.metric("failures_total"), 0.0);
}

#[test]
fn a_connection_ends_with_the_server_and_with_requests_that_are_too_long() {
    let options = ServerOptions { max_json: 4096, ..Fixture::default().options };
    let server = Fixture { options, ..Fixture::default() }.start();
    let mut long = Client::connect(&server);
    long.send(&create("x".repeat(5000)));
    assert_eq!(long.closed(), CloseCode::Size);
    let mut idle = Client::connect(&server);
    let mut many = Client::connect(&server);
    many.0.send(Message::text("no JSON")).expect("a connection");
    (0..10).for_each(|_| many.send(&create(FACT)));
    assert_eq!(many.closed(), CloseCode::Policy);
    server.stop();
    assert_eq!(idle.closed(), CloseCode::Away);
}

#[test]
fn a_silent_client_is_asked_and_then_left() {
    let options = ServerOptions { patience: Duration::from_millis(300), ..ServerOptions::default() };
    let server = Fixture { options, ..Fixture::default() }.start();
    // Who answers pings stays.
    let mut here = Client::connect(&server);
    let gone = Client::connect(&server);
    for _ in 0..4 {
        assert!(matches!(here.0.read(), Ok(Message::Ping(_))));
        here.0.flush().expect("a connection");
    }
    let mut gone = gone.0.into_inner();
    gone.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    std::io::copy(&mut gone, &mut std::io::sink()).expect("the end of the connection");
}

#[test]
fn a_summary_takes_the_place_of_a_conversation() {
    let server = Fixture::default().start();
    let body = json!({"model": "any", "input": FACT});
    let compacted = server.post("/v1/responses/compact", &body).json();
    assert_eq!(compacted["object"], "response.compaction", "{compacted}");
    let item = &compacted["output"][0];
    let content = item["encrypted_content"].as_str().expect("a text");
    assert!(item["type"] == "compaction" && content.starts_with("longhand summary: "), "{compacted}");
    assert!(compacted["usage"]["output_tokens"].as_u64().is_some_and(|tokens| tokens > 0));
    // It is read as what it is: an answer to the request for it.
    let item = with(item.clone(), "encrypted_content", format!("longhand summary: {FACT}"));
    let question = json!({"type": "message", "role": "user", "content": QUESTION});
    let asked = json!({"input": [item, question], "temperature": 0});
    let answer = server.post("/v1/responses", &asked).json();
    assert_eq!(answer["output"][0]["content"][0]["text"], FACT);

    // Rules stay.
    let items = json!([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": FACT}]);
    let kept =
        server.post("/v1/responses/compact", &json!({"model": "any", "input": items, "tools": []})).json();
    let kinds: Vec<&Value> =
        kept["output"].as_array().expect("items").iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["message", "compaction"], "{kept}");
    assert_eq!(kept["output"][0]["content"][0]["text"], "Be brief.");
    // What leaves no room is refused before it is read.
    let long = server.post("/v1/responses/compact", &json!({"model": "any", "input": filler(850)})).json();
    assert_eq!(long["error"]["code"], "context_length_exceeded", "{long}");

    let without_model = json!({"input": "x"});
    let refused = server.post("/v1/responses/compact", &without_model);
    assert_eq!((refused.status, refused.json()["error"]["param"].as_str()), (400, Some("model")));
    let other = with(body, "previous_response_id", "resp_1");
    let refused = server.post("/v1/responses/compact", &other).json();
    assert_eq!(refused["error"]["code"], "previous_response_not_found");
}

#[test]
fn a_summary_without_an_end_is_an_error() {
    // Answers of this model have no end.
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
    let server = Fixture { template: Some(template.to_owned()), ..Fixture::default() }.start();
    let refused = server.post("/v1/responses/compact", &json!({"model": "any", "input": "x"}));
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("did not come to its end"), "{}", refused.body);
}
