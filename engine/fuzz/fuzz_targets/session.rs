//! Restores sessions from arbitrary files. The first byte says whether the input is the whole file or is written
//! over a valid one. README.md has the command.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{Engine, EngineOptions, ModelSource, Session, SessionOptions};

struct Saved {
    engine: Arc<Engine>,
    path: PathBuf,
    bytes: Vec<u8>,
}

static SAVED: LazyLock<Saved> = LazyLock::new(|| {
    let options = EngineOptions { threads: Some(1), ..EngineOptions::default() };
    let engine = Engine::open(&ModelSource::Embedded, &options).expect("the embedded model");
    let options = SessionOptions { context: 16, chunk: 16, ..SessionOptions::default() };
    let mut session = Session::new(&engine, options).expect("a session");
    session.sync(&[1, 2, 3], &mut |_| {}).expect("the text is read");
    let path = std::env::temp_dir().join(format!("longhand-fuzz-{}", std::process::id()));
    snapshot::save(&session, "the caller's", &path).expect("saved");
    let bytes = fs::read(&path).expect("the file");
    Saved { engine, path, bytes }
});

fuzz_target!(|input: (bool, u16, &[u8])| {
    let (whole, at, new) = input;
    let mut bytes = if whole { Vec::new() } else { SAVED.bytes.clone() };
    let at = usize::from(at).min(bytes.len());
    let end = (at + new.len()).min(bytes.len());
    bytes.splice(at..end, new.iter().copied());
    fs::write(&SAVED.path, &bytes).expect("a file");
    let restored = Snapshot::open(&SAVED.path).and_then(|saved| {
        // A file may ask for as large a store as the machine has memory for.
        if saved.options().context > 1 << 10 { Ok(()) } else { saved.restore(&SAVED.engine).map(drop) }
    });
    if let Err(error) = restored {
        assert!(!error.to_string().is_empty() && error.hint().is_some());
    }
});
