//! A client that does what it is told, and nothing else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

/// A response.
pub struct Response {
    pub status: u16,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The data of the events of a stream, without the last one, which says that it is the last.
    pub fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }
}

/// A request that is sent as it is, and not read yet.
pub struct Connection(TcpStream);

impl Connection {
    /// Sends a request with these headers besides the usual ones. The connection ends with the response.
    pub fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Connection {
        let mut stream = TcpStream::connect(address).expect("a connection");
        let usual = ["Host: localhost", "Connection: close", "Content-Type: application/json"];
        let name = |header: &str| header.split(':').next().unwrap_or_default().to_owned();
        let usual = usual.iter().filter(|usual| !headers.iter().any(|header| name(header) == name(usual)));
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        usual.chain(headers).for_each(|header| text += &format!("{header}\r\n"));
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).expect("the request");
        Connection(stream)
    }

    /// Waits until something of the response has come that contains this text. Returns what has come.
    pub fn wait_for(&mut self, text: &str) -> String {
        let (mut seen, mut bytes) = (String::new(), [0; 4096]);
        while !seen.contains(text) {
            let count = self.0.read(&mut bytes).expect("more of the response");
            assert_ne!(count, 0, "the response ended before {text:?}: {seen}");
            seen += &String::from_utf8_lossy(&bytes[..count]);
        }
        seen
    }

    /// The whole response, or what is left of it.
    pub fn rest(mut self) -> String {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).expect("the response");
        String::from_utf8(bytes).expect("UTF-8")
    }

    pub fn response(self) -> Response {
        let text = self.rest();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text:?}"));
        let mut lines = head.lines();
        let status =
            lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        let mut response =
            Response { status: status.expect("a status"), headers: headers.collect(), body: body.to_owned() };
        if response.header("transfer-encoding") == Some("chunked") {
            response.body = unchunked(body);
        }
        response
    }
}

fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
        text += &rest[..size];
        body = rest[size..].trim_start_matches("\r\n");
    }
    text
}
