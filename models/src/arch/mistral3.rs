//! Mistral 3 and Ministral 3: like Llama, with head_dim in the file and RoPE scaled by YaRN.
//!
//! Queries whose scale grows with their position (`attention.temperature_scale`) are refused.

use super::{ArchDecl, SlidingWindow, llama::LLAMA};

pub(super) static DECL: ArchDecl =
    ArchDecl { name: "mistral3", sliding_window: SlidingWindow::Refused, ..LLAMA };
