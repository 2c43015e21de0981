//! Which heads keep the whole context: head profiles, the paper's rule that makes them, imports of published ones, and a heat map.
//!
//! A profile says for every (layer, KV head) whether it is a *retrieval head*, whose cache nothing is dropped from. It comes from
//! calibration (scores of every query head, [`select`]) or from a published map ([`import`]), is kept as a small JSON file
//! ([`profile`]) and is shown by [`heatmap`]. Nothing here touches a tensor.

mod error;
pub mod heatmap;
pub mod import;
pub mod profile;
pub mod select;

pub use error::HeadsError;
pub use heatmap::{Heatmap, Palette};
pub use import::{HeadThreshold, ImportOptions};
pub use profile::{HeadProfile, HeadShape, Provenance, ScoreMap, ScoresPer};
pub use select::{SelectedHeads, SelectionRule};
