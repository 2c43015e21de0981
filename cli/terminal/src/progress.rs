//! A progress bar on stderr with an estimate of the remaining time, if stderr is a terminal that can
//! show it. Dropping it clears its line.

use std::time::{Duration, Instant};

use longhand::Progress;
use longhand::progress::Task;

use crate::console::{self, Console};
use crate::{format, tty};

/// Minimum time between two drawings.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time before the bar appears, so that short work shows none.
const DELAY: Duration = Duration::from_millis(300);

/// A progress bar on a line of its own.
pub struct ProgressBar {
    title: String,
    visible: bool,
    last_drawn: Option<Instant>,
    started: Instant,
}

impl ProgressBar {
    /// A bar for work that starts now.
    pub fn new(console: &Console, title: impl Into<String>) -> ProgressBar {
        ProgressBar {
            title: title.into(),
            visible: console.progress(),
            last_drawn: None,
            started: Instant::now(),
        }
    }

    /// Shows the progress of a task of the library.
    pub fn show(&mut self, progress: Progress) {
        let Progress { task, share, size, elapsed, .. } = progress;
        let detail = match task {
            Task::Identify | Task::LoadWeights => format::bytes((share * size as f64) as usize),
            Task::ComputeWindows => String::new(),
            Task::Calibrate | Task::Prefill => {
                format!("{} t/s", format::speed(share * format::rate(size, elapsed)))
            }
        };
        self.draw(share, &detail, progress.remaining());
    }

    /// Shows how many of `total` bytes are done.
    pub fn show_bytes(&mut self, done: u64, total: u64) {
        let share = if total == 0 { 1.0 } else { done as f64 / total as f64 };
        self.show_share(share, &format::bytes(done as usize));
    }

    /// Shows how many of `total` bytes have arrived, and how fast. `before` were there when the work began.
    pub fn show_transfer(&mut self, before: u64, done: u64, total: u64) {
        let share = if total == 0 { 1.0 } else { done as f64 / total as f64 };
        let rate = done.saturating_sub(before) as f64 / self.started.elapsed().as_secs_f64().max(0.001);
        let remaining = Duration::try_from_secs_f64(total.saturating_sub(done) as f64 / rate).ok();
        let detail = format!(
            "{}, {}/s",
            format::bytes_of(done as usize, total as usize),
            format::bytes(rate as usize)
        );
        self.draw(share, &detail, remaining);
    }

    /// Shows the share of the work that is done, from 0 to 1, and `detail`.
    pub fn show_share(&mut self, share: f64, detail: &str) {
        let elapsed = self.started.elapsed();
        let remaining = (share > 0.0).then(|| elapsed.mul_f64((1.0 - share).max(0.0) / share));
        self.draw(share, detail, remaining);
    }

    fn draw(&mut self, share: f64, detail: &str, remaining: Option<Duration>) {
        let due = match self.last_drawn {
            None => self.started.elapsed() >= DELAY,
            Some(last) => last.elapsed() >= INTERVAL,
        };
        if !self.visible || !due {
            return;
        }
        self.last_drawn = Some(Instant::now());
        let columns = tty::columns_of_stderr().max(20);
        let line = render(&self.title, share, detail, remaining, columns - 1);
        console::print_progress(&format!("\r{line}\x1b[K"));
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.last_drawn.is_some() {
            console::print_progress("\r\x1b[K");
        }
    }
}

/// One line of at most `width` characters.
fn render(title: &str, share: f64, detail: &str, remaining: Option<Duration>, width: usize) -> String {
    let share = share.clamp(0.0, 1.0);
    let remaining = remaining.map(|time| format!(", {} left", format::duration(time))).unwrap_or_default();
    let text = format!(" {:3.0} %  {detail}{remaining}", share * 100.0);
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
        let remaining = Some(Duration::from_secs(5));
        let line = render("reading", 0.5, "100 t/s", remaining, 60);
        assert_eq!(line, "reading [############...........]  50 %  100 t/s, 5.0 s left");
        for width in 0..100 {
            assert!(render("reading", 0.3, "1,000 t/s", remaining, width).chars().count() <= width);
        }
    }
}
