//! The KV store: which rows of keys and values are kept, where they lie, and who decides.
//!
//! The unit is the (layer, KV head). Heads of a layer that keep equally many rows form a *lane* ([`layout`]); the
//! [`Store`] holds the lanes' memory and carries out what a [`Policy`] asks for.

mod budget;
mod lane_values;
pub mod layout;
pub mod policy;
mod store;

pub use budget::Budget;
pub use lane_values::LaneValues;
pub use layout::{LaneLayout, Layout, Room};
pub use policy::{Policy, PolicyChoice};
pub use store::{LayerRows, Observer, Store, Watched};
