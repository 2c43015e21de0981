//! Cohere 2: like Command R without norms of Q and K. Three of four layers have a sliding window. The others have no
//! RoPE.

use super::{ArchDecl, LocalDecl, Presence, SlidingWindow, command_r::COMMAND_R};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "cohere2",
    qk_norm: Presence::Never,
    sliding_window: SlidingWindow::Local(LocalDecl { only_local_rope: true, ..LocalDecl::except_every(4) }),
    ..COMMAND_R
};
