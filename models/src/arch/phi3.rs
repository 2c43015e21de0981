//! Phi-3, 3.5 and 4: like Llama, except that Q, K and V are one tensor, and gate and up are another. RoPE pairs the two
//! halves of a head, or of its first elements. Variants for long contexts have LongRoPE.
//!
//! A sliding window is ignored, as in llama.cpp: only the first models state one, and converters do not say
//! which layers have it.

use super::{ArchDecl, BASE, Presence, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "phi3",
    fused_qkv: Presence::IfInFile,
    qkv_bias: Presence::IfInFile,
    fused_gate_up: Presence::Always,
    partial_rotary: true,
    long_rope: Presence::IfInFile,
    sliding_window: SlidingWindow::Ignored,
    ..BASE
};
