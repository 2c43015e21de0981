//! Functions that a model may call (`definitions`), and how families of models write calls (`syntax`). `format` finds which of
//! these ways a chat template has. `parse` and `stream` read calls from an answer; `forced` makes an answer a call.

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
