//! Nemotron-3, Nemotron-4 and Minitron: LayerNorm with bias, a plain feed-forward network with squared ReLU, and RoPE on
//! the two halves of the first elements of a head. Files have the norms' weights with the 1 that the models add.

use super::{ArchDecl, BASE, FeedForward, NormKind, Presence};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "nemotron",
    partial_rotary: true,
    norm: NormKind::Layer,
    norm_bias: Presence::Always,
    qkv_bias: Presence::IfInFile,
    attn_output_bias: Presence::IfInFile,
    ffn_bias: Presence::IfInFile,
    feed_forward: FeedForward::Relu2,
    ..BASE
};
