//! OLMo 2: like Llama, except that norms come after attention and after the feed-forward network and not before. All
//! heads of Q, and of K, have one norm together, and RoPE pairs the two halves of a head.

use super::{ArchDecl, BASE, Block, Presence, QkNorm};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "olmo2",
    blocks: &[Block::POST_NORM],
    qk_norm: Presence::Always,
    qk_norm_kind: QkNorm::Whole,
    ..BASE
};
