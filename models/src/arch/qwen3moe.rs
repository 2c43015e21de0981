//! Qwen3 with experts: like Qwen3, dense.

use super::{ArchDecl, ExpertsDecl, qwen3::QWEN3};

pub(super) static DECL: ArchDecl = ArchDecl { name: "qwen3moe", experts: ExpertsDecl::ALWAYS, ..QWEN3 };
