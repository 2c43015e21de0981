//! What answers look like on a terminal, and elsewhere.
#![cfg(unix)]

use crate::common::{DOCUMENT, command, file, longhand, talking_model};
use crate::pty::Terminal;

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

/// As Qwen3's template: thinking is dropped from earlier answers, and an empty one turns it off.
const THINKS: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content.split('</think>')[-1].lstrip('\\n') \
    + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}\
    {% if enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}";

const THOUGHTFUL: [&str; 6] =
    ["<think>\nLet me", " see.\n*Hm*.\n</thi", "nk>\n\n", "It is **", "so**", " then.\n```sh\nls\n```"];

#[test]
fn thinking_is_dim_and_can_be_hidden() {
    let model = talking_model("thinking.gguf", &THOUGHTFUL, Some(THINKS));
    let mut chat = Terminal::chat("thinking", &["-m", &model, "--temp", "0"]);
    chat.wait_for_prompt();
    chat.send("Hi\r");
    chat.wait_for("> Hi\nLet me see.\n*Hm*.\n\nIt is so then.\n```sh\nls\n```\n");
    chat.wait_for_prompt();
    assert!(chat.bytes().contains("\x1b[0;2mLet\x1b[0m"), "{:?}", chat.bytes());
    chat.send("/think hide\rHo\r");
    chat.wait_for("> Ho\nIt is so then.\n");
    chat.wait_for_prompt();
    let bytes = chat.bytes();
    let hidden = bytes.split_once("> ").expect("a prompt").1.rsplit_once("Ho").expect("a question").1;
    // The input line is below it, so that the row is drawn anew each time.
    assert!(hidden.contains("\x1b[0;2mthinking… 0 s\x1b[0m\x1b[K"), "{hidden:?}");
    assert!(!chat.contents().contains("thinking…"), "{}", chat.contents());
    assert!(!hidden.contains("Let me"), "{hidden:?}");
    // It is there all the same.
    chat.send("/think\r");
    chat.wait_until("the thinking again", |screen| {
        screen.contents().matches("Let me see.\n*Hm*.").count() == 2
    });
    chat.send("/think show\r/think off\rHe\r");
    chat.wait_for("answers without thinking from now on\n");
    chat.wait_for("> He\nLet me see.\n*Hm*.\n");
    chat.send("/think maybe\r");
    chat.wait_for("error: /think takes on, off, show or hide, but maybe was given\nhint: ");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn thinking_is_apart_from_answers_in_json_and_hidden_on_request() {
    let model = talking_model("thinking-json.gguf", &THOUGHTFUL, Some(THINKS));
    let object = longhand(&["ask", "--json", "-m", &model, "-p", "Hi", "-p", "Ho"]).json();
    for answer in object["answers"].as_array().expect("answers") {
        assert_eq!(answer["thinking"], "Let me see.\n*Hm*.");
        assert_eq!(answer["answer"], "It is **so** then.\n```sh\nls\n```");
    }
    let answer = "It is **so** then.\n```sh\nls\n```\n";
    assert_eq!(longhand(&["ask", "--think", "hide", "-m", &model, "Hi"]).ok(), answer);
    assert_eq!(longhand(&["ask", "-m", &model, "Hi"]).ok(), THOUGHTFUL.concat() + "\n");
    // The switch is in the prompt.
    let tokens = |flags: &[&str]| {
        let object = longhand(&[&["ask", "--json", "-m", &model, "Hi"], flags].concat()).json();
        object["prompt_tokens"].as_u64().expect("a number")
    };
    assert_eq!(tokens(&["--think", "on"]), tokens(&[]));
    assert_eq!(tokens(&["--think", "off"]), tokens(&[]) + "<think>\n\n</think>\n\n".len() as u64);
    // The embedded model knows none.
    for args in [&["ask", "--think", "off", "Hi"][..], &["chat", "--think", "on"]] {
        longhand(args).assert_failed(1, "cannot turn thinking on or off\nhint: leave out --think");
    }
    assert_eq!(longhand(&["ask", "--json", "Hi"]).json()["answers"][0]["thinking"], serde_json::Value::Null);
}

#[test]
fn an_answer_that_was_cut_off_can_be_continued() {
    let model = talking_model("continued.gguf", &MARKDOWN, None);
    let session = crate::common::scratch("files").join("continued.session");
    let _ = std::fs::remove_file(&session);
    let args = ["-m", &model, "--temp", "0", "-n", "7", "--session", session.to_str().expect("text")];
    let mut chat = Terminal::chat("continued", &args);
    chat.wait_for_prompt();
    chat.send("/continue\r");
    chat.wait_for("error: no answer was cut off\nhint: ");
    chat.send("Hi\r");
    chat.wait_for("(cut off after 7 tokens; /continue goes on)\n");
    chat.wait_for_prompt();
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
    // After a restart, too.
    let mut chat = Terminal::chat("continued", &args);
    chat.wait_for_prompt();
    chat.send("/continue\r");
    chat.wait_for("> /continue\n```rust\nlet x = 1; // a line of code");
    chat.wait_for("␛[31mnot red␛]0;x␇ **open\n");
    chat.wait_for_prompt();
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
    let saved = longhand(&["sessions", "export", "--json", session.to_str().expect("text")]).json();
    assert_eq!(saved["turns"][0]["answer"], MARKDOWN.concat());
}

#[test]
fn an_interrupted_answer_can_be_continued() {
    let model = crate::common::endless_model("continued-endless.gguf");
    let chat = Terminal::chat("interrupted", &["-m", &model, "--temp", "0", "-n", "100000", "-c", "30000"]);
    chat.wait_for_prompt();
    for key in ["Why?\r", "/continue\r"] {
        chat.send(key);
        chat.wait_until("an answer", |screen| screen.contents().trim_end().ends_with("!!!!"));
        chat.send("\x03");
        chat.wait_for("(interrupted)");
        chat.wait_for_prompt();
        chat.send("\x0c");
        chat.wait_for_prompt();
    }
    chat.send("/undo\r");
    chat.wait_for("removed the last question");
    chat.send("/stats\r");
    chat.wait_for("tokens    0 of 30,000");
}

#[test]
fn a_dim_line_says_what_the_conversation_costs() {
    let model = talking_model("status.gguf", &["one two", " three!"], None);
    let start = |flags: &[&str], change: fn(&mut std::process::Command)| {
        let args = [&["-m", &model, "--temp", "0", "-c", "12000"], flags].concat();
        let chat = Terminal::chat_again("status", &args, change);
        chat.wait_for_prompt();
        chat.send("Hi\r");
        chat.wait_for("> Hi\none two three!\n");
        chat.wait_for_prompt();
        chat.bytes()
    };
    let line = |bytes: &str| {
        let (before, _) = bytes.split_once(" t/s\x1b[0m\r\n")?;
        before.rsplit_once("\x1b[2m").map(|(_, line)| line.to_owned())
    };
    let bytes = start(&["--policy", "streaming:sinks=4,window=8,slack=0"], |_| ());
    let shown = line(&bytes).unwrap_or_else(|| panic!("{bytes:?}"));
    let parts: Vec<&str> = shown.split(" · ").collect();
    assert!(
        parts.len() == 5 && parts[3] == "temp 0 (given)" && parts[0].ends_with("/12,000 tokens"),
        "{shown}"
    );
    assert!(parts[1] == "streaming" && parts[2].contains(" of ") && parts[2].ends_with("iB"), "{shown}");
    assert_eq!(line(&start(&["-q"], |_| ())), None);
    assert_eq!(line(&start(&["--plain"], |_| ())), None);
    assert_eq!(line(&start(&[], |command| _ = command.env("TERM", "dumb"))), None);
}

#[test]
fn tables_line_up_on_a_terminal() {
    let rows = ["| Month", " | Rent |\n|---|", "---:|\n| May |", " 900 |\n| August", " | 1200 |\n\nDone."];
    let model = talking_model("table.gguf", &rows, None);
    let chat = Terminal::chat("table", &["-m", &model, "--temp", "0"]);
    chat.wait_for_prompt();
    chat.send("Hi\r");
    chat.wait_for("| Month  | Rent |\n| ------ | ---: |\n| May    |  900 |\n| August | 1200 |\n\nDone.\n");
}

#[test]
fn lists_fit_the_terminal() {
    let piped = longhand(&["policies"]).ok();
    for columns in [50, 80] {
        let mut terminal = Terminal::start_sized(crate::common::command(&["policies"]), 24, columns);
        assert_eq!(terminal.exit_code(), Some(0));
        let shown = terminal.bytes();
        assert!(shown.lines().all(|line| line.chars().count() <= usize::from(columns)), "{shown}");
        assert!(piped.split_whitespace().eq(shown.split_whitespace()), "{shown}");
    }
}

#[test]
fn the_conversation_is_shown_copied_and_exported() {
    let model = talking_model("exported.gguf", &THOUGHTFUL, Some(THINKS));
    let folder = crate::common::scratch("exported");
    std::fs::remove_dir_all(&folder).expect("a folder");
    std::fs::create_dir_all(&folder).expect("a folder");
    let chat = Terminal::chat_again("exported", &["-m", &model, "--temp", "0"], |command| {
        command.current_dir(&folder);
    });
    chat.wait_for_prompt();
    for (command, error) in [
        ("/history", "nothing was asked yet"),
        ("/copy", "there is no answer to copy"),
        ("/export", "there is nothing to export yet"),
        ("/think", "the last answer has no thinking"),
    ] {
        chat.send(&format!("{command}\r"));
        chat.wait_for(&format!("error: {error}\nhint: "));
    }
    chat.send("Hi\r");
    chat.wait_for("It is so then.\n");
    chat.send("\x0c/history\r");
    chat.wait_for("> Hi\nLet me see.\n*Hm*.\n\nIt is so then.\n```sh\nls\n```\n> ");
    chat.send("/copy\r");
    chat.wait_for("copied 31 B; ");
    chat.send("/copy code\r");
    chat.wait_for("copied 3 B; ");
    let bytes = chat.bytes();
    assert!(bytes.contains("\x1b]52;c;SXQgaXMgKipzbyoqIHRoZW4uCmBgYHNoCmxzCmBgYA==\x07"), "{bytes:?}");
    assert!(bytes.contains("\x1b]52;c;bHMK\x07"), "{bytes:?}");
    chat.send("/copy all\r");
    chat.wait_for("error: /copy takes the word code or nothing, but all was given\nhint: ");
    let text = "# Conversation with needle\n\n## Hi\n\n<details><summary>Thinking</summary>\n\nLet me see.\n*Hm*.\n\n</details>\n\n\
                It is **so** then.\n```sh\nls\n```\n";
    for (command, name) in
        [("/export", "longhand-chat.md"), ("/export", "longhand-chat-2.md"), ("/export a.md", "a.md")]
    {
        chat.send(&format!("{command}\r"));
        chat.wait_for(&format!("exported the conversation to {name}\n"));
        assert_eq!(std::fs::read_to_string(folder.join(name)).expect("a file"), text);
    }
    chat.send("/export a.md\r");
    chat.wait_for("error: a.md exists already\nhint: ");
    chat.send("/export no/such/a.md\r");
    chat.wait_for("error: no/such/a.md: No such file or directory");
    drop(chat);
    // Without a terminal nothing is formatted, and nothing can be copied.
    let args = ["chat", "-m", &model, "--temp", "0", "--private"];
    let run = crate::common::longhand_with_input(&args, b"Hi\n/history\n/copy\n");
    assert!(run.stderr.contains("error: the terminal does the copying"), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{0}\n> Hi\n{0}\n", THOUGHTFUL.concat()));
}

/// What stands in no document is underlined, and named below the answer; with sources, pages are named, too.
#[test]
fn inventions_are_underlined() {
    let pieces = [
        "The number is **34",
        "251**, or *1,5",
        "40*, says Pe",
        "ter Ander",
        "son.\n\n",
        "| a | 99 |\n",
        "|---|---|\n",
        "| b | 7 |\n",
        "\n```\n88\n```\n",
        "See \"the quiet",
        " green river\".\x1b[m",
    ];
    let model = talking_model("underlined.gguf", &pieces, None);
    let document = file("underlined.txt", DOCUMENT);
    let mut chat = Terminal::chat("underlined", &["-m", &model, "-f", &document, "--temp", "0"]);
    chat.wait_for_prompt();
    chat.send("What is the number of the old boat?\r");
    chat.wait_for("not in the documents: 1,540; Peter Anderson; 99; 7; the quiet green river");
    chat.wait_for_prompt();
    let bytes = chat.bytes();
    for part in [
        "\x1b[0;3;4m1,540\x1b[0m",
        "\x1b[0;4mPeter Anderson\x1b[0m",
        "\x1b[0;4mthe quiet green river\x1b[0m",
        "\x1b[0;4m7\x1b[0m",
    ] {
        assert!(bytes.contains(part), "{part:?} is not in {bytes:?}");
    }
    assert!(!bytes.contains("\x1b[0;4m88") && bytes.contains("\x1b[0;1m34251\x1b[0m"), "{bytes:?}");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));

    // The model that answers from its document has nothing to underline, and says where it has looked.
    let mut chat = Terminal::chat("from", &["-f", &document]);
    chat.wait_for_prompt();
    chat.send("What is the pass key?\r");
    chat.wait_for("from: underlined.txt");
    chat.wait_for_prompt();
    assert!(!chat.contents().contains("not in the documents"), "{}", chat.contents());
    chat.send("/sources\r");
    chat.wait_for("1. underlined.txt (");
    chat.send("/find PASS KEY\r");
    chat.wait_for("1 place");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}
