//! Portable operations read a lane as far as its rows are live, in steps of 1,024 rows, and not to its end. The device is the one that
//! `LONGHAND_TEST_DEVICE` names, if it has no kernels of ours.

use std::sync::Arc;

use longhand::{DeviceKind, DeviceOptions, Engine, EngineOptions, ModelSource, SessionOptions};
use tests::fixtures::{max_difference, options, random_tokens, session, sync};
use tests::{device_tolerance, is_portable, some_device};

/// A model with weights in f32, with all layers on a device.
fn open(device: Option<DeviceOptions>) -> Arc<Engine> {
    let model = ModelSource::File(tests::data("golden/models/llama-gqa-llama3rope-f32.gguf"));
    let devices = device.into_iter().collect();
    let options = EngineOptions { threads: Some(1), repack: false, devices, ..EngineOptions::default() };
    Engine::open(&model, &options).expect("the model opens")
}

fn portable() -> DeviceOptions {
    if is_portable() { some_device() } else { DeviceOptions::all(DeviceKind::Portable(0)) }
}

/// Steps and a text cross the first 1,024 rows, which are undone then, and crossed again.
#[test]
fn answers_are_the_same_where_lanes_are_read_further() {
    let engines = [open(None), open(Some(portable()))];
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
            assert!(difference < 1e-3 + device_tolerance(), "{policy}, {number}: {difference}");
        }
    }
}

/// Memory is asked for before an answer begins, and not where it crosses a step: a device that has no more then would cost the answer.
#[test]
fn memory_is_asked_for_at_the_beginning() {
    let engine = open(Some(portable()));
    let tokens = random_tokens(&engine, 2_200, 4);
    let asked = SessionOptions { chunk: 500, ..options(9_000, "full") };
    let mut session = session(&engine, asked);
    let mut bytes = Vec::new();
    for end in [500, 501, 1_001, 1_024, 1_025, 2_000, 2_047, 2_048, 2_049, 2_050, 2_200] {
        sync(&mut session, &tokens[..end]);
        bytes.push(session.compute_bytes());
    }
    // The first text is read layer by layer. The third number is the first later text's.
    assert!(bytes[2..].iter().all(|later| *later == bytes[2]), "{bytes:?}");
}
