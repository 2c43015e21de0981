//! dots.llm1: like Qwen3 with experts, except that the first layers are dense, and a sigmoid gives the weights of
//! experts. There is a shared expert.

use super::{ArchDecl, ExpertsDecl, Gating, Presence, qwen3::QWEN3};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "dots1",
    experts: ExpertsDecl {
        gating: Gating::Sigmoid,
        normalized: false,
        selection_bias: Presence::IfInFile,
        ..ExpertsDecl::ALWAYS
    },
    ..QWEN3
};
