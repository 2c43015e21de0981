//! EXAONE 4: like Llama, with norms after attention and after the feed-forward network only. The heads of Q and K have
//! norms, and RoPE pairs the two halves of a head. In the 32B model three of four layers have a sliding window, and the
//! others have no RoPE.
//!
//! Layers that predict several tokens (EXAONE 4.5) are at the end of the file. They are not used.

use super::{ArchDecl, BASE, Block, LocalDecl, Presence, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "exaone4",
    blocks: &[Block::POST_NORM],
    qk_norm: Presence::Always,
    rope_freqs: Presence::IfInFile,
    sliding_window: SlidingWindow::Local(LocalDecl {
        window: Some(4096),
        window_if_layers: Some(64),
        only_local_rope: true,
        ..LocalDecl::except_every(4)
    }),
    settings: &["nextn_predict_layers"],
    ..BASE
};
