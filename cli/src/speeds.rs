//! How fast this machine has read with each model: for an estimate before documents are read. Kept in a file of the
//! cache folder, which can be removed at any time.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use longhand::atomic_file::{self, Access};
use longhand::{DocumentReading, Prefill, Session, folders};
use models::regular_file;

use crate::format;

/// Shorter readings say little.
const MIN_TOKENS: usize = 256;
/// Entries that are kept, the latest ones.
const MAX_ENTRIES: usize = 64;
/// A larger file is no file of ours.
const MAX_BYTES: u64 = 64 << 10;

/// Tokens per second by what they depend on.
type Entries = Vec<(String, f64)>;

/// How long documents of so many tokens take to read, as fast as the last ones; `None` if nothing was read yet.
pub fn estimate(session: &Session, tokens: usize) -> Option<Duration> {
    let key = key(session);
    let (_, speed) = load().into_iter().find(|(known, speed)| *known == key && *speed > 0.0)?;
    Duration::try_from_secs_f64(tokens as f64 / speed).ok()
}

/// Remembers how fast documents were read. Failures are ignored: there is no estimate then.
pub fn remember(session: &Session, reading: &DocumentReading) {
    if reading.found || reading.tokens < MIN_TOKENS {
        return;
    }
    let mut entries = load();
    let key = key(session);
    entries.retain(|(known, _)| *known != key);
    entries.insert(0, (key, format::rate(reading.tokens, reading.elapsed)));
    entries.truncate(MAX_ENTRIES);
    let _ = save(&entries);
}

fn path() -> Option<PathBuf> {
    Some(folders::cache()?.join("speeds.json"))
}

/// What the speed depends on: the model, the policy, and where and how it is computed.
fn key(session: &Session) -> String {
    let (engine, options) = (session.engine(), session.options());
    let prefill = if options.prefill == Prefill::Exact { "exact" } else { "streaming" };
    let experts = match engine.placement().split_layers(engine.spec()) {
        0 => String::new(),
        layers => format!(", experts of {layers} on the CPU"),
    };
    format!(
        "{} {} {prefill}, {} threads, {} layers on a GPU{experts}",
        engine.fingerprint(),
        options.policy.name(),
        engine.threads(),
        engine.layers_on_device()
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
