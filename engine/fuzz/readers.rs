//! Reads arbitrary head profiles, policies, shapes of answers and saved sessions. Whatever they are, they are read or refused
//! with an error and a hint. The fuzz targets and `tests/tests/engine/mutations.rs` use these functions.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::{env, fs, process};

use longhand::generation::{Constraint, GenerateOptions, Piece, Sampler, SamplerOptions, generate_with};
use longhand::heads::{HeadProfile, HeadShape, ImportOptions, import};
use longhand::policy::PolicyChoice;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{Engine, EngineError, EngineOptions, ModelSource, Session, SessionOptions};

/// A head profile, and the maps that can be imported.
pub fn heads(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Some(profile) = accepted(HeadProfile::from_json(text)) {
        let again = HeadProfile::from_json(&profile.to_json()).expect("what was written can be read");
        assert_eq!(again.to_json(), profile.to_json());
    }
    let shape = HeadShape::new(2, 4, 2).expect("heads");
    let options = ImportOptions { shape, fingerprint: None, threshold: None };
    let config = r#"{"sink_size": 64, "recent_size": 256, "deploy_sink_size": null}"#;
    accepted(import::duo_attention(text, None, &options));
    accepted(import::duo_attention(text, Some(config), &options));
    accepted(import::duo_attention("0.5\t1.0\n0.0 0.25\n", Some(text), &options));
    accepted(import::retrieval_head(text, &options));
}

/// A policy with parameters.
pub fn policy(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Some(choice) = accepted(text.parse::<PolicyChoice>()) {
        let again: PolicyChoice = choice.to_string().parse().expect("what was written can be read");
        assert_eq!(again.to_string(), choice.to_string());
    }
}

/// The shape of an answer: a JSON schema if the first byte is even, else a grammar. An answer begins with it.
pub fn constraint(input: &[u8]) {
    let Some((first, text)) = input.split_first() else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let format = SAVED.engine.model().chat_format().expect("a chat format");
    let compiled = match first % 2 {
        0 => Constraint::json_schema(format, text),
        _ => Constraint::grammar(format, text),
    };
    let Some(constraint) = accepted(compiled) else { return };
    let options = SessionOptions { context: 32, chunk: 16, ..SessionOptions::default() };
    let mut session = Session::new(&SAVED.engine, options).expect("a session");
    session.sync(&[1, 2, 3], &mut |_| {}).expect("the text is read");
    let wild = SamplerOptions { temperature: 5.0, top_k: 0, ..SamplerOptions::default() };
    let mut sampler = Sampler::new(wild).expect("a sampler");
    let options = GenerateOptions { constraint: Some(constraint), ..GenerateOptions::default() };
    let go_on = &mut |_: Piece| ControlFlow::Continue(());
    accepted(generate_with(&mut session, format.tokenizer(), &mut sampler, &options, go_on));
}

/// A saved session. If the first byte is even, what follows is written over a valid file, at the place that the
/// next two bytes say. If it is odd, what follows is the file.
pub fn session(input: &[u8]) {
    let [first, low, high, new @ ..] = input else { return };
    let mut bytes = if first % 2 == 0 { SAVED.bytes.clone() } else { Vec::new() };
    let start = usize::from(u16::from_le_bytes([*low, *high])).min(bytes.len());
    let end = (start + new.len()).min(bytes.len());
    bytes.splice(start..end, new.iter().copied());
    session_file(&SAVED.engine, &SAVED.path, &bytes);
}

/// A file that may be a saved session. It is written to `path` and removed again.
pub fn session_file(engine: &Arc<Engine>, path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("a file");
    // A file may ask for as large a store as the machine has memory for.
    let saved = accepted(Snapshot::open(path)).filter(|saved| saved.options().context <= 1 << 10);
    saved.and_then(|saved| accepted(saved.restore(engine)));
    fs::remove_file(path).expect("the file");
}

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
    let path = env::temp_dir().join(format!("longhand-fuzz-{}", process::id()));
    snapshot::save(&session, "the caller's", &path).expect("saved");
    let bytes = fs::read(&path).expect("the file");
    Saved { engine, path, bytes }
});

/// The value, or nothing for an error with a hint.
fn accepted<T>(result: Result<T, impl Into<EngineError>>) -> Option<T> {
    let check = |error: EngineError| assert!(!error.to_string().is_empty() && error.hint().is_some());
    result.map_err(|error| check(error.into())).ok()
}
