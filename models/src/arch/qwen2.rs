//! Qwen1.5, 2 and 2.5: like Llama except that Q, K and V always have biases and that RoPE turns the halves of a head.
//!
//! A sliding window shorter than the context is refused: these models apply it in some layers only, and the published ones that
//! state one have it switched off, in which case converters leave it out.

use super::{ArchDecl, Has, RopeStyle, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "qwen2",
    rope_style: RopeStyle::Neox,
    schemes: &[],
    qkv_bias: Has::Always,
    attn_output_bias: Has::Never,
    qk_norm: Has::Never,
    rope_freqs: Has::Never,
    sliding_window: SlidingWindow::Refused,
};
