//! What computes: the host, or devices for the last layers, and how much of their memory may be used. The residual stream is
//! moved off the devices first, then experts, then layers.

use std::ops::Range;
use std::path::Path;

use ggml::{Error, Gpu, NoCuda, NoHip, NoMetal, NoVulkan, PortableGpu};
use kernels::graph::{AttentionShape, MAX_DEVICE_HEAD_DIM, MAX_DEVICE_HEADS};
use kernels::{Form, Kernels};
use models::spec::ModelSpec;

use super::SetupOptions;
use crate::compute::engine::{check_device_model, check_devices};
use crate::devices::memory::available_memory;
use crate::devices::placement::MAX_DEVICES;
use crate::kv::attention_shape;
use crate::progress::{Notice, Observer};
use crate::setup::plan::{ASSUMED_DEVICE_BLOCKS, DRIVER_BYTES, PerPlace, Place, Placement, Plan};
use crate::{DeviceKind, EngineError, Hint, Model};

/// What was asked for.
///
/// ```
/// use longhand::DeviceKind;
/// use longhand::setup::DeviceRequest;
///
/// let (one, two) = (DeviceKind::Cuda(0), DeviceKind::Cuda(1));
/// assert_eq!(DeviceRequest::from(one), DeviceRequest::Devices(vec![one]));
/// assert_ne!(DeviceRequest::Devices(vec![one, two]), DeviceRequest::Devices(vec![two, one]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceRequest {
    /// The devices of the servers that were added, then all GPUs that can compute by CUDA. Where CUDA cannot be used, those of AMD by
    /// HIP, the GPU of a Mac by Metal, or those by Vulkan. By HIP and Vulkan only those that are no part of the processor. The CPU
    /// where there is none of these.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// These devices, in the order of the layers. Layers that they do not have are on the CPU; so are all where this is empty.
    Devices(Vec<DeviceKind>),
}

/// How many of the last layers are on GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuLayers {
    /// As many as fit their memory.
    #[default]
    Auto,
    /// This many; more than the model has means all. The last layers that share rows are there together or not at all.
    Count(usize),
}

/// Of how many of the first layers the experts stay on the host although the rest of these layers is on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostExperts {
    /// As few as possible with the layers on GPUs.
    #[default]
    Auto,
    /// This many; more than the model has means all.
    Count(usize),
}

/// What a session is planned for.
#[derive(Clone, Debug)]
pub struct Target {
    /// The devices for the last layers, in their order; without any, it is the host alone.
    pub devices: Vec<TargetDevice>,
    /// Layers on the devices.
    pub layers: GpuLayers,
    /// Experts on the host; of no layer for a model without experts.
    pub host_experts: HostExperts,
    /// Bytes of main memory that a session may take where there are no devices; `None` if unknown.
    pub main_memory: Option<usize>,
    /// Bytes of main memory that are free for the host's part of a plan for GPUs; `None` where they are unknown, or the
    /// GPUs are not those of this machine.
    pub host_limit: Option<usize>,
    /// How many of the last layers have to be in one place ([`ModelSpec::joint_layers`]).
    joint_layers: usize,
    /// How the layers on devices are shared, if that was asked for: see [`SetupOptions::gpu_shares`].
    shares: Vec<f64>,
}

/// A device that a session is planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetDevice {
    /// Which device.
    pub kind: DeviceKind,
    /// Bytes of its memory that a session may take; `None` if unknown.
    pub limit: Option<usize>,
    /// Bytes of [`TargetDevice::limit`] that the driver takes.
    pub driver: usize,
}

/// Whether devices, by their numbers, hold a session with layers placed so.
pub(super) type HoldsPlacement<'a> = &'a dyn Fn(Placement, Range<usize>) -> bool;

/// A device, and the bytes that are free there, if known.
type FoundDevice = (DeviceKind, Option<usize>);

impl From<DeviceKind> for DeviceRequest {
    fn from(device: DeviceKind) -> DeviceRequest {
        DeviceRequest::Devices(vec![device])
    }
}

impl HostExperts {
    /// Whether some experts are to stay on the host.
    pub fn is_asked_for(self) -> bool {
        !matches!(self, HostExperts::Auto | HostExperts::Count(0))
    }
}

impl TargetDevice {
    /// The kernels that the device has, whether it is here or not.
    fn kernels(&self) -> Kernels {
        match self.kind.has_own_operations() {
            true => Kernels::Gpu { blocks: ASSUMED_DEVICE_BLOCKS },
            false => Kernels::None,
        }
    }
}

impl Target {
    /// The devices that were asked for. They have to be there, and able to compute the model.
    pub(super) fn find(
        model: &Model,
        options: &SetupOptions,
        observer: &mut dyn Observer,
    ) -> Result<Target, EngineError> {
        let mapped = model.mapped_bytes();
        let mut found = choose(options, observer)?;
        if !found.is_empty()
            && let Some(reason) = unusable(&found, model.spec(), model.gguf().path(), options)?
        {
            observer.notice(Notice::ModelNotForGpu { reason });
            found.clear();
        }
        let has_experts = model.spec().experts.is_some();
        if options.host_experts.is_asked_for() && (found.is_empty() || !has_experts) {
            observer.notice(Notice::HostExpertsUnused { has_experts });
        }
        let has_layers = !matches!(options.gpu_layers, GpuLayers::Auto | GpuLayers::Count(0));
        if options.device == DeviceRequest::Cpu && (has_layers || !options.gpu_shares.is_empty()) {
            observer.notice(Notice::GpuLayersUnused);
        }
        let host = Target::host(model.spec(), options, mapped);
        if found.is_empty() {
            // The limit may have been meant for a GPU.
            let limit = host.main_memory.into_iter().chain(free_beside(options, mapped)).min();
            return Ok(Target { main_memory: limit, ..host });
        }
        // The free memory of a GPU in use no longer has the driver's share in it; a limit that is asked for
        // includes that share.
        host.with_devices(&found, options, |driver, asked, free| {
            (asked.map(|limit| limit.saturating_sub(driver)).into_iter().chain(free).min(), 0)
        })
    }

    /// The same for a plan: GPUs that are asked for by name need not be there, and there may be no model file. Also why
    /// GPUs that are there are not used.
    pub(super) fn assume(
        spec: &ModelSpec,
        model: Option<&Model>,
        options: &SetupOptions,
    ) -> Result<(Target, Option<String>), EngineError> {
        let path = model.and_then(|model| model.gguf().path());
        let mapped = model.map_or(0, Model::mapped_bytes);
        let found = match &options.device {
            DeviceRequest::Cpu => Vec::new(),
            _ if options.gpu_layers == GpuLayers::Count(0) => Vec::new(),
            DeviceRequest::Auto => {
                find_all(find_remote()?, find_gpus().unwrap_or(Ok(Vec::new())).unwrap_or_default())
            }
            DeviceRequest::Devices(devices) => {
                check_devices(devices.iter().copied())?;
                let find = |device: &DeviceKind| match find_device(*device) {
                    Err(_) if !device.is_remote() => Ok((*device, None)),
                    found => found,
                };
                devices.iter().map(find).collect::<Result<_, _>>()?
            }
        };
        if found.is_empty() {
            return Ok((Target::host(spec, options, mapped), None));
        }
        Ok(match unusable(&found, spec, path, options)? {
            Some(reason) => (Target::host(spec, options, mapped), Some(reason)),
            None => (Target::gpus(&found, spec, options, mapped)?, None),
        })
    }

    /// The host, where `mapped` bytes of weights are mapped already.
    fn host(spec: &ModelSpec, options: &SetupOptions, mapped: usize) -> Target {
        Target {
            devices: Vec::new(),
            layers: options.gpu_layers,
            host_experts: spec.experts.as_ref().map_or(HostExperts::Count(0), |_| options.host_experts),
            main_memory: options.gpu_memory.first().copied().or_else(|| free_beside(options, mapped)),
            host_limit: None,
            joint_layers: spec.joint_layers(),
            shares: Vec::new(),
        }
    }

    fn gpus(
        found: &[FoundDevice],
        spec: &ModelSpec,
        options: &SetupOptions,
        mapped: usize,
    ) -> Result<Target, EngineError> {
        // A limit on the GPU's memory may describe another machine.
        let is_here = options.gpu_memory.is_empty() && found.iter().all(|(_, free)| free.is_some());
        let host_limit = if is_here { free_beside(options, mapped) } else { None };
        Target { host_limit, ..Target::host(spec, options, mapped) }.with_devices(
            found,
            options,
            |driver, asked, free| match (asked, free) {
                (None, Some(free)) => (Some(free), 0),
                (asked, _) => (asked, driver),
            },
        )
    }

    /// The same with these devices. `limit` is given the bytes that the driver takes, the limit that was asked for, and the bytes
    /// that are free. It returns the bytes that a session may take of the device, and those of the driver beside them.
    ///
    /// # Errors
    /// If there is not a limit for each, or the layers cannot be shared among them as it was asked for.
    fn with_devices(
        self,
        found: &[FoundDevice],
        options: &SetupOptions,
        limit: impl Fn(usize, Option<usize>, Option<usize>) -> (Option<usize>, usize),
    ) -> Result<Target, EngineError> {
        let device = |((kind, free), asked): (&FoundDevice, Option<usize>)| {
            let (limit, driver) = limit(driver_bytes(*kind), asked, *free);
            TargetDevice { kind: *kind, limit, driver }
        };
        let devices: Vec<TargetDevice> =
            found.iter().zip(limits(options, found.len())?).map(device).collect();
        let shares = options.gpu_shares.clone();
        let problem = match shares.iter().find(|share| !share.is_finite() || **share < 0.0) {
            Some(share) => Some(format!("{share} is no number from 0 on")),
            None if shares.len() > devices.len() => {
                Some(format!("these are {} shares, and {} compute", shares.len(), gpus(devices.len())))
            }
            None if !shares.is_empty() && shares.iter().sum::<f64>() == 0.0 => {
                Some("no device would have a layer".into())
            }
            None => None,
        };
        let Some(reason) = problem else { return Ok(Target { devices, shares, ..self }) };
        let list: Vec<String> = shares.iter().map(f64::to_string).collect();
        Err(EngineError::Setting {
            what: format!("layers shared as {}", list.join(",")),
            reason,
            hint: Hint::advice("give each device a share, such as 3,1 for three quarters and one"),
        })
    }

    /// The kernels of all places, with so many threads on the host. Devices need not be here.
    pub(super) fn kernels(&self, threads: usize) -> PerPlace<Kernels> {
        PerPlace::new(self.devices.len(), |place| match place {
            Place::Device(device) => self.devices[device].kernels(),
            Place::Host => Kernels::Cpu { threads },
        })
    }

    /// Why some layers on devices are computed by ggml's operations instead of our own kernels; `None` where none are.
    pub fn portable_reason(&self, spec: &ModelSpec) -> Option<String> {
        let shapes = || (0..spec.n_layers).map(|layer| attention_shape(spec, layer));
        self.devices.iter().map(TargetDevice::kernels).find_map(|kernels| {
            let shape = shapes().find(|shape| kernels.form(*shape) == Form::Portable)?;
            let AttentionShape { head_dim, n_kv_heads, .. } = shape;
            Some(match kernels {
                Kernels::None => "the device runs none of our own kernels".into(),
                _ => format!(
                    "our own kernels take at most {MAX_DEVICE_HEADS} KV heads of {MAX_DEVICE_HEAD_DIM} elements, and a \
                     layer has {n_kv_heads} of {head_dim}"
                ),
            })
        })
    }

    /// Bytes of memory that a session may take, on all devices together or of main memory; `None` if unknown.
    pub fn limit(&self) -> Option<usize> {
        match self.devices.is_empty() {
            true => self.main_memory,
            false => self.devices.iter().map(|device| device.limit).sum(),
        }
    }

    /// The peak of a plan, as far as the limits have to hold it.
    pub fn total(&self, plan: &Plan) -> usize {
        match self.devices.is_empty() {
            true => plan.total(),
            false => (0..self.devices.len()).map(|device| self.device_total(plan, device)).sum(),
        }
    }

    /// The same on one of the devices.
    pub fn device_total(&self, plan: &Plan, device: usize) -> usize {
        match plan.device_total(device) {
            0 => 0, // nothing is there, not even the driver's part
            bytes => bytes + self.devices[device].driver,
        }
    }

    /// Whether the limits are known and hold a plan.
    pub fn holds(&self, plan: &Plan) -> bool {
        match self.devices.is_empty() {
            true => self.main_memory.is_some_and(|limit| plan.total() <= limit),
            false => self.devices_hold(plan, 0..self.devices.len()),
        }
    }

    /// Whether the limits of these devices are known and hold a plan.
    pub(super) fn devices_hold(&self, plan: &Plan, mut devices: Range<usize>) -> bool {
        devices.all(|device| {
            self.devices[device].limit.is_some_and(|limit| self.device_total(plan, device) <= limit)
        })
    }

    /// Whether main memory holds the host's part of a plan for GPUs, as far as that is known.
    pub fn host_holds(&self, plan: &Plan) -> bool {
        self.host_limit.is_none_or(|limit| plan.total() <= limit)
    }

    /// Whether a plan fits with all the layers that were asked for on devices, of `layers`; `None` where the
    /// limit is unknown. Experts may be on the host.
    pub fn fits(&self, plan: &Plan, placement: Placement, layers: usize) -> Option<bool> {
        let has_all = placement.on_devices() == self.wanted_layers(layers);
        self.limit().map(|_| has_all && self.holds(plan) && self.host_holds(plan))
    }

    /// Whether the limits, as far as there are any, hold the weights of a plan.
    pub(super) fn holds_weights(&self, plan: &Plan) -> bool {
        let holds = |limit: Option<usize>, bytes| limit.is_none_or(|limit| bytes <= limit);
        match self.devices.is_empty() {
            true => holds(self.main_memory, plan.weights.on_host()),
            false => {
                let bytes = plan.weights.devices.iter().zip(&plan.devices);
                let bytes = bytes.map(|(weights, bytes)| weights + bytes.overhead);
                self.devices.iter().zip(bytes).all(|(device, bytes)| holds(device.limit, bytes))
            }
        }
    }

    /// Layers on devices, of `layers`, if memory were no question. Those that have to be in one place are all there or none.
    pub fn wanted_layers(&self, layers: usize) -> usize {
        match self.layers {
            _ if self.devices.is_empty() => 0,
            GpuLayers::Count(0) => 0,
            GpuLayers::Count(count) => count.max(self.joint_layers).min(layers),
            GpuLayers::Auto => layers,
        }
    }

    /// The fewest layers that can be on devices: one, or those that have to be in one place.
    pub fn fewest_layers(&self) -> usize {
        self.joint_layers.max(1)
    }

    /// Whether devices have no more layers than were asked for, and share them as was asked for. Layers that have to be in one
    /// place may change both.
    pub(super) fn is_as_asked(&self, placement: Placement) -> bool {
        let on_devices = placement.on_devices();
        let has_more = matches!(self.layers, GpuLayers::Count(count) if on_devices > count);
        !has_more && (self.shares.is_empty() || self.spread(on_devices) == placement.counts())
    }

    /// The placement of `layers` layers if memory were no question.
    pub(super) fn wanted(&self, layers: usize) -> Placement {
        self.placement(layers, &self.spread(self.wanted_layers(layers)), 0)
    }

    /// The placement with the same layers on devices that takes the least of their memory.
    pub(super) fn smallest(&self, layers: usize) -> Placement {
        self.placement(layers, &self.spread(self.wanted_layers(layers)), layers).with_host_residual()
    }

    /// The placement with so many layers on each device. Unless a number was asked for, the experts of `host_experts`
    /// layers are on the host.
    fn placement(&self, layers: usize, counts: &[usize], host_experts: usize) -> Placement {
        Placement::with_joint_layers(layers, self.joint_layers, counts).with_host_experts(
            match self.host_experts {
                HostExperts::Auto => host_experts,
                HostExperts::Count(count) => count,
            },
        )
    }

    /// How many of `count` layers each device has: by the shares that were asked for, else by their memory. As in llama.cpp
    /// the output matrix counts as one more layer, behind the last one.
    fn spread(&self, count: usize) -> Vec<usize> {
        let limits = || self.devices.iter().map(|device| device.limit.map(|limit| limit as f64)).collect();
        let shares: Vec<f64> = match self.shares.is_empty() {
            false => self.shares.clone(),
            true => Option::unwrap_or_else(limits(), || vec![1.0; self.devices.len()]),
        };
        let all: f64 = shares.iter().sum();
        let mut counts = vec![0; self.devices.len()];
        for layer in 0..count {
            let at = all * layer as f64 / (count + 1) as f64;
            let mut end = 0.0;
            let device = shares.iter().position(|share| {
                end += share;
                end > at
            });
            counts[device.unwrap_or(0)] += 1;
        }
        counts
    }

    /// Where `layers` layers are: as it was asked for, else as much is on the devices as `holds` says.
    ///
    /// The residual stream leaves the devices first: only reading a text waits for it. Experts leave before whole layers do.
    /// They are most of the bytes, and a token reads few of them. Keys and values are read whole.
    pub(super) fn choose(&self, layers: usize, holds: HoldsPlacement) -> Placement {
        let fits = |placement| holds(placement, 0..self.devices.len());
        let (wanted, smallest) = (self.wanted(layers), self.smallest(layers));
        if self.devices.is_empty() || self.limit().is_none() || fits(wanted) {
            return wanted;
        }
        // What the search below would find after more plans.
        let moved = wanted.with_host_residual();
        if fits(moved) {
            return moved;
        }
        let most = |fitting: &dyn Fn(usize) -> Option<Placement>| {
            let count = max_that_holds(layers, |count| fitting(count).is_some());
            let chosen = fitting(count).map(Placement::without_residual);
            let chosen = chosen.unwrap_or_else(|| self.placement(layers, &self.spread(0), layers));
            if fits(chosen) { chosen } else { chosen.with_host_residual() }
        };
        let all = self.wanted_layers(layers);
        if self.fitting(layers, all, layers, holds).is_some() {
            return most(&|count| self.fitting(layers, all, layers - count, holds));
        }
        match self.layers {
            GpuLayers::Auto => most(&|count| self.fitting(layers, count, layers, holds)),
            GpuLayers::Count(_) => smallest,
        }
    }

    /// A placement that the devices hold, with `count` of `layers` layers there and the residual stream on the host. Where
    /// they do not hold what [`Target::spread`] gives them, and no shares were asked for, each takes as many as it holds, the
    /// last one first: it has the output matrix too.
    fn fitting(
        &self,
        layers: usize,
        count: usize,
        host_experts: usize,
        holds: HoldsPlacement,
    ) -> Option<Placement> {
        let with = |counts: &[usize]| self.placement(layers, counts, host_experts).with_host_residual();
        let (mut counts, all) = (self.spread(count), self.devices.len());
        let placement = with(&counts);
        if holds(placement, 0..all) {
            return Some(placement);
        }
        if all < 2 || !self.shares.is_empty() {
            return None;
        }
        let mut left = count;
        for device in (0..all).rev() {
            // Those before it have a layer each meanwhile, so that graphs of the same places are compared.
            let others = |own: usize| usize::from(left - own >= device);
            let held = max_that_holds(left, |own| {
                let mut counts = counts.clone();
                counts[..device].fill(others(own));
                counts[device] = own;
                holds(with(&counts), device..device + 1)
            });
            counts[device] = held;
            left -= held;
        }
        if left > 0 {
            return None;
        }
        let placement = with(&counts);
        holds(placement, 0..all).then_some(placement)
    }
}

/// `1 GPU`, `2 GPUs`.
fn gpus(count: usize) -> String {
    format!("{count} GPU{}", if count == 1 { "" } else { "s" })
}

/// The limits on the memory of so many GPUs.
///
/// # Errors
/// If there are several limits, and not one for each GPU.
fn limits(options: &SetupOptions, devices: usize) -> Result<Vec<Option<usize>>, EngineError> {
    match options.gpu_memory[..] {
        [] => Ok(vec![None; devices]),
        [limit] => Ok(vec![Some(limit); devices]),
        ref limits if limits.len() == devices => Ok(limits.iter().copied().map(Some).collect()),
        ref limits => Err(EngineError::Setting {
            what: format!("{} limits on memory", limits.len()),
            reason: format!("{} compute", gpus(devices)),
            hint: Hint::advice("give one limit, or one for each GPU"),
        }),
    }
}

/// Bytes of main memory that are free for weights, of which so many are mapped already, and a session.
fn free_beside(options: &SetupOptions, mapped: usize) -> Option<usize> {
    options.ledger.left(mapped).map(|left| left.free.bytes)
}

/// Why these GPUs cannot compute a model, whose file has this path, so that the CPU does; `None` if they can.
///
/// # Errors
/// The same where GPUs were asked for.
fn unusable(
    found: &[(DeviceKind, Option<usize>)],
    spec: &ModelSpec,
    path: Option<&Path>,
    options: &SetupOptions,
) -> Result<Option<String>, EngineError> {
    match check_device_model(spec, path, found.iter().map(|(kind, _)| *kind)) {
        Ok(()) => Ok(None),
        Err(error) if options.device == DeviceRequest::Auto => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

/// The devices to use; none is the CPU.
fn choose(options: &SetupOptions, observer: &mut dyn Observer) -> Result<Vec<FoundDevice>, EngineError> {
    if options.gpu_layers == GpuLayers::Count(0) {
        return Ok(Vec::new());
    }
    match &options.device {
        DeviceRequest::Cpu => Ok(Vec::new()),
        DeviceRequest::Devices(devices) => {
            check_devices(devices.iter().copied())?;
            Ok(devices.iter().map(|device| find_device(*device)).collect::<Result<_, _>>()?)
        }
        DeviceRequest::Auto => {
            let remote = find_remote()?;
            match find_gpus()? {
                Ok(found) => Ok(find_all(remote, found)),
                Err(none) => {
                    // Flags for devices may mean those of servers.
                    let asked_for = remote.is_empty()
                        && (options.gpu_layers != GpuLayers::Auto
                            || !options.gpu_memory.is_empty()
                            || !options.gpu_shares.is_empty()
                            || options.host_experts.is_asked_for());
                    let (reason, expected) = none.reason();
                    observer.notice(Notice::NoGpu { reason, expected: expected && !asked_for });
                    Ok(remote)
                }
            }
        }
    }
}

/// Why there are no GPUs.
struct NoGpus {
    cuda: NoCuda,
    /// `None` where HIP shows only GPUs that are part of the processor.
    hip: Option<NoHip>,
    metal: NoMetal,
    /// `None` where Vulkan shows only such GPUs.
    vulkan: Option<NoVulkan>,
}

impl NoGpus {
    /// In words, and whether that is no surprise if no GPU was asked for.
    fn reason(self) -> (String, bool) {
        let integrated = |by: &str| {
            format!("the GPUs that {by} shows are part of the processor, and used where they are named")
        };
        match (self.cuda, self.hip, self.vulkan) {
            (NoCuda::NotBuilt, ..) if cfg!(target_os = "macos") => (self.metal.to_string(), true),
            (NoCuda::NotBuilt, Some(hip), _) if hip != NoHip::NotBuilt => {
                let is_expected = matches!(hip, NoHip::NoLibrary(_) | NoHip::NoGpu);
                (hip.to_string(), is_expected)
            }
            (NoCuda::NotBuilt, None, _) => (integrated("HIP"), true),
            (NoCuda::NotBuilt, _, Some(vulkan)) if vulkan != NoVulkan::NotBuilt => (vulkan.to_string(), true),
            (NoCuda::NotBuilt, _, None) => (integrated("Vulkan"), true),
            (cuda, ..) => {
                let is_expected = match cuda {
                    NoCuda::NotBuilt => true,
                    NoCuda::NoDriver { .. } => !machine_has_gpu(),
                    _ => false,
                };
                (cuda.to_string(), is_expected)
            }
        }
    }
}

/// The bytes that the driver of a device takes in this process.
fn driver_bytes(device: DeviceKind) -> usize {
    if device.is_remote() { 0 } else { DRIVER_BYTES }
}

/// All devices of [`DeviceRequest::Auto`]: those of this machine have the last layers, with the output, which is asked for
/// after each token.
fn find_all(remote: Vec<FoundDevice>, here: Vec<FoundDevice>) -> Vec<FoundDevice> {
    remote.into_iter().chain(here).take(MAX_DEVICES).collect()
}

/// A device, and the bytes that are free there.
fn find_device(device: DeviceKind) -> Result<FoundDevice, Error> {
    match device {
        DeviceKind::Cuda(index) => Ok((device, Some(free_memory_of_gpu(index)?))),
        DeviceKind::Hip(index) => {
            let gpu = numbered(ggml::hip::devices()?, index)?;
            match gpu.problem {
                Some(problem) => Err(NoHip::Device(problem).into()),
                None => Ok((device, Some(gpu.free as usize))),
            }
        }
        DeviceKind::Metal(index) => {
            Ok((device, Some(free_by_metal(&numbered(ggml::metal::devices()?, index)?))))
        }
        DeviceKind::Vulkan(index) => {
            Ok((device, Some(numbered(ggml::vulkan::devices()?, index)?.free as usize)))
        }
        #[cfg(feature = "rpc")]
        DeviceKind::Rpc(index) => Ok((device, Some(ggml::rpc::memory(index)?.0 as usize))),
        DeviceKind::Emulated(_) | DeviceKind::Portable(_) => Ok((device, None)),
    }
}

/// The GPU of this number.
fn numbered(gpus: Vec<PortableGpu>, index: usize) -> Result<PortableGpu, Error> {
    let count = gpus.len();
    gpus.into_iter().nth(index).ok_or(Error::NoSuchGpu { index, gpus: count })
}

/// The bytes that are free on the GPU of a Mac. It computes with main memory, of which others have some.
fn free_by_metal(gpu: &PortableGpu) -> usize {
    available_memory().into_iter().fold(gpu.free as usize, usize::min)
}

/// The devices of the servers that were added, with the bytes that are free there.
fn find_remote() -> Result<Vec<FoundDevice>, Error> {
    #[cfg(feature = "rpc")]
    return ggml::rpc::devices().iter().map(|device| find_device(DeviceKind::Rpc(device.index))).collect();
    #[cfg(not(feature = "rpc"))]
    Ok(Vec::new())
}

/// The bytes that are free on a GPU, if it can compute.
fn free_memory_of_gpu(index: usize) -> Result<usize, Error> {
    let gpus = ggml::devices()?;
    let gpu = gpus.get(index).ok_or(Error::NoSuchGpu { index, gpus: gpus.len() })?;
    match &gpu.problem {
        Some(problem) => Err(problem.clone().into()),
        None => Ok(ggml::free_memory(index)? as usize),
    }
}

/// The GPUs that can compute, with the bytes that are free there: those of CUDA, and where it cannot be used, those of HIP, that of
/// Metal, or those of Vulkan. By HIP and Vulkan those that are no part of the processor. Or why there are none.
///
/// # Errors
/// Where a GPU does not tell its free memory.
fn find_gpus() -> Result<Result<Vec<FoundDevice>, NoGpus>, Error> {
    let found = |gpu: Gpu| Ok((DeviceKind::Cuda(gpu.index), Some(ggml::free_memory(gpu.index)? as usize)));
    let cuda = match ggml::devices() {
        Ok(gpus) => {
            let usable = gpus.into_iter().filter(|gpu| gpu.problem.is_none()).take(MAX_DEVICES);
            return usable.map(found).collect::<Result<_, Error>>().map(Ok);
        }
        Err(reason) => reason,
    };
    let hip = match dedicated(ggml::hip::devices(), DeviceKind::Hip) {
        Ok(found) => return Ok(Ok(found)),
        Err(reason) => reason,
    };
    let metal = match ggml::metal::devices() {
        Ok(gpus) => {
            let found = |gpu: &PortableGpu| (DeviceKind::Metal(gpu.index), Some(free_by_metal(gpu)));
            return Ok(Ok(gpus.iter().map(found).collect()));
        }
        Err(reason) => reason,
    };
    let vulkan = match dedicated(ggml::vulkan::devices(), DeviceKind::Vulkan) {
        Ok(found) => return Ok(Ok(found)),
        Err(reason) => reason,
    };
    Ok(Err(NoGpus { cuda, hip, metal, vulkan }))
}

/// The GPUs that can be used and are no part of the processor: whether one that is is faster than its cores has never been measured.
///
/// # Errors
/// Why there are no GPUs; `None` where all are part of the processor.
fn dedicated<E>(
    gpus: Result<Vec<PortableGpu>, E>,
    kind: fn(usize) -> DeviceKind,
) -> Result<Vec<FoundDevice>, Option<E>> {
    let usable = gpus?.into_iter().filter(|gpu| gpu.problem.is_none() && !gpu.is_integrated);
    let found: Vec<_> =
        usable.map(|gpu| (kind(gpu.index), Some(gpu.free as usize))).take(MAX_DEVICES).collect();
    if found.is_empty() { Err(None) } else { Ok(found) }
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
            let gpu_memory = Vec::from_iter(gpu_memory);
            let options = SetupOptions { gpu_memory, ..SetupOptions::default() };
            let target = Target::gpus(&[(DeviceKind::Cuda(0), free)], &spec, &options, 0).expect("a target");
            (target.limit(), target.devices[0].driver)
        };
        assert_eq!(target(Some(20 * GIB), None), (Some(20 * GIB), 0));
        for free in [Some(20 * GIB), None] {
            assert_eq!(target(free, Some(24 * GIB)), (Some(24 * GIB), DRIVER_BYTES));
        }
        let options = SetupOptions { gpu_memory: vec![24 * GIB], ..SetupOptions::default() };
        assert_eq!(Target::host(&spec, &options, 0).limit(), Some(24 * GIB));
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
