//! gpt-oss: like Llama, with biases everywhere and with experts. Each query head has a learned logit that takes its
//! share of attention. Every other layer has a sliding window. The experts' SwiGLU has bounds. The router chooses by
//! its logits, and weighs the chosen experts by their softmax. YaRN's ramp is not rounded: the model's configuration says
//! so (`truncate`), and files do not.

use super::{ArchDecl, BASE, Block, ExpertsDecl, FeedForward, Gating, LocalDecl, Presence, SlidingWindow};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "gpt-oss",
    blocks: &[Block { ffn_norm: Some("post_attention_norm"), ..Block::PRE_NORM }],
    yarn_truncates: false,
    qkv_bias: Presence::Always,
    attn_output_bias: Presence::Always,
    sink_logits: Presence::Always,
    feed_forward: FeedForward::SwiGluOai,
    experts: ExpertsDecl { gating: Gating::SoftmaxOfChosen, bias: Presence::Always, ..ExpertsDecl::ALWAYS },
    sliding_window: SlidingWindow::Local(LocalDecl::except_every(2)),
    ..BASE
};
