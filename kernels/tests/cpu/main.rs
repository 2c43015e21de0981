//! The kernels of the CPU.

#[path = "../common/mod.rs"]
mod common;
mod decode;
mod int8;
mod predicted;
mod prefill;
mod product;
mod scores;
mod sparse;
