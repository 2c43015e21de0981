//! Baichuan and Baichuan 2: like Llama without any biases. Nothing in a file says how positions enter, so that the number of layers
//! decides, as in llama.cpp: the 7B models (32 layers) have RoPE on neighbouring elements, the 13B models (40 layers) have ALiBi
//! (Press et al. 2022, arXiv 2108.12409) with a largest bias of 8. Other numbers are refused.

use super::{ArchDecl, Presence, RopeStyle, Scheme, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "baichuan",
    rope_style: RopeStyle::Norm,
    schemes: &[(32, Scheme::Rope), (40, Scheme::Alibi)],
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    qk_norm: Presence::Never,
    rope_freqs: Presence::Never,
    sliding_window: SlidingWindow::Refused,
};
