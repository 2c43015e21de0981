//! Questions that got no answer, because the program was killed while it answered: the conversation goes on with the next
//! question, in the same file.
#![cfg(unix)]

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use twox_hash::XxHash3_64;

use crate::common::{
    DOCUMENT, KEY, KEY_IS, NUMBER, Run, changed_model, command, endless_model, file, longhand, scratch,
    with_input,
};

/// A template that refuses roles that do not alternate, as those of many models do.
const STRICT: &str = "{% for message in messages %}\
    {% if (message.role == 'user') != (loop.index0 % 2 == 0) %}\
    {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}\
    {{ message.role + ': ' + message.content + '\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}";

/// Where a conversation is kept.
struct Place {
    state: PathBuf,
    /// A file of the user's; else it is among the kept ones.
    session: Option<String>,
}

impl Place {
    fn both(name: &str) -> [Place; 2] {
        [false, true].map(|named| {
            let state = scratch("unanswered").join(format!("{name}-{named}"));
            let _ = fs::remove_dir_all(&state);
            fs::create_dir_all(&state).expect("a folder");
            let session = named.then(|| state.join("talk").to_str().expect("text").to_owned());
            Place { state, session }
        })
    }

    fn args<'a>(&'a self, resumes: bool, more: &[&'a str]) -> Vec<&'a str> {
        let mut args = vec!["chat", "-t", "1", "--temp", "0"];
        match &self.session {
            Some(session) => args.extend(["--session", session]),
            None if resumes => args.push("--resume"),
            None => {}
        }
        args.extend(more);
        args
    }

    fn run(&self, args: &[&str], input: &str) -> Run {
        with_input(command(args).env("XDG_STATE_HOME", &self.state), input.as_bytes())
    }

    /// Asks a question, and kills the program in the middle of its answer, which is to contain `part`.
    fn kill_in_answer(&self, resumes: bool, more: &[&str], question: &str, part: &str) {
        use std::io::{Read, Write};
        let mut command = command(&self.args(resumes, more));
        command.env("XDG_STATE_HOME", &self.state).stdin(Stdio::piped());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
        let mut input = child.stdin.take().expect("a pipe");
        writeln!(input, "{question}").expect("the program reads");
        let (mut output, mut seen, mut byte) = (child.stdout.take().expect("a pipe"), Vec::new(), [0]);
        while !String::from_utf8_lossy(&seen).contains(part) {
            output.read_exact(&mut byte).expect("an answer");
            seen.extend(byte);
        }
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    fn sessions(&self, command: &str) -> Run {
        match &self.session {
            Some(session) => self.run(&["sessions", command, session], ""),
            None => self.run(&["sessions", command], ""),
        }
    }
}

#[test]
fn a_killed_answer_does_not_end_the_conversation() {
    let models = [
        endless_model("killed-endless.gguf"),
        changed_model("killed-strict.gguf", |file| _ = file.set("tokenizer.chat_template", STRICT)),
    ];
    let document = file("killed.txt", DOCUMENT);
    for (number, model) in models.iter().enumerate() {
        for place in Place::both(&format!("killed-{number}")) {
            let what = format!("{model} {:?}", place.session);
            // Twice: two questions in a row have no answer.
            place.kill_in_answer(false, &[model, "-f", &document, "-n", "5000"], NUMBER, "!!!");
            place.kill_in_answer(true, &["-n", "5000"], KEY, "!!!");
            place.sessions("verify").ok();
            let run = place.run(&place.args(true, &["-n", "3"]), "Why?\nWho?\n/history\n");
            assert!(
                run.stderr.contains("the question before this one has no answer"),
                "{what} {}",
                run.stderr
            );
            assert_eq!(run.stderr.matches("has no answer").count(), 1, "{what} {}", run.stderr);
            let out = run.ok();
            assert!(out.matches("!!!").count() >= 2, "{what} {out}");
            assert!(out.contains(&format!("> {NUMBER}\n(no answer)\n")), "{what} {out}");
            place.sessions("verify").ok();
            // And once more, in the middle of a conversation that goes on.
            place.kill_in_answer(true, &["-n", "5000"], NUMBER, "!!!");
            place.run(&place.args(true, &["-n", "3"]), "When?\n").ok();
            let shown = place.sessions("show").ok();
            let questions = ["Why?", "Who?", "When?"].map(|question| format!("> {question}\n!!!\n"));
            for question in questions {
                assert!(shown.contains(&question), "{what} {shown}");
            }
            assert_eq!(shown.matches("\n(no answer)\n").count(), 3, "{what} {shown}");
            // The last question can be taken back, and the one before it be answered.
            let run = place.run(&place.args(true, &["-n", "3"]), "/undo\n/regen\n");
            assert!(run.ok().contains("!!!"), "{what}");
            assert!(place.sessions("show").ok().ends_with(&format!("> {NUMBER}\n!!!\n")), "{what}");
        }
    }
}

/// Changes the conversation in a session file. The checksum is right afterwards.
fn change(path: &str, change: impl FnOnce(&mut Value)) {
    let bytes = fs::read(path).expect("the session file");
    let end = 12 + u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")) as usize;
    let mut description: Value = serde_json::from_slice(&bytes[12..end]).expect("a description");
    let mut caller =
        serde_json::from_str(description["caller"].as_str().expect("text")).expect("a conversation");
    change(&mut caller);
    description["caller"] = json!(caller.to_string());
    let description = description.to_string();
    let length = (description.len() as u32).to_le_bytes();
    let mut bytes = [&bytes[..8], &length, description.as_bytes(), &bytes[end..bytes.len() - 8]].concat();
    bytes.extend(XxHash3_64::oneshot(&bytes).to_le_bytes());
    fs::write(path, bytes).expect("written");
}

/// Where the file has a KV cache, under policies that evict rows, too.
#[test]
fn two_questions_in_a_row_go_on() {
    for policy in ["full", "razor:buffer=256,ratio=5,sinks=4", "h2o:heavy=200,recent=50"] {
        let folder = scratch("unanswered");
        let path = folder.join("in-a-row");
        let _ = fs::remove_file(&path);
        let path = path.to_str().expect("text");
        let document = file("in-a-row.txt", DOCUMENT.repeat(4));
        let chat = |more: &[&str], input: &str| {
            let args = [&["chat", "-t", "1", "--session", path], more].concat();
            crate::common::longhand_with_input(&args, input.as_bytes())
        };
        chat(&["-f", &document, "--policy", policy], &format!("{NUMBER}\nWhat is the pass key?\n")).ok();
        change(path, |conversation| {
            let messages = conversation["conversation"]["messages"].as_array_mut().expect("messages");
            let roles: Vec<_> = messages.iter().map(|message| message[0].clone()).collect();
            assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
            messages.remove(1);
        });
        longhand(&["sessions", "verify", path]).ok();
        let out = chat(&[], &format!("{KEY}\n")).ok();
        assert!(out.ends_with(&format!("{KEY_IS}\n")), "{policy}: {out}");
        let shown = longhand(&["sessions", "show", path]).ok();
        assert!(
            shown.contains(&format!("> {NUMBER}\n(no answer)\n\n> {KEY}\n{KEY_IS}\n")),
            "{policy}: {shown}"
        );
        // No answer at all yet.
        let _ = fs::remove_file(path);
        chat(&["-f", &document, "--policy", policy], &format!("{NUMBER}\n")).ok();
        change(path, |conversation| {
            _ = conversation["conversation"]["messages"].as_array_mut().map(Vec::pop)
        });
        let run = chat(&[], &format!("/system Be brief.\n{KEY}\n/stats\n"));
        let out = run.ok();
        assert!(out.contains(&format!("{KEY_IS}\n")), "{policy}: {out}");
    }
}

/// `verify` finds what restoring refuses.
#[test]
fn verify_runs_what_restoring_runs() {
    let path = scratch("unanswered").join("broken");
    let path = path.to_str().expect("text");
    let document = file("broken.txt", DOCUMENT);
    let breaks: [fn(&mut Value); 4] = [
        |conversation| _ = conversation["conversation"]["messages"].as_array_mut().map(|all| all.remove(0)),
        |conversation| conversation["conversation"]["messages"][0][0] = json!("judge"),
        |conversation| _ = conversation["conversation"]["turns"].as_array_mut().map(Vec::pop),
        |conversation| _ = conversation["conversation"]["timeline"].as_array_mut().map(Vec::clear),
    ];
    for broken in breaks {
        let _ = fs::remove_file(path);
        let chat = ["chat", "-t", "1", "--session", path, "-f", &document];
        crate::common::longhand_with_input(&chat, format!("{NUMBER}\n").as_bytes()).ok();
        longhand(&["sessions", "verify", path]).ok();
        change(path, broken);
        longhand(&["chat", "-t", "1", "--session", path])
            .assert_failed(1, "no conversation that can be continued");
        let run = longhand(&["sessions", "verify", path]);
        assert!(run.stderr.contains("no conversation that can be continued"), "{}", run.stderr);
        run.assert_failed(1, "1 of 1 conversations are damaged");
    }
}
