//! Gemma (the first): like Llama with GeGLU, RoPE on the two halves of a head, and embeddings times
//! sqrt(n_embd). The converter adds 1 to the weights of norms. The output matrix is the token embedding.

use super::{ArchDecl, BASE, FeedForward, Scales};

pub(super) static DECL: ArchDecl =
    ArchDecl { name: "gemma", feed_forward: FeedForward::GeGlu, scales: Scales::SqrtWidth, ..BASE };
