//! Seed-OSS: like Llama with biases on Q, K and V and RoPE on the two halves of a head. Files call the norm before
//! the feed-forward network `post_attention_norm`.

use super::{ArchDecl, BASE, Block, Presence};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "seed_oss",
    blocks: &[Block { ffn_norm: Some("post_attention_norm"), ..Block::PRE_NORM }],
    qkv_bias: Presence::IfInFile,
    attn_output_bias: Presence::IfInFile,
    ..BASE
};
