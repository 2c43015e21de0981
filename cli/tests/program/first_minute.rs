//! What a newcomer sees first: `longhand` alone, the help with its examples, the version.

use crate::common::{DOCUMENT, command, finished, longhand, scratch};

#[test]
fn the_program_alone_prints_five_examples() {
    let text = longhand(&[]).ok();
    assert_eq!(examples(&text).len(), 5, "{text}");
    assert!(text.contains("longhand --help"), "{text}");
}

#[test]
fn the_long_version_has_what_a_report_needs() {
    assert_eq!(longhand(&["-V"]).ok(), concat!("longhand ", env!("CARGO_PKG_VERSION"), "\n"));
    let text = longhand(&["--version"]).ok();
    for part in [
        concat!("longhand ", env!("CARGO_PKG_VERSION"), "\n"),
        "\ncommit: ",
        &format!("\ntarget: {}-", std::env::consts::ARCH),
        "\nggml: ",
        "\nbackends: CPU",
        "\nCPU level: ",
        "\nCPU features: ",
        "\ncompiled for: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Two commands are called `show`.
#[test]
fn examples_are_those_of_the_command() {
    for group in ["heads", "sessions"] {
        let examples = examples(&longhand(&["help", group, "show"]).ok());
        let start = format!("longhand {group} show");
        assert!(!examples.is_empty() && examples.iter().all(|line| line.starts_with(&start)), "{examples:?}");
    }
}

#[test]
fn exit_codes_are_in_the_help() {
    let help = longhand(&["--help"]).ok();
    assert!(help.contains("Exit codes:") && help.contains("130"), "{help}");
}

#[test]
fn quiet_runs_print_no_notes() {
    let text = "The pass key is 9078648. What is the pass key?";
    let loud = longhand(&["ask", "--mlock", text]);
    assert!(loud.stderr.contains("note: ") && loud.stderr.contains("tokens read"), "{}", loud.stderr);
    for quiet in [&["-q", "ask", "--mlock", text][..], &["ask", "--mlock", "--quiet", text]] {
        let run = longhand(quiet);
        assert_eq!((run.stderr.as_str(), &run.stdout), ("", &loud.stdout));
    }
    longhand(&["-q", "ask", " "]).assert_failed(2, "a question is empty");
}

/// Examples that take long.
const SLOW: [&str; 2] = ["longhand demo", "longhand recall"];
/// Examples that change the cached head profile, need files of other projects or a network, or end when they are stopped,
/// begin so.
const ELSEWHERE: [&str; 6] = [
    "longhand heads calibrate",
    "longhand heads import",
    "longhand chat -hf",
    "longhand eval ruler",
    "longhand rpc-server",
    "longhand serve",
];

const HEADS: &str = r#"{"format":"longhand-heads","version":1,"layers":4,"heads":8,"kv_heads":4,
    "retrieval":[[],[0],[],[1,2]],"provenance":{"source":"a test"}}"#;

/// The examples of every command run as they are, in a folder that has the files they name.
#[test]
fn examples_in_the_help_work() {
    // Without the conversation that the last run has kept there.
    let _ = std::fs::remove_dir_all(scratch("examples"));
    let folder = scratch("examples");
    std::fs::write(folder.join("model.gguf"), models::embedded::needle()).expect("a model");
    std::fs::write(folder.join("book.txt"), DOCUMENT).expect("a document");
    std::fs::write(folder.join("heads.json"), HEADS).expect("a head profile");
    let help = longhand(&["--help"]).ok();
    let commands =
        help.split("Commands:").nth(1).and_then(|text| text.split("\n\n").next()).expect("commands");
    let names =
        commands.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<&str> =
        names.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help").collect();
    assert!(names.len() > 10, "{help}");
    let topics = [&["heads", "calibrate"][..], &["heads", "show"], &["heads", "import"]];
    let mut lines = examples(&longhand(&[]).ok());
    for topic in names.iter().map(std::slice::from_ref).chain(topics) {
        let help = longhand(&[&["help"], topic].concat()).ok();
        let found = examples(&help);
        assert!((2..=3).contains(&found.len()), "{topic:?} has {} examples", found.len());
        lines.extend(found);
    }
    for line in lines {
        if !SLOW.contains(&line.as_str()) && !ELSEWHERE.iter().any(|start| line.starts_with(start)) {
            println!("{line}");
            let words = words(&line);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = command(&words[1..]).current_dir(&folder).output().expect("the program starts");
            let run = finished(output);
            // `plan` may say no.
            assert!(
                run.code == Some(0) || (run.code == Some(3) && words[1] == "plan"),
                "{line}: {}",
                run.stderr
            );
        }
    }
}

/// The lines of a text that are examples.
fn examples(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with("longhand "))
        .map(str::to_owned)
        .collect()
}

/// The words of a command line, which may be in double quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().expect("a word").push(c),
        }
    }
    words
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for (shell, part) in
        [("bash", "complete -F _longhand"), ("zsh", "#compdef longhand"), ("fish", "complete -c longhand")]
    {
        assert!(longhand(&["completions", shell]).ok().contains(part), "{shell}");
    }
    let script = longhand(&["completions", "elvish"]).ok();
    assert!(script.contains("kv-budget"), "{script}");
    // Hidden flags: of llama.cpp, and of the settings.
    assert!(!script.contains("flash-attn") && !script.contains("default-model"), "{script}");
    assert!(longhand(&["man"]).ok().contains(".SH NAME\nlonghand"));
    let folder = scratch("man-pages");
    let path = folder.to_str().expect("a path that is text");
    longhand(&["man", path]).ok();
    for (page, part) in
        [("longhand.1", "Exit codes"), ("longhand-ask.1", "Examples"), ("longhand-heads-show.1", "")]
    {
        let text = std::fs::read_to_string(folder.join(page)).expect(page);
        assert!(text.contains(part), "{page}");
    }
    // As `man` is used: the page of a command; a folder that does not exist yet; a folder for `man`.
    assert!(longhand(&["man", "ask"]).ok().contains(".SH NAME\nlonghand\\-ask"));
    let new = folder.join("new/man");
    let _ = std::fs::remove_dir_all(folder.join("new"));
    let run = longhand(&["man", new.to_str().expect("text")]);
    assert!(run.stderr.contains("new/man/man1\n"), "{}", run.stderr);
    assert!(new.join("man1/longhand-ask.1").is_file());
    longhand(&["man", "/dev/null/folder"]).assert_failed(1, "cannot write /dev/null/folder");
    longhand(&["completions", "tcsh"]).assert_failed(2, "tcsh");
}

/// On a terminal each question is above its answer; a pipe has the answers only.
#[cfg(target_os = "linux")]
#[test]
fn questions_are_above_their_answers_on_a_terminal() {
    let questions = ["The pass key is 9078648. What is the pass key?", "What is the pass\u{1b} key?"];
    let piped = longhand(&["ask", questions[0], questions[1]]).ok();
    assert_eq!(piped.lines().count(), 2, "{piped}");
    let program = command(&[]);
    let line = format!("{} -q ask '{}' '{}'", env!("CARGO_BIN_EXE_longhand"), questions[0], questions[1]);
    // util-linux's: runs a command on a pseudo-terminal.
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::null());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    script.env("NO_COLOR", "1");
    let Ok(output) = script.output() else {
        println!("skipped: there is no `script`");
        return;
    };
    let text = finished(output).ok().replace("\r\n", "\n");
    let answers: Vec<&str> = piped.lines().collect();
    let expected =
        format!("> {}\n{}\n\n> What is the pass␛ key?\n{}\n", questions[0], answers[0], answers[1]);
    assert_eq!(text, expected);
}

#[test]
fn chat_says_what_the_built_in_model_is() {
    let chat = longhand(&["chat"]);
    assert!(chat.stderr.contains("small built-in model") && chat.stderr.contains("`longhand models`"));
    let model = crate::common::file("chat.gguf", models::embedded::needle());
    assert!(!longhand(&["chat", &model]).stderr.contains("built-in"));
}
