//! How fast this machine has read with each model: for an estimate before documents are read. These are two numbers, one
//! for each token and one for attention, which grows with the square of a text's length. Kept in a file of the cache
//! folder, which can be removed at any time.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use longhand::Session;
use longhand::files::atomic_file::{self, Access};
use longhand::files::folders;
use longhand::reading::{Pace, Prefill};
use longhand::saved::DocumentReading;
use models::regular_file;

/// Shorter readings say little.
pub const MIN_TOKENS: usize = 256;
/// Entries that are kept, the latest ones.
const MAX_ENTRIES: usize = 64;
/// A larger file is no file of ours.
const MAX_BYTES: u64 = 64 << 10;

/// Seconds for each unit of work ([`Pace`]) by what they depend on: of products with the weights, and of attention.
type Entries = Vec<(String, [f64; 2])>;

/// How long `tokens` tokens of documents behind `before` others take to read, as fast as the last ones; `None` if nothing
/// was read yet.
pub fn estimate(session: &Session, before: usize, tokens: usize) -> Option<Duration> {
    known(&load(), &key(session, before))?.time(session.reading_work(before, tokens))
}

/// The same, as fast as the part of them that was read in this process; `None` if nothing was.
pub fn guess(session: &Session, before: usize, tokens: usize) -> Option<Duration> {
    session.reading_pace(None)?.time(session.reading_work(before, tokens))
}

/// Remembers how fast documents were read. Failures are ignored: there is no estimate then.
pub fn remember(session: &Session, reading: &DocumentReading) {
    if reading.found || reading.tokens < MIN_TOKENS {
        return;
    }
    let mut entries = load();
    let all = session.tokens().len().max(reading.tokens);
    let key = key(session, all - reading.tokens);
    // A short text says little about attention.
    let Some(pace) = session.reading_pace(known(&entries, &key)) else { return };
    entries.retain(|(known, _)| *known != key);
    entries.insert(0, (key, [pace.weights, pace.attention]));
    entries.truncate(MAX_ENTRIES);
    let _ = save(&entries);
}

fn known(entries: &Entries, key: &str) -> Option<Pace> {
    let (_, [weights, attention]) = entries.iter().find(|(known, _)| known == key)?;
    (*weights > 0.0 && *attention >= 0.0).then_some(Pace { weights: *weights, attention: *attention })
}

fn path() -> Option<PathBuf> {
    Some(folders::cache()?.join("speeds.json"))
}

/// What the speed depends on: the model, the policy, the types of the cache, and where and how it is computed. Documents
/// behind others are read chunk by chunk.
fn key(session: &Session, before: usize) -> String {
    let (engine, options) = (session.engine(), session.options());
    let prefill = match options.prefill {
        Prefill::Exact if before == 0 => "exact",
        Prefill::Sparse if before == 0 => "sparse",
        _ => "streaming",
    };
    let int8 = if options.int8 && kernels::prefill::has_int8() { " in 8 bits" } else { "" };
    let experts = match engine.placement().split_layers(engine.spec()) {
        0 => String::new(),
        layers => format!(", experts of {layers} on the CPU"),
    };
    let layers = match &engine.placement().counts()[..] {
        [] => "0".to_owned(),
        counts => counts.iter().map(usize::to_string).collect::<Vec<_>>().join("+"),
    };
    format!(
        "{} {} {}/{} {prefill}{int8} by {}, {} threads, {layers} layers on a GPU{experts}",
        engine.fingerprint(),
        options.policy.name(),
        options.types.0.name(),
        options.types.1.name(),
        options.chunk,
        engine.threads(),
    )
}

fn load() -> Entries {
    let read = || {
        let path = path()?;
        path.parent().map_or(Ok(()), folders::check_trusted).ok()?;
        let own = Some(&path).filter(|path| regular_file::is_own(path))?;
        serde_json::from_slice(&regular_file::read(own, MAX_BYTES).ok()?).ok()
    };
    read().unwrap_or_default()
}

fn save(entries: &Entries) -> io::Result<()> {
    let Some(path) = path() else { return Ok(()) };
    if let Some(folder) = path.parent() {
        folders::make_private(folder)?;
        atomic_file::remove_leftovers(folder, path.file_name(), b"[");
    }
    let text = serde_json::to_string_pretty(entries)?;
    atomic_file::write_own(&path, Access::Owner, |file| file.write_all(text.as_bytes()))
}
