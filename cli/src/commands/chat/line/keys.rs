//! What can be pressed.

/// A key, or a paste.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character that is typed.
    Char(char),
    /// Text that was pasted at once. Lines end in `\n`.
    Paste(String),
    Enter,
    /// A key that inserts a line break: Alt-Enter, Ctrl-J, and Shift-Enter where the terminal tells.
    LineBreak,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    WordLeft,
    WordRight,
    /// Ctrl with a small letter or another character.
    Ctrl(char),
    /// Alt with a character; `\x7f` is Backspace.
    Alt(char),
    Esc,
    /// The screen must be drawn again.
    Redraw,
}
