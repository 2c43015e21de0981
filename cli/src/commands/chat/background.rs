//! Reads documents in a thread of its own while the user types. The thread borrows the [`Chat`], so the first message
//! stops it, whatever it is. A question then reads the rest with a progress bar, and a command finds the chat as it is
//! between two chunks.

use std::panic;
use std::thread;

use longhand::saved::{DocumentCache, DocumentReading};
use longhand::{Chat, EngineError, InterruptFlag, Progress};
use terminal::format;

use crate::commands::chat::conversation;
use crate::commands::chat::status::Status;
use crate::session::documents::names;
use crate::session::turn;

/// Reads documents during `wait`, which waits for the user, and stops when it returns. What is read by then is kept.
/// `flag` stops the chat's session.
pub fn read_during<T>(
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
    status: &Status,
    flag: &InterruptFlag,
    wait: impl FnOnce() -> T,
) -> (T, Result<DocumentReading, EngineError>) {
    let what = names(&chat.next_documents());
    status.show(format!("reading {what}"));
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("reading".to_owned()).spawn_scoped(scope, || {
            let read =
                chat.read_documents(cache, &mut |progress| status.show(progress_line(&what, progress)));
            status.end(match &read {
                Ok(reading) => finished(&what, reading),
                Err(error) if error.is_interrupt() => Vec::new(),
                Err(error) => vec![failed(&what, error)],
            });
            read
        });
        let Ok(reader) = reader else {
            // Without a thread the next question reads the documents.
            status.end(Vec::new());
            return (wait(), Ok(DocumentReading::default()));
        };
        let stop = StopAtEnd(flag);
        let waited = wait();
        drop(stop);
        let read = reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        flag.clear();
        (waited, read)
    })
}

/// Sets the flag when it is dropped, also by a panic: the reader would go on for hours.
struct StopAtEnd<'a>(&'a InterruptFlag);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.set();
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
    use std::time::Duration;

    use longhand::Task;

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
        let progress =
            Progress { task: Task::Prefill, share: 0.25, size: 1000, elapsed: Duration::from_secs(40) };
        assert_eq!(progress_line("a.txt", progress), "reading a.txt 25 % · 2 min 00 s left");
        let some = ["a.txt", "b.txt", "c.txt"].map(str::to_owned);
        assert_eq!(
            [names(&some[..1]), names(&some), names(&[])],
            ["a.txt", "a.txt and 2 more", "the documents"]
        );
    }
}
