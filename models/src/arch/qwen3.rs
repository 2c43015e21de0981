//! Qwen3, dense: like Llama except that each head of Q and of K has an RMS norm before RoPE, that RoPE turns the halves of a head,
//! and that the size of a head is stated (`attention.key_length`) instead of following from the embedding length.
//!
//! A sliding window is treated as in `qwen2`.

use super::{ArchDecl, Presence, RopeStyle, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "qwen3",
    rope_style: RopeStyle::Neox,
    schemes: &[],
    qkv_bias: Presence::IfPresent,
    attn_output_bias: Presence::Never,
    qk_norm: Presence::Always,
    rope_freqs: Presence::Never,
    sliding_window: SlidingWindow::Refused,
};
