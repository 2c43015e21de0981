//! Text: its encodings, and formats that are text with little around it.

pub(crate) mod csv;
pub(crate) mod decode;
pub(crate) mod notebook;
pub(crate) mod subtitles;
mod western;
