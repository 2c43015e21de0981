//! MiniCPM 1 and 2: like Granite, without a factor of attention. Old files lack the other factors, which are
//! always the same.

use super::{ArchDecl, Presence, Scales, granite::GRANITE};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "minicpm",
    scales: Scales::MiniCpm,
    long_rope: Presence::IfInFile,
    settings: &["embedding_scale", "residual_scale", "logit_scale"],
    ..GRANITE
};
