//! ERNIE 4.5 with experts: like ERNIE 4.5, dense. The first layers are dense. A bias helps to choose experts.

use super::{ArchDecl, ExpertsDecl, Presence, ernie4_5::ERNIE4_5};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "ernie4_5-moe",
    experts: ExpertsDecl { selection_bias: Presence::IfInFile, ..ExpertsDecl::ALWAYS },
    ..ERNIE4_5
};
