//! Llama: the plain case that the other architectures are compared with. No biases (a few descendants have some), no norms on
//! heads, RoPE on neighbouring elements because the converter reorders the rows of Q and K. Llama 3.1 and later carry their RoPE
//! scaling as a tensor of frequency factors.
//!
//! A sliding window is ignored, as llama.cpp does and as users of Mistral 7B v0.1 expect: that model was trained with one of 4096
//! and works with full attention; later Mistrals have none.

use super::{ArchDecl, Presence, RopeStyle, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "llama",
    rope_style: RopeStyle::Norm,
    schemes: &[],
    qkv_bias: Presence::IfPresent,
    attn_output_bias: Presence::IfPresent,
    qk_norm: Presence::Never,
    rope_freqs: Presence::IfPresent,
    sliding_window: SlidingWindow::Ignored,
};
