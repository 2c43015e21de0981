//! What tests of GPUs by HIP, by Metal and by Vulkan share.

use std::sync::Arc;

use longhand::reading::Prefill;
use longhand::testing::placement::Place;
use longhand::testing::snapshot::{self, Snapshot};
#[cfg(any(feature = "hip", feature = "metal"))]
use longhand::{DeviceKind, DeviceOptions, EngineOptions, ModelSource};
use longhand::{Engine, EngineError};
use tests::fixtures::{max_difference, options, random_tokens, session, sync};

use crate::placements::logits;

/// The embedded model, which has heads of 64 elements, with so many of its four layers on a GPU.
#[cfg(any(feature = "hip", feature = "metal"))]
pub fn embedded_on(kind: DeviceKind, layers: usize) -> Arc<Engine> {
    let gpu = DeviceOptions { layers, ..DeviceOptions::all(kind) };
    let devices = if layers > 0 { vec![gpu] } else { Vec::new() };
    let options = EngineOptions { threads: Some(1), repack: false, devices, ..EngineOptions::default() };
    Engine::open(&ModelSource::Embedded, &options).expect("the model opens")
}

/// Checks that two engines compute the same but for rounding.
pub fn check_same(engines: [&Arc<Engine>; 2], tolerance: f32) {
    for (policy, prefill) in [("full", Prefill::Exact), ("h2o:heavy=16,recent=8", Prefill::Streaming)] {
        let [one, other] = engines.map(|engine| logits(engine, policy, prefill));
        assert_eq!(one.len(), other.len());
        for (one, other) in one.iter().zip(&other) {
            let difference = max_difference(one, other);
            assert!(difference < tolerance, "{policy}: {difference}");
        }
    }
}

/// Checks that a saved session of the first engine is the same after it has been in the second one.
pub fn check_moves(engines: [&Arc<Engine>; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let mut original = session(engines[0], options(300, "h2o:heavy=48,recent=16"));
    sync(&mut original, &random_tokens(engines[0], 80, 9));
    snapshot::save(&original, "mine", &first).expect("saved");
    let restored = Snapshot::open(&first).expect("opens").restore(engines[1]).expect("restored");
    snapshot::save(&restored, "mine", &second).expect("saved again");
    let bytes = [&first, &second].map(|path| std::fs::read(path).expect("the file"));
    assert!(bytes[0] == bytes[1]);
}

/// Makes an engine's GPU fail, and checks that each computation then is an error with this name, and that the session stays.
pub fn check_loss(engine: &Arc<Engine>, name: &str) {
    let mut session = session(engine, options(200, "tova:capacity=64"));
    let tokens = random_tokens(engine, 70, 9);
    sync(&mut session, &tokens[..60]);
    engine.backends().at(Place::Device(0)).lose();
    for _ in 0..2 {
        let error = session.sync(&tokens, &mut |_| {}).map(|_| ()).expect_err("the GPU is lost");
        let EngineError::Compute(ggml::Error::Device(text)) = &error else { panic!("{error}") };
        assert!(text.contains(name) && error.hint().is_some(), "{error}");
    }
    assert_eq!(session.tokens(), &tokens[..60], "what was read counts");
}
