//! Text: its encodings, and formats that are text with little around it.

pub(crate) mod decode;
mod western;
