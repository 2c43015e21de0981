//! The computation of a model's layers: the loaded weights, the graphs of a layer, and passes of tokens through them.
//!
//! Uses the store (`kv`), the backends (`devices`) and the model. Knows nothing of sessions.

pub(crate) mod engine;
pub(crate) mod finite;
pub mod forward;
pub(crate) mod layered_text;
pub(crate) mod pace;
pub(crate) mod pass;
pub(crate) mod reading_work;
pub(crate) mod row_groups;
pub mod scratch;
pub(crate) mod weights;
