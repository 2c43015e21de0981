//! BLOOM: like GPT-2 with ALiBi in place of learned positions, and a norm of the embeddings.

use super::{ArchDecl, PositionScheme, Positions, Presence, gpt2::GPT2};

pub(super) static DECL: ArchDecl = ArchDecl {
    name: "bloom",
    positions: Positions::All(PositionScheme::Alibi),
    embedding_norm: Presence::Always,
    ..GPT2
};
