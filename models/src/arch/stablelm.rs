//! StableLM: LayerNorm with bias, SwiGLU, and RoPE on the two halves of the first elements of a head. The 12B model
//! is parallel with one norm, and has a norm with its own weights for each head of Q and K.

use super::{ArchDecl, BASE, Block, NormKind, Presence, QkNorm};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "stablelm",
    partial_rotary: true,
    blocks: &[Block::PRE_NORM, Block::PARALLEL],
    norm: NormKind::Layer,
    norm_bias: Presence::Always,
    qkv_bias: Presence::IfInFile,
    qk_norm: Presence::IfInFile,
    qk_norm_kind: QkNorm::EachHead,
    settings: &["use_parallel_residual"],
    ..BASE
};
