//! What the library tells while it works, as a progress bar and notes on stderr.

use longhand::{Notice, Observer, Progress, Task};

use crate::console::Console;
use crate::format;
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
            bar.progress(progress);
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.bar = None;
        if let Some(text) = text(&notice) {
            self.console.note(&text);
        }
    }
}

fn title(task: Task) -> &'static str {
    match task {
        Task::LoadWeights => "loading",
        Task::Calibrate => "calibrating",
        Task::ComputeWindows => "windows",
        Task::Prefill => "reading",
    }
}

/// A notice in words; `None` for what nobody needs to know.
fn text(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::NoGpu { expected: true, .. } => return None,
        Notice::NoGpu { reason, .. } => format!("note: the CPU computes everything: {reason}"),
        Notice::NothingFitsGpu { free } => format!(
            "note: not even one layer fits the {} that are free on the GPU: the CPU computes everything",
            format::bytes(*free)
        ),
        Notice::LayersOnGpu { on_gpu, layers } => {
            format!("note: {on_gpu} of {layers} layers are on the GPU, the others on the CPU")
        }
        Notice::BeyondTraining { context, trained } => format!(
            "note: a context of {} tokens is more than the {} that the model was trained for; \
             it may not understand what lies beyond",
            format::count(*context),
            format::count(*trained)
        ),
        Notice::IgnoredWindow { window } => format!(
            "note: the file states a sliding window of {window} tokens, which is not applied: attention is full"
        ),
        Notice::Begins(Task::Calibrate) => {
            "finding the model's retrieval heads (once; the result is kept)".to_owned()
        }
        Notice::Begins(Task::ComputeWindows) => {
            "computing how far the model's heads attend (once; the result is kept)".to_owned()
        }
        Notice::Begins(_) => return None,
        Notice::UnusableProfile { reason } => {
            format!("note: the kept head profile cannot be used and is made again: {reason}")
        }
        Notice::ProfileNotCached { reason } => format!("note: the head profile is not kept: {reason}"),
        _ => return None,
    })
}
