//! How a cache differs from one that keeps everything: in what it predicts, what it answers, which rows it has, and what
//! attention it loses; and which sentence its answer comes from. Each file is one measure.

pub mod agreement;
pub mod attention_loss;
pub mod prediction;
pub mod retention;
pub mod sources;
