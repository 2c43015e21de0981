//! GLM-4.5 and 4.6: like Llama, with RoPE on the first elements of a head, and with experts weighed by the sigmoid of
//! the router's logits. A bias helps to choose them. The first layers are dense.
//!
//! Layers that predict several tokens are at the end of the file. They are not used.

use super::{ArchDecl, BASE, Block, ExpertsDecl, Gating, Presence, RopeSections};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "glm4moe",
    partial_rotary: true,
    rope_sections: RopeSections::Consecutive,
    blocks: &[Block { ffn_norm: Some("post_attention_norm"), ..Block::PRE_NORM }],
    qkv_bias: Presence::IfInFile,
    qk_norm: Presence::IfInFile,
    experts: ExpertsDecl {
        gating: Gating::Sigmoid,
        normalized: false,
        selection_bias: Presence::Always,
        ..ExpertsDecl::ALWAYS
    },
    settings: &["nextn_predict_layers"],
    ..BASE
};
