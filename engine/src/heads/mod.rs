//! Which heads keep the whole context: head profiles, the paper's rule that makes them, imports of published
//! maps, and heat maps.
//!
//! A profile marks every (layer, KV head) that is a *retrieval head*, of which no row is evicted. It comes
//! from calibration (scores of every query head, [`select`](select())) or from a published map ([`import`]), of which some are
//! part of the program ([`PublishedMap`]). It is stored as a small JSON file ([`HeadProfile`]) and shown by a
//! [`Heatmap`]. No tensor is used here.

mod error;
mod heatmap;
pub mod import;
mod profile;
mod published;
mod random;
mod row_predictors;
mod row_shares;
mod scores;
mod select;
mod shape;

pub use error::HeadsError;
pub use heatmap::{Heatmap, Palette};
pub use import::{HeadThreshold, ImportOptions};
pub use profile::{HeadProfile, ProfileGap, Provenance};
pub use published::{PUBLISHED_MAPS, PublishedMap};
pub use scores::{ScoreMap, ScoresPer};
pub use select::{SelectedHeads, SelectionRule, select};
pub use shape::HeadShape;
