//! OLMo 2 and 3: like Llama, except that norms come after attention and after the feed-forward network and not before.
//! All heads of Q, and of K, have one norm together, and RoPE pairs the two halves of a head. In OLMo 3, three of four
//! layers have a sliding window, and their RoPE is not scaled.

use super::{ArchDecl, BASE, Block, LocalDecl, LocalRope, Presence, QkNorm, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "olmo2",
    blocks: &[Block::POST_NORM],
    qk_norm: Presence::Always,
    qk_norm_kind: QkNorm::Whole,
    sliding_window: SlidingWindow::Local(LocalDecl {
        rope: LocalRope::Unscaled,
        ..LocalDecl::except_every(4)
    }),
    ..BASE
};
