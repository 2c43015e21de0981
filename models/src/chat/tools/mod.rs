//! Functions that a model may call: what they are (`definitions`), how families of models write calls (`syntax`), which of
//! these ways a chat template has (`format`), and how calls are read from an answer (`parse`, `stream`).

mod definitions;
mod format;
mod parse;
mod stream;
mod syntax;

pub use self::definitions::{Tools, ToolsError};
pub use self::format::ToolFormat;
pub use self::stream::{ToolPiece, ToolStream, overlap};
use super::{ChatError, ChatTemplate, Message, ToolCall};
