//! Gemma 3, the part for text: like Gemma 2 without soft caps of attention's logits, with norms of the heads of Q and
//! K. Five of six layers have a sliding window and a RoPE of their own, with a base of 10,000. The attention scale of
//! the 27B model (62 layers) follows from the width, as in llama.cpp.

use super::{
    ArchDecl, AttentionScale, BASE, Block, FeedForward, LocalDecl, LocalRope, Presence, Scales, SlidingWindow,
};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "gemma3",
    blocks: &[Block::SANDWICH_NORM],
    qk_norm: Presence::Always,
    feed_forward: FeedForward::GeGlu,
    scales: Scales::SqrtWidth,
    attention_scale: AttentionScale::OfWidth(62),
    sliding_window: SlidingWindow::Local(LocalDecl {
        rope: LocalRope::Base(10_000.0),
        ..LocalDecl::except_every(6)
    }),
    settings: &["final_logit_softcapping"],
    ..BASE
};
