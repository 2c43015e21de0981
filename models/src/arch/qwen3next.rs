//! Qwen3-Next: like Qwen3.5 with experts, but for the order of the value heads, and without sections of RoPE.

use super::{ArchDecl, RecurrentDecl, RopeSections, ValueHeads, qwen35::QWEN35, qwen35moe::EXPERTS};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "qwen3next",
    experts: EXPERTS,
    recurrent: Some(RecurrentDecl { attention_every: 4, value_heads: ValueHeads::Grouped }),
    rope_sections: RopeSections::Refused,
    ..QWEN35
};
