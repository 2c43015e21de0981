//! The KV store: which rows of keys and values are kept, where they are, and who decides.
//!
//! The unit is the (layer, KV head). KV heads of a layer that keep equally many rows form a *lane*
//! ([`LaneLayout`]). The [`Store`] holds the lanes' memory and carries out what a [`Policy`] decides.

pub mod alibi;
mod budget;
pub(crate) mod key_offset;
mod lane_values;
mod layout;
pub mod policy;
mod store;
mod tensors;

pub use budget::KvBudget;
pub use lane_values::LaneValues;
pub use layout::{LaneLayout, Layout, StoreOptions, UNDO_ROWS_PER_HEAD, attention_shape};
pub use policy::PolicyChoice;
#[cfg(feature = "testing")]
pub use store::CompensationSums;
pub(crate) use store::HeadKeys;
pub(crate) use store::snapshot::{read_rows, write_positions_in_order, write_rows};
pub use store::{Evictions, Store};
pub(crate) use tensors::LayerTensors;
pub use tensors::{AttentionRecorder, LayerRows, StateTensors};
