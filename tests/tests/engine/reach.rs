//! Portable operations read a lane as far as its rows are live, in steps of 1,024 rows, and not to its end.

use std::sync::Arc;

use longhand::{DeviceKind, DeviceOptions, Engine, EngineOptions, ModelSource, SessionOptions};
use tests::fixtures::{max_difference, options, random_tokens, session, sync};

/// A model with weights in f32, with all layers on a device of this kind.
fn open(device: Option<DeviceKind>) -> Arc<Engine> {
    let model = ModelSource::File(tests::data("golden/models/llama-gqa-llama3rope-f32.gguf"));
    let devices = device.into_iter().map(DeviceOptions::all).collect();
    let options = EngineOptions { threads: Some(1), repack: false, devices, ..EngineOptions::default() };
    Engine::open(&model, &options).expect("the model opens")
}

/// Steps and a text cross the first 1,024 rows, which are undone then, and crossed again.
#[test]
fn answers_are_the_same_where_lanes_are_read_further() {
    let engines = [open(None), open(Some(DeviceKind::Portable(0)))];
    let tokens = random_tokens(&engines[0], 1_100, 3);
    for policy in ["full", "streaming:sinks=4,window=1200", "h2o:heavy=1100,recent=40"] {
        let [host, portable] = engines.each_ref().map(|engine| {
            let asked = SessionOptions { chunk: 300, ..options(4_000, policy) };
            let mut session = session(engine, asked);
            let mut logits = Vec::new();
            for end in [1_021, 1_022, 1_023, 1_024, 1_025, 1_026, 1_100, 1_020, 1_030] {
                sync(&mut session, &tokens[..end]);
                logits.push(session.logits().to_vec());
            }
            logits
        });
        for (number, (host, portable)) in host.iter().zip(&portable).enumerate() {
            let difference = max_difference(host, portable);
            assert!(difference < 1e-3, "{policy}, {number}: {difference}");
        }
    }
}

/// What a step reads is known by the memory of its graph: the mask has a number for each row.
#[test]
fn a_step_needs_memory_for_the_rows_that_are_live() {
    let engine = open(Some(DeviceKind::Portable(0)));
    let tokens = random_tokens(&engine, 1_030, 4);
    let mut session = session(&engine, options(50_000, "full"));
    let mut bytes = |end: usize| {
        sync(&mut session, &tokens[..end]);
        session.compute_bytes()
    };
    let of_text = bytes(1_000);
    let [before, behind] = [bytes(1_001), bytes(1_025)].map(|bytes| bytes - of_text);
    println!("bytes of a step: {before}, {behind}");
    assert!(before < behind && behind < 4 * 50_000, "{before}, {behind}");
}
