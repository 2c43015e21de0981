//! What computes: the host, or a GPU for the last layers, and how much of its memory may be used. The residual stream is
//! moved off the GPU first, then experts, then layers.

use std::path::Path;

use ggml::{Error, NoCuda};
use kernels::graph::{AttentionShape, MAX_DEVICE_HEAD_DIM, MAX_DEVICE_HEADS};
use kernels::{Form, Kernels};
use models::spec::ModelSpec;

use super::SetupOptions;
use crate::compute::engine::check_device_model;
use crate::kv::attention_shape;
use crate::progress::{Notice, Observer};
use crate::setup::plan::{ASSUMED_DEVICE_BLOCKS, DRIVER_BYTES, Placement, Plan};
use crate::{DeviceKind, EngineError, Model};

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

/// Of how many of the first layers the experts stay on the host although the rest of these layers is on the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostExperts {
    /// As few as possible with the layers on the GPU.
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
    /// Experts on the host; of no layer for a model without experts.
    pub host_experts: HostExperts,
    /// Bytes of the device's memory, or of the host's where there is none, that a session may take; `None` if
    /// unknown.
    pub limit: Option<usize>,
    /// Bytes of [`Target::limit`] that the driver takes.
    pub driver: usize,
    /// Bytes of main memory that are free for the host's part of a plan for a GPU; `None` where they are unknown, or the
    /// GPU is not one of this machine.
    pub host_limit: Option<usize>,
}

impl DeviceRequest {
    /// The kernels that the device has, whether it is here or not: those of a GPU unless another device is asked for.
    pub(super) fn assumed_kernels(self) -> Kernels {
        match self {
            #[cfg(feature = "testing")]
            DeviceRequest::Device(DeviceKind::Portable) => Kernels::None,
            _ => Kernels::Gpu { blocks: ASSUMED_DEVICE_BLOCKS },
        }
    }
}

impl HostExperts {
    /// Whether some experts are to stay on the host.
    pub fn is_asked_for(self) -> bool {
        !matches!(self, HostExperts::Auto | HostExperts::Count(0))
    }
}

impl Target {
    /// The device that was asked for. It has to be there, and able to compute the model.
    pub(super) fn find(
        model: &Model,
        options: &SetupOptions,
        observer: &mut dyn Observer,
    ) -> Result<Target, EngineError> {
        let mapped = model.mapped_bytes();
        let mut found = choose(options, observer)?;
        if found.is_some()
            && let Some(reason) = unusable(model.spec(), model.gguf().path(), options)?
        {
            observer.notice(Notice::ModelNotForGpu { reason });
            found = None;
        }
        let has_experts = model.spec().experts.is_some();
        if options.host_experts.is_asked_for() && (found.is_none() || !has_experts) {
            observer.notice(Notice::HostExpertsUnused { has_experts });
        }
        let Some((kind, free)) = found else {
            let host = Target::host(model.spec(), options, mapped);
            // The limit may have been meant for a GPU.
            let limit = host.limit.into_iter().chain(free_beside(options, mapped)).min();
            return Ok(Target { limit, ..host });
        };
        // The free memory of a GPU in use no longer has the driver's share in it; a limit that is asked for
        // includes that share.
        let limit = [options.gpu_memory.map(|limit| limit.saturating_sub(DRIVER_BYTES)), free]
            .into_iter()
            .flatten()
            .min();
        Ok(Target { device: Some(kind), limit, ..Target::host(model.spec(), options, mapped) })
    }

    /// The same for a plan: a GPU that is asked for by name need not be there, and there may be no model file. Also why a
    /// GPU that is there is not used.
    pub(super) fn assume(
        spec: &ModelSpec,
        model: Option<&Model>,
        options: &SetupOptions,
    ) -> Result<(Target, Option<String>), EngineError> {
        let path = model.and_then(|model| model.gguf().path());
        let mapped = model.map_or(0, Model::mapped_bytes);
        let found = match options.device {
            DeviceRequest::Cpu => None,
            _ if options.gpu_layers == GpuLayers::Count(0) => None,
            DeviceRequest::Auto => find_gpu(None).ok(),
            DeviceRequest::Device(DeviceKind::Cuda(index)) => {
                Some(find_gpu(Some(index)).unwrap_or((DeviceKind::Cuda(index), None)))
            }
            #[cfg(feature = "testing")]
            DeviceRequest::Device(kind) => Some((kind, None)),
        };
        let Some(gpu) = found else { return Ok((Target::host(spec, options, mapped), None)) };
        Ok(match unusable(spec, path, options)? {
            Some(reason) => (Target::host(spec, options, mapped), Some(reason)),
            None => (Target::gpu(gpu, spec, options, mapped), None),
        })
    }

    /// The host, where `mapped` bytes of weights are mapped already.
    fn host(spec: &ModelSpec, options: &SetupOptions, mapped: usize) -> Target {
        Target {
            device: None,
            layers: options.gpu_layers,
            host_experts: spec.experts.as_ref().map_or(HostExperts::Count(0), |_| options.host_experts),
            limit: options.gpu_memory.or_else(|| free_beside(options, mapped)),
            driver: 0,
            host_limit: None,
        }
    }

    fn gpu(
        (kind, free): (DeviceKind, Option<usize>),
        spec: &ModelSpec,
        options: &SetupOptions,
        mapped: usize,
    ) -> Target {
        let (limit, driver) = match (options.gpu_memory, free) {
            (None, Some(free)) => (Some(free), 0),
            (limit, _) => (limit, DRIVER_BYTES),
        };
        // A limit on the GPU's memory may describe another machine.
        let host_limit =
            free.filter(|_| options.gpu_memory.is_none()).and_then(|_| free_beside(options, mapped));
        Target { device: Some(kind), limit, driver, host_limit, ..Target::host(spec, options, mapped) }
    }

    /// Why some layers on the device are computed by ggml's operations instead of our own kernels; `None` where none are.
    pub fn portable_reason(&self, spec: &ModelSpec) -> Option<String> {
        let kernels = DeviceRequest::Device(self.device?).assumed_kernels();
        let mut shapes = (0..spec.n_layers).map(|layer| attention_shape(spec, layer));
        let shape = shapes.find(|shape| kernels.form(*shape) == Form::Portable)?;
        let AttentionShape { head_dim, n_kv_heads, .. } = shape;
        Some(match kernels {
            Kernels::None => "the device runs none of our own kernels".into(),
            _ => format!(
                "our own kernels take at most {MAX_DEVICE_HEADS} KV heads of {MAX_DEVICE_HEAD_DIM} elements, and a layer \
                 has {n_kv_heads} of {head_dim}"
            ),
        })
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

    /// Whether main memory holds the host's part of a plan for a GPU, as far as that is known.
    pub fn host_holds(&self, plan: &Plan) -> bool {
        self.host_limit.is_none_or(|limit| plan.total() <= limit)
    }

    /// Whether a plan fits with all the layers that were asked for on the GPU, of `layers`; `None` where the
    /// limit is unknown. Experts may be on the host.
    pub fn fits(&self, plan: &Plan, placement: Placement, layers: usize) -> Option<bool> {
        let has_all = placement.on_device() == self.wanted_layers(layers);
        self.limit.map(|_| has_all && self.holds(plan) && self.host_holds(plan))
    }

    /// Whether the limit, if there is one, holds the weights of a plan.
    pub(super) fn holds_weights(&self, plan: &Plan) -> bool {
        let bytes = match self.device {
            Some(_) => plan.weights.device + plan.device_overhead,
            None => plan.weights.on_host(),
        };
        self.limit.is_none_or(|limit| bytes <= limit)
    }

    /// Layers on the GPU, of `layers`, if memory were no question.
    pub fn wanted_layers(&self, layers: usize) -> usize {
        match self.layers {
            _ if self.device.is_none() => 0,
            GpuLayers::Count(count) => count.min(layers),
            GpuLayers::Auto => layers,
        }
    }

    /// The placement of `layers` layers if memory were no question.
    pub(super) fn wanted(&self, layers: usize) -> Placement {
        self.placement(layers, self.wanted_layers(layers), 0)
    }

    /// The placement with the same layers on the GPU that takes the least of its memory.
    pub(super) fn smallest(&self, layers: usize) -> Placement {
        self.placement(layers, self.wanted_layers(layers), layers).with_host_residual()
    }

    /// The placement with so many layers on the GPU. Unless a number was asked for, the experts of `host_experts`
    /// layers are on the host.
    fn placement(&self, layers: usize, on_device: usize, host_experts: usize) -> Placement {
        Placement::new(layers, on_device).with_host_experts(match self.host_experts {
            HostExperts::Auto => host_experts,
            HostExperts::Count(count) => count,
        })
    }

    /// Where `layers` layers are: as it was asked for, else as much is on the GPU as `fits` says.
    ///
    /// The residual stream leaves the GPU first: only reading a text waits for it. Experts leave before whole layers do.
    /// They are most of the bytes, and a token reads few of them. Keys and values are read whole.
    pub(super) fn choose(&self, layers: usize, fits: &dyn Fn(Placement) -> bool) -> Placement {
        let (wanted, smallest) = (self.wanted(layers), self.smallest(layers));
        if self.device.is_none() || self.limit.is_none() || fits(wanted) {
            return wanted;
        }
        // What the search below would find after more plans.
        let moved = wanted.with_host_residual();
        if fits(moved) {
            return moved;
        }
        let most = |placement: &dyn Fn(usize) -> Placement| {
            let count = max_that_holds(layers, |count| fits(placement(count).with_host_residual()));
            let chosen = placement(count);
            if fits(chosen) { chosen } else { chosen.with_host_residual() }
        };
        if fits(smallest) {
            return most(&|count| self.placement(layers, self.wanted_layers(layers), layers - count));
        }
        match self.layers {
            GpuLayers::Auto => most(&|count| self.placement(layers, count, layers)),
            GpuLayers::Count(_) => smallest,
        }
    }
}

/// Bytes of main memory that are free for weights, of which so many are mapped already, and a session.
fn free_beside(options: &SetupOptions, mapped: usize) -> Option<usize> {
    options.ledger.left(mapped).map(|left| left.free.bytes)
}

/// Why a GPU cannot compute a model, whose file has this path, so that the CPU does; `None` if it can.
///
/// # Errors
/// The same where the GPU was asked for.
fn unusable(
    spec: &ModelSpec,
    path: Option<&Path>,
    options: &SetupOptions,
) -> Result<Option<String>, EngineError> {
    match check_device_model(spec, path) {
        Ok(()) => Ok(None),
        Err(error) if options.device == DeviceRequest::Auto => Ok(Some(error.to_string())),
        Err(error) => Err(error),
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
        DeviceRequest::Device(kind) => Ok(Some((kind, None))),
        DeviceRequest::Auto => match find_gpu(None) {
            Ok(found) => Ok(Some(found)),
            Err(Error::NoCuda(reason)) => {
                let asked_for = options.gpu_layers != GpuLayers::Auto
                    || options.gpu_memory.is_some()
                    || options.host_experts.is_asked_for();
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
    use models::shapes::ModelShape;

    use super::*;

    const GIB: usize = 1 << 30;

    /// A limit holds the driver's part too; what is free on a GPU that is in use is free beside it.
    #[test]
    fn the_driver_is_counted_once() {
        let spec = ModelShape::find("llama-3.2-1b").expect("a shape").spec();
        let target = |free, gpu_memory| {
            let options = SetupOptions { gpu_memory, ..SetupOptions::default() };
            let target = Target::gpu((DeviceKind::Cuda(0), free), &spec, &options, 0);
            (target.limit, target.driver)
        };
        assert_eq!(target(Some(20 * GIB), None), (Some(20 * GIB), 0));
        for free in [Some(20 * GIB), None] {
            assert_eq!(target(free, Some(24 * GIB)), (Some(24 * GIB), DRIVER_BYTES));
        }
        let options = SetupOptions { gpu_memory: Some(24 * GIB), ..SetupOptions::default() };
        let host = Target::host(&spec, &options, 0);
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
