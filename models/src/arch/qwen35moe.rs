//! Qwen3.5 with experts: like Qwen3.5, dense. All tokens also use a shared expert, scaled by a sigmoid.

use super::{ArchDecl, ExpertsDecl, Presence, qwen35::QWEN35};

pub(super) static DECL: ArchDecl = ArchDecl { name: "qwen35moe", experts: EXPERTS, ..QWEN35 };

/// Those of Qwen3-Next, too.
pub(super) const EXPERTS: ExpertsDecl =
    ExpertsDecl { shared: Presence::Always, shared_gate: true, ..ExpertsDecl::ALWAYS };
