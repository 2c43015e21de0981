//! One turn of a conversation: the model reads a question and generates an answer. Ctrl-C stops either.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::Result;
use longhand::{Chat, DocumentCache, DocumentReading, EngineError, Generated, Observer, Progress, Reading};

use crate::app::App;
use crate::{crash_save, format, speeds};

/// Says how long the documents take to read, if the machine has read with this model before.
pub fn announce_reading(
    app: &App,
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
) -> Result<(), EngineError> {
    /// Shorter readings need no announcement.
    const SHORT: Duration = Duration::from_secs(2);
    let tokens = chat.tokens_to_read(cache)?;
    if let Some(time) = speeds::estimate(chat.session(), tokens).filter(|time| *time > SHORT) {
        let (tokens, time) = (format::count(tokens), format::duration(time));
        app.console.note(&format!("reading {tokens} tokens takes about {time}, at the speed of last time"));
    }
    Ok(())
}

/// Reads the documents, with a progress bar, or finds them in the cache. Says what is to be known of that.
pub fn read_documents(
    app: &App,
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
) -> Result<Reading, EngineError> {
    let mut reporter = app.reporter();
    let reading = app
        .interrupt
        .computing(|| chat.read_documents(cache, &mut |progress| reporter.progress(progress)))?;
    drop(reporter);
    if cache.is_some() {
        speeds::remember(chat.session(), &reading);
    }
    notes(&reading).iter().for_each(|note| app.console.note(note));
    Ok(cost(&reading))
}

/// What is to be known of the reading of documents: whether they were found in the cache, and what is wrong with that.
pub fn notes(reading: &DocumentReading) -> Vec<String> {
    let DocumentReading { tokens, elapsed, found, problem } = reading;
    let problem = problem.iter().map(|problem| format!("note: documents that were read before: {problem}"));
    let found = found.then(|| {
        let (tokens, time) = (format::count(*tokens), format::duration(*elapsed));
        format!("read before: {tokens} tokens of documents, found again in {time}")
    });
    problem.chain(found).collect()
}

/// What reading documents took.
pub fn cost(reading: &DocumentReading) -> Reading {
    Reading { tokens: if reading.found { 0 } else { reading.tokens }, elapsed: reading.elapsed }
}

/// What stands in place of the answer to a question that has none. `is_last`: of the last question.
pub fn no_answer(is_last: bool) -> &'static str {
    if is_last { "(no answer yet; /regen gives one)" } else { "(no answer)" }
}

/// Reads a question, with a progress bar.
pub fn read(app: &App, chat: &mut Chat, question: &str) -> Result<Reading, EngineError> {
    read_with(app, chat, question, |chat, progress| chat.read(question, progress))
}

/// Reads a question in place of the last one, with a progress bar.
pub fn revise(app: &App, chat: &mut Chat, question: &str) -> Result<Reading, EngineError> {
    read_with(app, chat, question, |chat, progress| chat.revise(question, progress))
}

fn read_with(
    app: &App,
    chat: &mut Chat,
    question: &str,
    read: impl FnOnce(&mut Chat, &mut dyn FnMut(Progress)) -> Result<Reading, EngineError>,
) -> Result<Reading, EngineError> {
    let mut reporter = app.reporter();
    // If the GPU is lost while the question is read, the question must be saved too.
    crash_save::set_messages(chat.messages());
    crash_save::append(&format!("[user]\n{}\n\n", question.trim_end()));
    let reading = app.interrupt.computing(|| read(chat, &mut |progress| reporter.progress(progress)));
    // After other errors the program ends, and the question is saved too.
    if reading.as_ref().map_or_else(EngineError::is_interrupt, |_| true) {
        crash_save::set_messages(chat.messages());
    }
    reading
}

/// Generates an answer to what was read. `print` receives its text piece by piece.
pub fn generate(
    app: &App,
    chat: &mut Chat,
    print: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<Generated> {
    generate_with(app, chat, print, Chat::answer)
}

/// Goes on with an answer that was cut off. `print` receives what is new, piece by piece.
pub fn go_on(app: &App, chat: &mut Chat, print: &mut dyn FnMut(&str) -> io::Result<()>) -> Result<Generated> {
    generate_with(app, chat, print, Chat::continue_answer)
}

fn generate_with(
    app: &App,
    chat: &mut Chat,
    print: &mut dyn FnMut(&str) -> io::Result<()>,
    generate: impl FnOnce(&mut Chat, &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<Generated, EngineError>,
) -> Result<Generated> {
    let mut printed = Ok(());
    let mut on_piece = |piece: &str| {
        crash_save::append(piece);
        if !piece.is_empty() {
            printed = print(piece);
        }
        match printed.is_err() || app.interrupt.is_pressed() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let generated = app.interrupt.generating(|| generate(chat, &mut on_piece))?;
    crash_save::set_messages(chat.messages());
    printed?;
    Ok(generated)
}
