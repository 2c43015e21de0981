//! What answers look like on a terminal, and elsewhere.
#![cfg(unix)]

mod common;
#[path = "common/pty.rs"]
mod pty;

use common::{command, longhand, talking_model};
use pty::Terminal;

const MARKDOWN: [&str; 12] = [
    "# Two wor",
    "ds\n\nSome **bo",
    "ld** text in a paragraph that is longer than a row of",
    " the terminal, with `co",
    "de` and snake_case_names.\n",
    "- an item that is longer than a row of the terminal, so that",
    " it has a hanging indent\n",
    "```rust\nlet x = 1; // a line of code that is longer than a row, which is ",
    "never wrapped\n",
    "```\n",
    "\x1b[31mnot red\x1b]0;x\x07",
    " **open",
];

#[test]
fn a_terminal_shows_formatted_answers() {
    let model = talking_model("markdown.gguf", &MARKDOWN, None);
    let shown = "\
Two words

Some bold text in a paragraph that is longer than a row of the terminal, with
code and snake_case_names.
- an item that is longer than a row of the terminal, so that it has a hanging
  indent
```rust
let x = 1; // a line of code that is longer than a row, which is never wrapped
```
␛[31mnot red␛]0;x␇ **open
";
    let mut chat = Terminal::chat("markdown", &["-m", &model, "--temp", "0"]);
    chat.wait_for_prompt();
    chat.send("Hi\r");
    chat.wait_for(&format!("> Hi\n{shown}"));
    chat.wait_for_prompt();
    let bytes = chat.bytes();
    for part in ["\x1b[0;1mTwo", "\x1b[0;1mbold\x1b[0m", "\x1b[0;36mcode\x1b[0m", "\x1b[0;35mlet\x1b[0m"] {
        assert!(bytes.contains(part), "{part:?} is not in {bytes:?}");
    }
    assert!(!bytes.contains("\x1b[31m") && !bytes.contains("\x1b]0"), "{bytes:?}");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));

    // `ask` shows the same.
    let mut command = command(&["ask", "-m", &model, "Hi"]);
    command.env("TERM", "xterm");
    let mut ask = Terminal::start(command);
    assert_eq!(ask.exit_code(), Some(0));
    assert!(ask.contents().contains(&format!("> Hi\n{shown}")), "{}", ask.contents());
}

#[test]
fn attributes_stay_where_there_are_no_colours() {
    let model = talking_model("markdown-no-color.gguf", &["**a** `b`\n", "```c\nint\n```"], None);
    let mut command = command(&["ask", "-m", &model, "Hi"]);
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    let mut ask = Terminal::start(command);
    assert_eq!(ask.exit_code(), Some(0));
    assert!(ask.bytes().contains("\x1b[0;1ma\x1b[0m `b`\r\n"), "{:?}", ask.bytes());
    assert!(ask.bytes().contains("\nint\r\n"), "{:?}", ask.bytes());
}

#[test]
fn answers_are_plain_in_pipes_on_dumb_terminals_and_on_request() {
    let model = talking_model("markdown-plain.gguf", &MARKDOWN, None);
    let text = MARKDOWN.concat();
    assert_eq!(longhand(&["ask", "-m", &model, "Hi"]).ok(), format!("{text}\n"));
    let on_terminal = text.replace('\n', "\r\n").replace('\x1b', "␛").replace('\x07', "␇");
    for (term, flag) in [("dumb", None), ("xterm", Some("--plain"))] {
        let args = ["ask", "-m", &model, "Hi"];
        let mut command = command(&[&args[..], flag.as_slice()].concat());
        command.env("TERM", term);
        let mut ask = Terminal::start(command);
        assert_eq!(ask.exit_code(), Some(0));
        assert!(ask.bytes().contains(&format!("{on_terminal}\r\n")), "{:?}", ask.bytes());
    }
}
