//! Model files that become shorter while the program uses them: one error, no wrong answer, and the conversation
//! is saved.
#![cfg(unix)]

use std::fs;
use std::path::Path;

use crate::common::{
    DOCUMENT, KEY, KEY_IS, NUMBER, NUMBER_IS, Run, Running, file, longhand_with_input, scratch,
};

/// A copy of the embedded model.
fn copy(name: &str) -> String {
    file(name, models::embedded::needle())
}

/// Makes a file shorter, so that part of the weights is missing.
fn cut(path: &str) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("the model");
    file.set_len(1_000_000).expect("a shorter file");
}

/// Starts a chat in an empty folder, has the first question answered, makes the model shorter, and asks again.
fn chat_over_a_lost_model(model: &str, folder: &Path, flags: &[&str], next: &str) -> Run {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a folder");
    let document = file("lost-document.txt", DOCUMENT);
    let mut chat = Running::start_in(folder, &[&["chat", model, "-f", &document, "-t", "1"], flags].concat());
    chat.write(&format!("{NUMBER}\n"));
    chat.wait_for(&format!("{NUMBER_IS}\n"));
    cut(model);
    chat.write(next);
    chat.finish()
}

#[track_caller]
fn assert_lost(run: &Run) {
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(run.stderr.matches("error: the model file ").count(), 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("became shorter while it was in use: it had 3971584 bytes"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("\nhint: ") && !run.stderr.contains("panicked"), "{}", run.stderr);
}

#[test]
fn a_saved_conversation_continues_with_the_restored_model() {
    let model = copy("lost.gguf");
    // Weights in the file, and weights that were copied when they were loaded.
    for (flags, next) in [
        (&["--no-repack"][..], format!("{KEY}\n")),
        (&[], format!("{KEY}\n")),
        // Lost before or while a long question is read.
        (&["--no-repack"], format!("{} {KEY}\n", DOCUMENT.trim().repeat(60))),
        (&["--no-repack", "--policy", "h2o:heavy=100,recent=50"], "/regen\n".to_owned()),
    ] {
        let folder = scratch("lost-session");
        let run = chat_over_a_lost_model(&model, &folder, &[&["--session", "saved"], flags].concat(), &next);
        assert_lost(&run);
        let more = run.stdout.strip_prefix(&format!("{NUMBER_IS}\n")).expect("the first answer");
        // The first token follows from what was computed before the loss.
        assert!(NUMBER_IS.starts_with(more) && more != NUMBER_IS, "{more}");
        // The cache is that of the whole file, which may come back.
        let files =
            fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").file_name());
        assert!(files.into_iter().all(|name| name == "saved" || name == "saved.cache"), "{flags:?}");

        copy("lost.gguf");
        let session = folder.join("saved");
        let args = ["chat", &model, "--session", session.to_str().expect("text")];
        let run = longhand_with_input(&args, format!("{KEY}\n").as_bytes());
        assert_eq!(run.ok(), format!("{KEY_IS}\n"), "{flags:?}");
    }
}

#[test]
fn without_a_session_file_the_conversation_is_kept() {
    let (model, folder) = (copy("lost-text.gguf"), scratch("lost-text"));
    let run = chat_over_a_lost_model(&model, &folder, &["--no-repack"], &format!("{KEY}\n"));
    assert_lost(&run);
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 0);
    copy("lost-text.gguf");
    let run = longhand_with_input(&["chat", "--resume", &run.kept_name()], format!("{KEY}\n").as_bytes());
    assert!(run.stderr.contains(&format!("> {NUMBER}\n{NUMBER_IS}\n")), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{KEY_IS}\n"));
}

#[test]
fn answers_before_the_loss_are_kept_as_json() {
    let model = copy("lost-ask.gguf");
    let question = format!("{} {NUMBER}", DOCUMENT.trim());
    let long = format!("{} {KEY}", DOCUMENT.trim().repeat(200));
    let mut ask =
        Running::start(&["ask", "--json", "-t", "1", "--no-repack", "-m", &model, &question, &long]);
    ask.wait_for("answer_tps");
    cut(&model);
    let run = ask.finish();
    assert_lost(&run);
    let object: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(object["answers"].as_array().map(Vec::len), Some(1), "{object}");
    assert_eq!(object["answers"][0]["answer"], NUMBER_IS);
}
