//! The keyboard side of `chat`: the program runs in a pseudo-terminal, and the screen is what its user sees.
#![cfg(unix)]

mod answering;
mod reading;
mod whole;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{
    DOCUMENT, KEY_IS, NUMBER_IS, Running, endless_model, file, longhand_with_input, scratch,
};
use crate::pty::Terminal;

const LEFT: &str = "\x1b[D";
const UP: &str = "\x1b[A";
const QUIT_HINT: &str = "(to quit, press Ctrl-C again or Ctrl-D, or type /exit)";

#[test]
fn arrow_keys_edit_the_line() {
    let document = file("keys-arrows.txt", DOCUMENT);
    let mut chat = Terminal::chat("arrows", &["-f", &document]);
    chat.wait_for_prompt();
    chat.send("What is Mary's number?");
    chat.send(&LEFT.repeat(7));
    chat.wait_for_row("> What is Mary's |number?");
    chat.send("favorite \x05 \x01>\x08");
    chat.wait_for_row("> |What is Mary's favorite number?");
    chat.send("\r");
    chat.wait_for(NUMBER_IS);
    chat.wait_for_prompt();
    assert!(!chat.contents().contains("^["), "{}", chat.contents());
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
    assert!(chat.is_as_before());
}

#[test]
fn the_history_is_kept_after_a_restart() {
    let mut chat = Terminal::chat("history", &[]);
    chat.send("/one\r/two\r/three\r");
    chat.wait_for("no command /three");
    chat.send(&UP.repeat(2));
    chat.wait_for_row("> /two|");
    chat.send("\x1b[B");
    chat.wait_for_row("> /three|");
    chat.send("\x15/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
    let history = scratch("state-history").join("longhand/history");
    assert_eq!(fs::metadata(history).expect("a file").permissions().mode() & 0o777, 0o600);

    let mut chat = Terminal::chat_again("history", &[], |_| ());
    chat.wait_for_prompt();
    chat.send(&UP.repeat(2));
    chat.wait_for_row("> /three|");
    chat.send("\x15draft\x12o");
    chat.wait_for_row("(search \"o\") /two|");
    chat.send("\x12");
    chat.wait_for_row("(search \"o\") /one|");
    chat.send("\x07");
    chat.wait_for_row("> draft|");
    chat.send("\x12thr\r");
    chat.wait_for("no command /three");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn a_history_that_cannot_be_kept_is_a_note() {
    let mut chat = Terminal::chat_again("unwritable", &[], |command| {
        command.env("XDG_STATE_HOME", file("keys-no-folder", "x"));
    });
    chat.wait_for("note: messages are not kept for the next chat: ");
    chat.send("/one\r");
    chat.wait_for("no command /one");
    // Until the prompt is there, Ctrl-C would not clear its line.
    chat.wait_for_prompt();
    chat.send(UP);
    chat.wait_for_row("> /one|");
    chat.send("\x03\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn a_private_chat_leaves_nothing_on_the_disk() {
    let state = scratch("keys-private");
    let _ = fs::remove_dir_all(&state);
    let document = file("keys-private.txt", DOCUMENT);
    let mut chat = Terminal::chat_again("private", &["--private", "-f", &document], |command| {
        command.env("XDG_STATE_HOME", &state);
    });
    chat.wait_for_prompt();
    chat.send("What is Mary's favorite number?\r");
    chat.wait_for(NUMBER_IS);
    chat.wait_for_prompt();
    chat.send(UP);
    chat.wait_for_row("> What is Mary's favorite number?|");
    chat.send("\x03\x04");
    assert_eq!(chat.exit_code(), Some(0));
    assert!(!state.exists(), "neither history nor conversation");
}

#[test]
fn a_paste_is_one_message_whatever_its_lines_are() {
    let mut chat = Terminal::chat("paste", &[]);
    chat.wait_for_prompt();
    let lines = format!("/exit\n\x1b[2J/help\nWhat is the pass key?\n{DOCUMENT}").repeat(8);
    let pasted = lines.clone() + &"/clear\n".repeat(1200);
    chat.paste(&pasted);
    let size = format!("[pasted 1,232 lines, {:.1} KB]", pasted.len() as f64 / 1e3);
    chat.wait_for_row(&format!("> {size}|"));
    // One key moves over all of it, and one deletes it.
    chat.send(&format!("a{LEFT}{LEFT}b"));
    chat.wait_for_row(&format!("> b|{size}a"));
    chat.send("\x1b[3~");
    chat.wait_for_row("> b|a");
    chat.send("\x15\x0b");
    chat.paste(&lines);
    chat.send("What is the pass key?\r");
    chat.wait_for("The pass key is");
    chat.wait_for_prompt();
    for text in ["error:", "show this list", "started"] {
        assert!(!chat.contents().contains(text), "{}", chat.contents());
    }
    assert!(!chat.bytes().contains("\x1b[2J"), "{}", chat.bytes());
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn a_short_paste_can_be_edited_and_shows_its_control_characters() {
    let mut chat = Terminal::chat("short-paste", &[]);
    chat.wait_for_prompt();
    chat.paste("/etc\x1b]0;x\x07\nb\n");
    chat.wait_for_row("b|");
    assert!(chat.contents().contains("> /etc␛]0;x␇\n"), "{}", chat.contents());
    assert!(!chat.bytes().contains("\x1b]0"), "{}", chat.bytes());
    chat.send("\x08\x7f\x1b[D\x0b\r");
    chat.wait_for_prompt();
    chat.wait_for("no command /etc␛]0;x");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn a_message_has_several_lines() {
    let document = file("keys-lines.txt", DOCUMENT);
    let mut chat = Terminal::chat("lines", &["-f", &document]);
    chat.wait_for_prompt();
    chat.send("What is\x1b\rthe pass\nkey?");
    chat.wait_for_row("key?|");
    chat.send(&format!("{UP}{UP}\x05"));
    chat.wait_for_row("> What is|");
    chat.send("\x03\"\"\"\rWhat is the pass key?\r\"\"\"");
    chat.wait_for_row("\"\"\"|");
    chat.send("\r");
    chat.wait_for(KEY_IS);
    chat.wait_for_prompt();
    chat.send("//etc/passwd\r");
    chat.wait_until("a second answer", |screen| screen.contents().matches("\n> ").count() == 3);
    assert!(!chat.contents().contains("error:"), "{}", chat.contents());
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn ctrl_c_at_the_prompt_empties_the_line_and_then_quits() {
    let session = scratch("files").join("keys-ended.session");
    let _ = std::fs::remove_file(&session);
    let mut chat = Terminal::chat("ctrl-c", &["--session", session.to_str().expect("text")]);
    chat.wait_for_prompt();
    chat.send("some text\x03");
    chat.wait_for_prompt();
    chat.send("\x03");
    chat.wait_for(QUIT_HINT);
    chat.wait_for_prompt();
    // Something else lies between: the next one is the first again.
    chat.send("x\x08\x03\x03");
    assert_eq!(chat.exit_code(), Some(130));
    assert!(chat.is_as_before());
    assert_eq!(chat.contents().matches(QUIT_HINT).count(), 2, "{}", chat.contents());
    assert!(session.exists(), "every end saves the conversation");
}

#[test]
fn what_is_typed_while_the_model_answers_is_the_next_message() {
    let model = endless_model("keys-endless.gguf");
    let mut chat = Terminal::chat("ahead", &["-m", &model, "--temp", "0", "-n", "100000", "-c", "30000"]);
    chat.send("Why?\r");
    chat.wait_for("!!!!");
    chat.send("/nope\r/stats\rabc\x1b[Dx");
    chat.paste("line\n".repeat(9).as_str());
    chat.wait_for_row("> abx[pasted 9 lines, 45 B]|c");
    chat.send("\x03");
    chat.wait_for("answered  ");
    chat.wait_for_end_of_work();
    chat.wait_for_row("> abx[pasted 9 lines, 45 B]|c");
    let shown = chat.contents();
    // Below the answer are what it has cost, and why it has ended.
    assert!(shown.contains(" t/s\n(interrupted)\n"), "{shown}");
    let after = shown.split_once("(interrupted)\n").expect("an interrupted answer").1;
    assert!(after.starts_with("> /nope\nerror: there is no command /nope\n"), "{shown}");
    assert!(after.contains("> /stats\ntokens "), "{shown}");
    // The answer is whole: the line was below it, and nothing was echoed. (It may have scrolled the question away.)
    let before = shown.split_once(" t/s\n(interrupted)").expect("an interrupted answer").0;
    let answer = before.rsplit_once('\n').expect("what it has cost").0;
    let rows = answer.lines().skip_while(|row| !row.starts_with('!'));
    assert!(rows.clone().count() > 0 && rows.clone().all(|row| row.trim_matches('!').is_empty()), "{answer}");
    chat.send("\x03\x04");
    assert_eq!(chat.exit_code(), Some(0));
    assert!(chat.is_as_before());
}

#[test]
fn ctrl_c_stops_reading_also_if_it_is_typed_with_the_question() {
    let document = file("keys-long.txt", DOCUMENT.repeat(400));
    let mut chat = Terminal::chat("reading", &["-f", &document]);
    chat.wait_for_prompt();
    chat.send("Why?\r\x03");
    chat.wait_for("interrupted: the question was not read");
    chat.wait_for_prompt();
    chat.send("Why?\r");
    chat.wait_for("reading [");
    chat.send("typed\x03");
    chat.wait_for_row("> typed|");
    chat.send("\x15Why?\r");
    chat.wait_for("reading [");
    chat.send("\x03\x03");
    assert_eq!(chat.exit_code(), Some(130));
    assert!(chat.is_as_before());
}

#[test]
fn ctrl_g_edits_the_message_in_the_users_editor() {
    let editor = |name: &str, script: &str| {
        let path = file(name, format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
        path
    };
    // The editor reads the terminal, and sees the paste as it was.
    let script = "stat -c %a \"$2\"; read line; sed -i \"s/two/$line/\" \"$2\"; [ \"$1\" = -x ]";
    let editor_path = editor("keys-editor.sh", script);
    let start = |variable: &str, value: &str| {
        let chat = Terminal::chat_again("editor", &[], |command| _ = command.env(variable, value));
        chat.wait_for_prompt();
        chat
    };
    let chat = start("VISUAL", &format!("{editor_path} -x"));
    chat.send("one two");
    chat.send("\x07");
    chat.wait_for("600");
    chat.send("three\r");
    chat.wait_for_row("> one three|");
    drop(chat);

    let chat = start("EDITOR", &editor("keys-fails.sh", "echo changed > \"$1\"; exit 3"));
    chat.send("text");
    chat.paste(&"line\n".repeat(4));
    chat.send("\x07");
    chat.wait_for("keys-fails.sh failed: exit status: 3");
    chat.wait_for("hint: the message is unchanged");
    chat.wait_for_row("> text[pasted 4 lines, 20 B]|");
    drop(chat);

    let chat = start("EDITOR", "/no/such/editor");
    chat.send("text\x07");
    chat.wait_for("error: the editor /no/such/editor failed");
    chat.wait_for_row("> text|");
}

#[test]
fn tab_completes_commands_and_paths() {
    let folder = scratch("keys-tab");
    for name in ["conversation-a", "conversation-b"] {
        fs::write(folder.join(name), "").expect("a file");
    }
    let chat = Terminal::chat_again("tab", &[], |command| _ = command.current_dir(&folder));
    chat.wait_for_prompt();
    chat.send("/sa\tconv\t");
    chat.wait_for_row("> /save conversation-|");
    chat.send("\t");
    chat.wait_for("conversation-a  conversation-b\n");
    chat.wait_for_row("> /save conversation-|");
    chat.send("a\r");
    chat.wait_for("error: conversation-a exists already");
    chat.send("/save conversation-c\r");
    chat.wait_for("saved the conversation to conversation-c");
    fs::remove_dir_all(&folder).expect("a folder");
}

#[test]
fn ctrl_z_suspends_and_fg_continues() {
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "--noprofile", "-i"])
        .env("PS1", "shell: ")
        .env("TERM", "xterm")
        .env("NO_COLOR", "1");
    if std::process::Command::new("bash").arg("--version").output().is_err() {
        return println!("skipped: there is no bash");
    }
    let model = endless_model("keys-suspended.gguf");
    // Paths may be long, and the shell shows the command several times.
    bash.env("LONGHAND", env!("CARGO_BIN_EXE_longhand")).env("MODEL", &model);
    bash.env("XDG_STATE_HOME", scratch("state-suspended"));
    let terminal = Terminal::start(bash);
    terminal.wait_for_row("shell: |");
    terminal.send("$LONGHAND chat -m $MODEL --temp 0 -n 100000 -c 30000\r");
    terminal.wait_for_prompt();
    terminal.send("draft\x1a");
    terminal.wait_for("Stopped");
    terminal.wait_for_row("shell: |");
    terminal.send("stty -a | tr ' ' '\\n' | grep -x -e -icanon -e -echo -e -isig; echo modes $?\r");
    terminal.wait_for("modes 1");
    terminal.send("fg\r");
    terminal.wait_for_row("> draft|");
    // While the model answers.
    terminal.send("\r");
    terminal.wait_for("!!!!");
    terminal.send("\x1a");
    terminal.wait_until("a second stop", |screen| screen.contents().matches("Stopped").count() == 2);
    terminal.wait_for_row("shell: |");
    terminal.send("clear\r");
    terminal.wait_until("an empty screen", |screen| screen.contents().trim() == "shell:");
    terminal.send("fg\r");
    terminal.wait_for("!!!!");
    terminal.send("next\x03");
    terminal.wait_for("(interrupted)");
    terminal.wait_for_row("> next|");
    terminal.send("\x15\x04");
    terminal.wait_for_row("shell: |");
}

/// As after `kill -STOP` and `fg`: a shell has set its own modes and has written.
#[test]
fn a_program_that_was_stopped_draws_its_text_again() {
    let chat = Terminal::chat("stopped", &[]);
    chat.wait_for_prompt();
    chat.send("draft");
    chat.wait_for_row("> draft|");
    chat.signal("STOP");
    chat.set_usual_modes();
    chat.show("\r\nStopped\r\n");
    chat.signal("CONT");
    chat.wait_for_row("> draft|");
    chat.send("ed\x01x");
    chat.wait_for_row("> x|drafted");
}

#[test]
fn a_resize_draws_the_text_again() {
    let chat = Terminal::chat("resize", &[]);
    chat.wait_for_prompt();
    let text: String = ('a'..='z').cycle().take(70).collect();
    chat.send(&text);
    chat.wait_for_row(&format!("> {text}|"));
    chat.resize(40);
    chat.wait_for_row(&format!("{}|", &text[38..]));
    assert!(chat.contents().contains(&format!("> {}", &text[..38])), "{}", chat.contents());
    chat.send("\x01");
    chat.wait_for_row(&format!("> |{}", &text[..38]));
    chat.resize(80);
    chat.wait_for_row(&format!("> |{text}"));
    assert_eq!(chat.contents().matches("> ").count(), 1, "{}", chat.contents());
}

#[test]
fn a_text_of_more_rows_than_the_screen_is_scrolled_and_sent_whole() {
    let chat = Terminal::chat("tall", &[]);
    chat.wait_for_prompt();
    let lines: Vec<String> = (0..40).map(|n| format!("line {n}")).collect();
    chat.send(&lines.join("\n"));
    chat.wait_for_row("line 39|");
    assert!(!chat.contents().contains("line 15"), "{}", chat.contents());
    chat.send("\x1b<");
    chat.wait_for_row("> |line 0");
    assert!(chat.contents().starts_with("> line 0\nline 1\n"), "{}", chat.contents());
    chat.send("\x0c");
    chat.wait_for_row("> |line 0");
    // All of it is left on the terminal when it is sent.
    let before = chat.bytes().len();
    chat.send("\r");
    chat.wait_for("\nline 39\n");
    let sent = lines.join("\r\n");
    assert!(chat.bytes()[before..].contains(&sent), "{}", chat.contents());
}

#[test]
fn wide_characters_take_two_columns() {
    let chat = Terminal::chat("wide", &[]);
    chat.wait_for_prompt();
    let cursor_at = |column: u16| {
        chat.wait_until(&format!("the cursor in column {column}"), |screen| {
            screen.cursor_position().1 == column
        });
    };
    chat.send("中文😀e\u{301}");
    cursor_at(9);
    chat.send(&LEFT.repeat(2));
    cursor_at(6);
    chat.send("x\x08\x08");
    cursor_at(4);
    assert!(chat.contents().ends_with("> 中😀e\u{301}"), "{}", chat.contents());
    // A wide character does not fit in one column.
    chat.send(&format!("\x15\x0b{}中", "x".repeat(77)));
    cursor_at(2);
    chat.send("\x7f");
    cursor_at(79);
}

#[test]
fn a_dumb_terminal_gets_no_control_sequences_and_has_lines_of_any_length() {
    let document = file("keys-dumb.txt", DOCUMENT);
    let args = ["-f", &document, "-c", "200000"];
    let mut chat = Terminal::chat_again("dumb", &args, |command| _ = command.env("TERM", "dumb"));
    chat.wait_for_prompt();
    chat.send("What is the pass kex\x7fy?\r");
    chat.wait_for(KEY_IS);
    chat.wait_for_prompt();
    chat.send(&format!("/{} end\r", "x".repeat(100_000)));
    chat.wait_for("xxx\nhint: type /help");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
    let bytes = chat.bytes();
    assert!(!bytes.contains('\x1b'), "{bytes}");
    assert!(bytes.contains(&format!("no command /{}\r\n", "x".repeat(100_000))), "the line is not whole");
}

#[test]
fn a_line_of_100_kb_is_whole() {
    let mut chat = Terminal::chat("long-line", &[]);
    chat.wait_for_prompt();
    chat.send(&format!("/{}{}\r", "x".repeat(100_000), " end".repeat(10_000)));
    chat.wait_for("hint: type /help");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
    assert!(chat.bytes().contains(&format!("/{}\r\n", "x".repeat(100_000))), "the line is not whole");
    // Without a terminal, too.
    let input = format!("/{} end\n\"\"\"\n\nWhat is the pass key?\n\"\"\"\n//clear\n", "x".repeat(100_000));
    let document = file("keys-piped.txt", DOCUMENT);
    let run = longhand_with_input(&["chat", "-f", &document], input.as_bytes());
    assert!(run.stderr.contains(&format!("no command /{}\n", "x".repeat(100_000))));
    assert!(!run.stderr.contains("started a new") && !run.stderr.contains("\x1b"), "{}", run.stderr);
    let out = run.ok();
    assert!(out.lines().count() == 2 && out.contains(KEY_IS) && !out.contains('\x1b'), "{out}");
}

#[test]
fn sigterm_ends_a_chat_without_a_terminal_in_order() {
    let model = endless_model("keys-piped.gguf");
    let path = session("piped");
    let args = ["chat", "-m", &model, "--temp", "0", "-n", "100000", "-c", "30000", "--session"];
    let mut chat = Running::start(&[&args[..], &[path.to_str().expect("text")]].concat());
    chat.write("Why?\n");
    chat.wait_for("!!!!");
    chat.signal("TERM");
    let run = chat.finish();
    assert_eq!(run.code, Some(143), "{}", run.stderr);
    assert!(run.stderr.contains("saved the conversation to ") && path.exists(), "{}", run.stderr);
}

/// A conversation that is saved by what ends it.
fn session(name: &str) -> std::path::PathBuf {
    let path = scratch("files").join(format!("keys-{name}.session"));
    let _ = fs::remove_file(&path);
    path
}

/// A chat with a model whose answers do not end.
fn endless<'a>(model: &'a str, session: &'a Path) -> [&'a str; 10] {
    let session = session.to_str().expect("text");
    ["-m", model, "--temp", "0", "-n", "100000", "-c", "30000", "--session", session]
}

#[test]
fn sigterm_and_sighup_save_the_conversation_and_restore_the_terminal() {
    let model = endless_model("keys-signals.gguf");
    for (signal, code) in [("TERM", 143), ("HUP", 129)] {
        let path = session(signal);
        let args = endless(&model, &path);
        let mut chat = Terminal::chat("signals", &args);
        chat.wait_for_prompt();
        chat.send("typed");
        chat.wait_for_row("> typed|");
        chat.signal(signal);
        assert_eq!(chat.exit_code(), Some(code), "at the prompt:\n{}", chat.contents());
        assert!(chat.is_as_before() && path.exists());
        fs::remove_file(&path).expect("a session");

        let mut chat = Terminal::chat("signals", &args);
        chat.send("Why?\r");
        chat.wait_for("!!!!");
        chat.signal(signal);
        assert_eq!(chat.exit_code(), Some(code), "in an answer:\n{}", chat.contents());
        assert!(chat.is_as_before() && path.exists());
        chat.wait_for("saved the conversation to");
    }
}

#[test]
fn a_closed_terminal_saves_the_conversation() {
    let model = endless_model("keys-closed.gguf");
    let path = session("closed");
    let args = endless(&model, &path);
    for question in ["", "Why?\r"] {
        let mut chat = Terminal::chat("closed", &args);
        chat.wait_for_prompt();
        chat.send(question);
        if !question.is_empty() {
            chat.wait_for("!!!!");
        }
        chat.close();
        assert_eq!(chat.exit_code(), Some(129));
        fs::remove_file(&path).expect("a session");
    }
}

#[test]
fn other_signals_restore_the_terminal() {
    for signal in ["ALRM", "USR1", "INT"] {
        let mut chat = Terminal::chat("other-signals", &[]);
        chat.wait_for_prompt();
        assert!(!chat.is_as_before());
        chat.signal(signal);
        if signal == "INT" {
            chat.wait_for(QUIT_HINT);
            chat.signal(signal);
        }
        assert_eq!(chat.exit_code(), (signal == "INT").then_some(130));
        assert!(chat.is_as_before(), "{signal}");
    }
}

#[test]
fn help_names_the_keys() {
    let chat = Terminal::chat("help", &[]);
    chat.send("/help\r");
    for key in ["Ctrl-C", "Alt-Enter", "Ctrl-R", "Tab", "Ctrl-G", "Ctrl-Z", "\"\"\"", "//"] {
        chat.wait_for(key);
    }
}

#[test]
fn the_last_question_is_edited_in_the_line() {
    let document = file("keys-edit.txt", DOCUMENT);
    let mut chat = Terminal::chat("edit", &["-f", &document]);
    chat.wait_for_prompt();
    chat.send("What is the pass key?\r");
    chat.wait_for(KEY_IS);
    chat.wait_for_prompt();
    // Ctrl-C leaves it as it was: what is typed then is a question of its own.
    chat.send("/edit\r");
    chat.wait_for_row("> What is the pass key?|");
    chat.wait_for_end_of_work();
    chat.send("\x03");
    chat.wait_for_prompt();
    chat.send("//etc/passwd\r");
    chat.wait_until("a second answer", |screen| screen.contents().matches("\n> ").count() == 4);
    chat.wait_for_prompt();
    // So does a command, which is no question.
    chat.send("/edit\r");
    chat.wait_for_row("> //etc/passwd|");
    chat.wait_for_end_of_work();
    chat.send("\x15/kv 9.9\r");
    chat.wait_for("error: there is no head 9.9");
    chat.wait_for_prompt();
    chat.send("/edit\r");
    chat.wait_for_row("> //etc/passwd|");
    chat.wait_for_end_of_work();
    chat.send("\x15What is Mary's favorite number?\r");
    chat.wait_for(NUMBER_IS);
    chat.wait_for_prompt();
    // It has replaced the second question, and the next one replaces nothing.
    chat.send("Who is there?\r");
    chat.wait_until("a third answer", |screen| screen.contents().contains("> Who is there?\n"));
    chat.wait_for_prompt();
    chat.send("/undo\r/edit\r");
    chat.wait_for_row("> What is Mary's favorite number?|");
    chat.wait_for_end_of_work();
    // Keys that come with Ctrl-C may be read before it.
    chat.send("\x03");
    chat.wait_for_prompt();
    chat.send("/undo\r/edit\r");
    chat.wait_for_row("> What is the pass key?|");
    chat.wait_for_end_of_work();
    chat.send("\x03");
    chat.wait_for_prompt();
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn ctrl_c_leaves_the_policy_as_it_was() {
    // Long enough that Ctrl-C comes while it is read again.
    let document = file("keys-policy.txt", DOCUMENT.repeat(40));
    let mut chat = Terminal::chat("policy", &["-f", &document]);
    chat.wait_for_prompt();
    chat.send("What is the pass key?\r");
    chat.wait_for(KEY_IS);
    chat.wait_for_prompt();
    let unchanged = "interrupted: nothing has changed\n";
    for (number, command) in ["/policy h2o", "/policy razor", "/system Be kind."].iter().enumerate() {
        chat.send(&format!("{command}\r\x03"));
        chat.wait_until("nothing changed", |screen| {
            screen.contents().matches(unchanged).count() == number + 1
        });
        chat.wait_for_prompt();
    }
    chat.send("/system\r/policy\r");
    chat.wait_for("there is no system message");
    chat.wait_for("policy   full");
    chat.send("What is Mary's favorite number?\r");
    chat.wait_for(NUMBER_IS);
    chat.wait_for_prompt();
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn the_map_of_the_cache_fits_the_terminal() {
    let mut chat = Terminal::chat("map", &["--policy", "snapkv:window=8,capacity=24"]);
    chat.wait_for_prompt();
    chat.send(&format!("{}\r", DOCUMENT.trim_end()));
    chat.wait_until("an answer", |screen| screen.contents().matches("\n> ").count() == 2);
    chat.resize(40);
    chat.send("/kv 3.2\r");
    chat.wait_for("what is kept in []");
    chat.wait_for_prompt();
    let shown = chat.contents();
    let strip = shown.lines().find(|line| line.contains('█')).expect("a strip");
    assert!(strip.chars().all(|c| "·▁▂▃▄▅▆▇█".contains(c)), "{shown}");
    // No line is broken: behind the title each begins as it was written.
    let spans = shown.split_once("in []\n").expect("spans").1;
    let is_span = |line: &str| line.starts_with("   ") && line.contains('[') && line.contains(']');
    assert!(spans.lines().take_while(|line| !line.starts_with("> ")).all(is_span), "{shown}");
    chat.send("/kv\r");
    chat.wait_for("entries  none");
    chat.wait_for_prompt();
    let shown = chat.contents();
    let row = shown.lines().find_map(|line| line.strip_prefix("    3 ")).expect("a layer");
    assert!(row.len() == "▁ ▁ ▁ ▁".len() && row.chars().all(|c| " ▁▂▃▄▅▆▇".contains(c)), "{shown}");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}
