//! Commands of `chat` that change what the conversation is held with or what it holds: `/compact`, `/model`, `/prompt`,
//! and the commands of other programs.

use std::fs;

use crate::common::{
    DOCUMENT, KEY, KEY_IS, NUMBER, NUMBER_IS, Run, command, endless_model, file, finished, longhand,
    longhand_with_input, scratch, talking_model,
};

/// A chat about the document, with some text before and behind it.
fn chat(name: &str, flags: &[&str], lines: &[&str]) -> Run {
    let around = "The sun was warm. ".repeat(20);
    let document = file(&format!("changes-{name}.txt"), format!("{around}{DOCUMENT}{around}"));
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    longhand_with_input(&[&["chat", "-f", &document], flags].concat(), input.as_bytes())
}

/// The numbers of tokens that `/stats` has printed.
fn tokens(out: &str) -> Vec<usize> {
    let lines = out.lines().filter_map(|line| line.strip_prefix("tokens "));
    let number = |line: &str| line.trim().split(' ').next().map(|number| number.replace(',', ""));
    lines.filter_map(|line| number(line)?.parse().ok()).collect()
}

#[test]
fn a_summary_takes_the_place_of_the_conversation_and_undo_brings_it_back() {
    for flags in [&["--private"][..], &["--private", "--policy", "snapkv:window=8,capacity=64"]] {
        let questions = [NUMBER, KEY, NUMBER, KEY, "/stats", "/compact", "/stats", "/regen", "/history"];
        let undone = [KEY, "/undo", "/undo", "/stats", "/history", "/compact"];
        let lines = [&questions[..], &undone].concat();
        let run = chat("compact", flags, &lines);
        for part in [
            "summing up 4 questions and answers; Ctrl-C leaves them as they are\n",
            "4 questions and their answers are this summary now: ",
            "error: the last answer is a summary\n",
            "removed the last question and its answer\nbrought the questions and answers back\n",
        ] {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
        // The second one is a summary of all again.
        assert_eq!(run.stderr.matches("summing up 4 questions").count(), 2, "{}", run.stderr);
        let out = run.ok();
        let counts = tokens(&out);
        assert!(counts.len() == 3 && counts[1] < counts[0] && counts[2] == counts[0], "{out}");
        assert_eq!(out.matches("> What have we talked about so far?\n").count(), 1, "{out}");
        let history = out.rsplit_once("tokens ").expect("the last sizes").1;
        assert_eq!(history.matches(&format!("> {KEY}\n")).count(), 2, "{out}");
        if flags.len() == 1 {
            assert!(history.contains(NUMBER_IS) && history.contains(KEY_IS), "{out}");
        }
    }
}

#[test]
fn documents_are_not_read_again_for_a_summary() {
    let lines = [NUMBER, KEY, NUMBER, KEY, "/compact", "/stats", KEY];
    let run = chat("compact-documents", &["--private"], &lines);
    assert!(run.stderr.contains("their answers are this summary now"), "{}", run.stderr);
    let out = run.ok();
    let read = out.lines().find_map(|line| line.strip_prefix("read ")).expect("sizes");
    let read: usize = read.trim().split(' ').next().expect("a number").parse().expect("a number");
    // The request and the summary, and not the document of 250 tokens.
    assert!((1..200).contains(&read), "{out}");
    assert!(out.ends_with(&format!("{KEY_IS}\n")), "{out}");
}

#[test]
fn little_is_not_compacted_and_a_full_context_has_a_way_out() {
    let run = chat("compact-little", &["--private"], &["/compact", NUMBER, "/compact", KEY]);
    assert!(run.stderr.contains("nothing to compact: no question was asked yet\n"), "{}", run.stderr);
    assert!(run.stderr.contains("nothing to compact: only one question was asked\n"), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{NUMBER_IS}\n{KEY_IS}\n"));
    // A summary that is longer than what it sums up.
    let pieces: Vec<String> = (0..200).map(|n| format!("word{n} ")).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let model = talking_model("changes-wordy.gguf", &pieces, None);
    let flags = ["chat", "--private", "-m", &model, "--temp", "0"];
    let run = longhand_with_input(&[&flags[..], &["-n", "2"]].concat(), b"why?\nwhy?\n/compact\n/history\n");
    assert!(run.stderr.contains("error: the summary is as long as the conversation\n"), "{}", run.stderr);
    assert_eq!(run.ok().matches("> why?\n").count(), 2);
    let lines = [NUMBER, KEY, NUMBER, KEY, "/compact", "/ctx 2000", "/compact"];
    let run = chat("compact-full", &["--private", "-c", "470"], &lines);
    assert!(run.stderr.contains("error: the context has no room for a summary: "), "{}", run.stderr);
    assert!(run.stderr.contains("hint: /ctx 2000 has room for one"), "{}", run.stderr);
    assert!(run.stderr.contains("4 questions and their answers are this summary now"), "{}", run.stderr);
}

#[test]
fn the_conversation_before_a_summary_stays_kept() {
    let run = chat("compact-kept", &[], &[NUMBER, KEY, NUMBER, KEY, "/compact", KEY]);
    let kept = run.stderr.split_once("kept: longhand chat --resume ").expect("a name").1;
    let name = kept.split_whitespace().next().expect("a name");
    assert_ne!(run.kept_name(), name, "{}", run.stderr);
    // It is named after what was talked about, and not after the question that the summary answers.
    assert!(run.kept_name().contains("what-is-marys-favorite-number"), "{}", run.stderr);
    let whole = longhand(&["sessions", "export", name]).ok();
    assert!(
        whole.matches(&format!("## {NUMBER}")).count() == 2 && !whole.contains("talked about"),
        "{whole}"
    );
    let compacted = longhand(&["sessions", "export", &run.kept_name()]).ok();
    assert!(
        compacted.contains("## What have we talked about so far?") && compacted.contains(KEY_IS),
        "{compacted}"
    );
    // It goes on from there.
    let input = format!("{KEY}\n");
    let resumed = longhand_with_input(&["chat", "--resume", &run.kept_name()], input.as_bytes());
    assert_eq!(resumed.ok(), format!("{KEY_IS}\n"));
    for name in [name, &run.kept_name()] {
        longhand(&["sessions", "remove", name]).ok();
    }
}

#[test]
fn a_summary_in_a_file_of_the_users_says_that_it_is_written_over() {
    let session = scratch("changes-session").join("compacted.longhand");
    let _ = fs::remove_file(&session);
    let session = session.to_str().expect("text");
    let run = chat("compact-file", &["--session", session], &[NUMBER, KEY, NUMBER, KEY, "/compact"]);
    let note =
        format!(" /undo brings them back, as long as this chat runs: {session} has only the summary now\n");
    assert!(run.stderr.contains(&note), "{}", run.stderr);
    run.ok();
    let exported = longhand(&["sessions", "export", session]).ok();
    assert!(exported.contains("talked about") && !exported.contains(&format!("## {NUMBER}")), "{exported}");
    longhand(&["sessions", "remove", session]).ok();
}

#[test]
fn another_model_goes_on_with_the_documents_and_the_conversation() {
    let model = talking_model("changes-other.gguf", &["I am", " another one."], None);
    let lines = [
        NUMBER,
        &format!("/model {model}"),
        "/regen",
        "/history",
        "/files",
        "/model /no/such.gguf",
        "/model nothing-of-this-name",
        &format!("/model {model}"),
        "/model",
        KEY,
    ];
    let run = chat("model", &[], &lines);
    for part in [
        "reading the conversation with this model: ",
        "; /regen asks it the last question\n",
        "/no/such.gguf: ",
        "error: nothing-of-this-name: No such file, and no model on this machine has this name\n",
        " already\n",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let name = run.kept_name();
    let out = run.ok();
    assert!(
        out.starts_with(&format!("{NUMBER_IS}\nI am another one.\n> {NUMBER}\nI am another one.\n")),
        "{out}"
    );
    assert!(out.contains("changes-model.txt\n") && out.contains(&format!("file      {model}\n")), "{out}");
    assert!(out.ends_with("I am another one.\n"), "{out}");
    // The kept conversation goes on with the model that it had last.
    let again = longhand_with_input(&["chat", "--resume", &name], format!("{KEY}\n").as_bytes());
    assert_eq!(again.ok(), "I am another one.\n");
    longhand(&["sessions", "remove", &name]).ok();
}

#[test]
fn a_kept_conversation_says_which_model_answered() {
    let model = talking_model("changes-named.gguf", &["I am", " another one."], None);
    let needle = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/needle/needle-q8_0.gguf");
    let lines = [NUMBER, &format!("/model {model}"), KEY, "/history", &format!("/model {needle}"), KEY];
    let run = chat("which", &[], &lines);
    let name = run.kept_name();
    let out = run.ok();
    // Both models have the same name.
    assert!(out.contains(&format!("> {NUMBER}\n(another model of this name)\n{NUMBER_IS}\n")), "{out}");
    assert!(out.contains(&format!("> {KEY}\nI am another one.\n")), "{out}");
    assert!(out.ends_with(&format!("{KEY_IS}\n")), "{out}");
    let exported = longhand(&["sessions", "export", &name]).ok();
    assert_eq!(exported.matches("Answered by ").count(), 2, "{exported}");
    assert!(exported.contains("Answered by changes-named.gguf:\n"), "{exported}");
    let shown = longhand(&["sessions", "show", &name]).ok();
    assert!(shown.contains(&format!("> {NUMBER}\n(another model of this name)\n{NUMBER_IS}\n")), "{shown}");
    longhand(&["sessions", "remove", &name]).ok();
}

/// The built-in model has one right answer; another model is sampled as its file says, unless the user has said how.
#[test]
fn another_model_is_sampled_as_is_best_for_it() {
    let model = talking_model("changes-sampled.gguf", &["I am", " another one."], None);
    let to_model = format!("/model {model}\n/set\n");
    let run = longhand_with_input(&["chat", "--private"], to_model.as_bytes());
    let note =
        "answers are sampled with temp 0.8 (default) now, not with temp 0 (built-in); /set changes it\n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    let has_line = |out: &str, words: [&str; 3]| {
        out.lines().any(|line| line.split_whitespace().take(words.len()).eq(words))
    };
    let out = run.ok();
    assert!(has_line(&out, ["temp", "0.8", "default"]), "{out}");
    // About documents it is greedy, too.
    let run = chat("sampled", &["--private"], &[&format!("/model {model}"), "/set"]);
    assert!(!run.stderr.contains("answers are sampled with"), "{}", run.stderr);
    let out = run.ok();
    assert!(has_line(&out, ["temp", "0", "documents"]), "{out}");
    // What was given stays.
    let given = format!("/set top-k 7\n{to_model}");
    let run = longhand_with_input(&["chat", "--private", "--temp", "0.25"], given.as_bytes());
    assert!(!run.stderr.contains("answers are sampled with"), "{}", run.stderr);
    let out = run.ok();
    for line in [["temp", "0.25", "given"], ["top-k", "7", "given"]] {
        assert!(has_line(&out, line), "{line:?}: {out}");
    }
}

#[test]
fn before_the_first_question_another_model_reads_the_documents() {
    let needle = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/needle/needle-q8_0.gguf");
    let model = talking_model("changes-before.gguf", &["I am", " another one."], None);
    let document = file("changes-before.txt", DOCUMENT);
    let flags = ["chat", "--private", "-m", &model, "-f", &document, "--temp", "0"];
    let run = longhand_with_input(&flags, format!("/load {needle}\n{NUMBER}\n/undo\n{KEY}\n").as_bytes());
    assert!(run.stderr.contains("the model is needle now\n"), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{NUMBER_IS}\n{KEY_IS}\n"));
}

#[test]
fn a_model_that_cannot_be_used_leaves_the_chat_as_it_was() {
    let broken = file("changes-broken.gguf", "GGUF and nothing else");
    let refusing = "{{ raise_exception('No') }}";
    let refusing = talking_model("changes-refusing.gguf", &["no"], Some(refusing));
    let lines = [NUMBER, &format!("/model {broken}"), &format!("/model {refusing}"), KEY, "/history"];
    let run = chat("model-broken", &["--private"], &lines);
    assert!(run.stderr.matches("error: ").count() == 2, "{}", run.stderr);
    let out = run.ok();
    let expected = format!("{NUMBER_IS}\n{KEY_IS}\n> {NUMBER}\n{NUMBER_IS}\n\n> {KEY}\n{KEY_IS}\n");
    assert_eq!(out, expected);
}

/// A chat whose configuration folder has these prompts.
fn chat_with_prompts(prompts: &[(&str, &[u8])], input: &str) -> Run {
    let config = scratch(&format!("config-prompts-{}", prompts.len()));
    let folder = config.join("longhand/prompts");
    fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in prompts {
        fs::write(folder.join(name), text).expect("a prompt");
    }
    let document = file("changes-prompts.txt", DOCUMENT);
    let input = fs::File::open(file("changes-prompts-input.txt", input)).expect("the input");
    let mut command = command(&["chat", "--private", "-f", &document]);
    finished(command.env("XDG_CONFIG_HOME", &config).stdin(input).output().expect("the program"))
}

#[test]
fn saved_prompts_are_listed_and_asked() {
    let prompts: [(&str, &[u8]); 4] = [
        ("number.txt", format!("\n{NUMBER}\n").leak().as_bytes()),
        ("key.txt", KEY.as_bytes()),
        ("bad.txt", b"\xff\xfe\x00"),
        ("notes.md", b"another one"),
    ];
    let run =
        chat_with_prompts(&prompts, "/prompt\n/prompt number\n/prompt keyy\n/prompt bad\n/prompt ../key\n");
    run.says(&[
        "error: there is no saved prompt named keyy\nhint: did you mean `key`? ",
        "bad.txt cannot be used: it is not UTF-8 text\n",
        "error: there is no saved prompt named ../key\n",
    ]);
    let out = run.ok();
    assert_eq!(out, format!("bad\nkey\nnotes\nnumber\n/prompt NAME asks one\n> {NUMBER}\n{NUMBER_IS}\n"));
    let run = chat_with_prompts(&[], "/prompt\n");
    assert!(run.ok().starts_with("there are no saved prompts; write one to "));
}

#[test]
fn commands_of_other_programs_are_understood() {
    let lines = [
        "/set parameter temperature 0.25",
        "/set parameter top_k 7",
        "/set parameter num_ctx 5000",
        "/set system \"Be kind.\"",
        "/show system",
        "/show parameters",
        "/set verbose",
        "/show license",
        "/?",
        "/bye",
        NUMBER,
    ];
    let run = chat("habits", &["--private"], &lines);
    run.says(&[
        "temp is 0.25 now\n",
        "top-k is 7 now\n",
        "the context is 5,000 tokens now\n",
        "the system message is changed\n",
        "error: there is no command /set verbose\nhint: /stats shows",
        "error: there is no command /show license\nhint: /model shows",
    ]);
    let out = run.ok();
    assert!(
        out.starts_with("Be kind.\ntemp ") && out.contains("\nKeys\n") && !out.contains("34251"),
        "{out}"
    );
}

#[test]
fn a_line_that_says_exit_ends_a_piped_chat_and_paths_in_it_are_text() {
    let document = file("changes-exit.txt", DOCUMENT);
    let run = longhand_with_input(
        &["chat", "--private", "-f", &document],
        format!("{NUMBER}\n\"\"\"exit\"\"\"\n{document}\n@{document}\nexit\n{KEY}\n").as_bytes(),
    );
    // A path that begins with a slash is a command that is unknown; the other one is a question, and so is a path of Windows.
    let is_command = run.stderr.contains(&format!("there is no command {document}\n"));
    assert_eq!(is_command, document.starts_with('/'), "{}", run.stderr);
    let out = run.ok();
    // What the model says about a path depends on the path; one line more would be the answer to what follows `exit`.
    assert!(out.starts_with(&format!("{NUMBER_IS}\n")), "{out}");
    assert_eq!(out.lines().count(), if is_command { 3 } else { 4 }, "{out}");
    let model = endless_model("changes-endless.gguf");
    let out = longhand_with_input(&["chat", "--private", "-m", &model, "-n", "2"], b"quit\nwhy?\n").ok();
    assert_eq!(out, "");
}
