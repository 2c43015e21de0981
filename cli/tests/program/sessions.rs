//! `chat --session`: conversations saved in a file, and continued by another process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use twox_hash::XxHash3_64;

use crate::common::{
    DOCUMENT, KEY, KEY_IS, NUMBER, NUMBER_IS, changed_model, command, file, longhand, longhand_with_input,
    scratch,
};

/// The path of a session file that does not exist yet.
fn new_session(name: &str) -> String {
    let path = scratch("sessions").join(name);
    let _ = std::fs::remove_file(&path);
    path.to_str().expect("a path that is text").to_owned()
}

/// Saves a conversation with one question about the document. Returns the session file.
fn saved_session(name: &str) -> String {
    let (document, path) = (file(name, DOCUMENT), new_session(name));
    let run =
        longhand_with_input(&["chat", "--session", &path, "-f", &document], format!("{NUMBER}\n").as_bytes());
    assert!(run.stderr.contains(&format!("saved the conversation to {path}")), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{NUMBER_IS}\n"));
    path
}

/// The answers on stdout.
fn answers(out: &str) -> Vec<&str> {
    out.lines().filter(|line| line.ends_with('.')).collect()
}

/// The numbers of tokens read, from the output of `/stats`.
fn reads(out: &str) -> Vec<usize> {
    let read = |line: &str| line.strip_prefix("read ")?.split_whitespace().next()?.parse().ok();
    out.lines().filter_map(read).collect()
}

/// Writes a session file with a changed description and a correct checksum. Returns its path.
fn with_description(name: &str, path: &str, change: impl FnOnce(&mut Value)) -> String {
    let bytes = std::fs::read(path).expect("the session file");
    let end = 12 + u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")) as usize;
    let mut description = serde_json::from_slice(&bytes[12..end]).expect("a description");
    change(&mut description);
    let description = description.to_string();
    let length = (description.len() as u32).to_le_bytes();
    let mut bytes = [&bytes[..8], &length, description.as_bytes(), &bytes[end..bytes.len() - 8]].concat();
    bytes.extend(XxHash3_64::oneshot(&bytes).to_le_bytes());
    file(name, bytes)
}

/// With each policy, another process answers without reading the document, undoes turns and clears the
/// conversation.
#[test]
fn a_conversation_continues_in_another_process() {
    let document = file("continues.txt", DOCUMENT.repeat(4));
    for policy in ["full", "razor:buffer=256,ratio=5,sinks=4", "h2o:heavy=200,recent=50"] {
        let path = new_session("continues");
        let args = ["chat", "--session", &path, "-f", &document, "--policy", policy];
        let run = longhand_with_input(&args, format!("{NUMBER}\n/save\n/stats\n").as_bytes());
        assert_eq!(run.stderr.matches("saved the conversation to").count(), 2, "{}", run.stderr);
        let out = run.ok();
        assert_eq!(answers(&out), [NUMBER_IS], "{policy}: {out}");
        assert!(reads(&out)[0] > 150, "{out}");

        let again = ["chat", "--session", &path];
        let run = longhand_with_input(&again, format!("/stats\n{KEY}\n/stats\n/regen\n").as_bytes());
        assert!(run.stderr.contains(&format!("policy {policy}")), "{}", run.stderr);
        assert!(run.stderr.contains("resumed after "), "{}", run.stderr);
        let out = run.ok();
        assert_eq!(answers(&out), [KEY_IS, KEY_IS], "{policy}: {out}");
        assert!(reads(&out)[0] == 0 && (1..40).contains(&reads(&out)[1]), "{policy}: {out}");

        // The third process removes both questions; with the next one the document is read again.
        let run =
            longhand_with_input(&again, format!("/undo\n/undo\n/undo\n{KEY}\n/clear\n{NUMBER}\n").as_bytes());
        assert_eq!(run.stderr.matches("removed the last question").count(), 2, "{}", run.stderr);
        assert!(run.stderr.contains("no question to remove"), "{}", run.stderr);
        let out = run.ok();
        assert_eq!(answers(&out), [KEY_IS, NUMBER_IS], "{policy}: {out}");
    }
}

/// A conversation that ends before the first question keeps its document.
#[test]
fn a_session_without_questions_keeps_its_document() {
    let (document, path) = (file("waits.txt", DOCUMENT), new_session("waits"));
    longhand_with_input(&["chat", "--session", &path, "-f", &document], b"").ok();
    let out = longhand_with_input(&["chat", "--session", &path], format!("{NUMBER}\n").as_bytes()).ok();
    assert_eq!(out, format!("{NUMBER_IS}\n"));
}

#[test]
fn sessions_of_other_documents_or_models_are_rejected() {
    let path = saved_session("rejected.txt");
    let before = std::fs::read(&path).expect("the session file");
    let document = file("more.txt", DOCUMENT.repeat(2));
    longhand(&["chat", "--session", &path, "-f", &document]).assert_failed(2, "has other documents (-f)");
    let other = changed_model("other.gguf", |file| _ = file.set("llama.context_length", 1000u32));
    longhand(&["chat", &other, "--session", &path])
        .assert_failed(1, "made with other weights of the model needle");
    let nowhere = scratch("sessions").join("no/such/folder/saved");
    longhand(&["chat", "--session", nowhere.to_str().expect("text")]).assert_failed(1, "(os error ");
    let folder = scratch("sessions");
    longhand(&["chat", "--session", folder.to_str().expect("text")]).assert_failed(1, "not a regular file");
    assert!(
        std::fs::read(&path).expect("still there") == before,
        "a rejected command does not change the file"
    );
}

#[test]
fn a_session_of_a_replaced_model_is_read_again() {
    let model = file("replaced.gguf", models::embedded::needle());
    let (document, path) = (file("replaced.txt", DOCUMENT), new_session("replaced"));
    let args = ["chat", &model, "--session", &path, "-f", &document];
    longhand_with_input(&args, format!("{NUMBER}\n").as_bytes()).ok();
    let mut edited = models::embedded::needle().to_vec();
    let last = edited.len() - 1;
    edited[last] ^= 1; // in the last tensor
    file("replaced.gguf", edited);
    for args in [&["chat", "--session", &path][..], &["chat", &model, "--session", &path]] {
        let run = longhand_with_input(args, format!("{KEY}\n/stats\n").as_bytes());
        let is_first = args.len() == 3;
        let note =
            "read again with the next question: the file of the model needle was replaced since it was saved";
        assert_eq!(run.stderr.contains(note), is_first, "{}", run.stderr);
        let out = run.ok();
        assert_eq!(answers(&out), [KEY_IS], "{out}");
        assert_eq!(reads(&out)[0] > 50, is_first, "{out}");
    }
}

/// The command that started a conversation continues it, and so does the same command with fewer flags. A
/// command with other flags is rejected, and the error names the session's.
#[test]
fn flags_that_contradict_the_session_are_rejected() {
    let (document, path) = (file("contradicting-flags.txt", DOCUMENT.repeat(4)), new_session("flags"));
    let heads = |marked: &str| {
        let text = format!(
            r#"{{"format":"longhand-heads","version":1,"layers":4,"heads":8,"kv_heads":4,"retrieval":{marked},"provenance":{{"source":"a test"}}}}"#
        );
        file(&format!("flags-{}.json", marked.len()), text)
    };
    let (marked, more) = (heads("[[],[],[],[1,3]]"), heads("[[],[],[2],[1,3]]"));
    let chat = |flags: &[&str]| {
        let flags = [&["chat", "--session", &path], flags].concat();
        longhand_with_input(&flags, format!("{NUMBER}\n").as_bytes())
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

    let before = std::fs::read(&path).expect("the session file");
    for (flags, part) in [
        (&["-c", "50"][..], "tokens, but -c is 50"),
        (&["-ctk", "f16", "-ctv", "q8_0"], "has -ctk q8_0 (not f16), -ctv f16 (not q8_0)"),
        (&["--prefill", "streaming"], "has --prefill exact (not streaming)"),
        (&["--policy", "full"], "(not full)"),
        (&["--policy", "razor"], "(not razor:buffer=4000,"),
        (&["--policy", "snapkv", "--kv-budget", "40%", "--heads", &more], "(not snapkv:"),
        (&["--kv-budget", "30%"], "has --policy razor:"),
        (&["--heads", &more], "has another head profile (--heads)"),
        (&["-sys", "Be brief."], "has no system message (-sys)"),
    ] {
        chat(flags).assert_failed(2, part);
    }
    assert!(
        std::fs::read(&path).expect("still there") == before,
        "a rejected command does not change the file"
    );

    // The chunk size and the context may change: they are no part of what was read.
    let setting = |name: &str| {
        let mut value = Value::Null;
        with_description("setting", &path, |description| value = description[name].clone());
        value
    };
    assert_eq!((setting("chunk"), setting("context")), (json!(64), json!(2000)));
    chat(&["-b", "32", "-c", "4k"]).ok();
    assert_eq!((setting("chunk"), setting("context")), (json!(32), json!(4000)));
}

#[test]
fn damaged_files_are_rejected() {
    let path = saved_session("damaged.txt");
    let bytes = std::fs::read(&path).expect("the session file");
    let rejected = |path: &str, part: &str| {
        let run = longhand(&["chat", "--session", path]);
        assert!(run.stderr.contains(&format!("{path}: ")), "{}", run.stderr);
        run.assert_failed(1, part);
    };
    let mut flipped = bytes.clone();
    flipped[bytes.len() - 100] ^= 1;
    rejected(&file("flipped", flipped), "its checksum is wrong");
    rejected(&file("short", &bytes[..bytes.len() / 2]), "ends too early");
    rejected(&file("nothing", ""), "ends too early");
    rejected(&file("text", DOCUMENT), "not a saved session");
    rejected(
        &with_description("policy", &path, |description| description["policy"] = json!("rasor")),
        "there is no such policy",
    );
    let other = with_description("other-program", &path, |description| description["caller"] = json!("mine"));
    rejected(&other, "no conversation that can be continued: expected value");
    let with_record = |change: &dyn Fn(&mut Value)| {
        with_description("record", &path, |description| {
            let record = description["caller"].as_str().expect("text");
            let mut record = serde_json::from_str(record).expect("the conversation");
            change(&mut record);
            description["caller"] = Value::String(record.to_string());
        })
    };
    for field in ["conversation", "documents", "names", "attachments", "origin"] {
        let lost = with_record(&|record| _ = record.as_object_mut().and_then(|record| record.remove(field)));
        rejected(&lost, &format!("no conversation that can be continued: missing field `{field}`"));
    }
    for (messages, timeline, turns) in [
        (json!([["user", "Why?"]]), json!([]), json!([])),
        (json!([["judge", "Why?"]]), json!([]), json!([])),
        (json!([]), json!([u32::MAX]), json!([])),
        (json!([["user", "Why?"]]), json!([1, 2, 3]), json!([{ "question": 0, "answer": u64::MAX }])),
        (json!([["user", "Why?"]]), json!([1, 2, 3]), json!([{ "question": u64::MAX, "answer": 1 }])),
        (json!([["user", "Why?"]]), json!([1, 2, 3]), json!([{ "question": 0, "answer": 0 }])),
    ] {
        let conversation = json!({ "messages": messages, "timeline": timeline, "turns": turns });
        let lost = with_record(&|record| record["conversation"] = conversation.clone());
        rejected(&lost, "no conversation that can be continued: its turns or tokens are not those");
    }
    let huge = with_description("huge", &path, |description| description["context"] = json!(i32::MAX));
    rejected(&huge, "are free");
}

/// If the file cannot be written, the conversation continues and the file is written later.
#[test]
fn a_failed_save_is_an_error_and_the_conversation_continues() {
    let folder = scratch("sessions/vanishing");
    let (document, path) = (file("vanishing.txt", DOCUMENT), new_session("vanishing/saved"));
    let args = ["chat", "-f", &document, "--session", &path];
    let mut child = command(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut answer = |question: String| {
        input.write_all(question.as_bytes()).expect("the program reads");
        lines.next().expect("an answer").expect("a line")
    };
    assert_eq!(answer(format!("{NUMBER}\n")), NUMBER_IS);
    // The program may just be saving the first answer there.
    let removed = (0..1000).any(|_| std::fs::remove_dir_all(&folder).is_ok() || !folder.exists());
    assert!(removed, "{} is still there", folder.display());
    assert_eq!(answer(format!("/save\n{KEY}\n")), KEY_IS);
    std::fs::create_dir(&folder).expect("a folder");
    drop(input);
    let output = child.wait_with_output().expect("the program ends");
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && Path::new(&path).exists(), "{notes}");
    assert!(notes.contains("error: ") && notes.contains("\nhint: check the path"), "{notes}");
}
