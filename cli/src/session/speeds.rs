//! How fast this machine has read with each model: for an estimate before documents are read. Kept in a file of the
//! cache folder, which can be removed at any time.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use longhand::files::atomic_file::{self, Access};
use longhand::files::folders;
use longhand::saved::DocumentReading;
use longhand::{Prefill, Session};
use models::regular_file;

/// Shorter readings say little.
const MIN_TOKENS: usize = 256;
/// Entries that are kept, the latest ones.
const MAX_ENTRIES: usize = 64;
/// The class of the longest texts.
const MAX_CLASS: u32 = usize::BITS / 2;
/// A larger file is no file of ours.
const MAX_BYTES: u64 = 64 << 10;

/// Work per second ([`Session::reading_work`]) by what it depends on.
type Entries = Vec<(String, f64)>;

/// How long `tokens` tokens of documents behind `before` others take to read, as fast as the last ones of about this
/// length; `None` if nothing was read yet. Attention to many rows may be slower than it should be by their number.
pub fn estimate(session: &Session, before: usize, tokens: usize) -> Option<Duration> {
    let (entries, wanted) = (load(), length_class(before + tokens));
    let known = |class: u32| {
        let key = key(session, class);
        entries.iter().find(|(known, speed)| *known == key && *speed > 0.0).map(|(_, speed)| *speed)
    };
    let nearest = (0..=MAX_CLASS).flat_map(|away| [wanted.checked_add(away), wanted.checked_sub(away)]);
    let speed = nearest.flatten().filter(|class| *class <= MAX_CLASS).find_map(known)?;
    Duration::try_from_secs_f64(session.reading_work(before, tokens) / speed).ok()
}

/// Remembers how fast documents were read. Failures are ignored: there is no estimate then.
pub fn remember(session: &Session, reading: &DocumentReading) {
    if reading.found || reading.tokens < MIN_TOKENS {
        return;
    }
    let mut entries = load();
    let all = session.tokens().len().max(reading.tokens);
    let key = key(session, length_class(all));
    let work = session.reading_work(all - reading.tokens, reading.tokens);
    entries.retain(|(known, _)| *known != key);
    entries.insert(0, (key, work / reading.elapsed.as_secs_f64().max(1e-9)));
    entries.truncate(MAX_ENTRIES);
    let _ = save(&entries);
}

fn path() -> Option<PathBuf> {
    Some(folders::cache()?.join("speeds.json"))
}

/// Texts of a class differ by a factor of four in their length.
fn length_class(tokens: usize) -> u32 {
    tokens.max(1).ilog2() / 2
}

/// What the speed depends on: the model, the policy, where and how it is computed, and the length of the text.
fn key(session: &Session, class: u32) -> String {
    let (engine, options) = (session.engine(), session.options());
    let prefill = if options.prefill == Prefill::Exact { "exact" } else { "streaming" };
    let experts = match engine.placement().split_layers(engine.spec()) {
        0 => String::new(),
        layers => format!(", experts of {layers} on the CPU"),
    };
    format!(
        "{} {} {prefill}, {} threads, {} layers on a GPU{experts}, texts below {} tokens",
        engine.fingerprint(),
        options.policy.name(),
        engine.threads(),
        engine.layers_on_device(),
        4u64.saturating_pow(class + 1)
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
