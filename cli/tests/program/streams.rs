//! Output streams: closed pipes, colours, interrupts.

use std::process::Stdio;

use crate::common::{DOCUMENT, command, file, longhand};
#[cfg(unix)]
use crate::common::{Running, endless_model};

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

/// What cannot be written is an error of every command, the help included.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let document = file("full-disk.txt", DOCUMENT);
    for args in [
        &["--help"][..],
        &["--version"],
        &["help", "ask"],
        &["ask", "--help"],
        &["ask", "-h"],
        &["ask", "-f", &document, "What is the pass key?"],
        &["ask", "--json", "-f", &document, "What is the pass key?"],
        &["bench", "-p", "8", "-n", "1", "-r", "1"],
        &["demo", "--tokens", "300", "--facts", "1"],
        &["devices"],
        &["devices", "--json"],
        &["heads", "calibrate", "--period", "100"],
        &["heads", "show"],
        &["inspect"],
        &["inspect", "--json"],
        &["plan", "-c", "1k"],
        &["plan", "-c", "1k", "--json"],
        &["recall", "-c", "1k", "--questions", "1", "--policy", "full"],
        &["tokenize", "-p", "x"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let output = command(args).stdout(full).stderr(Stdio::piped()).output().expect("the program ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(
            stderr.contains("error: cannot write to standard output: No space left"),
            "{args:?}: {stderr}"
        );
        assert!(stderr.contains("\nhint: free some space"), "{args:?}: {stderr}");
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
    use std::io::{BufRead, BufReader};

    let document = file("long.txt", DOCUMENT.repeat(400));
    let mut child = command(&["ask", "-f", &document, "What is the pass key?"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    // The last line before it is read.
    assert!(stderr.any(|line| line.expect("text").contains("long.txt: ")));
    std::thread::sleep(std::time::Duration::from_millis(100));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.is_ok_and(|status| status.success()));
    let said: Vec<String> = stderr.map_while(Result::ok).collect();
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(130), "{said:?}");
    assert!(output.stdout.is_empty());
}

/// Arguments of a model whose answer takes seconds on any machine.
#[cfg(unix)]
fn endless(model: &str) -> [&str; 6] {
    ["-m", model, "-n", "100000", "-c", "30000"]
}

#[cfg(unix)]
#[test]
fn an_interrupt_stops_an_answer_and_no_further_question_is_asked() {
    let model = endless_model("endless.gguf");
    let mut ask = Running::start(&[&["ask"], &endless(&model)[..], &["Why?", "How?", "Who?"]].concat());
    ask.wait_for("!!!!");
    ask.interrupt();
    let run = ask.finish();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(run.stdout.ends_with("!\n") && run.stdout.lines().count() == 1, "{}", run.stdout);
    let error = "error: interrupted in the answer to question 1; 0 of 3 questions were answered\nhint: ";
    assert!(run.stderr.contains(error), "{}", run.stderr);
}

#[cfg(unix)]
#[test]
fn an_interrupt_while_a_later_question_is_read_keeps_the_earlier_answers() {
    let (document, long) = (file("interrupted.txt", DOCUMENT), DOCUMENT.repeat(400));
    let mut ask = Running::start(&["ask", "-f", &document, "What is the pass key?", &long, "Who?"]);
    ask.wait_for("9078648.\n");
    ask.interrupt();
    let run = ask.finish();
    assert_eq!((run.code, run.stdout.as_str()), (Some(130), "The pass key is 9078648.\n"), "{}", run.stderr);
    assert!(run.stderr.contains("error: interrupted; 1 of 3 questions"), "{}", run.stderr);
}

#[cfg(unix)]
#[test]
fn json_is_complete_after_an_interrupt() {
    let model = endless_model("endless-json.gguf");
    let mut ask = Running::start(&[&["ask", "--json"], &endless(&model)[..], &["Why?", "How?"]].concat());
    ask.wait_for("\"answers\": [");
    ask.interrupt();
    let run = ask.finish();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    let object: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let answers = object["answers"].as_array().expect("an array");
    assert_eq!((answers.len(), &answers[0]["stop"]), (1, &"interrupted".into()), "{object}");
    assert!(object["kv_bytes_kept"].as_u64() > Some(0), "{object}");
    // The object is printed in parts as it would be printed at once.
    let whole = serde_json::to_string_pretty(&object).expect("JSON") + "\n";
    let without_digits = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    assert_eq!(without_digits(&run.stdout), without_digits(&whole));

    let long = DOCUMENT.repeat(400);
    let mut ask = Running::start(&["ask", "--json", &format!("{DOCUMENT}What is the pass key?"), &long]);
    // The first answer is there before the second question is read.
    ask.wait_for("\"answer\": \"The pass key is 9078648.\"");
    ask.wait_for("answer_tps");
    ask.interrupt();
    let run = ask.finish();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    let object: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(object["answers"].as_array().map(Vec::len), Some(1), "{object}");
}
