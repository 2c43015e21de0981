//! OLMoE: like Llama, with norms of all heads together and RoPE on the two halves of a head. The weights of the chosen
//! experts do not sum to 1.

use super::{ArchDecl, BASE, ExpertsDecl, Presence, QkNorm};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "olmoe",
    qk_norm: Presence::Always,
    qk_norm_kind: QkNorm::Whole,
    experts: ExpertsDecl { normalized: false, ..ExpertsDecl::ALWAYS },
    ..BASE
};
