//! Qwen3, dense: like Llama, with three differences. Each head of Q and of K has an RMS norm before RoPE.
//! RoPE pairs the two halves of a head. The file gives head_dim (`attention.key_length`), which does not
//! follow from the embedding length.
//!
//! A sliding window is treated as in `qwen2`.

use super::{ArchDecl, BASE, Presence};

pub(super) static DECL: ArchDecl = ArchDecl { name: "qwen3", ..QWEN3 };

/// What Qwen3 with experts begins with.
pub(super) const QWEN3: ArchDecl =
    ArchDecl { qkv_bias: Presence::IfInFile, qk_norm: Presence::Always, ..BASE };
