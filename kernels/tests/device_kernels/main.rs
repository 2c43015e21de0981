//! The kernels of a device: a GPU, or the emulator.

#[path = "../common/mod.rs"]
mod common;
mod device_attend;
mod device_rows;
mod device_scores;
mod emulator;
mod misuse;
