//! Keys as the events of a console of Windows. It does not say what is pasted: keys that come at once with a line break among
//! them are a paste.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use terminal::line::keys::Key;

use super::Input;

/// How often the thread looks whether it is still wanted.
const CHECK: Duration = Duration::from_millis(50);
/// Time in which the next key of a paste comes. Nobody types so fast.
const NEXT_OF_PASTE: Duration = Duration::from_millis(5);

/// The keys of the console, for the thread that waits for them.
pub struct Keys(Weak<()>);

/// Ends the thread when it is dropped.
pub struct Wake(#[expect(dead_code, reason = "it is dropped")] Arc<()>);

/// Begins to read.
pub fn open() -> io::Result<(Keys, Wake)> {
    let wake = Arc::new(());
    Ok((Keys(Arc::downgrade(&wake)), Wake(wake)))
}

/// Windows has no key that ends a program like this.
pub fn quit() {}

impl Wake {
    /// The thread wakes up by itself.
    pub fn wake(&self) {}
}

impl Keys {
    /// Waits for keys, but not for long.
    pub fn next(&mut self) -> Input {
        if self.0.strong_count() == 0 {
            return Input::Unwanted;
        }
        let mut keys = Vec::new();
        let mut wait = CHECK;
        loop {
            match event::poll(wait).and_then(|is_ready| is_ready.then(event::read).transpose()) {
                Ok(None) => return Input::Keys(with_pastes(&keys)),
                Ok(Some(event)) => keys.extend(key(event)),
                Err(_) => return Input::Gone,
            }
            wait = if keys.len() > 1 { NEXT_OF_PASTE } else { Duration::ZERO };
        }
    }
}

/// The key of an event; `None` for what is ignored.
fn key(event: Event) -> Option<Key> {
    let KeyEvent { code, modifiers, kind, .. } = match event {
        Event::Key(key) => key,
        Event::Resize(..) => return Some(Key::Redraw),
        _ => return None,
    };
    if kind == KeyEventKind::Release {
        return None;
    }
    let is = |modifier| modifiers.contains(modifier);
    let (ctrl, alt) = (is(KeyModifiers::CONTROL), is(KeyModifiers::ALT));
    Some(match code {
        // AltGr is both.
        KeyCode::Char(c) if ctrl == alt => Key::Char(c),
        KeyCode::Char('j' | 'J') if ctrl => Key::LineBreak,
        KeyCode::Char(c) if ctrl => Key::Ctrl(c.to_ascii_lowercase()),
        KeyCode::Char(c) => Key::Alt(c),
        KeyCode::Enter if ctrl || alt || is(KeyModifiers::SHIFT) => Key::LineBreak,
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace if ctrl || alt => Key::Alt('\x7f'),
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Left if ctrl || alt => Key::WordLeft,
        KeyCode::Right if ctrl || alt => Key::WordRight,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Delete => Key::Delete,
        KeyCode::Tab => Key::Tab,
        KeyCode::Esc => Key::Esc,
        _ => return None,
    })
}

/// Keys that came at once, with pastes among them.
fn with_pastes(keys: &[Key]) -> Vec<Key> {
    let character = |key: &Key| match key {
        Key::Char(c) => Some(*c),
        Key::Tab => Some('\t'),
        Key::Enter | Key::LineBreak => Some('\n'),
        _ => None,
    };
    let mut result = Vec::new();
    for run in keys.chunk_by(|one, next| character(one).is_some() == character(next).is_some()) {
        let text: String = run.iter().filter_map(character).collect();
        match text.trim_end_matches('\n').contains('\n') {
            true => result.push(Key::Paste(text)),
            false => result.extend_from_slice(run),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
        key(Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn keys_have_their_meaning() {
        let (none, both) = (KeyModifiers::NONE, KeyModifiers::CONTROL | KeyModifiers::ALT);
        assert_eq!(pressed(KeyCode::Char('x'), none), Some(Key::Char('x')));
        assert_eq!(pressed(KeyCode::Char('@'), both), Some(Key::Char('@')));
        assert_eq!(pressed(KeyCode::Char('C'), KeyModifiers::CONTROL), Some(Key::Ctrl('c')));
        assert_eq!(pressed(KeyCode::Char('b'), KeyModifiers::ALT), Some(Key::Alt('b')));
        assert_eq!(pressed(KeyCode::Enter, KeyModifiers::SHIFT), Some(Key::LineBreak));
        assert_eq!(pressed(KeyCode::Left, KeyModifiers::CONTROL), Some(Key::WordLeft));
        assert_eq!(pressed(KeyCode::F(1), none), None);
        let released = KeyEvent::new_with_kind(KeyCode::Enter, none, KeyEventKind::Release);
        assert_eq!(key(Event::Key(released)), None);
    }

    #[test]
    fn lines_that_come_at_once_are_a_paste() {
        let keys = |text: &str| -> Vec<Key> {
            text.chars().map(|c| if c == '\n' { Key::Enter } else { Key::Char(c) }).collect()
        };
        assert_eq!(with_pastes(&keys("a\nb")), [Key::Paste("a\nb".into())]);
        assert_eq!(with_pastes(&keys("ab\n")), [Key::Char('a'), Key::Char('b'), Key::Enter]);
        let with_up = [keys("a\nb\n"), vec![Key::Up], keys("c")].concat();
        assert_eq!(with_pastes(&with_up), [Key::Paste("a\nb\n".into()), Key::Up, Key::Char('c')]);
    }
}
