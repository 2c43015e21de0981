//! SmolLM3: like Llama, but every fourth layer has no RoPE.

use super::{ArchDecl, SlidingWindow, llama::LLAMA};

pub(super) static DECL: ArchDecl =
    ArchDecl { name: "smollm3", no_rope_every: Some(4), sliding_window: SlidingWindow::Refused, ..LLAMA };
