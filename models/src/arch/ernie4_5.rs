//! ERNIE 4.5, dense: like Llama, with RoPE on neighbours.

use super::{ArchDecl, SlidingWindow, llama::LLAMA};

pub(super) static DECL: ArchDecl =
    ArchDecl { name: "ernie4_5", sliding_window: SlidingWindow::Refused, ..LLAMA };
