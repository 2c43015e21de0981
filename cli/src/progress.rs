//! A progress bar with an estimate on stderr, where that is a terminal; elsewhere nothing. The bar's line is cleared when it is
//! dropped, however that comes about.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crossterm::terminal;
use longhand::{Progress, Task};

use crate::console::Console;
use crate::format;

/// Redrawn at most this often.
const INTERVAL: Duration = Duration::from_millis(100);
/// Work shorter than this shows no bar at all.
const PATIENCE: Duration = Duration::from_millis(300);

/// A bar on its own line.
pub struct ProgressBar {
    title: String,
    visible: bool,
    drawn: Option<Instant>,
    started: Instant,
}

impl ProgressBar {
    /// A bar for some work; it appears when the work takes a while.
    pub fn new(console: &Console, title: impl Into<String>) -> ProgressBar {
        ProgressBar {
            title: title.into(),
            visible: console.stderr_terminal(),
            drawn: None,
            started: Instant::now(),
        }
    }

    /// Shows how far a task of the library is.
    pub fn progress(&mut self, progress: Progress) {
        let Progress { task, share, size, elapsed } = progress;
        let detail = match task {
            Task::LoadWeights => format::bytes((share * size as f64) as usize),
            Task::ComputeWindows => String::new(),
            Task::Calibrate | Task::Prefill => {
                format!("{} t/s", format::speed(share * format::rate(size, elapsed)))
            }
        };
        self.show(share, &detail, progress.remaining());
    }

    /// Shows how many of some bytes are done.
    pub fn bytes(&mut self, done: u64, total: u64) {
        let share = if total == 0 { 1.0 } else { done as f64 / total as f64 };
        self.work(share, &format::bytes(done as usize));
    }

    /// Shows which share of some work is done, and what it is at.
    pub fn work(&mut self, share: f64, detail: &str) {
        let elapsed = self.started.elapsed();
        let remaining = (share > 0.0).then(|| elapsed.mul_f64((1.0 - share).max(0.0) / share));
        self.show(share, detail, remaining);
    }

    fn show(&mut self, share: f64, detail: &str, remaining: Option<Duration>) {
        let due = match self.drawn {
            None => self.started.elapsed() >= PATIENCE,
            Some(last) => last.elapsed() >= INTERVAL,
        };
        if !self.visible || !due {
            return;
        }
        self.drawn = Some(Instant::now());
        let columns = terminal::size().map_or(0, |(columns, _)| usize::from(columns));
        let width = if columns == 0 { 80 } else { columns.max(20) };
        let line = render(&self.title, share, detail, remaining, width - 1);
        // Nobody watches a terminal that cannot be written to.
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r{line}\x1b[K");
        let _ = err.flush();
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let mut err = io::stderr().lock();
            let _ = write!(err, "\r\x1b[K");
            let _ = err.flush();
        }
    }
}

/// One line of at most `width` characters.
fn render(title: &str, share: f64, detail: &str, remaining: Option<Duration>, width: usize) -> String {
    let share = share.clamp(0.0, 1.0);
    let left = remaining.map(|time| format!(", {} left", format::duration(time))).unwrap_or_default();
    let text = format!(" {:3.0} %  {detail}{left}", share * 100.0);
    let used = title.chars().count() + text.chars().count() + 3;
    let cells = width.saturating_sub(used).min(40);
    let line = if cells < 5 {
        format!("{title}{text}")
    } else {
        let full = (share * cells as f64).round() as usize;
        format!("{title} [{}{}]{text}", "#".repeat(full), ".".repeat(cells - full))
    };
    line.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fits_its_line() {
        let five = Some(Duration::from_secs(5));
        let line = render("reading", 0.5, "100 t/s", five, 60);
        assert_eq!(line, "reading [############...........]  50 %  100 t/s, 5.0 s left");
        for width in 0..100 {
            assert!(render("reading", 0.3, "1,000 t/s", five, width).chars().count() <= width);
        }
    }
}
