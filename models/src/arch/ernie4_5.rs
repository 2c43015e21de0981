//! ERNIE 4.5, dense: like Llama, with RoPE on neighbours.

use super::{ArchDecl, RopeSections, SlidingWindow, llama::LLAMA};

pub(super) static DECL: ArchDecl = ArchDecl { name: "ernie4_5", ..ERNIE4_5 };

/// What ERNIE 4.5 with experts begins with.
pub(super) const ERNIE4_5: ArchDecl =
    ArchDecl { sliding_window: SlidingWindow::Refused, rope_sections: RopeSections::Ignored, ..LLAMA };
