//! Compute that ggml has no fast operation for, each beside a plain reference. Knows nothing of models or of ggml's types:
//! everything here works on slices and strides, and the instruction set is chosen at run time.
//!
//! - [`attention`]: what one attention call looks like: queries, lanes of K/V rows, log-weights.
//! - [`decode`]: few query tokens against a long cache; split over rows as well as heads; bound by memory.
//! - [`prefill`]: many query tokens; tiled like a matrix product; bound by arithmetic.
//! - [`accumulate`]: how much attention each row gets, for policies that choose by it.
//! - [`measure`]: norms, extremes and spreads of rows, for policies that choose by those.
//! - `device`: all of these as kernels for NVIDIA GPUs (cuda/), launched by [`graph`].
//! - [`reference`]: the same result in the plainest form, in f64; what the tests compare with.
//! - [`bandwidth`]: what the machine's memory and its multipliers can do, so that speeds can be told as shares of it.

pub mod accumulate;
pub mod attention;
pub mod bandwidth;
pub mod decode;
mod device;
mod exp;
pub mod graph;
pub mod measure;
pub mod prefill;
pub mod quant;
pub mod reference;
pub mod rows;
mod simd;

pub use attention::{Alibi, Attention, LaneView, Queries, Rows, ShapeError};
pub use quant::RowType;
pub use simd::Isa;
