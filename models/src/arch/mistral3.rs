//! Mistral Small 3.x: like Llama, with head_dim in the file and RoPE scaled by YaRN. In Ministral 3 queries are also
//! scaled by their position.

use super::{ArchDecl, SlidingWindow, TEMPERATURE_KEYS, llama::LLAMA};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "mistral3",
    sliding_window: SlidingWindow::Refused,
    settings: TEMPERATURE_KEYS,
    ..LLAMA
};
