//! The line editor: keys, the draft of a message, its history and completions, and how they are drawn.

pub mod complete;
pub mod draft;
pub mod dropped;
pub mod editing;
pub mod editor;
pub mod history;
pub mod input_line;
pub mod keyboard;
pub mod keys;
pub mod open_row;
pub mod screen;
