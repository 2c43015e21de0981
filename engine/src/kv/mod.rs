//! The KV store: which rows of keys and values are kept, where they are, and who decides.
//!
//! The unit is the (layer, KV head). KV heads of a layer that keep equally many rows form a *lane*
//! ([`LaneLayout`]): one K and one V tensor `[head_dim, capacity, heads]`. Live rows are contiguous. When rows are
//! evicted, the last rows fill the holes; row order is free because keys are stored after RoPE. The host knows the
//! position of each row; rows, sums and scores stay where the lane is.
//!
//! A [`Policy`](policy::Policy) is asked after every prefill, chunk and step. It answers with an eviction plan: regions
//! of positions, how many rows of each stay, and the numbers that score them. The numbers are computed where the rows
//! are. The host picks rows (of equal scores the smaller position stays), and the [`Store`] evicts the others. What a
//! policy does not declare in [`AttentionNeeds`](policy::AttentionNeeds) is not computed. A policy may ask for a second
//! reading of a first text (KVzip), whose rows never reach the store.
//!
//! The *compensation entry* (RazorAttention, eq. 4 and 5) is row 0 of a lane: the mean of all evicted keys and values.
//! Its weight N_d is log N_d added to that row's logit, exact in f32.
//!
//! Some layers differ. One with a sliding window is a lane that keeps its window whatever the policy is. One that
//! attends to the rows of an earlier layer has no lanes. A recurrent one has a state, which is copied at checkpoints.
//! With latent attention a row holds keys and values. With ALiBi ([`alibi`]) each row has its position, and there is no
//! compensation entry. Quantised keys are stored without what the model's bias adds to all of them ([`key_offset`]);
//! rows in q4_0 and iq4_nl are rotated first (`compute/forward/rotation.rs`).

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
pub(crate) use store::snapshot::{read_rows, write_positions_in_order, write_rows};
pub use store::{CompensationSums, Evictions, Store};
pub(crate) use store::{HeadKeys, LayerForecast, making_room};
pub use tensors::{AttentionRecorder, LayerRows, RowScorer, StateTensors, gram_shape};
pub(crate) use tensors::{LayerTensors, REACH_STEP, reach};
