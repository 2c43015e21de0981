//! Passwords that are typed.

use crate::common::command;
use crate::pty::Terminal;

fn text_of(name: &str) -> Terminal {
    let path = format!("{}/documents/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    Terminal::start(command(&["text", &path]))
}

#[test]
fn a_password_is_asked_for_and_not_shown() {
    let mut terminal = text_of("agile.docx");
    terminal.wait_for("password of");
    terminal.send("wrong-one\r");
    terminal.wait_for("wrong; password of");
    terminal.send("secrets\x7f\r");
    terminal.wait_for("The pass key is 9078648.");
    assert_eq!(terminal.exit_code(), Some(0));
    assert!(
        !terminal.bytes().contains("secret") && !terminal.bytes().contains("wrong-one"),
        "{}",
        terminal.bytes()
    );
    assert!(terminal.is_as_before());
}

#[test]
fn three_wrong_passwords_and_ctrl_c_end_it() {
    let mut terminal = text_of("encrypted.pdf");
    for asked in 1..=3 {
        terminal.wait_until("a question", |screen| screen.contents().matches("password of").count() == asked);
        terminal.send("no\r");
    }
    assert_eq!(terminal.exit_code(), Some(1));
    assert!(terminal.contents().contains("the password is wrong"), "{}", terminal.contents());
    let mut terminal = text_of("encrypted.pdf");
    terminal.wait_for("password of");
    terminal.send("sec\x03");
    assert_eq!(terminal.exit_code(), Some(130));
    assert!(terminal.is_as_before());
}

/// The terminal was left without an echo.
#[test]
fn a_signal_at_the_question_gives_the_terminal_back() {
    for (signal, code) in [("TERM", Some(143)), ("HUP", Some(129)), ("INT", Some(130)), ("USR1", None)] {
        let mut terminal = text_of("encrypted.pdf");
        terminal.wait_for("password of");
        terminal.signal(signal);
        assert_eq!(terminal.exit_code(), code, "{signal}");
        assert!(terminal.is_as_before(), "{signal}");
    }
}
