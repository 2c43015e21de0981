//! One conversation from its beginning to its end, as a user has it.

use std::fs;
use std::process::Command;

use super::reading::{long_document, percent};
use super::{KEY_IS, NUMBER_IS};
use crate::common::{NUMBER, add_program, command, scratch};
use crate::pty::Terminal;

const STATE: &str = "whole";

/// `longhand chat` in bash, after `setup`.
fn chat_after(setup: &str, args: &[&str]) -> Terminal {
    let program = command(&[&["chat"], args].concat());
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{setup} && exec \"$@\""), "bash"]);
    add_program(&mut bash, &program);
    bash.env("XDG_STATE_HOME", scratch(&format!("state-{STATE}"))).env("TERM", "xterm-256color");
    Terminal::start(bash)
}

#[test]
fn a_conversation_from_its_beginning_to_its_end() {
    let document = long_document("whole.txt");
    let mut chat = Terminal::chat(STATE, &["-c", "40k", "-t", "1", "--policy", "full"]);
    chat.wait_for_prompt();

    // Reading while the user types; stopped, and on from there.
    chat.send(&format!("/read {document}\r"));
    chat.wait_until("progress", |screen| percent(&screen.contents(), "reading whole.txt ") > Some(5));
    chat.send("中文?");
    chat.wait_for_row("> 中文?|");
    chat.send("\x03\x03");
    chat.wait_for("reading stopped at ");
    chat.send(&format!("/read\r{NUMBER}\r"));
    chat.wait_for("Mary's favorite number is");
    // In the answer, or just behind it.
    chat.send("\x03");
    chat.wait_for_prompt();
    chat.send("/regen\r");
    chat.wait_for(NUMBER_IS);
    chat.wait_for_prompt();

    // A paste whose lines look like commands is one question.
    let pasted = "/exit\n/clear\n/undo\nThe gardens are green. The pass key is 9078648.\n".repeat(150);
    assert!(pasted.len() > 10_000);
    chat.paste(&pasted);
    chat.send("What is the pass key?\r");
    chat.wait_for(KEY_IS);
    chat.wait_for_prompt();
    chat.send("\x0c/undo\r");
    chat.wait_for("removed the last question and its answer");

    // A narrow terminal.
    chat.resize(40);
    chat.send("\x0c/kv\r");
    chat.wait_until("the map", |screen| {
        screen.contents().contains("layer") || screen.contents().contains("rows")
    });
    chat.wait_for_prompt();
    assert!(!chat.contents().contains("error: "), "{}", chat.contents());
    chat.send("\x0c中文中文中文中文中文中文中文中文中文中文中文");
    chat.wait_for("文中文");
    chat.send("\x15");
    chat.signal("TERM");
    assert_eq!(chat.exit_code(), Some(143));
    assert!(chat.is_as_before());
    assert!(chat.bytes().contains("kept: longhand chat --resume"), "{}", chat.contents());

    // The same conversation again; for one program at a time.
    let mut chat = Terminal::chat_again(STATE, &["--resume", "-t", "1"], |_| ());
    chat.wait_for("resumed after ");
    assert!(chat.contents().contains(NUMBER_IS), "the last turns: {}", chat.contents());
    let mut other = Terminal::chat_again(STATE, &["--resume"], |_| ());
    assert_eq!(other.exit_code(), Some(1));
    assert!(other.contents().contains("another longhand has this conversation open"), "{}", other.contents());
    chat.send(&format!("\x0c{NUMBER}\r"));
    chat.wait_for(NUMBER_IS);
    chat.wait_for_prompt();
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));

    // Without control sequences.
    let mut chat = Terminal::chat_again(STATE, &["--resume", "-t", "1"], |command| {
        command.env("TERM", "dumb");
    });
    chat.wait_for("resumed after ");
    chat.send("/undo\r");
    chat.wait_for("removed the last question");
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
    assert!(!chat.bytes().contains('\x1b'));

    // The disk is full: the conversation goes on, and is what it was when it ends.
    let mut chat = chat_after("trap '' XFSZ; ulimit -f 1", &["--resume", "-t", "1"]);
    chat.wait_for("resumed after ");
    chat.send(&format!("\x0c{NUMBER}\r"));
    chat.wait_for(NUMBER_IS);
    chat.wait_for("the conversation continues; /save FILE saves it elsewhere");
    chat.send("/exit\r");
    chat.wait_for("/exit again quits without saving");
    chat.send("/exit\r");
    chat.exit_code();
    let sessions = scratch(&format!("state-{STATE}")).join("longhand/sessions");
    let files: Vec<_> =
        fs::read_dir(&sessions).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(files.len(), 1, "one conversation and no litter: {files:?}");
    let mut chat = Terminal::chat_again(STATE, &["--resume", "-t", "1"], |_| ());
    chat.wait_for("resumed after ");
    chat.send("/history\r/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
    assert!(chat.contents().contains(NUMBER_IS), "{}", chat.contents());
}
