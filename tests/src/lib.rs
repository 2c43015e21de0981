//! Shared by the integration tests and the golden runner: paths of test data and the devices under test,
//! models, sessions and policies. Also the golden cases, and arrays in NumPy's format. No other crate may use it.

mod case_files;
pub mod fixtures;
pub mod golden;
pub mod npy;
pub mod packed;
pub mod servers;
pub mod talking;

use std::path::PathBuf;
use std::sync::LazyLock;

use kernels::graph;
use longhand::{DeviceKind, DeviceOptions, EngineOptions};

/// The path of a file or folder of this crate. On a machine without the sources, `LONGHAND_TEST_DATA` names
/// the folder.
pub fn data(path: &str) -> PathBuf {
    let home = std::env::var_os("LONGHAND_TEST_DATA");
    home.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from).join(path)
}

/// The devices under test, in the order of the layers. `LONGHAND_TEST_DEVICE` names them: `cpu` (the default, which is
/// none), `emulated`, `portable`, `cuda`, `hip`, `metal`, `vulkan` or `rpc`. It may name several with commas, such as
/// `emulated,emulated`. Each `rpc` is a server of its own in this process; `rpc=HOST:PORT` is one that runs already.
///
/// # Panics
/// If the variable has another value, or the server does not answer.
pub fn devices() -> Vec<DeviceKind> {
    let names = std::env::var("LONGHAND_TEST_DEVICE").unwrap_or("cpu".into());
    let kind = |(number, name): (usize, &str)| match name {
        "emulated" => emulated(number),
        "portable" => DeviceKind::Portable(number),
        "cuda" => DeviceKind::Cuda(number),
        "hip" => DeviceKind::Hip(number),
        "metal" => DeviceKind::Metal(number),
        "vulkan" => DeviceKind::Vulkan(number),
        "rpc" => servers::numbered(number),
        _ => match name.strip_prefix("rpc=") {
            Some(address) => servers::running(address),
            None => panic!(
                "LONGHAND_TEST_DEVICE={names}: cpu, emulated, portable, cuda, hip, metal, vulkan, rpc or rpc=HOST:PORT"
            ),
        },
    };
    names.split(',').filter(|name| *name != "cpu").enumerate().map(kind).collect()
}

/// A device that the host stands in for, whose memory and faults a test controls. It is the portable one where that, or a
/// server, is under test, otherwise the emulated one.
pub fn host_device() -> DeviceKind {
    numbered_host_device(0)
}

fn numbered_host_device(number: usize) -> DeviceKind {
    if is_portable() { DeviceKind::Portable(number) } else { emulated(number) }
}

/// An emulated device.
pub fn emulated(number: usize) -> DeviceKind {
    emulator::install();
    DeviceKind::Emulated(number)
}

/// Devices that the host stands in for, as [`host_device`], with so many layers each.
pub fn host_devices(layers: &[usize]) -> Vec<DeviceOptions> {
    let device = |(number, layers): (usize, &usize)| DeviceOptions {
        layers: *layers,
        ..DeviceOptions::all(numbered_host_device(number))
    };
    layers.iter().enumerate().map(device).collect()
}

/// Whether no device is under test, but the CPU with its own kernels.
pub fn is_cpu() -> bool {
    devices().is_empty()
}

/// Whether the first device under test computes ggml's operations only.
pub fn is_portable() -> bool {
    devices().first().is_some_and(|device| !device.has_own_operations())
}

/// The first device under test, or [`host_device`], for tests that need a device.
pub fn some_device() -> DeviceOptions {
    DeviceOptions::all(devices().first().copied().unwrap_or(host_device()))
}

/// Whether the host stands in for the device of [`some_device`].
pub fn is_host() -> bool {
    some_device().kind == host_device()
}

/// Whether the first device under test is a GPU, not a mock of one or a driver that computes on the CPU. Its kernels round in
/// other ways with other numbers of tokens. So equal bits, and equal tokens where two are about as likely, cannot be asked of it.
pub fn is_gpu() -> bool {
    static HAS_LAVAPIPE: LazyLock<bool> =
        LazyLock::new(|| ggml::vulkan::devices().is_ok_and(|found| found[0].is_lavapipe()));
    match devices()[..] {
        [DeviceKind::Cuda(_), ..] => !cfg!(mock_cuda),
        [DeviceKind::Hip(_) | DeviceKind::Metal(_), ..] => true,
        [DeviceKind::Vulkan(_), ..] => !*HAS_LAVAPIPE,
        _ => false,
    }
}

/// Whether quantised weights are multiplied with one token in the same way as with several. With AVX2 and no VNNI, ggml multiplies
/// with one, and our kernels with several. They add up in another order, so that an activation may be rounded to another number,
/// and answers part where two tokens are about as likely.
pub fn rounds_alike() -> bool {
    graph::multiplies_columns(1) || !graph::multiplies_columns(16)
}

/// Added to the tolerance of logits: 0 on the CPU, 0.01 on a device, where attention of many queries
/// multiplies in f16. On a portable device, or a server, ggml's CPU also adds f16 values in f16: 0.02. GPUs multiply matrices
/// of f32 in TF32 or f16: 0.04, twice what most tests measured on an H200. NVIDIA_TF32_OVERRIDE=0 lets cuBLAS multiply in f32.
pub fn device_tolerance() -> f32 {
    match devices()[..] {
        [] => 0.0,
        _ if is_gpu() => 4e-2,
        ref devices if devices.iter().any(|device| !device.has_own_operations()) => 2e-2,
        _ => 1e-2,
    }
}

/// Options of an engine with one thread and all layers on [`devices`]: one layer on each but the first.
pub fn engine_options() -> EngineOptions {
    let layers = |number| if number == 0 { usize::MAX } else { 1 };
    let device = |(number, kind)| DeviceOptions { layers: layers(number), ..DeviceOptions::all(kind) };
    let devices = devices().into_iter().enumerate().map(device).collect();
    EngineOptions { threads: Some(1), devices, ..EngineOptions::default() }
}
