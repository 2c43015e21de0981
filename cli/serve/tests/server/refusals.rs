//! What is refused, and in which words.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use serve::{Address, Keys, Server, ServerError, ServerOptions};

use crate::client::Connection;
use crate::fixture::{FACT, Fixture, QUESTION, filler, question, with};

/// Status, field and message of an error.
fn refused(response: &crate::client::Response) -> (u16, String, String) {
    let error = &response.json()["error"];
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (response.status, text("param"), text("message"))
}

#[test]
fn a_field_that_might_change_the_answer_is_refused_by_its_name() {
    let server = Fixture::default().start();
    let asked = || question(QUESTION);
    let fields = [
        ("tools", json!([{"type": "function"}])),
        // The template of the embedded model knows none.
        ("tools", json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])),
        ("mirostat", json!(2)),
        ("model", json!({})),
        ("response_format", json!({"type": "json_schema", "json_schema": {"schema": {"not": {}}}})),
        ("tool_choice", json!("required")),
        ("modalities", json!(["audio"])),
        ("temperature", json!("warm")),
        ("n", json!(0)),
        ("top_logprobs", json!(21)),
        ("logit_bias", json!({"Mary": 1})),
        ("logit_bias", json!({"05": 1})),
        ("top_p", json!(5)),
        ("max_tokens", json!(1.5)),
        ("reasoning_effort", json!("banana")),
        ("stop", json!([1])),
        // An answer that has begun is not continued.
        ("messages", json!([{"role": "assistant", "content": "Mary's"}])),
        ("messages", json!([])),
        ("messages", json!("hello")),
    ];
    for (name, value) in fields {
        let (status, field, message) = refused(&server.chat(&with(asked(), name, value)));
        assert_eq!((status, field.as_str()), (400, name), "{message}");
        assert!(message.contains(name), "{message}");
    }
    let nested = [
        (json!({"role": "tool", "content": "x"}), "messages[0].tool_call_id"),
        (json!({"role": "tool", "tool_call_id": "a", "content": "x"}), "messages[0]"),
        (json!({"role": "stranger", "content": "x"}), "messages[0].role"),
        (
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}),
            "messages[0].content[0].type",
        ),
        (json!({"role": "user", "content": "x", "tool_calls": [1]}), "messages[0].tool_calls[0]"),
        (json!({"role": "user", "content": 5}), "messages[0].content"),
        (json!({"content": "x"}), "messages[0].role"),
    ];
    for (message, field) in nested {
        let found = refused(&server.chat(&json!({"messages": [message]})));
        assert_eq!((found.0, found.1.as_str()), (400, field), "{}", found.2);
    }
    // What cannot change an answer is left out, and so is what says nothing.
    let mut harmless = asked();
    for (name, value) in [
        ("user", json!("me")),
        ("store", json!(true)),
        ("tools", json!([])),
        ("logprobs", json!(null)),
        ("audio", json!(false)),
        ("mirostat", json!(0)),
        ("modalities", json!(["text"])),
        ("max_tokens", json!(5.0)),
        ("reasoning_effort", json!("none")),
    ] {
        harmless[name] = value;
    }
    assert_eq!(server.chat(&harmless).status, 200);
    // What other interfaces have.
    for (name, value) in [("n", json!(2)), ("stop", json!(["x"]))] {
        let messages = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, name: value});
        assert_eq!(server.post("/v1/messages", &messages).status, 400, "{name}");
        assert_eq!(server.post("/v1/responses", &json!({"input": "x", name: value})).status, 400, "{name}");
    }
    assert_eq!(
        server
            .post("/v1/responses", &json!({"input": "x", "include": ["message.output_text.logprobs"]}))
            .status,
        400
    );
    // In Anthropic's form.
    let body = json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "top_a": 1});
    let error = server.post("/v1/messages", &body).json();
    assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
    let missing =
        server.post("/v1/messages", &json!({"messages": [{"role": "user", "content": "x"}]})).json();
    assert!(
        missing["error"]["message"].as_str().is_some_and(|text| text.contains("max_tokens")),
        "{missing}"
    );
}

#[test]
fn nothing_of_a_long_text_is_cut() {
    let server = Fixture { context: 200, ..Fixture::default() }.start();
    let long = server.chat(&question(&format!("{FACT} {}", filler(400))));
    let (status, _, message) = refused(&long);
    assert_eq!((status, long.json()["error"]["code"].as_str()), (400, Some("context_length_exceeded")));
    // The words by which agents know that they must shorten a conversation.
    let words = message.strip_prefix("prompt is too long: ").expect("Anthropic's words");
    assert!(words.starts_with(char::is_numeric) && words.contains(" tokens > 200 maximum;"), "{message}");
    let tokens = json!({"prompt": vec![5; 200]});
    assert_eq!(server.post("/v1/completions", &tokens).status, 400);
    assert_eq!(server.post("/v1/completions", &json!({"prompt": [99_999]})).status, 400);
    assert_eq!(server.post("/v1/completions", &json!({"prompt": ""})).status, 400);
    // The server goes on.
    assert_eq!(server.chat(&question(QUESTION)).status, 200);
}

#[test]
fn who_has_no_key_is_told_that_one_is_needed() {
    let options = ServerOptions { keys: Keys::new(["one", "two"]), ..ServerOptions::default() };
    let server = Fixture { options, ..Fixture::default() }.start();
    let ask = |headers: &[&str]| {
        Connection::send(server.address, "GET", "/v1/models", headers, "").response().status
    };
    assert_eq!(ask(&[]), 401);
    assert_eq!(ask(&["Authorization: Bearer three"]), 401);
    assert_eq!(ask(&["Authorization: Basic one"]), 401);
    assert_eq!(ask(&["Authorization: Bearer two"]), 200);
    assert_eq!(ask(&["X-API-Key: one"]), 200);
    assert_eq!(ask(&["X-API-Key: one", "Authorization: Bearer none"]), 200);
    // With a key, any name of the server is good.
    assert_eq!(ask(&["X-API-Key: one", "Host: my.server.example"]), 200);
    assert_eq!(server.get("/health").status, 200);
    let anthropic = Connection::send(server.address, "POST", "/v1/messages", &[], "{}").response().json();
    assert_eq!(anthropic["error"]["type"], "authentication_error");

    let everybody = Address::Tcp(SocketAddr::from(([0, 0, 0, 0], 0)));
    let error = Server::start(&everybody, ServerOptions::default()).err();
    assert!(matches!(error, Some(ServerError::NoKey(_))), "{error:?}");
}

#[test]
fn web_pages_may_not_ask() {
    let options = ServerOptions { hosts: vec!["my.name".into()], ..ServerOptions::default() };
    let server = Fixture { options, ..Fixture::default() }.start();
    let status = |headers: &[&str], body: &str| {
        let path = "/v1/chat/completions";
        Connection::send(server.address, "POST", path, headers, body).response().status
    };
    let body = question(QUESTION).to_string();
    assert_eq!(status(&["Host: evil.example"], &body), 403);
    assert_eq!(status(&["Host: evil.example:8080"], &body), 403);
    assert_eq!(status(&["Host:"], &body), 403);
    assert_eq!(status(&["Origin: https://evil.example"], &body), 403);
    assert_eq!(status(&["Origin: null"], &body), 403);
    assert_eq!(status(&["Content-Type: text/plain"], &body), 415);
    // Nor may those of other programs of this machine. The server's own could.
    assert_eq!(status(&["Origin: http://localhost:3000"], &body), 403);
    assert_eq!(status(&["Origin: http://localhost"], &body), 200);
    assert_eq!(status(&["Origin: http://localhost", "Origin: http://evil.example"], &body), 400);
    assert_eq!(status(&["Host: localhost", "Host: evil.example"], &body), 400);
    assert_eq!(status(&["Host: my.name:80"], &body), 200);
    assert_eq!(status(&["Host: [::1]:80"], &body), 200);
}

#[test]
fn what_is_no_request_is_refused() {
    let options =
        ServerOptions { max_json: 5000, patience: Duration::from_millis(300), ..ServerOptions::default() };
    let server = Fixture { options, ..Fixture::default() }.start();
    let path = "/v1/chat/completions";
    let post = |body: &str| Connection::send(server.address, "POST", path, &[], body).response();
    assert_eq!(post("{").status, 400);
    assert_eq!(post("[]").status, 400);
    assert_eq!(post("").status, 400);
    assert_eq!(post(&"x".repeat(6000)).status, 413);
    let wrong_method = server.get(path);
    assert_eq!(
        (wrong_method.status, wrong_method.json()["error"]["type"].as_str()),
        (405, Some("invalid_request_error"))
    );
    assert_eq!(server.get("/v1/messages").json()["type"], "error");
    assert_eq!(server.post("/v1/messages/batches", &json!({})).json()["type"], "error");
    assert_eq!(server.post("/detokenize", &json!({"tokens": [99_999]})).status, 400);
    assert_eq!(server.get("/nothing").status, 404);
    // Half a request, and half a head: the server does not wait for ever.
    let half = [
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{{"
        ),
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n"),
        String::new(),
    ];
    for begun in half {
        let mut stream = TcpStream::connect(server.address).expect("a connection");
        stream.write_all(begun.as_bytes()).expect("half a request");
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("an end");
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{rest}");
    }
    let chunked = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
                   Transfer-Encoding: chunked\r\n\r\n";
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.write_all(chunked.as_bytes()).expect("a head");
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
    // The server may hang up before all of it has come.
    let _ = stream.write_all(chunk.repeat(3).as_bytes());
    let mut rest = String::new();
    let _ = stream.read_to_string(&mut rest);
    assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 413"), "{rest}");
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_body_that_is_not_what_it_seems_is_refused() {
    let server = Fixture::default().start();
    let status = |path: &str, encoding: &str| {
        let body = question(QUESTION).to_string();
        Connection::send(server.address, "POST", path, &[encoding], &body).response().status
    };
    for path in ["/v1/chat/completions", "/v1/documents?name=a.txt"] {
        for encoding in ["gzip", "br", "identity, gzip"] {
            assert_eq!(status(path, &format!("Content-Encoding: {encoding}")), 415, "{path}: {encoding}");
        }
    }
    assert_eq!(status("/v1/chat/completions", "Content-Encoding: Identity"), 200);
    // A body that is damaged is not one that is too long.
    let damaged = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                   Transfer-Encoding: chunked\r\n\r\nzz\r\n";
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.write_all(damaged.as_bytes()).expect("a request");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    assert!(response.starts_with("HTTP/1.1 400") && response.contains("damaged"), "{response}");
}

#[test]
fn names_in_addresses_are_refused_in_the_form_of_errors() {
    let server = Fixture::default().start();
    for (method, path) in [
        ("GET", "/v1/models/%ff"),
        ("GET", "/v1/documents/%ff"),
        ("DELETE", "/v1/documents/%ff"),
        ("GET", "/v1/documents/%ff/text"),
        ("POST", "/v1/documents?name=%ff"),
        ("POST", "/v1/documents?name=%4"),
    ] {
        let response = Connection::send(server.address, method, path, &[], "text").response();
        let (status, _, message) = refused(&response);
        assert_eq!(status, 400, "{method} {path}");
        assert!(message.contains("percent-encode"), "{method} {path}: {message}");
    }
    let blank = [
        server.post("/v1/documents", &json!({"name": " ", "text": "text"})),
        server.post("/v1/documents?name=", &json!({"a": 1})),
    ];
    for (status, field, message) in blank.iter().map(refused) {
        assert_eq!((status, field.as_str()), (400, "name"));
        assert!(message.contains("empty"), "{message}");
    }
    // Nobody is meant by a name that is not there.
    let (status, _, message) =
        refused(&Connection::send(server.address, "GET", "/health", &["Host:"], "").response());
    assert!(status == 403 && message.contains("Host"), "{message}");
}

#[test]
fn a_number_that_is_too_large_is_not_said_to_be_no_number() {
    let server = Fixture::default().start();
    for number in ["9223372036854775808", "-9223372036854775809", "1e15"] {
        let body =
            format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"x\"}}], \"seed\": {number}}}");
        let path = "/v1/chat/completions";
        let (status, field, message) =
            refused(&Connection::send(server.address, "POST", path, &[], &body).response());
        assert_eq!((status, field.as_str()), (400, "seed"));
        assert!(message.contains("out of range"), "{message}");
    }
}

#[test]
fn until_the_model_is_loaded_that_is_what_is_said() {
    let server = Fixture::default().loading();
    for path in ["/health", "/v1/models", "/metrics"] {
        let response = server.get(path);
        assert_eq!(response.status, 503, "{path}");
        assert!(response.header("retry-after").is_some(), "{path}");
    }
    let response = server.chat(&question(QUESTION));
    assert_eq!((response.status, response.json()["error"]["code"].as_str()), (503, Some("loading")));
}

#[test]
fn names_of_the_wrong_kind_are_no_crash() {
    let server = Fixture::default().start();
    let strange: [Value; 6] = [
        json!({"messages": [null]}),
        json!({"messages": [{"role": "user", "content": "x", "name": {"a": 1}}], "max_tokens": -5}),
        json!({"messages": [{"role": "user", "content": "x"}], "seed": 1e99}),
        json!({"messages": [{"role": "user", "content": "x"}], "stop": {"a": 1}}),
        json!({"messages": [{"role": "assistant", "content": "x"}], "temperature": -1}),
        json!({"messages": [{"role": "user", "content": "\u{0}<|im_end|>\u{feff}"}], "max_tokens": 0}),
    ];
    for body in strange {
        let status = server.chat(&body).status;
        assert!(status == 200 || status == 400, "{status}: {body}");
    }
}
