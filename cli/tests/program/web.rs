//! `-f https://…`: documents of the web, from a server on this machine.
#![cfg(all(unix, feature = "download"))]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{DOCUMENT, Run, command, finished, longhand, longhand_with_input};

const QUESTION: &str = "What is the pass key?";
const ANSWER: &str = "The pass key is 9078648.\n";

/// What a server answers at a path: status, headers, body.
type Page = (&'static str, u16, &'static str, Vec<u8>);

/// A server with these pages. Returns its address, and the paths that were asked for.
fn server(pages: Vec<Page>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that is gone is no fault of the server.
            let _ = serve(&stream, &pages, &seen);
        }
    });
    (address, asked)
}

fn serve(mut stream: &TcpStream, pages: &[Page], asked: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let page = pages.iter().find(|(known, ..)| *known == path);
    asked.lock().expect("the server").push(path);
    let (status, headers, body) =
        page.map_or((404, "", &[][..]), |(_, status, headers, body)| (*status, *headers, body));
    let length = if headers.contains("content-length") {
        String::new()
    } else {
        format!("content-length: {}\r\n", body.len())
    };
    write!(stream, "HTTP/1.1 {status} X\r\nconnection: close\r\n{length}{headers}\r\n")?;
    stream.write_all(body)
}

/// Asks about a document at this address.
fn ask(address: &str) -> Run {
    longhand(&["ask", "-f", address, QUESTION])
}

fn html(body: &str) -> Vec<u8> {
    format!("<!doctype html><title>T</title><script>x()</script><p>{body}</p>").into_bytes()
}

const HTML: &str = "content-type: text/html; charset=utf-8\r\n";

#[test]
fn documents_of_the_web_are_read_by_their_address() {
    let pdf = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/documents/tests/fixtures/boat.pdf"))
        .expect("a file");
    let latin = [b"Gr\xf6\xdfe. ", DOCUMENT.as_bytes()].concat();
    let (address, asked) = server(vec![
        ("/page.php?id=3", 200, HTML, html(DOCUMENT)),
        ("/boat.pdf", 200, "content-type: application/pdf\r\n", pdf.clone()),
        ("/notes", 200, "content-type: text/plain; charset=iso-8859-1\r\n", latin),
        ("/moved", 302, "location: page.php?id=3\r\n", Vec::new()),
        ("/boat.pdf?dl=1", 200, "content-type: application/pdf\r\n", pdf.clone()),
    ]);
    for path in ["page.php?id=3", "boat.pdf", "moved", "page.php?id=3#part"] {
        let run = ask(&format!("{address}/{path}"));
        run.says(&[&format!("{address}/{path}: "), " tokens"]);
        assert_eq!(run.ok(), ANSWER, "{path}");
    }
    let run = longhand(&["text", &format!("{address}/notes")]);
    let text = run.ok();
    assert!(text.starts_with("Größe. The old boat"), "{text}");
    let page = longhand(&["text", &format!("{address}/page.php?id=3")]).ok();
    assert!(page.starts_with("# T\n\nThe old boat") && !page.contains("script"), "{page}");
    for path in ["boat.pdf:2", "boat.pdf?dl=1:2"] {
        let part = ask(&format!("{address}/{path}"));
        part.says(&[&format!("{path}: 1 page, "), "(page 2 of 3)"]);
        assert_eq!(part.ok(), ANSWER);
    }
    // An argument without a flag, and in a chat.
    assert_eq!(longhand(&["ask", &format!("{address}/moved"), QUESTION]).ok(), ANSWER);
    let chat = longhand_with_input(&["chat"], format!("/read {address}/moved\n{QUESTION}\n").as_bytes());
    assert!(chat.stdout.contains("9078648"), "{}{}", chat.stdout, chat.stderr);
    // Nothing was kept: each time the server was asked.
    let asked = asked.lock().expect("the server");
    assert_eq!(asked.iter().filter(|path| *path == "/moved").count(), 3, "{asked:?}");
}

#[test]
fn what_is_no_document_is_refused() {
    let shell = "<!doctype html><title>App</title><div id=root></div><noscript>You need to enable JavaScript to run this \
                 app.</noscript><script src=main.js></script>";
    let (address, _) = server(vec![
        ("/app", 200, HTML, shell.into()),
        ("/picture", 200, "content-type: image/png\r\n", b"\x89PNG\r\n\x1a\n\0\0".to_vec()),
        ("/data", 200, "content-type: application/octet-stream\r\n", b"\x7fELF\x02\x01\x01\0\0\0".to_vec()),
        ("/huge", 200, "content-length: 99999999999\r\n", b"x".to_vec()),
        ("/cut", 200, "content-length: 100\r\n", b"x".to_vec()),
        ("/loop", 302, "location: /loop\r\n", Vec::new()),
        ("/file", 302, "location: file:///etc/passwd\r\n", Vec::new()),
        ("/login", 403, "", Vec::new()),
        ("/report.pdf?x=1", 200, HTML, html("Please log in.")),
        (
            "/packed",
            200,
            "content-type: text/plain\r\ncontent-encoding: gzip\r\n",
            b"\x1f\x8b\x08\0".to_vec(),
        ),
    ]);
    for (path, error, hint) in [
        ("app", "its scripts make the page", "open it in a browser"),
        ("picture", "it is no text, but of the kind image", "hint: give the address of a page"),
        ("data", "not a text document but an executable", "hint: "),
        ("huge", "it has more than 64", "download it"),
        ("cut", "broke off", "try again"),
        ("loop", "it redirects more than 5 times", "browser"),
        ("file", "file:///etc/passwd is no address of a document", "hint: "),
        ("login", "refuses it (status 403)", "save it there"),
        ("report.pdf?x=1", "a web page instead", "save the document there"),
        ("packed", "sends it compressed (gzip)", "save it there"),
        ("missing", "has no such document (status 404)", "check the address"),
    ] {
        let run = ask(&format!("{address}/{path}"));
        run.says(&[&format!("{address}/{path}"), hint]);
        run.assert_failed(1, error);
    }
    ask("http://127.0.0.1:1/x").assert_failed(1, "no answer of 127.0.0.1");
    for wrong in ["https://", "http://127.0.0.1:74477/", "http://127.0.0.1:x/"] {
        ask(wrong).assert_failed(1, "is no address of a document");
    }
}

#[test]
fn passwords_in_addresses_are_for_the_server_alone() {
    let (address, _) = server(vec![("/x", 200, HTML, html(DOCUMENT))]);
    let with_login = |path: &str| format!("{}/{path}", address.replace("://", "://anna:geheim@"));
    let read = longhand(&["ask", "-f", &with_login("x"), QUESTION, "--json"]);
    read.says(&[&format!("{address}/x: ")]);
    for run in [read, ask(&with_login("missing")), ask("http://anna:geheim@127.0.0.1:x/")] {
        assert!(
            !run.stderr.contains("geheim") && !run.stdout.contains("geheim"),
            "{}{}",
            run.stdout,
            run.stderr
        );
    }
}

/// Neither a document nor a question may have the program ask a server.
#[test]
fn only_an_address_that_the_user_names_is_asked() {
    let (address, asked) = server(vec![("/x", 200, HTML, html(DOCUMENT))]);
    let page = crate::common::file(
        "web.html",
        format!(
            "<meta http-equiv=refresh content='0;url={address}/x'><p>{DOCUMENT}<img src='{address}/x'><iframe src='{address}/x'></iframe><a href='{address}/x'>more</a>"
        ),
    );
    let run = longhand(&["ask", "-f", &page, &format!("{QUESTION} See {address}/x")]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(*asked.lock().expect("the server"), [""; 0]);
    let each = finished(
        command(&["ask", "--each", "-f", &format!("{address}/x"), QUESTION]).output().expect("runs"),
    );
    assert_eq!(each.ok(), format!("{address}/x\t{ANSWER}"));
}
