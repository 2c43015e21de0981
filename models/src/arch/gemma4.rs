//! Gemma 4, the part for text: like Gemma 3, with an attention scale of 1 and norms of the heads of V. Local layers
//! have KV heads of their own number and size. In global layers RoPE rotates a part of a head: a tensor of factors says
//! which. Their values may come from the projection of the keys.
//!
//! The small models have embeddings of each layer. Their last layers attend to the keys and values of earlier ones. The
//! mixture of experts has its experts beside a feed-forward network.

use super::{
    ArchDecl, AttentionScale, BASE, Block, ExpertsDecl, FeedForward, LocalDecl, LocalRope, Presence, Scales,
    SlidingWindow,
};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "gemma4",
    rope_freqs: Presence::Always,
    blocks: &[Block::SANDWICH_NORM],
    qk_norm: Presence::Always,
    value_norm: true,
    values_from_keys: true,
    feed_forward: FeedForward::GeGlu,
    experts: ExpertsDecl {
        presence: Presence::IfInFile,
        shared: Presence::Always,
        beside_dense: true,
        fused_gate_up: Presence::IfInFile,
        ..ExpertsDecl::NONE
    },
    layer_scale: Presence::IfInFile,
    scales: Scales::SqrtWidth,
    attention_scale: AttentionScale::One,
    sliding_window: SlidingWindow::Local(LocalDecl {
        rope: LocalRope::Base(10_000.0),
        own_heads: true,
        ..LocalDecl::except_every(6)
    }),
    settings: &[
        "attention.key_length_swa",
        "attention.shared_kv_layers",
        "attention.value_length_swa",
        "embedding_length_per_layer_input",
        "final_logit_softcapping",
        "rope.dimension_count_swa",
    ],
    ..BASE
};
