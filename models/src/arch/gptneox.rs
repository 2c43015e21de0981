//! GPT-NeoX and Pythia: LayerNorm with bias, biases everywhere, Q, K and V in one tensor, a plain feed-forward
//! network with GELU, in most models parallel to attention, and RoPE on the two halves of the first elements
//! of a head.

use super::{ArchDecl, FeedForward, PositionScheme, Positions, gpt2::GPT2};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "gptneox",
    positions: Positions::All(PositionScheme::Rope),
    partial_rotary: true,
    feed_forward: FeedForward::GeluErf,
    settings: &["use_parallel_residual"],
    ..GPT2
};
