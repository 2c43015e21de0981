//! What the integration tests and the golden runner share: golden cases, arrays in NumPy's format and where the data lie.

pub mod golden;
pub mod npy;

use engine::{DeviceKind, DeviceOptions, EngineOptions};
use std::path::PathBuf;

/// A file or folder of this crate; where the tests have travelled without it, of the folder that `LONGHAND_TEST_DATA` names.
pub fn data(path: &str) -> PathBuf {
    let home = std::env::var_os("LONGHAND_TEST_DATA");
    home.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from).join(path)
}

/// What the tests run on: the device that `LONGHAND_TEST_DEVICE` names (`cpu`, which is the default, `emulated` or `cuda`).
///
/// # Panics
/// Where it names something else.
pub fn device() -> Option<DeviceOptions> {
    match std::env::var("LONGHAND_TEST_DEVICE").as_deref() {
        Err(_) | Ok("cpu") => None,
        Ok("emulated") => Some(DeviceOptions::all(DeviceKind::Emulated)),
        Ok("cuda") => Some(DeviceOptions::all(DeviceKind::Cuda(0))),
        Ok(other) => panic!("LONGHAND_TEST_DEVICE={other}: cpu, emulated or cuda"),
    }
}

/// How far logits may lie apart beyond what rounding in f32 explains: on a device, attention of many queries multiplies in f16.
pub fn slack() -> f32 {
    if device().is_some() { 1e-2 } else { 0.0 }
}

/// Options for one thread, on [`device`].
pub fn engine_options() -> EngineOptions {
    EngineOptions { threads: Some(1), device: device(), ..EngineOptions::default() }
}
