//! Granite 3 and 4, dense: like Llama, with factors of embeddings, attention, residuals and logits in the file.

use super::{ArchDecl, SlidingWindow, llama::LLAMA};

pub(super) static DECL: ArchDecl = ArchDecl { name: "granite", ..GRANITE };

/// What MiniCPM and Granite with experts begin with.
pub(super) const GRANITE: ArchDecl = ArchDecl {
    divides_logits: true,
    sliding_window: SlidingWindow::Refused,
    settings: &[
        "attention.scale",
        "embedding_scale",
        "residual_scale",
        "logit_scale",
        "rope.scaling.finetuned",
    ],
    ..LLAMA
};
