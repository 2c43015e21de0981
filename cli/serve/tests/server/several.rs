//! Several clients at once, and clients that leave.

use std::thread;
use std::time::Duration;

use longhand::saved::DocumentCache;
use serde_json::json;

use crate::client::Connection;
use crate::fixture::{FACT, Fixture, QUESTION, filler, question, with};

#[test]
fn answers_of_several_clients_are_not_mixed() {
    let server = Fixture { sessions: 3, ..Fixture::default() }.start();
    let names = ["Mary", "John", "Anna", "Peter", "Lucy", "Tom", "Sarah", "Paul"];
    let ask = |name: &str, number: usize| {
        let text = format!("{name}'s favorite number is {number}. What is {name}'s favorite number?");
        server.chat(&question(&text)).json()["choices"][0]["message"]["content"].clone()
    };
    let number = |index: usize| 10_007 * (index + 1);
    let alone: Vec<_> = names.iter().enumerate().map(|(index, name)| ask(name, number(index))).collect();
    for (index, answer) in alone.iter().enumerate() {
        assert!(answer.to_string().contains(&number(index).to_string()), "{answer}");
    }
    thread::scope(|scope| {
        let asked: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(index, name)| scope.spawn(move || ask(name, number(index))))
            .collect();
        for (index, client) in asked.into_iter().enumerate() {
            assert_eq!(client.join().expect("an answer"), alone[index]);
        }
    });
    assert_eq!(server.metric("failures_total"), 0.0);
}

#[test]
fn an_answer_does_not_wait_for_a_long_reading() {
    let server = Fixture { sessions: 2, context: 16_384, ..Fixture::default() }.start();
    let long = with(with(question(&filler(8_000)), "stream", true), "return_progress", true);
    let mut reading = server.send("/v1/chat/completions", &long);
    reading.wait_for("prompt_progress");
    let answer = server.chat(&question(&format!("{FACT} {QUESTION}"))).json();
    assert_eq!(answer["choices"][0]["message"]["content"], FACT);
    assert_eq!(server.metric("requests_at_work"), 1.0, "the reading is not at its end");
}

#[test]
fn work_stops_when_its_client_leaves() {
    let server = Fixture { context: 16_384, max_waiting: 1, ..Fixture::default() }.start();
    let long = question(&filler(8_000));
    let progress = with(with(long.clone(), "stream", true), "return_progress", true);
    let mut reading = server.send("/v1/chat/completions", &progress);
    reading.wait_for("prompt_progress");
    // One waits, and a further one has no place.
    let short = with(question(QUESTION), "max_tokens", 5);
    let waiting = server.send("/v1/chat/completions", &short);
    server.wait_until("requests_waiting", 1.0);
    let refused = server.chat(&short);
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(server.metric("refused_total"), 1.0);
    // The client of the reading leaves: the one that waits is answered.
    drop(reading);
    assert_eq!(waiting.response().status, 200);
    // A client that leaves before anything has come, and one that leaves while it waits.
    let whole = server.send("/v1/chat/completions", &long);
    server.wait_until("requests_at_work", 1.0);
    let waiting = server.send("/v1/chat/completions", &short);
    server.wait_until("requests_waiting", 1.0);
    drop(waiting);
    drop(whole);
    server.wait_until("requests_at_work", 0.0);
    let asked = server.chat(&question(&format!("{FACT} {QUESTION}"))).json();
    assert_eq!(asked["choices"][0]["message"]["content"], FACT);
    assert_eq!(server.metric("failures_total"), 0.0);
}

#[test]
fn a_reading_goes_on_when_its_client_comes_back() {
    let server = Fixture { sessions: 2, context: 16_384, ..Fixture::default() }.start();
    let long = with(with(question(&filler(8_000)), "stream", true), "return_progress", true);
    let processed = |text: &str| {
        let numbers = text
            .split("\"processed\":")
            .skip(1)
            .filter_map(|rest| rest.split(',').next()?.parse::<usize>().ok());
        numbers.collect::<Vec<_>>()
    };
    let mut reading = server.send("/v1/chat/completions", &long);
    let seen = reading.wait_for("\"processed\":3");
    drop(reading);
    server.wait_until("requests_at_work", 0.0);
    let last = *processed(&seen).last().expect("progress");
    let again = server.send("/v1/chat/completions", &with(long, "max_tokens", 1)).rest();
    let first = *processed(&again).first().expect("progress");
    assert!(first >= last, "{first} after {last}");
    // So does one of a text that begins in the same way.
    let other = |end: &str| {
        let text = format!("Go. {} {end}", filler(8_000));
        with(with(with(question(&text), "stream", true), "return_progress", true), "max_tokens", 1)
    };
    let mut reading = server.send("/v1/chat/completions", &other("Who?"));
    let mut last = 0;
    while last < 2_000 {
        last = processed(&reading.wait_for("\"processed\":")).last().copied().unwrap_or(last);
    }
    drop(reading);
    server.wait_until("requests_at_work", 0.0);
    let changed = server.send("/v1/chat/completions", &other("Where was the boat?")).rest();
    let first = *processed(&changed).first().expect("progress");
    assert!(first >= last, "{first} after {last}");
}

#[test]
fn a_server_that_ends_says_so() {
    let server = Fixture { context: 16_384, ..Fixture::default() }.start();
    let long = with(with(question(&filler(8_000)), "stream", true), "return_progress", true);
    let mut reading = server.send("/v1/chat/completions", &long);
    reading.wait_for("prompt_progress");
    let waiting = ["/v1/chat/completions", "/v1/responses", "/v1/messages"].map(|path| {
        let mut body =
            json!({"max_tokens": 5, "stream": true, "messages": [{"role": "user", "content": "x"}]});
        if path == "/v1/responses" {
            body = json!({"input": "x", "stream": true});
        }
        server.send(path, &body)
    });
    server.wait_until("requests_waiting", 3.0);
    let address = server.address;
    server.stop();
    for rest in waiting.into_iter().chain([reading]).map(Connection::rest) {
        assert!(rest.contains("the server is going down"), "{rest}");
        assert!(!rest.contains("[DONE]"), "{rest}");
    }
    std::net::TcpStream::connect(address).expect_err("nobody listens");
}

#[test]
fn documents_are_read_once_for_all_also_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = DocumentCache { max_share: f64::INFINITY, ..DocumentCache::new(folder.path(), 1 << 30) };
    let fixture = Fixture {
        sessions: 2,
        context: 2048,
        document: format!("{} {FACT}", filler(900)),
        cache: Some(cache),
        ..Fixture::default()
    };
    let answer = |server: &crate::fixture::Running| {
        let answer = server.chat(&question(QUESTION)).json();
        assert_eq!(answer["choices"][0]["message"]["content"], FACT);
        let usage = &answer["usage"];
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");
        (number(&usage["prompt_tokens"]), number(&usage["prompt_tokens_details"]["cached_tokens"]))
    };
    let server = fixture.start();
    let (tokens, cached) = answer(&server);
    assert_eq!(cached, 0);
    // A client that asks while the session that has the document is at work.
    let mut busy = server.send(
        "/v1/completions",
        &json!({"prompt": FACT, "max_tokens": 1000, "stream": true, "logit_bias": {}, "temperature": 1.5}),
    );
    busy.wait_for("data: ");
    let (_, cached) = answer(&server);
    assert!(cached > tokens * 9 / 10, "{cached} of {tokens}");
    drop(busy);
    server.stop();
    let (_, cached) = answer(&fixture.start());
    assert!(cached > tokens * 9 / 10, "{cached} of {tokens}");
}

/// Questions about the same long text, which stands in each message: nobody has sent it as a document.
#[test]
fn what_several_ask_about_is_read_once_and_found_by_others_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = DocumentCache { max_share: f64::INFINITY, ..DocumentCache::new(folder.path(), 1 << 30) };
    let fixture = Fixture { sessions: 3, context: 2048, cache: Some(cache), ..Fixture::default() };
    let text = format!("{} {FACT}", filler(1200));
    let asked = |name: &str| question(&format!("{text} What is {name}'s favorite number?"));
    let cached_of = |response: crate::client::Response| {
        let answer = response.json();
        let number = |field: &serde_json::Value| field.as_u64().expect("a number");
        let usage = &answer["usage"];
        (number(&usage["prompt_tokens"]), number(&usage["prompt_tokens_details"]["cached_tokens"]))
    };
    let server = fixture.start();
    let all = ["Mary", "John", "Ann"].map(|name| server.send("/v1/chat/completions", &asked(name)));
    let mut all = all.map(|connection| cached_of(connection.response()));
    all.sort_by_key(|(_, cached)| *cached);
    assert_eq!(all[0].1, 0);
    for (tokens, cached) in &all[1..] {
        assert!(*cached > tokens * 9 / 10, "{all:?}");
    }
    server.stop();
    // Another question after a restart. The answer is the one that it would have without.
    let found = fixture.start().chat(&asked("Rob"));
    let alone = Fixture { context: 2048, ..Fixture::default() }.start().chat(&asked("Rob"));
    let text =
        |response: &crate::client::Response| response.json()["choices"][0]["message"]["content"].clone();
    assert_eq!(text(&found), text(&alone));
    let (tokens, cached) = cached_of(found);
    assert!(cached > tokens * 9 / 10, "{cached} of {tokens}");
}

#[test]
fn conversations_are_kept_when_another_takes_their_place_and_when_the_server_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = DocumentCache { max_share: f64::INFINITY, ..DocumentCache::new(folder.path(), 1 << 30) };
    let fixture = Fixture { context: 2048, cache: Some(cache), ..Fixture::default() };
    let first = json!({"role": "user", "content": format!("{} {FACT} {QUESTION}", filler(900))});
    let cached_of = |server: &crate::fixture::Running, messages: serde_json::Value| {
        let answer = server.chat(&json!({"messages": messages, "temperature": 0})).json();
        assert_eq!(answer["choices"][0]["message"]["content"], FACT, "{answer}");
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("a number")
    };
    let again = json!({"role": "user", "content": QUESTION});
    let goes_on = || json!([first, {"role": "assistant", "content": FACT}, again]);
    let server = fixture.start();
    let short = json!([{"role": "user", "content": format!("{FACT} {QUESTION}")}]);
    assert_eq!(cached_of(&server, json!([first])), 0);
    let longer = cached_of(&server, goes_on());
    cached_of(&server, short.clone());
    // The short one has taken its place, and it is found on the disk with all that it had.
    assert!(cached_of(&server, goes_on()) > longer);
    cached_of(&server, short);
    server.stop();
    let server = fixture.start();
    assert!(cached_of(&server, goes_on()) > longer);
}

#[test]
fn documents_are_sent_once_and_asked_about_by_their_names() {
    let server = Fixture { sessions: 2, context: 2048, ..Fixture::default() }.start();
    let text = format!("{} {FACT}", filler(300));
    let added = server.post("/v1/documents", &json!({"name": "boat.txt", "text": text}));
    assert_eq!(added.status, 201, "{}", added.body);
    let id = added.json()["id"].as_str().expect("a name").to_owned();
    // The same text has the same name.
    let path = "/v1/documents?name=my%20boat.html";
    let page = format!("<html><body><p>{text}</p></body></html>");
    let html = Connection::send(server.address, "POST", path, &["Content-Type: text/html"], &page).response();
    assert_eq!((html.status, html.json()["id"].as_str()), (200, Some(id.as_str())), "{}", html.body);
    let read = || server.get(&format!("/v1/documents/{id}")).json();
    while read()["status"] != "read" {
        assert_ne!(read()["status"], "failed");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(read()["tokens_read"], read()["tokens"]);
    assert_eq!(server.get("/v1/documents").json()["data"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.get(&format!("/v1/documents/{id}/text")).body, text);

    let second = server
        .post("/v1/documents", &json!({"name": "b", "text": "John's favorite number is 58213."}))
        .json();
    let other = second["id"].as_str().expect("a name").to_owned();
    let asked = |ids: &[&str], name: &str| {
        let question = question(&format!("What is {name}'s favorite number?"));
        server.chat(&with(question, "documents", json!(ids))).json()
    };
    let about_one = asked(&[&id], "Mary");
    assert_eq!(about_one["choices"][0]["message"]["content"], FACT);
    // It was read before anybody asked.
    let cached = about_one["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("a number");
    assert!(cached > 300, "{about_one}");
    for (name, number) in [("Mary", "34251"), ("John", "58213")] {
        let answer = asked(&[&id, &other], name)["choices"][0]["message"]["content"].to_string();
        assert!(answer.contains(number), "{answer}");
    }
    let anthropic = json!({"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 30, "temperature": 0, "documents": [id]});
    assert_eq!(server.post("/v1/messages", &anthropic).json()["content"][0]["text"], FACT);

    let delete = || {
        Connection::send(server.address, "DELETE", &format!("/v1/documents/{id}"), &[], "").response().status
    };
    assert_eq!((delete(), delete()), (200, 404));
    let gone = server.chat(&with(question(QUESTION), "documents", json!([id])));
    assert_eq!((gone.status, gone.json()["error"]["param"].as_str()), (400, Some("documents")));
    // A word by which a client knows that it is to send it again.
    assert_eq!(gone.json()["error"]["code"], "document_not_found");
    let twice = server.chat(&with(question(QUESTION), "documents", json!([other, other])));
    assert_eq!(twice.json()["error"]["param"], "documents");
    // A reading whose document is deleted stops. The server is free then.
    let long = server.post("/v1/documents", &json!({"name": "long", "text": filler(1200)})).json();
    let path = format!("/v1/documents/{}", long["id"].as_str().expect("a name"));
    assert_eq!(Connection::send(server.address, "DELETE", &path, &[], "").response().status, 200);
    server.wait_until("requests_at_work", 0.0);
    // What has no text, no name, or no room; a form; a name that would change a terminal.
    let form = ["Content-Type: multipart/form-data; boundary=x"];
    let form = Connection::send(server.address, "POST", "/v1/documents?name=a.txt", &form, "--x").response();
    assert_eq!(form.status, 415);
    assert_eq!(server.post("/v1/documents", &json!({"name": "a\nb", "text": "text"})).status, 400);
    let json_file =
        Connection::send(server.address, "POST", "/v1/documents?name=a.json", &[], "{\"a\": 1}").response();
    assert_eq!(json_file.status, 201, "{}", json_file.body);
    let post = |path: &str, bytes: &str| {
        Connection::send(server.address, "POST", path, &["Content-Type: application/pdf"], bytes).response()
    };
    assert_eq!(post("/v1/documents?name=a.pdf", "%PDF-1.4 nothing").status, 422);
    assert_eq!(post("/v1/documents", "text").status, 400);
    assert_eq!(post("/v1/documents?name=%zz", "text").status, 400);
    let long = server.post("/v1/documents", &json!({"name": "long", "text": filler(5000)})).json();
    assert_eq!(long["error"]["code"], "context_length_exceeded");
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_for_its_user_only() {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;

    use serve::{Address, Server, ServerOptions};

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("longhand.sock");
    for _ in 0..2 {
        // One that was left behind is no obstacle.
        drop(std::os::unix::net::UnixListener::bind(&path));
        let server = Server::start(&Address::Unix(path.clone()), ServerOptions::default()).expect("a server");
        server.set_service(Fixture::default().service());
        let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut stream = UnixStream::connect(&path).expect("a connection");
        stream
            .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("a request");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        let second = Server::start(&Address::Unix(path.clone()), ServerOptions::default());
        assert!(second.is_err(), "another server listens there");
        server.stop(Duration::from_secs(5));
        assert!(!path.exists());
    }
    // A file that is no socket stays.
    std::fs::write(&path, "mine").expect("a file");
    assert!(Server::start(&Address::Unix(path.clone()), ServerOptions::default()).is_err());
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "mine");
}

#[test]
fn more_connections_than_there_are_places_wait() {
    use serve::ServerOptions;
    let options = ServerOptions { max_connections: 2, ..ServerOptions::default() };
    let server = Fixture { options, ..Fixture::default() }.start();
    let held = [(); 2].map(|()| std::net::TcpStream::connect(server.address).expect("a connection"));
    // Nothing was asked there yet: the third one waits until one of them ends.
    let third = Connection::send(server.address, "GET", "/health", &[], "");
    drop(held);
    assert_eq!(third.response().status, 200);
}
