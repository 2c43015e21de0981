//! A first text that is read in many processes: it is interrupted after any operation, saved, and goes on in a fresh
//! session, again and again. At the end the session is the one that has read the text at once, bit for bit, under every
//! policy and with every kind of model. Damaged and foreign files are rejected.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use longhand::testing::kv::PolicyChoice;
use longhand::testing::placement::Place;
use longhand::testing::snapshot;
use longhand::{
    DeviceKind, DeviceOptions, Engine, EngineOptions, ModelSource, Prefill, Session, SessionOptions,
};
use tests::fixtures::{
    bounded_policies, embedded_model, family_model, golden_model, options, random_tokens, session, sync,
    tiny_model, with_policy,
};

const CONTEXT: usize = 300;
/// Windows; layers that attend to the rows of earlier ones; recurrent layers; latent attention; experts and sink logits.
const FAMILIES: [&str; 5] =
    ["gemma3-mqa-f32", "gemma4-shared-kv-f32", "qwen35-gqa-f32", "deepseek2-lite-f32", "gpt-oss-window-f32"];
const PREFILLS: [Prefill; 2] = [Prefill::Exact, Prefill::Streaming];

/// The tiny model with its last layers on an emulated device. With `host_residual` the residual stream is on the host.
fn emulated_model(layers: usize) -> Arc<Engine> {
    let options = EngineOptions {
        device: Some(DeviceOptions { layers, ..DeviceOptions::all(DeviceKind::Emulated) }),
        threads: Some(1),
        ..EngineOptions::default()
    };
    let file = tests::data("golden/models/llama-gqa-llama3rope-f32.gguf");
    Engine::open(&ModelSource::File(file), &options).expect("the model opens")
}

/// These policies, or every one that the model can have.
fn policies(engine: &Engine, names: &[&str]) -> Vec<PolicyChoice> {
    let mut all = bounded_policies(40, CONTEXT);
    all.push(PolicyChoice::default());
    all.push("kvzip:capacity=100,heads=on".parse().expect("a policy"));
    all.push("streaming:sinks=4,window=40,slack=30,compensation=on".parse().expect("a policy"));
    all.retain(|policy| names.is_empty() || names.contains(&policy.name()));
    all.retain(|policy| policy.check(engine.spec()).is_ok());
    all
}

fn make(engine: &Arc<Engine>, policy: &PolicyChoice, prefill: Prefill, context: usize) -> Session {
    let options = with_policy(engine, policy, options(context, "full"));
    session(engine, SessionOptions { prefill, ..options })
}

/// Every byte of the store, the tokens and the logits.
fn state(session: &Session) -> (Vec<u8>, Vec<u32>, Vec<f32>) {
    let rows = session.store().contents().expect("the store");
    (rows, session.tokens().to_vec(), session.logits().to_vec())
}

/// Reads a text until so many operations were computed in a place. Whether it was read to its end.
fn read_some(session: &mut Session, tokens: &[u32], operations: usize) -> bool {
    let engine = session.engine().clone();
    let backends = Place::ALL.map(|place| engine.backends().at(place));
    backends.iter().for_each(|backend| backend.interrupt_after(operations));
    let read = session.sync(tokens, &mut |_| ());
    backends.iter().for_each(|backend| backend.interrupt_after(usize::MAX));
    engine.interrupt().store(false, Ordering::Relaxed);
    read.map_err(|error| assert!(error.is_interrupt(), "{error}")).is_ok()
}

/// How much a session has read of its text: the share of an exact prefill, or tokens.
fn reached(session: &Session) -> (Option<f64>, usize) {
    (session.first_text_share(), session.tokens().len())
}

/// Reads a text in as many sessions as it takes, each of which computes so many operations, and more where that is not
/// enough for a chunk. Returns the last session, and how many there were.
fn read_in_parts(
    new: &dyn Fn() -> Session,
    tokens: &[u32],
    operations: usize,
    path: &Path,
) -> (Session, usize) {
    let (mut session, mut parts, mut enough, mut last) = (new(), 1, operations, (None, 0));
    while !read_some(&mut session, tokens, enough) {
        let now = reached(&session);
        enough = if now == last { enough + operations } else { operations };
        if now == (None, 0) {
            continue;
        }
        snapshot::save_unfinished(&session, tokens, path).expect("saved");
        session = new();
        snapshot::resume(path, &mut session, tokens).expect("it goes on");
        assert_eq!(reached(&session), now);
        (last, parts) = (now, parts + 1);
    }
    (session, parts)
}

/// Checks that a text is read in parts as it is at once, and that the session then goes on in the same way.
fn check(engine: &Arc<Engine>, names: &[&str], operations: usize) {
    let tokens = random_tokens(engine, CONTEXT, 51);
    let folder = tempfile::tempdir().expect("a folder");
    // The weights are checked only once.
    sync(&mut make(engine, &PolicyChoice::default(), Prefill::Streaming, CONTEXT), &tokens[..2]);
    for policy in policies(engine, names) {
        for prefill in PREFILLS {
            let case = format!("{policy} {prefill:?}");
            let new = || make(engine, &policy, prefill, CONTEXT);
            let path = folder.path().join("unfinished");
            let (mut parts, count) = read_in_parts(&new, &tokens[..200], operations, &path);
            assert!(count > 1, "{case}: read in {count} parts");
            let mut whole = new();
            sync(&mut whole, &tokens[..200]);
            assert!(state(&parts) == state(&whole), "{case}");
            for session in [&mut parts, &mut whole] {
                sync(session, &tokens[..230]);
                tokens[230..234].iter().for_each(|token| session.push(*token).expect("a step"));
            }
            assert!(state(&parts) == state(&whole), "{case}, afterwards");
            for session in [&mut parts, &mut whole] {
                sync(session, &tokens[..200]);
            }
            assert!(state(&parts) == state(&whole), "{case}, undone");
        }
    }
}

#[test]
fn a_text_is_read_in_parts_under_every_policy() {
    let engine = tiny_model();
    for operations in [37, 90] {
        check(&engine, &[], operations);
    }
    // Four layers, so that policies that skip the first two still evict rows.
    check(&embedded_model(), &["razor", "h2o", "kvzip", "tova"], 200);
}

#[test]
fn a_text_is_read_in_parts_on_a_device() {
    for layers in [1, 2] {
        check(&emulated_model(layers), &["full", "h2o", "kvzip", "snapkv"], 60);
    }
}

#[test]
fn a_text_is_read_in_parts_by_every_kind_of_model() {
    check(&golden_model("baichuan-alibi-f16"), &["full", "razor", "snapkv"], 300);
    for family in FAMILIES {
        check(&family_model(family), &["full", "h2o", "kvzip", "streaming"], 150);
    }
}
