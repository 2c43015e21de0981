//! ChatGLM 2 and 3, GLM-4 and GLM-Edge: like Llama, except that gate and up are one tensor. RoPE rotates neighbours
//! among the first elements of a head. Most have Q, K and V in one tensor, with biases.

use super::{ArchDecl, BASE, Presence, RopeStyle};

pub(super) static DECL: ArchDecl = ArchDecl { name: "chatglm", ..CHATGLM };

/// What GLM-4-0414 begins with.
pub(super) const CHATGLM: ArchDecl = ArchDecl {
    rope_style: RopeStyle::Norm,
    partial_rotary: true,
    fused_qkv: Presence::IfInFile,
    qkv_bias: Presence::IfInFile,
    fused_gate_up: Presence::Always,
    ..BASE
};
