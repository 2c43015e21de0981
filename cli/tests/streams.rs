//! Output streams: closed pipes, colours, interrupts.

mod common;

use std::process::Stdio;

use common::{DOCUMENT, command, file, longhand};

#[test]
fn a_closed_pipe_is_success() {
    for args in [&["inspect"][..], &["inspect", "--json", "--all"], &["plan", "-c", "1k"], &["--help"]] {
        let mut child =
            command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn pipes_receive_no_escape_sequences() {
    let document = file("streams.txt", DOCUMENT);
    for args in [
        &["ask", "-f", &document, "What is the pass key?"][..],
        &["plan", "-c", "1k"],
        &["demo", "--tokens", "300", "--facts", "1", "--help"],
        &["chat", "--help"],
    ] {
        let run = longhand(args);
        assert!(!run.stderr.contains('\x1b') && !run.stdout.contains('\x1b'), "{args:?}");
        run.ok();
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_stops_prefill() {
    let document = file("long.txt", DOCUMENT.repeat(400));
    let child = command(&["ask", "-f", &document, "What is the pass key?"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(output.stdout.is_empty());
}
