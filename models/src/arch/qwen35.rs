//! Qwen3.5, dense: three of four layers are recurrent. In the others, the heads of Q and K have norms, a sigmoid gate
//! scales what each head attends to, and RoPE rotates the first elements of a head. Sections of RoPE have one position
//! each, for images. In texts they are equal, so RoPE is the plain one.
//!
//! Layers that predict several tokens are at the end of the file. They are not used.

use super::{ArchDecl, BASE, Block, Presence, RecurrentDecl, RopeSections, ValueHeads};

pub(super) static DECL: ArchDecl = ArchDecl { name: "qwen35", ..QWEN35 };

/// What Qwen3.5 with experts begins with.
pub(super) const QWEN35: ArchDecl = ArchDecl {
    partial_rotary: true,
    rope_sections: RopeSections::Interleaved,
    blocks: &[Block { ffn_norm: Some("post_attention_norm"), ..Block::PRE_NORM }],
    qk_norm: Presence::Always,
    attention_gate: true,
    recurrent: Some(RecurrentDecl { attention_every: 4, value_heads: ValueHeads::Tiled }),
    settings: &["nextn_predict_layers"],
    ..BASE
};
