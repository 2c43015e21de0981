//! Mistral Small 3.x: like Llama, with head_dim in the file and RoPE scaled by YaRN.
//!
//! Ministral 3, whose files scale attention by position (`attention.temperature_scale`), is refused.

use super::{ArchDecl, SlidingWindow, llama::LLAMA};

pub(super) static DECL: ArchDecl =
    ArchDecl { name: "mistral3", sliding_window: SlidingWindow::Refused, ..LLAMA };
