//! Falcon: attention and a plain feed-forward network with GELU in parallel. LayerNorm has a bias, Q, K and V are one
//! tensor, and RoPE pairs the two halves of a head. The 7B model has one norm, larger ones have two; files call the one
//! of attention `attn_norm_2` then.

use super::{ArchDecl, BASE, Block, FeedForward, NormKind, Presence};

const TWO_NORMS: Block =
    Block { attn_norm: Some("attn_norm_2"), ffn_norm: Some("attn_norm"), ..Block::PARALLEL };

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "falcon",
    blocks: &[TWO_NORMS, Block::PARALLEL],
    norm: NormKind::Layer,
    norm_bias: Presence::Always,
    fused_qkv: Presence::Always,
    feed_forward: FeedForward::GeluErf,
    ..BASE
};
