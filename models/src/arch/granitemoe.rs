//! Granite 3 and 4 with experts: like Granite, dense.

use super::{ArchDecl, ExpertsDecl, granite::GRANITE};

pub(super) static DECL: ArchDecl = ArchDecl { name: "granitemoe", experts: ExpertsDecl::ALWAYS, ..GRANITE };
