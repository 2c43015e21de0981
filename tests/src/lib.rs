//! Shared by the integration tests and the golden runner: paths of test data and the device under test,
//! models, sessions and policies. Also the golden cases, and arrays in NumPy's format.

mod case_files;
pub mod fixtures;
pub mod golden;
pub mod npy;
pub mod packed;
pub mod talking;

use std::path::PathBuf;

use longhand::{DeviceKind, DeviceOptions, EngineOptions};

/// The path of a file or folder of this crate. On a machine without the sources, `LONGHAND_TEST_DATA` names
/// the folder.
pub fn data(path: &str) -> PathBuf {
    let home = std::env::var_os("LONGHAND_TEST_DATA");
    home.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from).join(path)
}

/// The device under test. `LONGHAND_TEST_DEVICE` names it: `cpu` (the default, gives `None`), `emulated`, `portable` or
/// `cuda`.
///
/// # Panics
/// If the variable has another value.
pub fn device() -> Option<DeviceOptions> {
    match std::env::var("LONGHAND_TEST_DEVICE").as_deref() {
        Err(_) | Ok("cpu") => None,
        Ok("emulated") => Some(DeviceOptions::all(DeviceKind::Emulated)),
        Ok("portable") => Some(DeviceOptions::all(DeviceKind::Portable)),
        Ok("cuda") => Some(DeviceOptions::all(DeviceKind::Cuda(0))),
        Ok(other) => panic!("LONGHAND_TEST_DEVICE={other}: cpu, emulated, portable or cuda"),
    }
}

/// A device that the host stands in for, whose memory and faults a test controls: the portable one where that is under
/// test, otherwise the emulated one.
pub fn host_device() -> DeviceKind {
    match device() {
        Some(DeviceOptions { kind: DeviceKind::Portable, .. }) => DeviceKind::Portable,
        _ => DeviceKind::Emulated,
    }
}

/// The device under test, or [`host_device`], for tests that need a device.
pub fn some_device() -> DeviceOptions {
    device().unwrap_or(DeviceOptions::all(host_device()))
}

/// Whether the host stands in for the device of [`some_device`].
pub fn is_host() -> bool {
    some_device().kind == host_device()
}

/// Added to the tolerance of logits: 0 on the CPU, 0.01 on a device, where attention of many queries
/// multiplies in f16. On a portable device ggml's CPU also adds f16 values in f16: 0.02.
pub fn device_tolerance() -> f32 {
    match device().map(|device| device.kind) {
        None => 0.0,
        Some(DeviceKind::Portable) => 2e-2,
        Some(_) => 1e-2,
    }
}

/// Options of an engine with one thread and all layers on [`device`].
pub fn engine_options() -> EngineOptions {
    EngineOptions { threads: Some(1), device: device(), ..EngineOptions::default() }
}
