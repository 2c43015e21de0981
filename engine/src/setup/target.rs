//! What computes: the host, or a GPU for the last layers, and how much of its memory may be used.

use ggml::{Error, NoCuda};

use super::planner::Planned;
use super::{SetupOptions, available_memory};
use crate::plan::{DRIVER_BYTES, Plan};
use crate::progress::{Notice, Observer};
use crate::{DeviceKind, EngineError};

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceRequest {
    /// A GPU if there is one that can compute.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// This device.
    Device(DeviceKind),
}

/// How many of the last layers are on the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuLayers {
    /// As many as fit its memory.
    #[default]
    Auto,
    /// This many; more than the model has means all.
    Count(usize),
}

/// What a session is planned for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// `None` is the host alone.
    pub device: Option<DeviceKind>,
    /// Layers on the device.
    pub layers: GpuLayers,
    /// Bytes of the device's memory, or of the host's where there is none, that a session may take; `None` if
    /// unknown.
    pub limit: Option<usize>,
    /// Bytes of [`Target::limit`] that the driver takes.
    pub driver: usize,
}

impl Target {
    /// The device that was asked for. It has to be there.
    pub(super) fn find(options: &SetupOptions, observer: &mut dyn Observer) -> Result<Target, EngineError> {
        let Some((kind, free)) = choose(options, observer)? else { return Ok(Target::host(options)) };
        // The free memory of a GPU in use no longer has the driver's share in it; a limit that is asked for
        // includes that share.
        let limit = [options.gpu_memory.map(|limit| limit.saturating_sub(DRIVER_BYTES)), free]
            .into_iter()
            .flatten()
            .min();
        Ok(Target { device: Some(kind), layers: options.gpu_layers, limit, driver: 0 })
    }

    /// The same for a plan: a GPU that is asked for by name need not be there.
    pub(super) fn assume(options: &SetupOptions) -> Target {
        let found = match options.device {
            DeviceRequest::Cpu => None,
            _ if options.gpu_layers == GpuLayers::Count(0) => None,
            DeviceRequest::Auto => find_gpu(None).ok(),
            DeviceRequest::Device(DeviceKind::Cuda(index)) => {
                Some(find_gpu(Some(index)).unwrap_or((DeviceKind::Cuda(index), None)))
            }
            #[cfg(feature = "testing")]
            DeviceRequest::Device(kind @ DeviceKind::Emulated) => Some((kind, None)),
        };
        match found {
            Some(gpu) => Target::gpu(gpu, options),
            None => Target::host(options),
        }
    }

    fn host(options: &SetupOptions) -> Target {
        let limit = options.gpu_memory.or_else(available_memory);
        Target { device: None, layers: options.gpu_layers, limit, driver: 0 }
    }

    fn gpu((kind, free): (DeviceKind, Option<usize>), options: &SetupOptions) -> Target {
        let (limit, driver) = match (options.gpu_memory, free) {
            (None, Some(free)) => (Some(free), 0),
            (limit, _) => (limit, DRIVER_BYTES),
        };
        Target { device: Some(kind), layers: options.gpu_layers, limit, driver }
    }

    /// The peak of a plan, as far as the limit has to hold it.
    pub fn total(&self, plan: &Plan) -> usize {
        match plan.device_total() {
            _ if self.device.is_none() => plan.total(),
            0 => 0, // nothing is on the GPU, not even the driver's part
            bytes => bytes + self.driver,
        }
    }

    /// Whether the limit is known and holds a plan.
    pub fn holds(&self, plan: &Plan) -> bool {
        self.limit.is_some_and(|limit| self.total(plan) <= limit)
    }

    /// Whether a plan fits with all the layers that were asked for on the GPU, of `layers`; `None` where the
    /// limit is unknown.
    pub fn fits(&self, planned: &Planned, layers: usize) -> Option<bool> {
        self.limit.map(|_| planned.on_device == self.wanted_layers(layers) && self.holds(&planned.bytes))
    }

    /// Layers on the GPU, of `layers`, if memory were no question.
    pub fn wanted_layers(&self, layers: usize) -> usize {
        match self.layers {
            _ if self.device.is_none() => 0,
            GpuLayers::Count(count) => count.min(layers),
            GpuLayers::Auto => layers,
        }
    }

    /// How many of `layers` layers are on the GPU: those asked for, else as many as `plan` says fit.
    pub(super) fn choose_layers(
        &self,
        layers: usize,
        plan: impl Fn(usize) -> Result<Planned, EngineError>,
    ) -> usize {
        let wanted = self.wanted_layers(layers);
        match (self.layers, self.limit) {
            (GpuLayers::Auto, Some(_)) if self.device.is_some() => {
                max_that_holds(wanted, |layers| plan(layers).is_ok_and(|planned| self.holds(&planned.bytes)))
            }
            _ => wanted,
        }
    }
}

/// The device to use and the bytes that are free there, if known; `None` for the CPU.
fn choose(
    options: &SetupOptions,
    observer: &mut dyn Observer,
) -> Result<Option<(DeviceKind, Option<usize>)>, EngineError> {
    if options.gpu_layers == GpuLayers::Count(0) {
        return Ok(None);
    }
    match options.device {
        DeviceRequest::Cpu => Ok(None),
        DeviceRequest::Device(DeviceKind::Cuda(index)) => Ok(Some(find_gpu(Some(index))?)),
        #[cfg(feature = "testing")]
        DeviceRequest::Device(kind @ DeviceKind::Emulated) => Ok(Some((kind, None))),
        DeviceRequest::Auto => match find_gpu(None) {
            Ok(found) => Ok(Some(found)),
            Err(Error::NoCuda(reason)) => {
                let asked_for = options.gpu_layers != GpuLayers::Auto || options.gpu_memory.is_some();
                let expected = match reason {
                    NoCuda::NotBuilt => !asked_for,
                    NoCuda::NoDriver { .. } => !asked_for && !machine_has_gpu(),
                    _ => false,
                };
                observer.notice(Notice::NoGpu { reason, expected });
                Ok(None)
            }
            Err(error) => Err(error.into()),
        },
    }
}

/// The GPU of this number, or the first that can compute, and the bytes that are free there.
fn find_gpu(index: Option<usize>) -> Result<(DeviceKind, Option<usize>), Error> {
    let gpus = ggml::devices()?;
    let index = index.or(gpus.iter().position(|gpu| gpu.problem.is_none())).unwrap_or(0);
    let gpu = gpus.get(index).ok_or(Error::NoSuchGpu { index, gpus: gpus.len() })?;
    match &gpu.problem {
        Some(problem) => Err(problem.clone().into()),
        None => Ok((DeviceKind::Cuda(index), Some(ggml::free_memory(index)? as usize))),
    }
}

/// The largest number up to `max` for which `holds`; what holds for a number holds for smaller ones.
fn max_that_holds(max: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut good, mut bad) = (0, max + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) { good = middle } else { bad = middle }
    }
    good
}

/// Whether the machine has an NVIDIA GPU, as far as Linux tells, whatever drivers there are.
fn machine_has_gpu() -> bool {
    const NVIDIA: &str = "0x10de";
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    devices
        .map(|device| device.path().join("vendor"))
        .any(|vendor| std::fs::read_to_string(vendor).is_ok_and(|vendor| vendor.trim() == NVIDIA))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;

    /// A limit holds the driver's part too; what is free on a GPU that is in use is free beside it.
    #[test]
    fn the_driver_is_counted_once() {
        let target = |free, gpu_memory| {
            let options = SetupOptions { gpu_memory, ..SetupOptions::default() };
            let target = Target::gpu((DeviceKind::Cuda(0), free), &options);
            (target.limit, target.driver)
        };
        assert_eq!(target(Some(20 * GIB), None), (Some(20 * GIB), 0));
        for free in [Some(20 * GIB), None] {
            assert_eq!(target(free, Some(24 * GIB)), (Some(24 * GIB), DRIVER_BYTES));
        }
        let options = SetupOptions { gpu_memory: Some(24 * GIB), ..SetupOptions::default() };
        let host = Target::host(&options);
        assert_eq!((host.limit, host.driver), (Some(24 * GIB), 0));
    }

    #[test]
    fn the_largest_number_that_holds_is_found() {
        for max in 0..20 {
            for limit in 0..25 {
                assert_eq!(max_that_holds(max, |n| n <= limit), limit.min(max));
            }
        }
    }
}
