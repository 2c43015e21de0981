//! A model file that becomes shorter at some moment: what was read from it is an error, and a session is what it
//! was before. `models` tests the file itself, `cli/tests/program/lost_model.rs` the program.
#![cfg(unix)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use longhand::{Engine, EngineError, EngineOptions, Model, Session, SessionOptions};
use models::LoadError;

/// A copy of the embedded model.
fn copy(name: &str) -> PathBuf {
    // On a machine without the sources that folder is not there.
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = if folder.is_dir() { folder } else { std::env::temp_dir() };
    let path = folder.join(name);
    fs::write(&path, models::embedded::needle()).expect("a test file");
    path
}

fn cut(path: &PathBuf) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("the model");
    file.set_len(100_000).expect("a shorter file");
}

#[track_caller]
fn assert_lost<T>(result: Result<T, EngineError>) {
    let error = result.err().expect("the model is lost");
    assert!(matches!(error, EngineError::Load(LoadError::Lost { bytes: 100_000, .. })), "{error}");
}

fn options(repack: bool) -> EngineOptions {
    EngineOptions { threads: Some(2), repack, ..EngineOptions::default() }
}

#[test]
fn a_model_that_is_lost_before_it_is_loaded_is_not_loaded() {
    let path = copy("lost-before-loading.gguf");
    let model = Model::open(path.clone()).expect("a model");
    cut(&path);
    assert_lost(model.chat_format());
    for repack in [false, true] {
        assert_lost(Engine::load(&model, &options(repack), &mut |_| ()));
    }
    // It covers all weights, of which some are gone.
    assert_lost(model.fingerprint());
}

#[test]
fn a_session_stays_as_it_was_before_the_loss() {
    for repack in [false, true] {
        let path = copy(&format!("lost-in-use-{repack}.gguf"));
        let engine: Arc<Engine> = Engine::open(&path.clone().into(), &options(repack)).expect("an engine");
        let mut session = Session::new(&engine, SessionOptions::default()).expect("a session");
        let mut empty = Session::new(&engine, SessionOptions::default()).expect("a session");
        session.sync(&[1, 2, 3, 4], &mut |_| ()).expect("reads");
        let (logits, usage) = (session.logits().to_vec(), session.kv_usage());
        cut(&path);
        assert_lost(session.push(5));
        assert_eq!((session.tokens(), session.logits()), (&[1, 2, 3, 4][..], &logits[..]));
        assert_eq!(session.kv_usage(), usage);
        assert_lost(session.sync(&[1, 2, 3, 4, 5, 6, 7], &mut |_| ()));
        assert_eq!((session.tokens(), session.kv_usage()), (&[1, 2, 3, 4][..], usage));
        assert_lost(empty.sync(&[1, 2, 3, 4, 5, 6, 7], &mut |_| ()));
        assert_eq!((empty.tokens(), empty.logits()), (&[][..], &[][..]));
    }
}
