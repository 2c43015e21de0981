//! Compute kernels for which ggml has no fast operation, each with a plain reference. They know nothing of
//! models. Except for [`graph`], they work on slices and strides, not on ggml's tensors, and choose the
//! instruction set at run time.
//!
//! - [`attention`]: the description of an attention call: queries, lanes of K and V rows, log-weights.
//! - [`decode`]: few query tokens against a long cache; split over rows and heads; memory bound.
//! - [`prefill`]: many query tokens; tiled like a matrix product; compute bound.
//! - [`product`]: products of quantised matrices with many columns.
//! - [`accumulate`]: the sums of attention weights that each row gets, for policies that score by them.
//! - [`measure`]: norms, maxima and spreads of rows, for policies that score by them.
//! - [`rows`]: eviction of rows, and their sums for the compensation entry.
//! - [`quant`]: the element types of rows.
//! - `device`: all of these as kernels for NVIDIA GPUs (cuda/), launched by [`graph`].
//! - [`mod@reference`]: attention in f64, the expected result of the tests.
//! - [`bandwidth`]: measures the speed of memory and multipliers, so that speeds can be reported as fractions
//!   of it.

pub mod accumulate;
pub mod attention;
pub mod bandwidth;
pub mod decode;
mod device;
mod exp;
pub mod graph;
pub mod measure;
pub mod prefill;
pub mod product;
pub mod quant;
pub mod reference;
pub mod rows;
mod simd;

pub use attention::{Alibi, Attention, LaneView, Queries, Rows, ShapeError, Window};
pub use quant::RowType;
pub use simd::Isa;
