//! A loaded model: file, specification, weights, and what computes.

use crate::devices::{Devices, Place};
use crate::forward::Forward;
use crate::heads::HeadShape;
use crate::weights::{Loading, WeightBytes, Weights};
use crate::{EngineError, heads};
use ggml::Backend;
use kernels::graph::{MAX_DEVICE_HEAD_DIM, MAX_DEVICE_HEADS};
use models::gguf::GgufFile;
use models::spec::ModelSpec;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Where a model comes from.
#[derive(Clone, Debug)]
pub enum ModelSource {
    /// A GGUF file (any part of a split one).
    File(PathBuf),
    /// The model inside the program.
    Embedded,
    /// A file in memory.
    Bytes(Vec<u8>),
}

/// How a model is opened.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Threads that compute; `None` takes one for every processor this process may use.
    pub threads: Option<usize>,
    /// Copy matrices into a layout that the CPU multiplies faster, where there is one. Costs their bytes a second time.
    pub repack: bool,
    /// A device for the last layers.
    pub device: Option<DeviceOptions>,
    /// Keep intermediates, for [`Session::intermediates`](crate::Session::intermediates).
    pub trace: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions { threads: None, repack: true, device: None, trace: false }
    }
}

impl EngineOptions {
    /// Threads that compute on the host.
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
    }
}

/// How a device is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Which.
    pub kind: DeviceKind,
    /// How many of the last layers are on it; more than there are is all.
    pub layers: usize,
    /// Bytes that are allocated on it at most. What the driver and ggml take is not among them:
    /// [`plan::DRIVER`](crate::plan::DRIVER), [`plan::device_overhead`](crate::plan::device_overhead).
    pub memory: Option<usize>,
}

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A device that the host emulates, for tests: see [`Backend::emulated`].
    #[cfg(feature = "testing")]
    Emulated,
    /// An NVIDIA GPU, by CUDA's number.
    Cuda(usize),
}

/// A loaded model.
pub struct Engine {
    pub(crate) forward: Forward,
    pub(crate) devices: Devices,
    file: GgufFile,
    spec: ModelSpec,
    interrupt: Arc<AtomicBool>,
}

impl Engine {
    /// Opens a model: validates the file, starts what computes, places the weights.
    pub fn open(source: &ModelSource, options: &EngineOptions) -> Result<Engine, EngineError> {
        Engine::open_with(source, options, &mut |_, _| Ok(()))
    }

    /// As [`Engine::open`]; `loading` is told how many bytes of weights have been copied and how many there are to copy, and stops
    /// it with an error.
    pub fn open_with(
        source: &ModelSource,
        options: &EngineOptions,
        loading: Loading,
    ) -> Result<Engine, EngineError> {
        let file = open_file(source)?;
        let spec = ModelSpec::from_gguf(&file)?;
        check_heads(&spec, &file, options.device.is_some())?;
        let interrupt = Arc::new(AtomicBool::new(false));
        let host = Backend::cpu(options.threads(), interrupt.clone())?;
        let device = options.device.map(|device| device.start(interrupt.clone())).transpose()?;
        let on_device = options.device.map_or(0, |device| device.layers);
        let devices = Devices::new(host, device, spec.n_layers, on_device);
        for tensor in file.tensors().iter().filter(|tensor| tensor.dims.len() > 1) {
            if let (Place::Device, Some(ty)) =
                (devices.placement().of_tensor(&tensor.name), ggml::Type::from_id(tensor.ty.id()))
            {
                devices.at(Place::Device).check_products(ty)?;
            }
        }
        if let (true, Some(embedding)) =
            (spec.tied_output, file.tensors().iter().find(|tensor| tensor.name == "token_embd.weight"))
            && let Some(ty) = ggml::Type::from_id(embedding.ty.id())
        {
            devices.at(devices.placement().of_output()).check_products(ty)?;
        }
        let weights = Weights::load(&file, &spec, options.repack, &devices, loading)?;
        let workers = (devices.at(Place::Host).threads(), devices.at(Place::Device).blocks());
        let mut forward = Forward::new(&spec, weights, devices.placement(), workers);
        if options.trace {
            forward.trace();
        }
        Ok(Engine { forward, devices, file, spec, interrupt })
    }

    /// The model file.
    pub fn file(&self) -> &GgufFile {
        &self.file
    }

    /// Sizes and settings of the model.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// Where the bytes of the weights are.
    pub fn weight_bytes(&self) -> WeightBytes {
        self.forward.weights().bytes
    }

    /// What computes, and which layers are where.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Gives the pages of a layer's weights that were only needed for reading a text back to the system.
    pub(crate) fn release(&self, layer: usize) {
        self.forward.weights().release(&self.file, layer);
    }

    /// As [`Engine::release`], for all layers.
    pub(crate) fn release_all(&self) {
        (0..self.spec.n_layers).for_each(|layer| self.release(layer));
    }

    /// Number of threads that compute.
    pub fn threads(&self) -> usize {
        self.devices.at(Place::Host).threads()
    }

    /// Set to true, this flag stops the computation that is running (at the next operation) with an error for which
    /// [`EngineError::is_interrupt`] holds. It must be reset before the next computation.
    pub fn interrupt(&self) -> Arc<AtomicBool> {
        self.interrupt.clone()
    }

    /// The model's heads, for profiles.
    pub fn head_shape(&self) -> Result<HeadShape, heads::HeadsError> {
        HeadShape::new(self.spec.n_layers, self.spec.n_heads, self.spec.n_kv_heads)
    }
}

impl DeviceOptions {
    /// All layers on a device without a bound on its memory.
    pub fn all(kind: DeviceKind) -> DeviceOptions {
        DeviceOptions { kind, layers: usize::MAX, memory: None }
    }

    /// Starts the device; setting `interrupt` stops its computations.
    pub fn start(&self, interrupt: Arc<AtomicBool>) -> Result<Backend, ggml::Error> {
        match self.kind {
            #[cfg(feature = "testing")]
            DeviceKind::Emulated => Backend::emulated(interrupt, self.memory),
            DeviceKind::Cuda(index) => Backend::cuda(index, interrupt, self.memory),
        }
    }
}

/// Opens and checks the file behind a source.
pub fn open_file(source: &ModelSource) -> Result<GgufFile, EngineError> {
    Ok(match source {
        ModelSource::File(path) => GgufFile::open(path)?,
        ModelSource::Embedded => GgufFile::from_static(models::embedded::needle())?,
        ModelSource::Bytes(bytes) => GgufFile::from_bytes(bytes.clone())?,
    })
}

/// What the attention kernels ask of a model's heads.
fn check_heads(spec: &ModelSpec, file: &GgufFile, on_device: bool) -> Result<(), EngineError> {
    const GRANULE: usize = 8;
    let most = kernels::attention::MAX_KV_HEADS;
    let wrong = |what: String, reason: String| {
        Err(EngineError::Setting {
            what: match file.path() {
                Some(path) => format!("{}: {what}", path.display()),
                None => what,
            },
            reason,
            hint: "this model cannot be used; choose another one".into(),
        })
    };
    if !spec.head_dim.is_multiple_of(GRANULE) {
        return wrong(
            format!("heads of {} elements", spec.head_dim),
            format!("attention works on multiples of {GRANULE} elements"),
        );
    }
    if on_device && (spec.n_kv_heads > MAX_DEVICE_HEADS || spec.head_dim > MAX_DEVICE_HEAD_DIM) {
        return wrong(
            format!("{} KV heads of {} elements a layer", spec.n_kv_heads, spec.head_dim),
            format!(
                "on a GPU attention takes at most {MAX_DEVICE_HEADS} KV heads of {MAX_DEVICE_HEAD_DIM} elements; use --device cpu"
            ),
        );
    }
    if spec.n_kv_heads > most {
        return wrong(
            format!("{} KV heads a layer", spec.n_kv_heads),
            format!("attention takes at most {most}"),
        );
    }
    Ok(())
}
