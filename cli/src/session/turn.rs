//! One turn of a conversation: the model reads a question and generates an answer. Ctrl-C stops either.

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use longhand::generation::{DraftCounts, Generated};
use longhand::reading::Reading;
use longhand::saved::{DocumentCache, DocumentReading};
use longhand::{Chat, EngineError, Observer, Progress};
use terminal::{format, stdin};

use crate::app::App;
use crate::failure::{self, Failure};
use crate::session::documents::names;
use crate::session::{crash_save, speeds};

/// A longer reading begins when the user wants it.
pub const LONG: Duration = Duration::from_secs(600);
/// After so much reading one can guess how long the rest takes.
pub const FIRST_SECONDS: Duration = Duration::from_secs(2);

/// Says how much of the documents was read before, and how long the rest takes, if the machine has read with this model
/// before. Returns that time.
pub fn announce_reading(
    app: &App,
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
) -> Result<Option<Duration>, EngineError> {
    /// Shorter readings need no announcement.
    const SHORT: Duration = Duration::from_secs(2);
    let known = cache.map_or(Ok(0.0), |cache| chat.known_share(cache))?;
    let (before, tokens) = to_read(chat, cache)?;
    let time = speeds::estimate(chat.session(), before, tokens).map(|time| time.mul_f64(1.0 - known));
    let about = |time| format!("takes about {}, at the speed of last time", format::duration(time));
    let long = time.filter(|time| *time > SHORT);
    if known > 0.0 && known < 1.0 {
        let (what, known) = (names(&chat.next_documents()), format::whole_percent(known));
        let rest = long.map_or_else(String::new, |time| format!("; the rest {}", about(time)));
        app.console.note(&format!("found {what}: {known} read{rest}"));
    } else if let Some(time) = long {
        app.console.note(&format!("reading {} tokens {}", format::count(tokens), about(time)));
    }
    Ok(time)
}

/// Tokens before the documents that are to be read, and theirs.
fn to_read(chat: &mut Chat, cache: Option<&DocumentCache>) -> Result<(usize, usize), EngineError> {
    let (tokens, all) = (chat.tokens_to_read(cache)?, chat.tokens_with_documents()?);
    Ok((all.saturating_sub(tokens), tokens))
}

/// Whether documents are read, after what is known of the time is said. A reading of more than ten minutes is asked
/// about on a terminal, unless `yes`. Where nothing is known, the first seconds of the reading tell.
///
/// Returns the reading if it has ended by then.
///
/// # Errors
/// The documents cannot be read, or the user does not want them to be.
pub fn begin_documents(
    app: &App,
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
    yes: bool,
) -> Result<Option<DocumentReading>> {
    let (_, tokens) = to_read(chat, cache)?;
    let time = match announce_reading(app, chat, cache)? {
        None if tokens >= speeds::MIN_TOKENS => {
            if let Some(reading) = read_first_seconds(app, chat, cache)? {
                return Ok(Some(reading));
            }
            guess(chat, cache)?.inspect(|(note, _)| app.console.note(note)).map(|(_, time)| time)
        }
        time => time,
    };
    let confirmed = confirm_reading(app, chat, time, yes);
    if confirmed.is_err() {
        keep_reading(app, chat, cache);
    }
    confirmed.map(|()| None)
}

/// Asks whether documents are read that take so much time, if that is long, unless `yes`.
///
/// # Errors
/// The user does not want them to be.
pub fn confirm_reading(app: &App, chat: &Chat, time: Option<Duration>, yes: bool) -> Result<()> {
    let what = names(&chat.next_documents());
    let is_short = time.is_none_or(|time| time < LONG);
    if yes || is_short || stdin::confirm(&app.console, &app.interrupt, &format!("Read {what}?"))? {
        return Ok(());
    }
    let hint = "give a part of it, or use a smaller model; -y reads without asking";
    Err(Failure::interrupted_with(format!("{what}: not read"), hint).into())
}

/// How long the documents take that were begun, as fast as their first pieces were, and a note about it. `None` where it
/// is too short to be told, or not known.
pub fn guess(
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
) -> Result<Option<(String, Duration)>, EngineError> {
    /// The progress shows what shorter readings take.
    const SHORT: Duration = Duration::from_secs(20);
    let (before, tokens) = to_read(chat, cache)?;
    let time = speeds::guess(chat.session(), before, tokens).filter(|time| *time > SHORT);
    let note = |time| {
        let (tokens, time) = (format::count(tokens), format::duration(time));
        format!("reading {tokens} tokens takes about {time}: a guess from the first seconds")
    };
    Ok(time.map(|time| (note(time), time)))
}

/// Reads documents until their time can be guessed. `None` where more is to be read.
fn read_first_seconds(
    app: &App,
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
) -> Result<Option<DocumentReading>, EngineError> {
    let (started, flag, mut is_enough) = (Instant::now(), app.interrupt.flag(), false);
    let mut reporter = app.reporter();
    let (read, is_pressed) = app.interrupt.computing(|| {
        let read = chat.read_documents(cache, &mut |progress| {
            reporter.progress(progress);
            if !is_enough && started.elapsed() > FIRST_SECONDS {
                is_enough = true;
                flag.set();
            }
        });
        (read, app.interrupt.is_pressed())
    });
    drop(reporter);
    match read {
        Err(error) if error.is_interrupt() && is_enough && !is_pressed => Ok(None),
        read => read.map(|reading| Some(finished(app, chat, cache, reading))),
    }
}

/// Documents were read: remembers how fast, and says what is to be known of that.
fn finished(
    app: &App,
    chat: &Chat,
    cache: Option<&DocumentCache>,
    reading: DocumentReading,
) -> DocumentReading {
    if cache.is_some() {
        speeds::remember(chat.session(), &reading);
    }
    notes(&reading).iter().for_each(|note| app.console.note(note));
    reading
}

/// Reads the documents, with a progress bar, or finds them in the cache. Says what is to be known of that.
pub fn read_documents(
    app: &App,
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
) -> Result<Reading, EngineError> {
    Ok(cost(&read_documents_with_notes(app, chat, cache)?))
}

/// The same, with all that is known of the reading.
pub fn read_documents_with_notes(
    app: &App,
    chat: &mut Chat,
    cache: Option<&DocumentCache>,
) -> Result<DocumentReading, EngineError> {
    let mut reporter = app.reporter();
    let reading = app
        .interrupt
        .computing(|| chat.read_documents(cache, &mut |progress| reporter.progress(progress)))?;
    drop(reporter);
    Ok(finished(app, chat, cache, reading))
}

/// Keeps how far the documents are read, so that the reading goes on from there the next time, and says so. Returns how
/// much is kept, from 0 to 1.
pub fn keep_reading(app: &App, chat: &mut Chat, cache: Option<&DocumentCache>) -> Option<f64> {
    let kept = chat.keep_reading(cache?);
    let what = names(&chat.next_documents());
    match kept {
        Ok(share) => {
            if let Some(share) = share {
                let share = format::whole_percent(share);
                app.console
                    .note(&format!("{what}: {share} is read and kept; the next reading goes on from there"));
            }
            share
        }
        Err(error) => {
            app.console.note(failure::report(&error.into()).text.trim_end());
            app.console.note(&format!("how far {what} is read could not be kept"));
            None
        }
    }
}

/// What is to be known of the reading of documents: whether they were found in the cache, and what is wrong with that.
pub fn notes(reading: &DocumentReading) -> Vec<String> {
    let DocumentReading { tokens, elapsed, found, problem, .. } = reading;
    let problem =
        problem.iter().map(|problem| format!("note: the cache of documents that were read: {problem}"));
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

/// How much of what was drafted of answers was right: `79 % of drafts right`; `None` where nothing was drafted.
pub fn drafts(drafts: DraftCounts) -> Option<String> {
    let share = drafts.used as f64 / drafts.made as f64;
    (drafts.made > 0).then(|| format!("{} of drafts right", format::percent(share)))
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
