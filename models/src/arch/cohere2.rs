//! Cohere 2: like Command R. Three of four layers have a sliding window. The others have no RoPE.

use super::{ArchDecl, BASE, Block, LocalDecl, NormKind, Presence, RopeStyle, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "cohere2",
    rope_style: RopeStyle::Norm,
    blocks: &[Block::PARALLEL],
    norm: NormKind::Layer,
    qkv_bias: Presence::IfInFile,
    sliding_window: SlidingWindow::Local(LocalDecl { only_local_rope: true, ..LocalDecl::except_every(4) }),
    settings: &["logit_scale"],
    ..BASE
};
