//! Qwen1.5, 2 and 2.5: like Llama except that Q, K and V always have biases and that RoPE turns the halves of a head.
//!
//! A sliding window shorter than the context is refused: these models apply it in some layers only, and the published ones that
//! state one have it switched off, in which case converters leave it out.

use super::{ArchDecl, Presence, RopeStyle, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "qwen2",
    rope_style: RopeStyle::Neox,
    schemes: &[],
    qkv_bias: Presence::Always,
    attn_output_bias: Presence::Never,
    qk_norm: Presence::Never,
    rope_freqs: Presence::Never,
    sliding_window: SlidingWindow::Refused,
};
