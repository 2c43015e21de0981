//! Qwen1.5 MoE and Qwen2 MoE: like Qwen2, with experts. All tokens also use a shared expert, scaled by a sigmoid. The
//! weights of the chosen experts do not sum to 1.

use super::{ArchDecl, ExpertsDecl, Presence, qwen2::QWEN2};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "qwen2moe",
    experts: ExpertsDecl {
        normalized: false,
        shared: Presence::Always,
        shared_gate: true,
        ..ExpertsDecl::ALWAYS
    },
    ..QWEN2
};
