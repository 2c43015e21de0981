//! The line editor: keys as they arrive, what they do to the draft of a message, its history and completions.

pub mod complete;
pub mod dropped;
pub mod editing;
pub mod editor;
pub mod history;
pub mod input_line;
pub mod keyboard;
