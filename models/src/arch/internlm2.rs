//! InternLM 2, 2.5 and 3: like Llama. The converter splits Q, K and V.

use super::{ArchDecl, SlidingWindow, llama::LLAMA};

pub(super) static DECL: ArchDecl =
    ArchDecl { name: "internlm2", sliding_window: SlidingWindow::Refused, ..LLAMA };
