//! Llama, the base case. No biases (a few derived models have some), no norms on heads. RoPE on neighbouring
//! elements, because the converter reorders the rows of Q and K. Llama 3.1 and later store their RoPE scaling
//! as a tensor of frequency factors.
//!
//! A sliding window is ignored, as in llama.cpp: Mistral 7B v0.1 was trained with a window of 4096 tokens and
//! works with full attention. Later Mistral models have none.

use super::{ArchDecl, Presence, RopeStyle, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "llama",
    rope_style: RopeStyle::Norm,
    encoding_by_layers: &[],
    qkv_bias: Presence::IfInFile,
    attn_output_bias: Presence::IfInFile,
    qk_norm: Presence::Never,
    rope_freqs: Presence::IfInFile,
    sliding_window: SlidingWindow::Ignored,
};
