//! StarCoder2: LayerNorm with bias, biases everywhere, a plain feed-forward network with GELU, RoPE on the two
//! halves of a head.
//!
//! llama.cpp ignores the sliding window of these models; its files do not state it.

use super::{ArchDecl, BASE, FeedForward, NormKind, Presence};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "starcoder2",
    norm: NormKind::Layer,
    norm_bias: Presence::Always,
    qkv_bias: Presence::IfInFile,
    attn_output_bias: Presence::IfInFile,
    ffn_bias: Presence::IfInFile,
    feed_forward: FeedForward::Gelu,
    ..BASE
};
