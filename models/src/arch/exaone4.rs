//! EXAONE 4: like Llama, with norms after attention and after the feed-forward network only. The heads of Q and K have
//! norms, and RoPE pairs the two halves of a head. In the 32B model three of four layers have a sliding window, and the
//! others have no RoPE.

use super::{ArchDecl, BASE, Block, LocalDecl, Presence, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "exaone4",
    blocks: &[Block::POST_NORM],
    qk_norm: Presence::Always,
    rope_freqs: Presence::IfInFile,
    sliding_window: SlidingWindow::Local(LocalDecl { only_local_rope: true, ..LocalDecl::except_every(4) }),
    ..BASE
};
