//! What long work tells its caller: how far it is, and what was decided on the way.

use std::time::Duration;

use crate::DeviceKind;
use crate::setup::Advice;

/// Long work.
///
/// ```
/// assert_eq!(format!("{:?}", longhand::progress::Task::Prefill), "Prefill");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The model file is read for its fingerprint.
    Identify,
    /// Weights are copied.
    LoadWeights,
    /// Retrieval heads are found by running the model on random tokens.
    Calibrate,
    /// The attention range of each head is computed from the weights (ALiBi models).
    ComputeWindows,
    /// A text is read.
    Prefill,
}

/// How far a task is.
///
/// ```
/// use longhand::Progress;
/// use longhand::progress::Task;
/// use std::time::Duration;
///
/// let elapsed = Duration::from_secs(10);
/// let progress = Progress { task: Task::LoadWeights, share: 0.25, size: 8000, elapsed, left: None };
/// assert_eq!(progress.remaining(), Some(Duration::from_secs(30)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub task: Task,
    /// Work done, between 0 and 1.
    pub share: f64,
    /// Size of the whole task: bytes of [`Task::Identify`] and [`Task::LoadWeights`], tokens of [`Task::Calibrate`] and
    /// [`Task::Prefill`], else 0.
    pub size: usize,
    /// Time since the task began.
    pub elapsed: Duration,
    /// Time that the rest takes, where the task measures that: later work may be slower than earlier work.
    pub left: Option<Duration>,
}

impl Progress {
    /// Time that the rest will take, as measured or as long as so far; `None` at the very beginning.
    pub fn remaining(&self) -> Option<Duration> {
        let like_before = || self.elapsed.mul_f64((1.0 - self.share).max(0.0) / self.share);
        self.left.or_else(|| (self.share > 0.0).then(like_before))
    }
}

/// Something the user should know although it is no error.
///
/// ```
/// use longhand::progress::Notice;
/// use longhand::setup::Context;
/// use longhand::{Model, ModelSource, Observer, Progress, Setup, SetupOptions};
///
/// struct Notices(Vec<Notice>);
///
/// impl Observer for Notices {
///     fn progress(&mut self, _: Progress) {}
///
///     fn notice(&mut self, notice: Notice) {
///         self.0.push(notice);
///     }
/// }
///
/// let mut notices = Notices(Vec::new());
/// let options = SetupOptions { context: Context::Tokens(100_000), ..SetupOptions::default() };
/// Setup::resolve(&Model::open(ModelSource::Embedded)?, &options, 10, &mut notices)?;
/// assert!(notices.0.iter().any(|notice| matches!(notice, Notice::BeyondTraining { trained: 32_768, .. })));
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// No GPU is used. `expected` says whether that was to be expected: no GPU was asked for and the machine
    /// shows none.
    NoGpu {
        /// Why.
        reason: String,
        /// Whether it is worth no message.
        expected: bool,
    },
    /// The fewest layers that can be on a GPU do not fit its free memory, so the CPU computes everything.
    NothingFitsGpu {
        /// Bytes that could have been used.
        free: usize,
        /// How many layers: one, or the last ones that have to be in one place because they share rows.
        layers: usize,
    },
    /// More layers are on GPUs than were asked for, or they are shared in another way: the last ones share rows.
    LayersTogether {
        /// Layers that have to be in one place.
        layers: usize,
    },
    /// Only some of the layers are on the GPU.
    LayersOnGpu {
        /// Layers on the GPU.
        on_gpu: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// Layers are on several devices, or on another machine.
    LayersOnDevices {
        /// How many layers each device has, in the order of the layers.
        on_devices: Vec<(DeviceKind, usize)>,
        /// How many layers the CPU has: the first ones.
        on_host: usize,
    },
    /// Attention of layers on the device is computed by ggml's operations, not by our own kernels. They read a lane's
    /// memory as a whole, and take more memory.
    PortableOperations {
        /// Why.
        reason: String,
    },
    /// The experts of some of the layers on the GPU are on the CPU.
    ExpertsOnCpu {
        /// Layers whose experts are on the CPU and the rest on the GPU.
        split: usize,
        /// Layers on the GPU.
        on_gpu: usize,
    },
    /// While a text is read layer by layer, its residual stream is in the host's memory: the GPU has no room for it.
    ResidualOnHost,
    /// Sparse prefill has no effect in some layers: they are on a device, have a window or ALiBi, or are recurrent.
    LayersWithoutGroups {
        /// Such layers.
        exact: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// It was said how many layers are on GPUs, or how GPUs share them, which has no effect: the CPU was asked for.
    GpuLayersUnused,
    /// Experts were to stay on the CPU, which has no effect: no GPU is used, or the model has no experts.
    HostExpertsUnused {
        /// Whether the model has experts.
        has_experts: bool,
    },
    /// There is a GPU, but it cannot compute the model, so the CPU computes everything.
    ModelNotForGpu {
        /// Why.
        reason: String,
    },
    /// The context is longer than the contexts the model was trained on.
    BeyondTraining {
        /// Tokens of the session.
        context: usize,
        /// Tokens the model was trained for.
        trained: usize,
    },
    /// The file states a sliding window that is not applied: attention is full.
    IgnoredWindow {
        /// Tokens of the window.
        window: usize,
    },
    /// Weights and session take more main memory than they were to take.
    LimitNotKept {
        /// Bytes that they were to take.
        limit: usize,
        /// Bytes that the weights take alone, or with the session where the weights alone would fit.
        needed: usize,
        /// Whether it is the weights alone.
        weights_alone: bool,
    },
    /// Auto has changed what was asked for, or chosen a policy for a budget.
    Advice(Advice),
    /// A task that takes a while begins. Its result is cached if there is a folder for profiles.
    Begins(Task),
    /// A cached head profile could not be used and is made again.
    UnusableProfile {
        /// What is wrong with it.
        reason: String,
    },
    /// A head profile could not be written to the cache.
    ProfileNotCached {
        /// Why.
        reason: String,
    },
}

/// Receives progress and notices. `()` ignores both; a closure that takes [`Progress`] ignores notices.
///
/// ```
/// use longhand::progress::Notice;
/// use longhand::{Observer, Progress};
///
/// struct Log(Vec<String>);
///
/// impl Observer for Log {
///     fn progress(&mut self, progress: Progress) {
///         self.0.push(format!("{:?}: {:.0} %", progress.task, 100.0 * progress.share));
///     }
///
///     fn notice(&mut self, notice: Notice) {
///         self.0.push(format!("{notice:?}"));
///     }
/// }
/// ```
pub trait Observer {
    /// Called again and again while a task runs.
    fn progress(&mut self, progress: Progress);

    /// Called when something was decided that the user should know.
    fn notice(&mut self, _notice: Notice) {}
}

impl Observer for () {
    fn progress(&mut self, _: Progress) {}
}

impl<F: FnMut(Progress)> Observer for F {
    fn progress(&mut self, progress: Progress) {
        self(progress);
    }
}
