//! Layers on the GPU of a Mac, by Metal: it computes what the host does, saved sessions move there and back, and a failure is an error
//! that names it. `cargo test -p tests --features metal --test engine metal::` runs these on a Mac. Never run so far.

use std::sync::Arc;

use longhand::reading::Prefill;
use longhand::testing::placement::Place;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{DeviceKind, DeviceOptions, Engine, EngineError, EngineOptions, ModelSource};
use tests::fixtures::{max_difference, options, random_tokens, session, sync};

use crate::placements::logits;

/// The embedded model, which has heads of 64 elements, with so many of its four layers on the GPU.
fn embedded(layers: usize) -> Arc<Engine> {
    let gpu = DeviceOptions { layers, ..DeviceOptions::all(DeviceKind::Metal(0)) };
    let devices = if layers > 0 { vec![gpu] } else { Vec::new() };
    let options = EngineOptions { threads: Some(1), repack: false, devices, ..EngineOptions::default() };
    Engine::open(&ModelSource::Embedded, &options).expect("the model opens")
}

#[test]
fn the_gpu_computes_what_the_host_does() {
    let [host, gpu] = [embedded(0), embedded(4)];
    for (policy, prefill) in [("full", Prefill::Exact), ("h2o:heavy=16,recent=8", Prefill::Streaming)] {
        let [host, gpu] = [&host, &gpu].map(|engine| logits(engine, policy, prefill));
        assert_eq!(host.len(), gpu.len());
        for (host, gpu) in host.iter().zip(&gpu) {
            let difference = max_difference(host, gpu);
            assert!(difference < 0.1, "{policy}: {difference}");
        }
    }
}

#[test]
fn a_session_moves_to_the_gpu_and_back() {
    let engines = [embedded(0), embedded(3)];
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let mut original = session(&engines[0], options(300, "h2o:heavy=48,recent=16"));
    sync(&mut original, &random_tokens(&engines[0], 80, 9));
    snapshot::save(&original, "mine", &first).expect("saved");
    let restored = Snapshot::open(&first).expect("opens").restore(&engines[1]).expect("restored");
    snapshot::save(&restored, "mine", &second).expect("saved again");
    let bytes = [&first, &second].map(|path| std::fs::read(path).expect("the file"));
    assert!(bytes[0] == bytes[1]);
}

#[test]
fn a_failed_gpu_is_an_error_that_names_it() {
    let engine = embedded(2);
    let mut session = session(&engine, options(200, "tova:capacity=64"));
    let tokens = random_tokens(&engine, 70, 9);
    sync(&mut session, &tokens[..60]);
    engine.backends().at(Place::Device(0)).lose();
    for _ in 0..2 {
        let error = session.sync(&tokens, &mut |_| {}).map(|_| ()).expect_err("the GPU has failed");
        let EngineError::Compute(ggml::Error::Device(text)) = &error else { panic!("{error}") };
        assert!(text.contains("MTL0") && error.hint().is_some(), "{error}");
    }
    assert_eq!(session.tokens(), &tokens[..60], "what was read counts");
}
