//! Conversations that are kept in a file: what another process knows of them, what it reads again, and what it refuses.

mod common;

use common::{DOCUMENT, changed, command, file, longhand, longhand_with, scratch};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

const NUMBER: &str = "What is Mary's favorite number?";
const KEY: &str = "What is the pass key?";
const NUMBER_IS: &str = "Mary's favorite number is 34251.";
const KEY_IS: &str = "The pass key is 9078648.";

/// A place for a conversation that is not there yet.
fn place(name: &str) -> String {
    let path = scratch("sessions").join(name);
    let _ = std::fs::remove_file(&path);
    path.to_str().expect("a path that is text").to_owned()
}

/// A kept conversation about the document, in which one question was asked.
fn kept(name: &str) -> String {
    let (document, place) = (file(name, DOCUMENT), place(name));
    let run =
        longhand_with(&["chat", "--session", &place, "-f", &document], format!("{NUMBER}\n").as_bytes());
    assert!(run.stderr.contains(&format!("the conversation is kept in {place}")), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{NUMBER_IS}\n"));
    place
}

/// What was answered.
fn answers(out: &str) -> Vec<&str> {
    out.lines().filter(|line| line.ends_with('.')).collect()
}

/// The numbers of tokens that were read, as /stats tells.
fn reads(out: &str) -> Vec<usize> {
    let read = |line: &str| line.strip_prefix("read ")?.split_whitespace().next()?.parse().ok();
    out.lines().filter_map(read).collect()
}

/// The file with another description, adding up all the same.
fn described(name: &str, path: &str, change: impl FnOnce(&mut Value)) -> String {
    let bytes = std::fs::read(path).expect("the kept conversation");
    let end = 12 + u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")) as usize;
    let mut description = serde_json::from_slice(&bytes[12..end]).expect("a description");
    change(&mut description);
    let description = description.to_string();
    let length = (description.len() as u32).to_le_bytes();
    let mut bytes = [&bytes[..8], &length, description.as_bytes(), &bytes[end..bytes.len() - 8]].concat();
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, add);
    bytes.extend(sum.to_le_bytes());
    file(name, bytes)
}

/// Whatever the policy, another process answers about the document without reading it, takes turns back and begins anew.
#[test]
fn a_conversation_goes_on_in_another_process() {
    let document = file("goes-on.txt", DOCUMENT.repeat(4));
    for policy in ["full", "razor:buffer=256,ratio=5,sinks=4", "h2o:heavy=200,recent=50"] {
        let place = place("goes-on");
        let args = ["chat", "--session", &place, "-f", &document, "--policy", policy];
        let run = longhand_with(&args, format!("{NUMBER}\n/save\n/stats\n").as_bytes());
        assert_eq!(run.stderr.matches("the conversation is kept in").count(), 2, "{}", run.stderr);
        let out = run.ok();
        assert_eq!(answers(&out), [NUMBER_IS], "{policy}: {out}");
        assert!(reads(&out)[0] > 150, "{out}");

        let again = ["chat", "--session", &place];
        let run = longhand_with(&again, format!("/stats\n{KEY}\n/stats\n/regen\n").as_bytes());
        assert!(run.stderr.contains(&format!("policy {policy}")), "{}", run.stderr);
        assert!(run.stderr.contains(" tokens kept"), "{}", run.stderr);
        let out = run.ok();
        assert_eq!(answers(&out), [KEY_IS, KEY_IS], "{policy}: {out}");
        assert!(reads(&out)[0] == 0 && (1..40).contains(&reads(&out)[1]), "{policy}: {out}");

        // The third process takes both questions back; with the next one the document is read again.
        let run = longhand_with(&again, format!("/undo\n/undo\n/undo\n{KEY}\n/clear\n{NUMBER}\n").as_bytes());
        assert_eq!(run.stderr.matches("are taken back").count(), 2, "{}", run.stderr);
        assert!(run.stderr.contains("no question to take back"), "{}", run.stderr);
        let out = run.ok();
        assert_eq!(answers(&out), [KEY_IS, NUMBER_IS], "{policy}: {out}");
    }
}

/// A conversation that ends before the first question keeps the document for it.
#[test]
fn a_document_waits_for_its_first_question() {
    let (document, place) = (file("waits.txt", DOCUMENT), place("waits"));
    longhand_with(&["chat", "--session", &place, "-f", &document], b"").ok();
    let out = longhand_with(&["chat", "--session", &place], format!("{NUMBER}\n").as_bytes()).ok();
    assert_eq!(out, format!("{NUMBER_IS}\n"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let place = kept("refused.txt");
    let before = std::fs::read(&place).expect("the kept conversation");
    let document = file("more.txt", DOCUMENT.repeat(2));
    longhand(&["chat", "--session", &place, "-f", &document]).refused(2, "has other documents (-f)");
    let other = changed("other.gguf", |file| _ = file.set("llama.context_length", 1000u32));
    longhand(&["chat", &other, "--session", &place]).refused(1, "made with another model");
    let nowhere = scratch("sessions").join("no/such/folder/kept");
    longhand(&["chat", "--session", nowhere.to_str().expect("text")]).refused(1, "there is no folder");
    let folder = scratch("sessions");
    longhand(&["chat", "--session", folder.to_str().expect("text")]).refused(1, "not a regular file");
    assert!(std::fs::read(&place).expect("still there") == before, "a refusal changes nothing");
}

/// The command that began a conversation goes on with it when it is given again, and so does one with fewer flags. One that asks for
/// another cache is told which one there is.
#[test]
fn flags_that_ask_for_another_session_are_refused() {
    let (document, place) = (file("flags.txt", DOCUMENT.repeat(4)), place("flags"));
    let heads = |marked: &str| {
        let text = format!(
            r#"{{"format":"longhand-heads","version":1,"layers":4,"heads":8,"kv_heads":4,"retrieval":{marked},"provenance":{{"source":"a test"}}}}"#
        );
        file(&format!("flags-{}.json", marked.len()), text)
    };
    let (marked, more) = (heads("[[],[],[],[1,3]]"), heads("[[],[],[2],[1,3]]"));
    let chat = |flags: &[&str]| {
        let flags = [&["chat", "--session", &place], flags].concat();
        longhand_with(&flags, format!("{NUMBER}\n").as_bytes())
    };
    let (what, how) = (["-f", &document], ["-c", "2000", "-ctk", "q8_0", "-ctv", "f16", "-ub", "64"]);
    let policy = ["--policy", "razor:ratio=5", "--kv-budget", "40%", "--heads", &marked];
    let first = [&what[..], &how, &policy].concat();
    for flags in [&first[..], &first, &[], &what, &how, &policy, &["--kv-budget", "40%"], &["-ctv", "f16"]] {
        let run = chat(flags);
        assert!(!run.stderr.contains("note:"), "{}", run.stderr);
        assert!(run.stderr.contains("policy razor"), "{}", run.stderr);
        assert_eq!(run.ok(), format!("{NUMBER_IS}\n"), "{flags:?}");
    }

    let before = std::fs::read(&place).expect("the kept conversation");
    for (flags, part) in [
        (&["-c", "4k"][..], "has -c 2000 (not 4000)"),
        (&["-c", "0"], "has -c 2000 (not "),
        (&["-ctk", "f16", "-ctv", "q8_0"], "has -ctk q8_0 (not f16), -ctv f16 (not q8_0)"),
        (&["--prefill", "streaming"], "has --prefill exact (not streaming)"),
        (&["--policy", "full"], "(not full)"),
        (&["--policy", "razor"], "(not razor:buffer=4000,"),
        (&["--policy", "snapkv", "--kv-budget", "40%", "--heads", &more], "(not snapkv:"),
        (&["--kv-budget", "30%"], "has --policy razor:"),
        (&["--heads", &more], "has another head profile (--heads)"),
        (&["-p", "Be brief."], "has no system message (-p)"),
    ] {
        chat(flags).refused(2, part);
    }
    assert!(std::fs::read(&place).expect("still there") == before, "a refusal changes nothing");

    // How many tokens are computed at once is no matter of what is kept.
    let chunk = || {
        let mut chunk = Value::Null;
        described("chunk", &place, |said| chunk = said["chunk"].clone());
        chunk
    };
    assert_eq!(chunk(), 64);
    chat(&["-b", "32"]).ok();
    assert_eq!(chunk(), 32);
}

#[test]
fn damaged_files_are_refused() {
    let place = kept("damaged.txt");
    let bytes = std::fs::read(&place).expect("the kept conversation");
    let refused = |path: &str, part: &str| {
        let run = longhand(&["chat", "--session", path]);
        assert!(run.stderr.contains(&format!("{path}: ")), "{}", run.stderr);
        run.refused(1, part);
    };
    let mut flipped = bytes.clone();
    flipped[bytes.len() - 100] ^= 1;
    refused(&file("flipped", flipped), "its checksum is wrong");
    refused(&file("short", &bytes[..bytes.len() / 2]), "ends too early");
    refused(&file("nothing", ""), "ends too early");
    refused(&file("text", DOCUMENT), "not a saved session");
    refused(&described("policy", &place, |said| said["policy"] = json!("rasor")), "there is no such policy");
    for (name, caller) in [
        ("other-program", "mine".into()),
        ("no-turns", r#"{"documents": "", "conversation": {"messages": [["user", "Why?"]], "timeline": [], "turns": []}}"#.into()),
        ("no-roles", r#"{"documents": "", "conversation": {"messages": [["judge", "Why?"]], "timeline": [], "turns": [[0, 0]]}}"#.into()),
        ("no-token", format!(r#"{{"documents": "", "conversation": {{"messages": [], "timeline": [{}], "turns": []}}}}"#, u32::MAX)),
    ] {
        let damaged = described(name, &place, |said| said["caller"] = Value::String(caller));
        refused(&damaged, "no conversation that can be continued");
    }
    let huge = described("huge", &place, |said| said["context"] = json!(i32::MAX));
    refused(&huge, "are free");
    // Turns that are nowhere do no harm.
    let lost = described("lost", &place, |said| {
        let caller = said["caller"].as_str().expect("text");
        let mut caller: Value = serde_json::from_str(caller).expect("the conversation");
        caller["conversation"]["turns"] = json!([[u64::MAX, 0]]);
        said["caller"] = Value::String(caller.to_string());
    });
    let out = longhand_with(&["chat", "--session", &lost], b"/regen\n/undo\n/stats\n/undo\n").ok();
    assert!(out.contains("tokens "), "{out}");
}

/// A file that cannot be written now ends no conversation.
#[test]
fn saving_that_fails_is_told_and_the_talk_goes_on() {
    let folder = scratch("sessions/vanishing");
    let (document, place) = (file("vanishing.txt", DOCUMENT), place("vanishing/kept"));
    let args = ["chat", "-f", &document, "--session", &place];
    let mut child = command(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut answer = |question: String| {
        input.write_all(question.as_bytes()).expect("it listens");
        lines.next().expect("an answer").expect("a line")
    };
    assert_eq!(answer(format!("{NUMBER}\n")), NUMBER_IS);
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(answer(format!("/save\n{KEY}\n")), KEY_IS);
    std::fs::create_dir(&folder).expect("a folder");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && Path::new(&place).exists(), "{notes}");
    assert!(notes.contains("error: ") && notes.contains("\nhint: check the path"), "{notes}");
}
