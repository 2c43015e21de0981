//! Baichuan and Baichuan 2: like Llama without any biases.
//!
//! Files do not name the position encoding. The number of layers decides, as in llama.cpp. The 7B models (32
//! layers) use RoPE on neighbouring elements. The 13B models (40 layers) use ALiBi (Press et al. 2022, arXiv
//! 2108.12409) with a maximum bias of 8. Other numbers of layers are refused.

use super::{ArchDecl, BASE, PositionScheme, Positions, RopeStyle};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "baichuan",
    rope_style: RopeStyle::Norm,
    positions: Positions::ByLayers(&[(32, PositionScheme::Rope), (40, PositionScheme::Alibi)]),
    ..BASE
};
