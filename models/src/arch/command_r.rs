//! Command R and R+: one LayerNorm without bias, whose result attention and the feed-forward network read. RoPE
//! on neighbours. The logits have a factor. R+ has a norm with its own weights for each head of Q and K.

use super::{ArchDecl, BASE, Block, NormKind, Presence, QkNorm, RopeStyle};

pub(super) static DECL: ArchDecl = ArchDecl { name: "command-r", ..COMMAND_R };

/// What its successor begins with.
pub(super) const COMMAND_R: ArchDecl = ArchDecl {
    rope_style: RopeStyle::Norm,
    blocks: &[Block::PARALLEL],
    norm: NormKind::Layer,
    qk_norm: Presence::IfInFile,
    qk_norm_kind: QkNorm::EachHead,
    qkv_bias: Presence::IfInFile,
    settings: &["logit_scale"],
    ..BASE
};
