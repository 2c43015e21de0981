//! GPT-NeoX and Pythia: LayerNorm with bias, biases everywhere, and Q, K and V in one tensor. The feed-forward network
//! is a plain one with GELU, in most models parallel to attention. RoPE pairs the two halves of the first elements of a
//! head.

use super::{ArchDecl, FeedForward, PositionScheme, Positions, gpt2::GPT2};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "gptneox",
    positions: Positions::All(PositionScheme::Rope),
    partial_rotary: true,
    feed_forward: FeedForward::GeluErf,
    settings: &["use_parallel_residual"],
    ..GPT2
};
