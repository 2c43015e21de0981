//! What can be pressed.

/// A key, or a paste.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character that is typed.
    Char(char),
    /// Text that was pasted at once. Lines end in `\n`.
    Paste(String),
    /// Sends the message.
    Enter,
    /// A key that inserts a line break: Alt-Enter, Ctrl-J, and Shift-Enter where the terminal tells.
    LineBreak,
    /// Completes.
    Tab,
    /// Deletes before the cursor.
    Backspace,
    /// Deletes behind the cursor.
    Delete,
    /// One character to the left.
    Left,
    /// One character to the right.
    Right,
    /// A line up, or an earlier message.
    Up,
    /// A line down, or a later message.
    Down,
    /// The beginning of the line.
    Home,
    /// The end of the line.
    End,
    /// A word to the left.
    WordLeft,
    /// A word to the right.
    WordRight,
    /// Ctrl with a small letter or another character.
    Ctrl(char),
    /// Alt with a character; `\x7f` is Backspace.
    Alt(char),
    /// Stops an answer, or closes a list.
    Esc,
    /// The screen must be drawn again.
    Redraw,
}
