//! Reads documents in a thread of its own while the user types. The thread borrows the [`Chat`], so the first message
//! stops it, whatever it is. A question then reads the rest with a progress bar, and a command finds the chat as it is
//! between two chunks.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use longhand::saved::{DocumentCache, DocumentReading};
use longhand::{Chat, EngineError, InterruptFlag, Progress};
use terminal::format;

use crate::commands::chat::conversation;
use crate::commands::chat::status::Status;
use crate::session::documents::names;
use crate::session::turn;

/// What is said of documents that are not read yet, because that takes long.
pub const WAITS: &str =
    "that is long, so it waits: /read reads it, and so does a question. /files drop gives it up";

/// Reads documents during `wait`, which waits for the user, and stops when it returns. What is read by then is kept.
/// `flag` stops the chat's session. `None` where the documents wait for the user: they take longer than `long`, as their
/// first seconds tell, and the user was told.
pub fn read_during<T>(
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
    status: &Status,
    flag: &InterruptFlag,
    long: Option<Duration>,
    wait: impl FnOnce() -> T,
) -> (T, Result<Option<DocumentReading>, EngineError>) {
    let what = names(&chat.next_documents());
    status.show(format!("reading {what}"));
    let stop = Stop { flag, is_wanted: AtomicBool::new(false) };
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("reading".to_owned()).spawn_scoped(scope, || {
            let read = read(chat, cache, status, &stop, long);
            status.end(match &read {
                Ok(Ok(reading)) => finished(&what, reading),
                Ok(Err(waits)) => waits.clone(),
                Err(error) if error.is_interrupt() => Vec::new(),
                Err(error) => vec![failed(&what, error)],
            });
            read.map(Result::ok)
        });
        let Ok(reader) = reader else {
            // Without a thread the next question reads the documents.
            status.end(Vec::new());
            return (wait(), Ok(Some(DocumentReading::default())));
        };
        let stop = StopAtEnd(&stop);
        let waited = wait();
        drop(stop);
        let read = reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        flag.clear();
        (waited, read)
    })
}

/// Reads documents; or gives notes for the user, if that takes longer than `long`. Unless a reading was known to be short,
/// its first seconds tell.
fn read(
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
    status: &Status,
    stop: &Stop,
    long: Option<Duration>,
) -> Result<Result<DocumentReading, Vec<String>>, EngineError> {
    let what = names(&chat.next_documents());
    let (started, mut is_guessed) = (Instant::now(), long.is_none());
    loop {
        let read = chat.read_documents(cache, &mut |progress| {
            status.show(progress_line(&what, progress));
            if !is_guessed && started.elapsed() > turn::FIRST_SECONDS {
                is_guessed = true;
                stop.flag.set();
            }
        });
        match read {
            Err(error) if error.is_interrupt() && is_guessed && stop.goes_on() => {}
            read => return Ok(Ok(read?)),
        }
        if let Some((note, time)) = turn::guess(chat, cache)?
            && long.is_some_and(|long| time >= long)
        {
            return Ok(Err(vec![note, WAITS.to_owned()]));
        }
    }
}

/// How a reading is stopped.
struct Stop<'a> {
    flag: &'a InterruptFlag,
    /// Whether the user has a message. Otherwise the reading has stopped itself.
    is_wanted: AtomicBool,
}

impl Stop<'_> {
    /// Whether the reading goes on after it was stopped.
    fn goes_on(&self) -> bool {
        // In this order: a stop that comes in between is seen.
        self.flag.clear();
        let goes_on = !self.is_wanted.load(Ordering::SeqCst);
        if !goes_on {
            self.flag.set();
        }
        goes_on
    }
}

/// Stops the reading when it is dropped, also by a panic: the reader would go on for hours.
struct StopAtEnd<'a>(&'a Stop<'a>);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.is_wanted.store(true, Ordering::SeqCst);
        self.0.flag.set();
    }
}

/// What to say when the reading has failed.
fn failed(what: &str, error: &EngineError) -> String {
    match error {
        EngineError::ContextFull { needed, context } => conversation::context_full(*needed, *context),
        error => {
            let hint = error.hint().filter(|_| ends_chat(error)).map(|hint| hint.to_string());
            let hint = hint.unwrap_or_else(|| "a question or /read tries again".to_owned());
            format!("error: cannot read {what}: {error}\nhint: {hint}")
        }
    }
}

/// Whether nothing can be computed after this error: the device or the model file is lost, or the model's numbers are
/// not finite. Memory may be free later.
pub fn ends_chat(error: &EngineError) -> bool {
    use ggml::Error::{OutOfMemory, OverBudget, Threads};
    match error {
        EngineError::Compute(OutOfMemory { .. } | OverBudget { .. } | Threads { .. }) => false,
        EngineError::Compute(_) | EngineError::Load(_) | EngineError::NotFinite { .. } => true,
        _ => false,
    }
}

/// What to say when everything is read: `read book.txt: 13,204 tokens in 2 min 10 s`
fn finished(what: &str, reading: &DocumentReading) -> Vec<String> {
    let mut notes = turn::notes(reading);
    if !reading.found {
        let (tokens, time) = (format::count(reading.tokens), format::duration(reading.elapsed));
        notes.push(format!("read {what}: {tokens} tokens in {time}"));
    }
    notes
}

/// `reading book.txt 34 % · 2 min left`
fn progress_line(what: &str, progress: Progress) -> String {
    let percent = format::whole_percent(progress.share);
    let left = progress.remaining().map(|time| format!(" · {} left", format::duration(time)));
    format!("reading {what} {percent}{}", left.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use longhand::progress::Task;

    use super::*;

    #[test]
    fn only_errors_that_come_back_end_the_chat() {
        let memory = || ggml::Error::OutOfMemory { what: "rows".into(), bytes: 1, device: "CPU".into() };
        let lost = || ggml::Error::Device("lost".into());
        let again = "hint: a question or /read tries again";
        assert!(!ends_chat(&memory().into()) && failed("a.txt", &memory().into()).ends_with(again));
        assert!(ends_chat(&lost().into()) && failed("a.txt", &lost().into()).contains("hint: start again"));
        assert!(ends_chat(&EngineError::NotFinite { origin: None }));
        assert!(!ends_chat(&EngineError::ContextFull { needed: 2, context: 1 }));
    }

    #[test]
    fn the_line_says_what_is_read_and_how_long_it_takes() {
        let elapsed = Duration::from_secs(40);
        let progress = Progress { task: Task::Prefill, share: 0.25, size: 1000, elapsed, left: None };
        assert_eq!(progress_line("a.txt", progress), "reading a.txt 25 % · 2 min 00 s left");
        let some = ["a.txt", "b.txt", "c.txt"].map(str::to_owned);
        assert_eq!(
            [names(&some[..1]), names(&some), names(&[])],
            ["a.txt", "a.txt and 2 more", "the documents"]
        );
    }
}
