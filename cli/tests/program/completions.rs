//! What shells complete: in the program's own words, and in the shells that are installed.

use std::process::{Command, Stdio};

use crate::common::{DOCUMENT, command, file, finished, longhand, scratch};

/// The words that may stand in the place of the last one, and whether paths may.
fn complete(words: &[&str]) -> (Vec<String>, bool) {
    let text = longhand(&[&["__complete"], words].concat()).ok();
    let mut lines = text.lines();
    let has_paths = lines.next() == Some("files");
    (lines.map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect(), has_paths)
}

#[test]
fn words_are_completed_by_what_they_are() {
    for (words, expected, has_paths) in [
        (&["pla"][..], &["plan"][..], true),
        (&["heads", "im"], &["import"], false),
        (&["plan", "--gpu", "409"], &["4090"], false),
        (&["plan", "--gpu=409"], &["--gpu=4090"], false),
        (&["plan", "--shape", "llama-3.1-7"], &["llama-3.1-70b"], false),
        (&["plan", "--shape", "llama-3.1-8b:q8"], &["llama-3.1-8b:q8_0"], false),
        (&["ask", "--policy", "ra"], &["razor"], false),
        (&["ask", "--policy", "au"], &["auto"], false),
        (&["bench", "--policy", "au"], &[], false),
        (&["ask", "-ctk", "q8"], &["q8_0"], false),
        (&["ask", "--think", "o"], &["off", "on"], false),
        (&["ask", "--kv-bu"], &["--kv-budget"], false),
        (&["ask", "book.txt", "-f", "no"], &[], true),
        (&["ask", "book.txt", "no"], &[], true),
        (&["ask", "--", "--kv"], &[], true),
        (&["ask", "-n", "2"], &[], false),
        (&["help", "ses"], &["sessions"], false),
        (&["tokenize", "-m", "x"], &[], true),
        // Hidden flags: of llama.cpp, and of the settings.
        (&["ask", "--flash"], &[], false),
        (&["ask", "--default"], &[], false),
    ] {
        let (found, paths) = complete(words);
        assert_eq!(
            (found.iter().map(String::as_str).collect::<Vec<_>>(), paths),
            (expected.to_vec(), has_paths),
            "{words:?}"
        );
    }
    assert!(complete(&[""]).0.contains(&"chat".to_owned()));
    assert_eq!(longhand(&["__complete"]).ok(), "-\n");
}

/// A shell with the environment of the tests, the program in its path.
fn shell(name: &str, line: &str) -> Option<Command> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_longhand"));
    let path = format!("{}:{}", program.parent()?.display(), std::env::var("PATH").ok()?);
    let mut shell = Command::new(name);
    shell.args(["-c", line]).env("PATH", path).stdin(Stdio::null());
    for (name, value) in command(&[]).get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(scratch("completions"));
    Some(shell)
}

#[test]
fn scripts_complete_in_the_shells_that_are_installed() {
    let folder = scratch("completions");
    let script = |shell: &str| {
        let path = folder.join(format!("longhand.{shell}"));
        std::fs::write(&path, longhand(&["completions", shell]).ok()).expect("a script");
    };
    ["bash", "zsh", "fish"].into_iter().for_each(script);
    std::fs::write(folder.join("my book.txt"), DOCUMENT).expect("a document");
    let bash = "source ./longhand.bash; compopt() { :; }; \
                try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _longhand longhand; echo \"${COMPREPLY[*]}\"; }; \
                try longhand plan --gpu 409; try longhand plan --shape llama-3.1-8b : q8; try longhand ask 'my'";
    let fish = "source ./longhand.fish; complete -C 'longhand plan --gpu 409'; complete -C 'longhand ask my'";
    for (name, line, expected) in [
        ("bash", bash, "4090\nq8_0\nmy book.txt\n"),
        ("fish", fish, "4090\nmy book.txt\n"),
        ("zsh", "zsh -n ./longhand.zsh && echo right", "right\n"),
    ] {
        let Some(Ok(output)) = shell(name, line).map(|mut shell| shell.output()) else {
            println!("skipped: there is no {name}");
            continue;
        };
        let run = finished(output);
        assert_eq!(run.stdout, expected, "{name}: {}", run.stderr);
    }
}

/// Names that only the program knows: of conversations and of saved prompts.
#[test]
fn names_of_conversations_and_prompts_are_completed() {
    let home = scratch("completions-home");
    let document = file("completed.txt", DOCUMENT);
    let at = |args: &[&str]| {
        let mut command = command(args);
        command.env("XDG_STATE_HOME", home.join("state")).env("XDG_CONFIG_HOME", home.join("config"));
        finished(command.output().expect("the program starts"))
    };
    let prompts = home.join("config/longhand/prompts");
    std::fs::create_dir_all(&prompts).expect("a folder");
    std::fs::write(prompts.join("summary.txt"), "Summarise the text.").expect("a prompt");
    at(&["chat", &document, "-p", "What is the pass key?"]).ok();
    for words in [&["chat", "--resume", "comp"][..], &["sessions", "show", "comp"]] {
        let text = at(&[&["__complete"], words].concat()).ok();
        assert!(text.contains("\ncompleted\tkept conversation\n"), "{words:?}: {text}");
    }
    assert_eq!(at(&["__complete", "ask", "--prompt-name", ""]).ok(), "-\nsummary\tsaved prompt\n");
}
