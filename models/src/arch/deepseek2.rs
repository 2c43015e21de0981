//! DeepSeek-V2, V2-Lite, V3 and R1, Kimi K2, GLM-4.7 Flash: latent attention, and experts of which some are shared. The
//! first layers are dense. Groups of experts and a bias may limit which are chosen.
//!
//! Layers that predict several tokens are at the end of the file. They are not used.

use super::{ArchDecl, BASE, ExpertsDecl, Presence, RopeStyle};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "deepseek2",
    latent: true,
    rope_style: RopeStyle::Norm,
    experts: ExpertsDecl {
        presence: Presence::IfInFile,
        normalized: false,
        selection_bias: Presence::IfInFile,
        ..ExpertsDecl::NONE
    },
    settings: &[
        "attention.key_length_mla",
        "attention.kv_lora_rank",
        "attention.q_lora_rank",
        "attention.scale",
        "attention.temperature_length",
        "attention.temperature_scale",
        "attention.value_length_mla",
        "nextn_predict_layers",
        "rope.scaling.yarn_log_multiplier",
    ],
    ..BASE
};
