//! GPT-2: learned positions, LayerNorm with bias, biases everywhere, Q, K and V in one tensor, a plain
//! feed-forward network with GELU.

use super::{ArchDecl, BASE, FeedForward, NormKind, PositionScheme, Positions, Presence};

pub(super) static DECL: ArchDecl = ArchDecl { name: "gpt2", ..GPT2 };

/// What its contemporaries begin with.
pub(super) const GPT2: ArchDecl = ArchDecl {
    positions: Positions::All(PositionScheme::Learned),
    norm: NormKind::Layer,
    norm_bias: Presence::Always,
    fused_qkv: Presence::Always,
    qkv_bias: Presence::Always,
    attn_output_bias: Presence::Always,
    ffn_bias: Presence::Always,
    feed_forward: FeedForward::Gelu,
    ..BASE
};
