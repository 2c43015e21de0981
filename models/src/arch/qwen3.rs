//! Qwen3, dense: like Llama except that each head of Q and of K has an RMS norm before RoPE, that RoPE turns the halves of a head,
//! and that the size of a head is stated (`attention.key_length`) instead of following from the embedding length.
//!
//! A sliding window is treated as in `qwen2`.

use super::{ArchDecl, Has, RopeStyle, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "qwen3",
    rope_style: RopeStyle::Neox,
    schemes: &[],
    qkv_bias: Has::IfPresent,
    attn_output_bias: Has::Never,
    qk_norm: Has::Always,
    rope_freqs: Has::Never,
    sliding_window: SlidingWindow::Refused,
};
