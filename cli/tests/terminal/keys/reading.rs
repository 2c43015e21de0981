//! Documents that are read behind the prompt: the user types meanwhile, stops the reading and lets it go on.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{DOCUMENT, command, file, finished, longhand_with_input, many_tokens, scratch};
use crate::pty::Terminal;

const MARY: &str = "What is Mary's favorite number?\r";
const MARY_IS: &str = "Mary's favorite number is 34251.";
const PASS_IS: &str = "The pass key is 9078648.";

/// A document that one thread needs some seconds to read.
pub fn long_document(name: &str) -> String {
    let filler =
        "The grass is green. The sky is blue. Here we go, there and back again. ".repeat(many_tokens() / 40);
    file(name, format!("{filler}{DOCUMENT}{filler}"))
}

/// The percentage on the screen behind a text; `None` without it.
pub fn percent(screen: &str, text: &str) -> Option<u32> {
    let (_, behind) = screen.rsplit_once(text)?;
    behind.split_once(" %")?.0.parse().ok()
}

#[test]
fn reading_begins_at_once_and_goes_on_where_it_stopped() {
    for prefill in ["exact", "streaming"] {
        let name = format!("reading-{prefill}.txt");
        let document = long_document(&name);
        let mut chat =
            Terminal::chat(&name, &["-f", &document, "-t", "1", "--prefill", prefill, "--policy", "full"]);
        let reading = format!("reading {name} ");
        chat.wait_until("progress", |screen| percent(&screen.contents(), &reading) > Some(10));
        chat.send("What is Mary's");
        chat.wait_for_row("> What is Mary's|");
        assert!(percent(&chat.contents(), &reading).is_some(), "{}", chat.contents());
        // The first one empties the line, the second one stops the reading.
        chat.send("\x03\x03");
        chat.wait_for("reading stopped at ");
        let stopped = percent(&chat.contents(), "reading stopped at ");
        assert!(stopped > Some(10), "{}", chat.contents());
        chat.wait_for_prompt();
        chat.send("/files\r");
        chat.wait_for(&format!("{name} ({} % read, for the next question)", stopped.unwrap_or(0)));
        chat.send("/read\r");
        chat.wait_until("progress", |screen| percent(&screen.contents(), &reading) >= stopped);
        // The question waits for the rest.
        chat.send(MARY);
        chat.wait_for(MARY_IS);
        chat.wait_for_prompt();
        chat.send("/files\r/exit\r");
        assert_eq!(chat.exit_code(), Some(0));
        assert!(chat.contents().contains(&format!("> /files\n{name}\n")), "{}", chat.contents());
    }
}

#[test]
fn a_document_is_read_in_the_middle_of_a_conversation() {
    let document =
        file("reading-first.txt", "The old boat crossed the river. Mary's favorite number is 34251.");
    let second =
        file("reading second.txt", "The gardens are green. The pass key is 9078648. The boat sleeps.");
    let mut chat = Terminal::chat("reading-second", &["-f", &document, "-c", "2000"]);
    chat.wait_for("read reading-first.txt: ");
    chat.send(MARY);
    chat.wait_for(MARY_IS);
    chat.wait_for_prompt();
    // As a terminal inserts what is dropped on it.
    chat.send(&format!("/read '{second}'\r"));
    chat.wait_for("read reading second.txt: ");
    chat.send("What is the pass key?\r");
    chat.wait_for(PASS_IS);
    chat.wait_for_prompt();
    chat.send("/undo\r/files\r");
    chat.wait_for("reading second.txt (for the next question)");
    chat.send("/files drop\r");
    chat.wait_for("gave up reading second.txt");
    let long = long_document("reading-too-long.txt");
    chat.send(&format!("\x0c/read {long}\r"));
    chat.wait_for("hint: type /ctx ");
    chat.send("/read /no/such/file\r/read /dev/null\r/read -\r/files all\r");
    chat.wait_for("error: /files takes nothing or drop");
    let shown = chat.contents();
    for part in [
        "/no/such/file: ",
        "error: /dev/null is neither a file nor a folder",
        "error: messages come from standard input",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
}

/// Ctrl-C while a document is opened, before the model reads it.
#[test]
fn ctrl_c_gives_up_a_document_that_takes_long_to_open() {
    let document = file("reading-large.txt", DOCUMENT.repeat(20_000));
    let mut chat = Terminal::chat("reading-large", &[]);
    chat.wait_for_prompt();
    chat.send(&format!("/read {document}\r\x03"));
    chat.wait_for("was not read");
    chat.wait_for_prompt();
    chat.send("/files\r");
    chat.wait_for("no documents; /read FILE reads one");
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
}

/// A conversation whose KV cache is not there: another answer needs everything again.
#[test]
fn an_interrupted_regen_leaves_the_answer() {
    let document = long_document("reading-regen.txt");
    let mut chat = Terminal::chat("reading-regen", &["-f", &document, "--policy", "snapkv"]);
    chat.send(MARY);
    chat.wait_for(" t/s");
    chat.wait_for_prompt();
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
    let mut chat = Terminal::chat_again("reading-regen", &["--resume", "-t", "1"], |_| ());
    chat.wait_for("resumed after ");
    chat.wait_for_prompt();
    chat.send("\x0c/regen\r");
    chat.wait_for("reading [");
    chat.send("\x03");
    chat.wait_for("interrupted: nothing has changed");
    chat.wait_for_prompt();
    chat.send("\x0c/history\r");
    chat.wait_for("favorite number");
    chat.wait_for_prompt();
    assert!(!chat.contents().contains("no answer yet"), "{}", chat.contents());
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
}

/// The chat ends in the middle of a reading.
#[test]
fn a_reading_does_not_hold_up_the_end() {
    let document = long_document("reading-end.txt");
    for (end, code) in [("\x04", Some(0)), ("/exit\r", Some(0))] {
        let mut chat = Terminal::chat("reading-end", &["-f", &document, "-t", "1"]);
        chat.wait_until("progress", |screen| {
            percent(&screen.contents(), "reading reading-end.txt ").is_some()
        });
        chat.send(end);
        assert_eq!(chat.exit_code(), code);
        assert!(chat.is_as_before());
    }
}

/// Lines that are piped in: there is no prompt behind which something could be read.
#[test]
fn documents_are_read_in_their_turn_without_a_terminal() {
    let second =
        file("reading-piped.txt", "The gardens are green. The pass key is 9078648. The boat sleeps.");
    let input = format!("/read {second}\nWhat is the pass key?\n/read\n/files\n");
    let answer = longhand_with_input(&["chat"], input.as_bytes()).ok();
    assert_eq!(answer, format!("{PASS_IS}\nreading-piped.txt\n"));
}

/// A cache folder of a machine that has read with the built-in model, and needs so many seconds for a token.
fn slow_machine(name: &str, seconds: f64) -> impl Fn(&mut Command) + use<> {
    let cache = scratch(name);
    let _ = fs::remove_dir_all(&cache);
    let change = move |command: &mut Command| {
        command.env("XDG_CACHE_HOME", &cache).env("LONGHAND_DISK_CACHE", "1GiB");
        command.env("TERM", "xterm-256color");
    };
    let document = file(&format!("{name}-before.txt"), DOCUMENT.repeat(20));
    let mut ask = command(&["ask", "-t", "1", "-f", &document, "What is Mary's favorite number?"]);
    change(&mut ask);
    finished(ask.stdin(Stdio::null()).output().expect("it runs"));
    let speeds = scratch(name).join("longhand/speeds.json");
    let known = fs::read_to_string(&speeds).expect("a file");
    let mut entries: Vec<(String, [f64; 2])> = serde_json::from_str(&known).expect("speeds");
    entries[0].1 = [seconds, seconds];
    fs::write(&speeds, serde_json::to_string(&entries).expect("JSON")).expect("written");
    change
}

#[test]
fn a_long_reading_is_asked_about() {
    let question = "What is Mary's favorite number?";
    let document =
        |number: usize| file(&format!("asked-{number}.txt"), format!("{number} {}", DOCUMENT.repeat(20)));
    for (number, answer, goes_on) in
        [(1, "n\r", false), (2, "what\rY\r", true), (3, "\r", true), (4, "\x04", false)]
    {
        let change = slow_machine("asked-cache", 1000.0);
        let mut ask = command(&["ask", "-t", "1", "-f", &document(number), question]);
        change(&mut ask);
        let mut terminal = Terminal::start(ask);
        terminal.wait_for(&format!("Read asked-{number}.txt? [Y/n]"));
        assert!(terminal.contents().contains(" h"), "{}", terminal.contents());
        terminal.send(answer);
        assert_eq!(terminal.exit_code(), Some(if goes_on { 0 } else { 130 }), "{}", terminal.contents());
        let shown = terminal.contents();
        assert_eq!(shown.contains("34251"), goes_on, "{shown}");
        assert_eq!(shown.contains("error: asked-"), !goes_on, "{shown}");
    }
    // Who says so is not asked, and nobody is where it is short.
    for (seconds, flags) in [(1000.0, &["-y"][..]), (1e-5, &[])] {
        let change = slow_machine("asked-cache", seconds);
        let mut ask = command(&[&["ask", "-t", "1", "-f", &document(5), question], flags].concat());
        change(&mut ask);
        let mut terminal = Terminal::start(ask);
        assert_eq!(terminal.exit_code(), Some(0), "{}", terminal.contents());
        assert!(!terminal.contents().contains("[Y/n]"), "{}", terminal.contents());
    }
}

#[test]
fn a_long_reading_waits_in_a_chat() {
    let document = file("waits.txt", format!("Once more. {}", DOCUMENT.repeat(20)));
    let change = slow_machine("waits-cache", 1000.0);
    let mut chat = Terminal::chat_again("waits", &["-t", "1", "-f", &document], |command| change(command));
    chat.wait_for("that is long, so it waits");
    chat.wait_for_prompt();
    chat.send("/files\r");
    chat.wait_for("waits.txt (0 % read, for the next question)");
    chat.send("/read\r");
    chat.wait_for("read waits.txt: ");
    chat.send(MARY);
    chat.wait_for(MARY_IS);
    chat.wait_for_prompt();
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
    let change = slow_machine("waits-cache", 1000.0);
    let mut chat =
        Terminal::chat_again("waits", &["-y", "-t", "1", "-f", &document], |command| change(command));
    chat.wait_for("read waits.txt: ");
    assert!(!chat.contents().contains("so it waits"), "{}", chat.contents());
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
}
