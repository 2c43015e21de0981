//! Gemma 2: like Gemma, with norms also after attention and after the feed-forward network, and with soft caps of
//! attention's logits and of the output's. Every other layer has a sliding window. The attention scale of the 27B
//! model (46 layers) follows from the width, as in llama.cpp.

use super::{ArchDecl, AttentionScale, BASE, Block, FeedForward, LocalDecl, Scales, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "gemma2",
    blocks: &[Block::SANDWICH_NORM],
    feed_forward: FeedForward::GeGlu,
    scales: Scales::SqrtWidth,
    attention_scale: AttentionScale::OfWidth(46),
    sliding_window: SlidingWindow::Local(LocalDecl { window: Some(4096), ..LocalDecl::except_every(2) }),
    attention_softcap: Some(50.0),
    final_softcap: Some(30.0),
    settings: &["attn_logit_softcapping", "final_logit_softcapping"],
    ..BASE
};
