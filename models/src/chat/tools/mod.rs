//! Functions that a model may call: what they are (`definitions`), how families of models write calls (`syntax`), which of
//! these ways a chat template has (`format`), how an answer becomes a call in any
//! case (`forced`), and how calls are read from an answer (`parse`, `stream`).

mod definitions;
mod forced;
mod format;
mod parse;
mod stream;
mod syntax;

pub use self::definitions::{Tools, ToolsError};
pub use self::forced::ForcedCall;
pub use self::format::ToolFormat;
pub use self::stream::{ToolPiece, ToolStream, overlap};
use super::{ChatError, ChatTemplate, Message, ToolCall, thinking_parts};
