//! Asks for a password on the terminal, without showing it.

#[cfg(unix)]
use std::io;

use crate::failure::Failure;

/// Asks for a password. `None` where there is no terminal, the program does not own it, or nothing was typed.
///
/// # Errors
/// The terminal cannot be read, or the user presses Ctrl-C.
#[cfg(unix)]
pub fn ask(question: &str) -> Result<Option<String>, Failure> {
    use std::fs::File;
    use std::io::{IsTerminal, Write};

    // A terminal that hands over each key belongs to the chat, and one behind a pipe may be nobody's.
    if !io::stderr().is_terminal() || crate::tty::is_entered() {
        return Ok(None);
    }
    let Ok(mut terminal) = File::options().read(true).write(true).open("/dev/tty") else { return Ok(None) };
    let failed = |error: io::Error| {
        Failure::new(
            format!("the terminal cannot be read: {error}"),
            "give the password with --password-file FILE",
        )
    };
    // A signal that ends the program gives the terminal back.
    crate::interrupt::watch_signals();
    terminal.try_clone().and_then(crate::tty::hide_typing).map_err(failed)?;
    let question = crate::console::visible(question);
    let typed = terminal.write_all(question.as_bytes()).and_then(|()| line(&terminal));
    let _ = terminal.write_all(b"\n");
    crate::tty::restore();
    match typed.map_err(failed)? {
        Some(line) if line.is_empty() => Ok(None),
        Some(line) => Ok(Some(String::from_utf8_lossy(&line).into_owned())),
        None => Err(Failure::interrupted()),
    }
}

/// The keys up to Enter or the end; `None` after Ctrl-C.
#[cfg(unix)]
fn line(mut terminal: impl io::Read) -> io::Result<Option<Vec<u8>>> {
    const CTRL_C: u8 = 3;
    const CTRL_D: u8 = 4;
    const CTRL_U: u8 = 0x15;
    let (mut line, mut key) = (Vec::new(), [0]);
    while terminal.read(&mut key)? > 0 {
        match key[0] {
            b'\r' | b'\n' | CTRL_D => break,
            CTRL_C => return Ok(None),
            CTRL_U => line.clear(),
            // Backspace takes a whole character.
            0x7f | 0x08 => while line.pop().is_some_and(|byte: u8| byte & 0xc0 == 0x80) {},
            byte => line.push(byte),
        }
    }
    Ok(Some(line))
}

/// Asks for a password. `None` where there is no console, the program does not own it, or nothing was typed.
///
/// # Errors
/// The console cannot be read, or the user presses Ctrl-C.
#[cfg(windows)]
pub fn ask(question: &str) -> Result<Option<String>, Failure> {
    use std::io::IsTerminal as _;

    // A console that hands over each key belongs to the chat, and one behind a pipe may be nobody's.
    let has_console = crate::tty::has_keys() && std::io::stderr().is_terminal();
    if !has_console || crate::tty::is_entered() {
        return Ok(None);
    }
    let failed = |error: std::io::Error| {
        Failure::new(
            format!("the console cannot be read: {error}"),
            "give the password with --password-file FILE",
        )
    };
    crate::tty::enter(false).map_err(failed)?;
    crate::console::print_progress(&crate::console::visible(question));
    let typed = keys_of_line();
    crate::tty::restore();
    crate::console::print_progress("\n");
    match typed.map_err(failed)? {
        Some(line) => Ok(Some(line).filter(|line| !line.is_empty())),
        None => Err(Failure::interrupted()),
    }
}

/// The characters up to Enter; `None` after Ctrl-C.
#[cfg(windows)]
fn keys_of_line() -> std::io::Result<Option<String>> {
    use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, read};

    let mut line = String::new();
    loop {
        let Event::Key(key) = read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        let is_ctrl =
            key.modifiers.contains(KeyModifiers::CONTROL) && !key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Enter => return Ok(Some(line)),
            KeyCode::Char('c' | 'C') if is_ctrl => return Ok(None),
            KeyCode::Char('u' | 'U') if is_ctrl => line.clear(),
            KeyCode::Char(c) if !is_ctrl => line.push(c),
            KeyCode::Backspace => _ = line.pop(),
            _ => {}
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn keys_edit_the_line() {
        for (keys, password) in [
            (&b"secret\rmore"[..], Some("secret")),
            ("a\u{e4}\u{7f}b\n".as_bytes(), Some("ab")),
            (b"wrong\x15right\n", Some("right")),
            (b"ab\x03", None),
            (b"\x7f\x7fx\x04", Some("x")),
            (b"", Some("")),
        ] {
            let line = line(keys).expect("keys");
            assert_eq!(line.as_deref(), password.map(str::as_bytes), "{keys:?}");
        }
    }
}
