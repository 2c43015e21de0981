//! Functions that a model may call: what they are (`definitions`).

mod definitions;

pub use self::definitions::{Tools, ToolsError};
