//! Llama 1 to 3.x and what is built like it. No biases (a few derived models have some), no norms on heads. RoPE
//! on neighbouring elements, because the converter reorders the rows of Q and K. Llama 3.1 and later store
//! their RoPE scaling as a tensor of frequency factors.
//!
//! With experts in the place of the feed-forward network it is Mixtral.
//!
//! A sliding window is ignored, as in llama.cpp: Mistral 7B v0.1 was trained with a window of 4096 tokens and
//! works with full attention. Later Mistral models have none.

use super::{ArchDecl, BASE, ExpertsDecl, Presence, RopeStyle, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "llama",
    experts: ExpertsDecl { presence: Presence::IfInFile, ..ExpertsDecl::NONE },
    ..LLAMA
};

/// What other architectures that are like Llama begin with.
pub(super) const LLAMA: ArchDecl = ArchDecl {
    rope_style: RopeStyle::Norm,
    qkv_bias: Presence::IfInFile,
    attn_output_bias: Presence::IfInFile,
    ffn_bias: Presence::IfInFile,
    rope_freqs: Presence::IfInFile,
    sliding_window: SlidingWindow::Ignored,
    ..BASE
};
