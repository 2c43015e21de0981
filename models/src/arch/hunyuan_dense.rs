//! Hunyuan, dense: like Qwen3, except that the norms of Q and K come after RoPE.

use super::{ArchDecl, BASE, Presence, QkNorm};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "hunyuan-dense",
    qkv_bias: Presence::IfInFile,
    attn_output_bias: Presence::IfInFile,
    qk_norm: Presence::Always,
    qk_norm_kind: QkNorm::HeadAfterRope,
    ..BASE
};
