//! A server that stands for Hugging Face, on this machine: one repository with the files of a test.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use serde_json::json;

/// The repository.
pub const REPOSITORY: &str = "acme/Needle-GGUF";
/// Its commit.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Time after which a test has failed.
pub const WATCHDOG: Duration = Duration::from_secs(600);

/// What the server does instead of answering in order.
#[derive(Clone)]
pub enum Fault {
    /// Sends this many bytes of the body, and closes the connection.
    CutAfter(usize),
    /// Sends this many bytes of the body, and the rest when [`Hub::go_on`] is called.
    HoldAfter(usize),
    /// Answers with this status and these headers.
    Status(u16, &'static str),
    /// Sends another byte at this place.
    Damage(usize),
    /// Sends the whole file, whatever range is asked for.
    NoRanges,
    /// Says that the body has this many bytes more.
    Longer(usize),
    /// Sends the whole file, whatever range is asked for, and closes the connection after this many bytes.
    NoRangesCutAfter(usize),
    /// Sends twenty bytes a second.
    Drip,
    /// Sends a web page instead, with this status.
    WebPage(u16),
    /// Sends the client to another server.
    Redirect(String),
}

/// A file: its path, its content, and how long the server says it is.
type File = (String, Vec<u8>, Option<u64>);

#[derive(Default)]
struct State {
    files: Vec<File>,
    /// The faults of the next requests for a file.
    faults: VecDeque<Fault>,
    /// What the list of files is answered with instead.
    list: Option<Fault>,
    /// The same, for the next requests only.
    lists: VecDeque<Fault>,
    /// Heads of all requests.
    requests: Vec<String>,
    goes_on: bool,
}

/// The server. It ends with the test's process.
pub struct Hub {
    state: Arc<(Mutex<State>, Condvar)>,
    /// `http://127.0.0.1:12345`
    pub address: String,
}

/// SHA-256 in hexadecimal digits.
pub fn checksum(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Hub {
    /// A server with these files.
    pub fn with(files: &[(&str, &[u8])]) -> Hub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let files =
            files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec(), None)).collect();
        let state: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let hub = Hub { state: state.clone(), address };
        hub.lock().files = files;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                // A client that is gone is no fault of the server.
                thread::spawn(move || serve(&stream, &state));
            }
        });
        hub
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().expect("the server")
    }

    /// Lets the next requests for a file go wrong, one after the other.
    pub fn faults(&self, faults: &[Fault]) {
        self.lock().faults = faults.iter().cloned().collect();
    }

    /// Lets requests for the list of files go wrong.
    pub fn list_fault(&self, fault: Fault) {
        self.lock().list = Some(fault);
    }

    /// Lets the next requests for the list of files go wrong, one after the other.
    pub fn list_faults(&self, faults: &[Fault]) {
        self.lock().lists = faults.iter().cloned().collect();
    }

    /// Says another length of the last file than it has.
    pub fn claim_length(&self, length: u64) {
        self.lock().files.last_mut().expect("a file").2 = Some(length);
    }

    /// Sends what was held back.
    pub fn go_on(&self) {
        self.lock().goes_on = true;
        self.state.1.notify_all();
    }

    /// Heads of the requests for files so far.
    pub fn downloads(&self) -> Vec<String> {
        self.lock().requests.iter().filter(|head| head.contains("/resolve/")).cloned().collect()
    }

    /// The number of all requests so far.
    pub fn requests(&self) -> usize {
        self.lock().requests.len()
    }
}

fn serve(stream: &TcpStream, state: &(Mutex<State>, Condvar)) -> Option<()> {
    let mut head = String::new();
    for line in BufReader::new(stream).lines() {
        match line.ok()? {
            line if line.is_empty() => break,
            line => head += &(line + "\n"),
        }
    }
    let target = head.split(' ').nth(1)?.to_owned();
    let mut locked = state.0.lock().ok()?;
    locked.requests.push(head.clone());
    let is_list = target == format!("/api/models/{REPOSITORY}/revision/main?blobs=true");
    let prefix = format!("/{REPOSITORY}/resolve/{COMMIT}/");
    let file = target.strip_prefix(&prefix).and_then(|path| locked.files.iter().find(|file| file.0 == path));
    let content = match file {
        Some(file) => file.1.clone(),
        None if is_list => list(&locked.files).into_bytes(),
        None => return answer(stream, 404, "x-error-code: RepoNotFound\r\n", 0, b""),
    };
    let fault = match is_list {
        true => locked.lists.pop_front().or_else(|| locked.list.clone()),
        false => locked.faults.pop_front(),
    };
    drop(locked);
    let begin = head
        .to_lowercase()
        .split_once("range: bytes=")
        .and_then(|(_, range)| range.split('-').next().and_then(|begin| begin.parse::<usize>().ok()));
    let begin = begin.filter(|_| !matches!(fault, Some(Fault::NoRanges | Fault::NoRangesCutAfter(_))));
    let (status, range) = match begin {
        Some(begin) => {
            let last = content.len() - 1;
            (206, format!("content-range: bytes {begin}-{last}/{}\r\n", content.len()))
        }
        None => (200, String::new()),
    };
    let mut body = content[begin.unwrap_or(0)..].to_vec();
    match fault {
        None | Some(Fault::NoRanges) => answer(stream, status, &range, body.len(), &body),
        Some(Fault::NoRangesCutAfter(count)) => answer(stream, 200, "", body.len(), &body[..count]),
        Some(Fault::Drip) => {
            answer(stream, status, &range, body.len(), b"")?;
            for piece in body.chunks(1) {
                (&mut &*stream).write_all(piece).ok()?;
                thread::sleep(Duration::from_millis(50));
            }
            None
        }
        Some(Fault::WebPage(status)) => {
            let page = b"<!DOCTYPE html><title>Log in to the network</title>";
            answer(stream, status, "content-type: text/html; charset=utf-8\r\n", page.len(), page)
        }
        Some(Fault::CutAfter(count)) => answer(stream, status, &range, body.len(), &body[..count]),
        Some(Fault::Longer(more)) => answer(stream, status, &range, body.len() + more, &body),
        Some(Fault::Status(status, headers)) => answer(stream, status, headers, 0, b""),
        Some(Fault::Redirect(to)) => answer(stream, 302, &format!("location: {to}{target}\r\n"), 0, b""),
        Some(Fault::Damage(at)) => {
            body[at] ^= 1;
            answer(stream, status, &range, body.len(), &body)
        }
        Some(Fault::HoldAfter(count)) => {
            answer(stream, status, &range, body.len(), &body[..count])?;
            let wait = state.1.wait_timeout_while(state.0.lock().ok()?, WATCHDOG, |state| !state.goes_on);
            drop(wait);
            (&mut &*stream).write_all(&body[count..]).ok()
        }
    }
}

fn list(files: &[File]) -> String {
    let sibling = |(path, content, length): &File| {
        let length = length.unwrap_or(content.len() as u64);
        json!({ "rfilename": path, "size": length, "lfs": { "sha256": checksum(content), "size": length } })
    };
    let siblings: Vec<_> = files.iter().map(sibling).collect();
    json!({ "id": REPOSITORY, "sha": COMMIT, "siblings": siblings }).to_string()
}

fn answer(stream: &TcpStream, status: u16, headers: &str, length: usize, body: &[u8]) -> Option<()> {
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
    let mut stream = stream;
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()
}
