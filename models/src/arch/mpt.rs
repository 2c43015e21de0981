//! MPT: like GPT-2 with ALiBi in place of learned positions, most without biases. Some bound Q, K and V.

use super::{ArchDecl, FeedForward, PositionScheme, Positions, Presence, gpt2::GPT2};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "mpt",
    positions: Positions::All(PositionScheme::Alibi),
    norm_bias: Presence::IfInFile,
    qkv_bias: Presence::IfInFile,
    attn_output_bias: Presence::IfInFile,
    ffn_bias: Presence::IfInFile,
    feed_forward: FeedForward::GeluErf,
    settings: &["attention.max_alibi_bias", "attention.clamp_kqv"],
    ..GPT2
};
