//! `longhand serve` as a process: what it says, whom it lets in, how it ends. Its answers are tested in cli/serve.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::{Running, longhand, scratch};

/// A server on a free port, and its address.
fn server(args: &[&str]) -> (Running, String) {
    let mut server = Running::start(&[&["serve", "--port", "0"], args].concat());
    let address = server.read_after("answers at http://").trim_end_matches(',').to_owned();
    (server, address)
}

/// The whole response to a request.
fn ask(address: &str, headers: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let method = if body.is_empty() { "GET" } else { "POST" };
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("a request");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

#[test]
fn a_server_answers_about_its_documents_and_ends_in_order() {
    let document = scratch("serve-documents").join("boat.txt");
    std::fs::write(&document, "The boat was old. Mary's favorite number is 34251.").expect("a document");
    let document = document.display().to_string();
    let (server, address) = server(&["-f", &document, "--alias", "boats", "-np", "2", "-c", "1k"]);
    let question =
        r#"{"messages": [{"role": "user", "content": "What is Mary's favorite number?"}], "temperature": 0}"#;
    let response = ask(&address, "", "/v1/chat/completions", question);
    assert!(
        response.contains("Mary's favorite number is 34251.") && response.contains("\"boats\""),
        "{response}"
    );
    #[cfg(unix)]
    {
        server.signal("TERM");
        let run = server.finish();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(
            run.stdout.contains("boats answers at") && run.stdout.contains("2 conversations"),
            "{}",
            run.stdout
        );
        run.says(&["boat.txt: ", "the server ends"]);
    }
    #[cfg(not(unix))]
    drop(server);
}

#[test]
fn a_server_tells_sources_where_it_records_them() {
    let document = scratch("serve-sources").join("boat.md");
    let text = "# Boats\n\nThe boat was old.\n\n# Numbers\n\nMary's favorite number is 34251.\n";
    std::fs::write(&document, text).expect("a document");
    let document = document.display().to_string();
    let question = r#"{"messages": [{"role": "user", "content": "What is Mary's favorite number?"}], "temperature": 0, "sources": true}"#;
    let (_server, address) = server(&["-f", &document, "--sources", "-c", "1k"]);
    let response = ask(&address, "", "/v1/chat/completions", question);
    assert!(response.contains(r#""document":"boat.md","page":null,"section":"Numbers""#), "{response}");
    let (_server, address) = server(&["-f", &document, "-c", "1k"]);
    let response = ask(&address, "", "/v1/chat/completions", question);
    assert!(response.starts_with("HTTP/1.1 400") && response.contains("--sources"), "{response}");
}

#[test]
fn a_server_that_others_reach_needs_a_key() {
    longhand(&["serve", "--host", "0.0.0.0", "--port", "0"]).assert_failed(1, "the server has no key");
    let keys = scratch("serve-keys").join("keys.txt");
    std::fs::write(&keys, "\n\n").expect("a file");
    let keys = keys.display().to_string();
    longhand(&["serve", "--api-key-file", &keys]).assert_failed(2, "the keys are blank");
    std::fs::write(&keys, "first\nsecond\n").expect("a file");
    let (_server, address) = server(&["--host", "0.0.0.0", "--api-key-file", &keys, "--api-key", "third"]);
    let port = address.rsplit(':').next().expect("a port");
    let address = format!("127.0.0.1:{port}");
    assert!(ask(&address, "", "/v1/models", "").starts_with("HTTP/1.1 401"));
    for key in ["second", "third"] {
        let header = format!("Authorization: Bearer {key}\r\n");
        assert!(ask(&address, &header, "/v1/models", "").starts_with("HTTP/1.1 200"));
    }
    longhand(&["serve", "--port", port, "--host", "0.0.0.0", "--api-key", "x"])
        .assert_failed(1, "cannot listen on http://0.0.0.0");
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_loaded() {
    longhand(&["serve", "--host", "example.com"]).assert_failed(2, "--host \"example.com\" is no address");
    longhand(&["serve", "--parallel", "0"]).assert_failed(2, "--parallel");
    longhand(&["serve", "-np", "9999999", "-c", "30k", "--policy", "full", "--port", "0"])
        .assert_failed(1, "9,999,999 conversations do not fit");
    longhand(&["serve", "--port", "0", "-f", "no-such-file.txt"]).assert_failed(1, "no-such-file.txt");
}
