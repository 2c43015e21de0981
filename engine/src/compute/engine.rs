//! A loaded model: file, specification, weights, and what computes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ggml::{Backend, InterruptFlag};
use kernels::machine::{Arithmetic, Bandwidth};
use models::gguf::GgufFile;
use models::spec::{KvHeads, ModelSpec, RecurrentLayers};

use crate::compute::forward::Forward;
use crate::compute::weights::{WeightBytes, Weights};
use crate::devices::attention::DeviceAttention;
use crate::devices::backends::{Backends, copy_bandwidth};
use crate::devices::kind::DeviceKind;
use crate::devices::ledger::{DeviceLedger, Ledger, WeightsInUse};
use crate::devices::placement::{MAX_DEVICES, Place, Placement};
use crate::heads::HeadShape;
use crate::progress::Task;
use crate::{EngineError, Hint, Model, ModelSource, Progress, heads};

/// How a model is loaded.
///
/// ```
/// let options = longhand::EngineOptions { threads: Some(4), ..Default::default() };
/// assert!(options.repack && options.devices.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Threads that compute; `None` for one for each processor that this process may use. More are not used.
    pub threads: Option<usize>,
    /// Copy matrices into a layout that the CPU multiplies faster, where there is one. Costs their bytes a
    /// second time.
    pub repack: bool,
    /// Devices for the last layers, in the order of the layers; none is the CPU.
    pub devices: Vec<DeviceOptions>,
    /// Of how many of the first layers the experts stay on the host, with what chooses them.
    pub host_experts: usize,
    /// Whether the residual stream of a text that is read layer by layer stays on the host. That takes less of the
    /// devices' memory, and each layer waits for copies.
    pub host_residual: bool,
    /// Keep intermediates, for [`Session::intermediates`](crate::Session::intermediates).
    pub trace: bool,
    /// Stops the loading. The error is one for which [`EngineError::is_interrupt`] holds. Each session has a flag of its
    /// own ([`Session::set_interrupt`](crate::Session::set_interrupt)).
    pub interrupt: InterruptFlag,
    /// What main memory the engine's sessions are promised, with others.
    pub ledger: Ledger,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            threads: None,
            repack: true,
            devices: Vec::new(),
            host_experts: 0,
            host_residual: false,
            trace: false,
            interrupt: InterruptFlag::new(),
            ledger: Ledger::default(),
        }
    }
}

impl EngineOptions {
    /// Threads that compute on the host, at most one for each processor that this process may use. Threads
    /// meet after every operation, and would wait for those that have no processor.
    pub fn threads(&self) -> usize {
        let processors = std::thread::available_parallelism().ok().map(|processors| processors.get());
        match (self.threads, processors) {
            (Some(threads), Some(processors)) => threads.clamp(1, processors),
            (threads, processors) => threads.or(processors).unwrap_or(1),
        }
    }

    /// A model placed so.
    ///
    /// # Errors
    /// Where a device is there twice, there are too many, or those behind the first are to have more layers than there
    /// are.
    fn placement(&self, spec: &ModelSpec) -> Result<Placement, EngineError> {
        check_devices(self.devices.iter().map(|device| device.kind))?;
        let counts: Vec<usize> = self.devices.iter().map(|device| device.layers).collect();
        let behind_first = counts.iter().skip(1);
        let asked = behind_first.clone().fold(0usize, |sum, count| sum.saturating_add(*count));
        if asked > spec.n_layers {
            let list: Vec<String> = behind_first.map(usize::to_string).collect();
            return Err(EngineError::Setting {
                what: format!("{} layers on the devices behind the first", list.join(" + ")),
                reason: format!("the model has {}", spec.n_layers),
                hint: Hint::advice("give the devices fewer layers"),
            });
        }
        let placement = Placement::with_joint_layers(spec.n_layers, spec.joint_layers(), &counts)
            .with_host_experts(self.host_experts);
        Ok(if self.host_residual { placement.with_host_residual() } else { placement })
    }
}

/// Refuses a list of devices with more than [`MAX_DEVICES`], or with one of them twice.
pub(crate) fn check_devices(devices: impl Iterator<Item = DeviceKind>) -> Result<(), EngineError> {
    let mut known = Vec::new();
    for device in devices {
        let reason = if known.contains(&device) {
            "it is there twice".to_owned()
        } else if known.len() == MAX_DEVICES {
            format!("at most {MAX_DEVICES} devices compute a model")
        } else {
            known.push(device);
            continue;
        };
        return Err(EngineError::Setting {
            what: format!("device {device}"),
            reason,
            hint: Hint::advice("name each device once"),
        });
    }
    Ok(())
}

/// How a device is used.
///
/// ```
/// use longhand::{DeviceKind, DeviceOptions};
///
/// let options = DeviceOptions { layers: 20, ..DeviceOptions::all(DeviceKind::Cuda(0)) };
/// assert_eq!(options.memory, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Which device.
    pub kind: DeviceKind,
    /// How many of the last layers are on it; more than the model has means all. The last of several devices has the last
    /// layers, and the first one at most those that the others leave. The last layers that share rows are on one device
    /// together, which may take them from others.
    pub layers: usize,
    /// Bytes allocated on it at most. What the driver and ggml take is not among them:
    /// [`plan::DRIVER_BYTES`](crate::setup::plan::DRIVER_BYTES),
    /// [`plan::device_overhead`](crate::setup::plan::device_overhead).
    pub memory: Option<usize>,
}

/// A loaded model. Sessions share it: it can be used from several threads at a time.
///
/// ```
/// use longhand::{Engine, EngineOptions, Model, ModelSource, Session, SessionOptions};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let options = EngineOptions { threads: Some(2), ..EngineOptions::default() };
/// let engine = Engine::load(&model, &options, &mut |progress| println!("{:.0} %", 100.0 * progress.share))?;
/// let sessions = [Session::new(&engine, SessionOptions::default())?, Session::new(&engine, SessionOptions::default())?];
/// # drop(sessions);
/// # Ok::<(), longhand::EngineError>(())
/// ```
pub struct Engine {
    pub(crate) forward: Forward,
    model: Arc<Model>,
    fingerprint: String,
    /// See [`Engine::devices`].
    devices: Vec<DeviceKind>,
    /// What memory its sessions are promised: the host's, and that of each device.
    pub(crate) ledgers: (Ledger, Vec<DeviceLedger>),
    /// Its copied weights, for the ledger.
    _weights: WeightsInUse,
    /// Whether it is known that no weight is NaN or infinite.
    pub(crate) has_finite_weights: AtomicBool,
    // Last: what computes must outlive everything it has allocated.
    pub(crate) backends: Backends,
}

impl Engine {
    /// Opens a model file and loads it.
    pub fn open(source: &ModelSource, options: &EngineOptions) -> Result<Arc<Engine>, EngineError> {
        Engine::load(&Model::open(source.clone())?, options, &mut |_| ())
    }

    /// Loads a model: finds its fingerprint, starts what computes and places the weights. The interrupt flag stops it.
    ///
    /// # Errors
    /// Where the kernels cannot compute the model, the device cannot be used, or memory is short.
    pub fn load(
        model: &Arc<Model>,
        options: &EngineOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Arc<Engine>, EngineError> {
        let (file, spec) = (model.gguf(), model.spec());
        check_heads(spec, file.path())?;
        check_device_model(spec, file.path(), options.devices.iter().map(|device| device.kind))?;
        let placement = options.placement(spec)?;
        let interrupt = &options.interrupt;
        // Known from now on, so that a session can be saved even if the file is lost later.
        let fingerprint = model.identify(options.threads(), interrupt, progress)?.to_owned();
        let host = Backend::cpu(options.threads())?;
        let devices = options.devices.iter().map(DeviceOptions::start).collect::<Result<Vec<_>, _>>()?;
        let backends = Backends::new(host, devices, placement).with_model(model);
        check_products(file, spec, &backends)?;
        let started = Instant::now();
        let weights = Weights::load(file, spec, options.repack, &backends, &mut |done, all| {
            let share = if all == 0 { 1.0 } else { done as f64 / all as f64 };
            progress(Progress {
                task: Task::LoadWeights,
                share,
                size: all,
                elapsed: started.elapsed(),
                left: None,
            });
            Ok(interrupt.check()?)
        })?;
        file.check_complete()?;
        let mut forward = Forward::new(spec, weights, backends.placement(), backends.kernels().clone());
        if options.trace {
            forward.trace();
        }
        let has_finite_weights = AtomicBool::new(false);
        let model = model.clone();
        let WeightBytes { repacked, copied, .. } = &forward.weights().bytes;
        let of_devices = options.devices.iter().map(|_| DeviceLedger::default()).collect();
        let with_layers = options.devices.iter().enumerate();
        let with_layers =
            with_layers.filter(|(number, _)| !placement.layers(Place::Device(*number)).is_empty());
        let devices = with_layers.map(|(_, device)| device.kind).collect();
        let ledgers = (options.ledger.clone(), of_devices);
        let _weights = ledgers.0.with_weights(repacked + copied);
        Ok(Arc::new(Engine {
            forward,
            model,
            fingerprint,
            devices,
            ledgers,
            _weights,
            has_finite_weights,
            backends,
        }))
    }

    /// The model it was loaded from.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// See [`Model::fingerprint`].
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The model file.
    pub fn file(&self) -> &GgufFile {
        self.model.gguf()
    }

    /// Sizes and settings of the model.
    pub fn spec(&self) -> &ModelSpec {
        self.model.spec()
    }

    /// Where the bytes of the weights are.
    #[doc(hidden)]
    pub fn weight_bytes(&self) -> WeightBytes {
        self.forward.weights().bytes.clone()
    }

    /// What computes, and which layers are where.
    #[doc(hidden)]
    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Gives the pages of a layer's weights that only prefill needs back to the system.
    pub(crate) fn release(&self, layer: usize) {
        self.forward.weights().release(self.file(), layer);
    }

    /// As [`Engine::release`], for all layers.
    pub(crate) fn release_all(&self) {
        (0..self.spec().n_layers).for_each(|layer| self.release(layer));
    }

    /// Bytes a second, read or copied, that the host's memory gives, or the slowest device's where all layers and experts
    /// are on devices: what bounds decoding. Measured over `bytes` bytes, the best of `passes` passes.
    pub fn memory_bandwidth(&self, bytes: usize, passes: usize) -> Result<f64, EngineError> {
        let placement = self.backends.placement();
        if placement.host_experts() > 0 {
            return Ok(Bandwidth::new(bytes).best(self.threads(), passes));
        }
        let places = placement.places().filter(|place| !placement.layers(*place).is_empty());
        places
            .map(|place| copy_bandwidth(self.backends.at(place), bytes, passes))
            .try_fold(f64::INFINITY, |slowest, bandwidth| bandwidth.map(|bandwidth| bandwidth.min(slowest)))
    }

    /// What the host's processors can compute, with as many threads as the engine has. `None` where some of the layers or
    /// experts are on devices. Each kind is measured for about `seconds` seconds.
    pub fn arithmetic(&self, seconds: f64) -> Option<Arithmetic> {
        self.devices.is_empty().then(|| Arithmetic::measure(self.threads(), seconds))
    }

    /// The devices that have layers.
    pub fn devices(&self) -> &[DeviceKind] {
        &self.devices
    }

    /// How many of the layers are on devices.
    pub fn layers_on_devices(&self) -> usize {
        self.backends.placement().on_devices()
    }

    /// Which layers are where.
    pub fn placement(&self) -> Placement {
        self.backends.placement()
    }

    /// Number of threads that compute.
    pub fn threads(&self) -> usize {
        self.backends.at(Place::Host).threads()
    }

    /// The model's heads, for profiles.
    pub fn head_shape(&self) -> Result<HeadShape, heads::HeadsError> {
        self.model.head_shape()
    }
}

impl DeviceOptions {
    /// Starts the device for tests of its operations.
    #[doc(hidden)]
    pub fn backend(&self) -> Result<Backend, ggml::Error> {
        self.start()
    }

    /// All layers on a device without a bound on its memory.
    pub fn all(kind: DeviceKind) -> DeviceOptions {
        DeviceOptions { kind, layers: usize::MAX, memory: None }
    }

    /// Starts the device.
    pub(crate) fn start(&self) -> Result<Backend, ggml::Error> {
        match self.kind {
            DeviceKind::Emulated(_) => Backend::emulated(self.memory),
            DeviceKind::Portable(_) => Backend::portable(self.memory),
            DeviceKind::Cuda(index) => Backend::cuda(index, self.memory),
            DeviceKind::Hip(index) => Backend::hip(index, self.memory),
            DeviceKind::Metal(index) => Backend::metal(index, self.memory),
            DeviceKind::Vulkan(index) => Backend::vulkan(index, self.memory),
            #[cfg(feature = "rpc")]
            DeviceKind::Rpc(index) => Backend::rpc(index, self.memory),
        }
    }
}

/// Refuses matrices that what computes them cannot multiply.
fn check_products(file: &GgufFile, spec: &ModelSpec, backends: &Backends) -> Result<(), EngineError> {
    let placement = backends.placement();
    for tensor in file.tensors().iter().filter(|tensor| tensor.dims.len() > 1) {
        if let Some(ty) = ggml::Type::from_id(tensor.ty.id()) {
            backends.at(placement.of_products(&tensor.name, spec.tied_output)).check_products(ty)?;
        }
    }
    Ok(())
}

/// What the attention kernels ask of the heads of a model, whose file has this path.
fn check_heads(spec: &ModelSpec, path: Option<&Path>) -> Result<(), EngineError> {
    // Heads without latent attention are padded to it: see `stored_dim` in `kv/layout/mod.rs`.
    const GRANULE: usize = 8;
    let most = kernels::attention::MAX_KV_HEADS;
    for KvHeads { count, dim } in (0..spec.n_layers).map(|layer| spec.kv_heads(layer)) {
        if spec.latent.is_some() && !dim.is_multiple_of(GRANULE) {
            return Err(unfit(
                path,
                format!("heads of {dim} elements"),
                format!("attention needs a multiple of {GRANULE} elements"),
                Hint::OtherModel,
            ));
        }
        if count > most {
            return Err(unfit(
                path,
                format!("{count} KV heads a layer"),
                format!("attention takes at most {most}"),
                Hint::OtherModel,
            ));
        }
    }
    Ok(())
}

/// What these devices ask besides.
pub(crate) fn check_device_model(
    spec: &ModelSpec,
    path: Option<&Path>,
    devices: impl Iterator<Item = DeviceKind>,
) -> Result<(), EngineError> {
    // ggml's convolution by CUDA and HIP computes blocks of so many channels.
    const CUDA_CHANNELS: usize = 128;
    let devices: Vec<DeviceKind> = devices.collect();
    if devices.is_empty() {
        return Ok(());
    }
    // Embeddings of layers pass to the device after the first stage, which has to be the host's only one. Where experts are on the
    // host, it has more.
    if spec.per_layer_width.is_some() && spec.experts.is_some() {
        let what = "embeddings of each layer beside experts".into();
        return Err(unfit(path, what, "they are computed on the CPU only".into(), Hint::UseCpu));
    }
    let by_blocks = devices.iter().find(|kind| matches!(kind, DeviceKind::Cuda(_) | DeviceKind::Hip(_)));
    let channels = spec.recurrent.as_ref().map_or(0, RecurrentLayers::channels);
    if let Some(kind) = by_blocks.filter(|_| !channels.is_multiple_of(CUDA_CHANNELS)) {
        let reason = format!("by {} a multiple of {CUDA_CHANNELS} is computed", kind.backend());
        return Err(unfit(path, format!("a convolution of {channels} channels"), reason, Hint::UseCpu));
    }
    for attention in devices.iter().filter_map(|kind| DeviceAttention::of(*kind)) {
        if let Some(dim) = attention.missing_head_dim(spec) {
            let (backend, dims) = (attention.backend, attention.head_dims(spec));
            let reason = format!("by {backend}, heads of {dims} elements are computed");
            return Err(unfit(path, format!("heads of {dim} elements"), reason, Hint::UseCpu));
        }
    }
    Ok(())
}

/// The error of a model that cannot be computed.
fn unfit(path: Option<&Path>, what: String, reason: String, hint: Hint) -> EngineError {
    let what = match path {
        Some(path) => format!("{}: {what}", path.display()),
        None => what,
    };
    EngineError::Setting { what, reason, hint }
}
