//! The operations for which ggml has none, or none that is fast: attention over KV heads that keep unequally many
//! rows, the numbers that policies score rows by, eviction, and products of quantised matrices with several columns.
//!
//! *What it promises.* Every kernel has a plain reference, or is compared with a formula in f64, for all row types, head
//! sizes and instruction sets. On devices the order of threads does not change a result. Rows behind the live ones, and
//! compensation entries that are not used yet, are never read; NaN in a row that is seen reaches the result. Safe code
//! cannot misuse it: shapes, strides and numbers of heads are checked where a call or a node is made, live rows and
//! positions when it is computed. What does not fit is an error with the tensor's name.
//!
//! *What it never does.* It knows no models, policies or files. It keeps no state between calls, allocates no tensors,
//! starts no threads but to measure the machine ([`machine`]), and reads no environment variables: the caller brings
//! memory, threads and a backend, and the processor alone decides which instructions are used. Except for [`graph`] and [`portable`], it
//! works on slices and strides, not on ggml's tensors.
//!
//! - [`attention`]: the description of an attention call: queries, lanes of K and V rows, log-weights.
//! - [`decode`]: few query tokens against a long cache; split over rows and heads; memory bound.
//! - [`prefill`]: many query tokens; tiled like a matrix product; compute bound.
//! - [`product`]: products of quantised matrices with several columns.
//! - [`accumulate`]: the sums of attention weights that each row gets, for policies that score by them.
//! - [`measure`]: norms, maxima and spreads of rows, for policies that score by them.
//! - [`predict`]: the score that a map predicts for a row when it is appended.
//! - [`rows`]: eviction of rows, and their sums for the compensation entry.
//! - [`quant`]: the element types of rows.
//! - `device`: all of these as kernels for NVIDIA GPUs (cuda/), launched by [`graph`].
//! - [`portable`]: the operations of [`graph`] as ggml's own nodes, which each of its backends computes. A [`Form`]
//!   is one of the two, and builds the nodes of an [`Operation`]. [`Kernels`] says which a place has.
//! - [`mod@reference`]: attention in f64, the expected result of the tests.
//! - [`machine`]: measures the speed of memory and multipliers, so that speeds can be reported as shares of it.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "no other instruction set takes the kernels that multiply integers")
)]

pub mod accumulate;
pub mod attention;
pub mod decode;
#[doc(hidden)]
pub mod device;
mod exp;
mod form;
pub mod graph;
pub mod machine;
pub mod measure;
pub mod portable;
pub mod predict;
pub mod prefill;
pub mod product;
pub mod quant;
pub mod reference;
pub mod rows;
mod simd;

pub use attention::{Alibi, Attention, Groups, LaneView, Queries, RowTensor, ShapeError, Window};
pub use form::{Form, Kernels, Operation};
pub use quant::RowType;
pub use simd::Isa;
