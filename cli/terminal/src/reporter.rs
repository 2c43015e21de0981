//! Shows the library's progress as a progress bar on stderr, and its notices as notes.

use longhand::policy::PolicyChoice;
use longhand::progress::{Notice, Task};
use longhand::reading::Prefill;
use longhand::setup::{Advice, Reason};
use longhand::{Observer, Progress};

use crate::console::Console;
use crate::format::{self, memory_text, offer_flags};
use crate::progress::ProgressBar;

/// Shows progress and notices.
pub struct Reporter<'a> {
    console: &'a Console,
    bar: Option<(Task, ProgressBar)>,
}

impl<'a> Reporter<'a> {
    /// A reporter that shows nothing yet.
    pub fn new(console: &'a Console) -> Reporter<'a> {
        Reporter { console, bar: None }
    }
}

impl Observer for Reporter<'_> {
    fn progress(&mut self, progress: Progress) {
        if self.bar.as_ref().is_none_or(|(task, _)| *task != progress.task) {
            self.bar = Some((progress.task, ProgressBar::new(self.console, title(progress.task))));
        }
        if let Some((_, bar)) = &mut self.bar {
            bar.show(progress);
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.bar = None;
        if let Some(text) = notice_text(&notice) {
            self.console.note(&text);
        }
    }
}

/// Prints a note if a policy reads a text twice, and its prefill cannot.
pub fn note_prefill<'a>(console: &Console, caches: impl IntoIterator<Item = (Prefill, &'a PolicyChoice)>) {
    let cannot =
        |(prefill, policy): &(Prefill, &PolicyChoice)| *prefill == Prefill::Streaming && policy.reads_twice();
    if let Some((_, policy)) = caches.into_iter().find(cannot) {
        console.note(&format!(
            "note: with --prefill streaming no text is read twice: {} keeps the first and the last rows, and no others",
            policy.name()
        ));
    }
}

fn title(task: Task) -> &'static str {
    match task {
        Task::Identify => "reading the model",
        Task::LoadWeights => "loading",
        Task::Calibrate => "calibrating",
        Task::ComputeWindows => "computing windows",
        Task::Prefill => "reading",
    }
}

/// The text of a notice; `None` if it is not shown.
fn notice_text(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::NoGpu { expected: true, .. } => return None,
        Notice::NoGpu { reason, .. } => format!("note: no GPU is used: {reason}"),
        Notice::NothingFitsGpu { free, layers } => format!(
            "note: no GPU is used: {} in the {} of free GPU memory",
            nothing_fits(*layers),
            format::bytes(*free)
        ),
        Notice::LayersTogether { layers } => {
            format!("note: the last {layers} layers share rows, so one GPU has them all, whatever -ngl and --tensor-split say")
        }
        Notice::LayersOnGpu { on_gpu, layers } => {
            format!("note: {on_gpu} of {layers} layers are on the GPU, the others on the CPU")
        }
        Notice::LayersOnDevices { on_devices, on_host } => {
            let on_devices = on_devices.iter().map(|(device, layers)| format!("{layers} on {}", device.full_name()));
            let on_host = (*on_host > 0).then(|| format!("{on_host} on the CPU"));
            format!("note: layers: {}", on_devices.chain(on_host).collect::<Vec<_>>().join(", "))
        }
        Notice::PortableOperations { reason } => portable_operations(reason),
        Notice::ExpertsOnCpu { split, on_gpu } => format!(
            "note: {split} of the {on_gpu} layers on the GPU have their experts on the CPU (--n-cpu-moe)"
        ),
        Notice::ResidualOnHost => {
            "note: while a document is read, its activations are in main memory, because the GPU has no room for them; \
             reading takes longer"
                .to_owned()
        }
        Notice::LayersWithoutGroups { exact, layers } => layers_without_groups(*exact, *layers),
        Notice::GpuLayersUnused => {
            "note: -ngl and --tensor-split have no effect with --device cpu".to_owned()
        }
        Notice::HostExpertsUnused { has_experts: true } => {
            "note: --n-cpu-moe has no effect: no GPU is used".to_owned()
        }
        Notice::HostExpertsUnused { has_experts: false } => {
            "note: --n-cpu-moe has no effect: the model has no experts".to_owned()
        }
        Notice::ModelNotForGpu { reason } => format!("note: no GPU is used: {reason}"),
        Notice::BeyondTraining { context, trained } => format!(
            "note: a context of {} tokens is more than the {} that the model was trained for; \
             answers about longer texts may be wrong",
            format::count(*context),
            format::count(*trained)
        ),
        Notice::IgnoredWindow { window } => format!(
            "note: the model's sliding window of {window} tokens is not used; its layers attend to all tokens"
        ),
        Notice::LimitNotKept { limit, needed, weights_alone } => format!(
            "note: --memory {} is not kept: {} {}",
            format::bytes(*limit),
            if *weights_alone { "the weights alone take" } else { "the weights and the cache take" },
            format::bytes(*needed)
        ),
        Notice::Advice(advice) => advice_text(advice),
        Notice::Begins(Task::Calibrate) => {
            "finding the model's retrieval heads (only once; the result is cached)".to_owned()
        }
        Notice::Begins(Task::ComputeWindows) => {
            "computing how far the model's heads attend (only once; the result is cached)".to_owned()
        }
        Notice::Begins(_) => return None,
        Notice::UnusableProfile { reason } => {
            format!("note: the cached head profile cannot be used, so a new one is made: {reason}")
        }
        Notice::ProfileNotCached { reason } => {
            format!("note: the head profile could not be cached: {reason}")
        }
        _ => return None,
    })
}

/// That not even the fewest layers that a GPU can have fit it.
pub fn nothing_fits(fewest_layers: usize) -> String {
    match fewest_layers {
        1 => "not even one layer fits".to_owned(),
        layers => format!("the last {layers} layers share rows and have to be together; they do not fit"),
    }
}

/// That ggml's operations compute attention on a device, for this reason.
pub fn portable_operations(reason: &str) -> String {
    format!("note: ggml's operations compute attention on the GPU, which takes more of its memory: {reason}")
}

/// That sparse prefill has no effect in so many layers of a model.
pub fn layers_without_groups(exact: usize, layers: usize) -> String {
    format!(
        "note: --prefill sparse has no effect in {exact} of {layers} layers: those on a GPU, with a window, with ALiBi or \
         recurrent"
    )
}

/// What auto has changed, and why.
fn advice_text(advice: &Advice) -> String {
    let (offer, flags) = (&advice.offer, offer_flags(&advice.offer));
    let why = match advice.reason {
        Reason::Memory(shortage) => memory_text(&shortage),
        Reason::Layers { types } => {
            format!("with a full cache in {} not all layers fit the GPU", format::types(types))
        }
        Reason::Weights { types, bound } => format!(
            "the weights and a full cache in {} do not fit the memory together{}",
            format::types(types),
            bound.map_or(String::new(), |bound| bound.to_string())
        ),
        Reason::Budget { is_advised } => {
            return match (offer.policy, is_advised) {
                (None, _) if flags.is_empty() => {
                    "note: the KV budget holds a full cache: nothing is evicted".to_owned()
                }
                (None, _) => {
                    format!("note: the KV budget holds a full cache with {flags}: nothing is evicted")
                }
                (Some(_), true) => format!("note: using {flags} for the KV budget: {}", offer.known_cost()),
                (Some(_), false) => format!(
                    "note: using {flags} for the KV budget. It is smaller than any that was measured: answers may be \
                     lost. The text is read twice"
                ),
            };
        }
        // A reason that this program does not know.
        _ => "what was asked for does not fit".to_owned(),
    };
    format!(
        "note: {why}. Using {flags} instead ({}): {}. To allow only a full cache, give --policy full",
        format::bytes(offer.bytes),
        offer.known_cost()
    )
}
