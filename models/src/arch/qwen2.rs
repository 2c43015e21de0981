//! Qwen1.5, 2 and 2.5: like Llama, except that Q, K and V always have biases and that RoPE pairs the two
//! halves of a head.
//!
//! A sliding window shorter than the context is refused, because these models apply it in some layers only.
//! The published models have it switched off, and then converters do not write it.

use super::{ArchDecl, BASE, Presence};

pub(super) static DECL: ArchDecl = ArchDecl { name: "qwen2", ..QWEN2 };

/// What Qwen2 with experts begins with.
pub(super) const QWEN2: ArchDecl = ArchDecl { qkv_bias: Presence::Always, ..BASE };
