//! Models with recurrent layers: their states are undone, saved, planned, and taken back after an interrupt.

use std::sync::Arc;

use longhand::reading::Prefill;
use longhand::setup::plan::Plan;
use longhand::testing::outline::tensor_outlines;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{
    DeviceKind, DeviceOptions, Engine, EngineOptions, Hint, ModelSource, Session, SessionOptions,
};
use tests::fixtures::{
    family_file, family_model, max_difference, options, plan_options, random_tokens, session, sync,
};

const PREFILLS: [Prefill; 2] = [Prefill::Exact, Prefill::Streaming];

/// Two recurrent layers, and two that attend.
fn model() -> Arc<Engine> {
    family_model("qwen35-gqa-f32")
}

fn make(engine: &Arc<Engine>, policy: &str, prefill: Prefill) -> Session {
    session(engine, SessionOptions { prefill, chunk: 20, ..options(200, policy) })
}

fn contents(session: &Session) -> Vec<u8> {
    session.store().contents().expect("the store")
}

#[test]
fn undo_restores_the_states_bit_for_bit() {
    let engine = model();
    let tokens = random_tokens(&engine, 90, 1);
    for policy in ["full", "snapkv:capacity=24,window=4,slack=0,heads=off"] {
        for prefill in PREFILLS {
            let mut session = make(&engine, policy, prefill);
            sync(&mut session, &tokens[..50]);
            let (store, logits) = (contents(&session), session.logits().to_vec());
            sync(&mut session, &tokens[..80]);
            tokens[80..].iter().for_each(|token| session.push(*token).expect("a step"));
            assert!(session.can_return_to(50) && !session.can_truncate_to(49));
            assert_eq!(session.sync(&tokens[..50], &mut |_| ()).expect("goes back"), 0);
            assert!(contents(&session) == store && session.logits() == logits, "{policy} {prefill:?}");
        }
    }
}

#[test]
fn a_text_that_differs_within_a_turn_is_read_again() {
    let engine = model();
    let tokens = random_tokens(&engine, 60, 2);
    let mut returned = make(&engine, "full", Prefill::Streaming);
    sync(&mut returned, &tokens);
    assert_eq!(returned.sync(&tokens[..45], &mut |_| ()).expect("reads"), 45);
    let mut fresh = make(&engine, "full", Prefill::Streaming);
    sync(&mut fresh, &tokens[..45]);
    assert!(contents(&returned) == contents(&fresh));
    returned.clear().expect("cleared");
    sync(&mut returned, &tokens[..45]);
    assert!(contents(&returned) == contents(&fresh), "after clearing");
}

#[test]
fn saved_states_are_restored() {
    let engine = model();
    let tokens = random_tokens(&engine, 60, 3);
    let mut saved = make(&engine, "full", Prefill::Exact);
    sync(&mut saved, &tokens[..50]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("session");
    snapshot::save(&saved, "", &path).expect("saved");
    let mut restored = Snapshot::open(&path).expect("opens").restore(&engine).expect("restored");
    assert!(contents(&restored) == contents(&saved));
    for session in [&mut saved, &mut restored] {
        tokens[50..].iter().for_each(|token| session.push(*token).expect("a step"));
    }
    assert_eq!(saved.logits(), restored.logits());
}

#[test]
fn interrupted_chunks_leave_no_half_advanced_states() {
    let engine = model();
    let tokens = random_tokens(&engine, 70, 4);
    let backend = engine.backends().at(engine.backends().placement().of(0));
    for prefill in PREFILLS {
        let mut whole = make(&engine, "full", prefill);
        sync(&mut whole, &tokens);
        let mut stopped = 0;
        for operations in (0..400).step_by(23) {
            let mut session = make(&engine, "full", prefill);
            backend.interrupt_after(operations);
            let read = session.sync(&tokens, &mut |_| ());
            backend.interrupt_after(usize::MAX);
            session.interrupt().clear();
            stopped += usize::from(read.is_err());
            let mut same = make(&engine, "full", prefill);
            sync(&mut same, session.tokens());
            let is_between = session.first_text_share().is_some();
            assert!(is_between || contents(&session) == contents(&same), "{prefill:?}, {operations}");
            sync(&mut session, &tokens);
            assert_eq!(session.logits(), whole.logits(), "{prefill:?}, {operations}");
            assert!(contents(&session) == contents(&whole), "{prefill:?}, {operations}");
        }
        assert!(stopped > 0, "{prefill:?}: nothing was interrupted");
    }
}

/// The first reading gives the same logits whatever is kept.
#[test]
fn a_second_reading_leaves_the_states_of_the_first() {
    let engine = model();
    let tokens = random_tokens(&engine, 90, 5);
    let [mut full, mut kvzip] =
        ["full", "kvzip:heads=off,capacity=100"].map(|policy| make(&engine, policy, Prefill::Exact));
    sync(&mut full, &tokens[..80]);
    sync(&mut kvzip, &tokens[..80]);
    assert_eq!(full.logits(), kvzip.logits());
    tokens[80..].iter().for_each(|token| full.push(*token).expect("a step"));
    tokens[80..].iter().for_each(|token| kvzip.push(*token).expect("a step"));
    assert!(max_difference(full.logits(), kvzip.logits()) < 1e-5 + tests::device_tolerance());
}

#[test]
fn states_are_planned_and_do_not_grow_with_the_context() {
    let engine = model();
    let spec = engine.spec();
    let state: usize =
        (0..spec.n_layers).filter_map(|layer| spec.recurrent_layer(layer)).map(|l| l.state().bytes()).sum();
    // Two layers: three columns of 128 channels, and four matrices of 16 x 16.
    assert_eq!(state, 2 * 4 * (3 * 128 + 4 * 16 * 16));
    for context in [100, 200] {
        let session = session(&engine, options(context, "full"));
        let layout = session.store().layout();
        let row = layout.row_bytes(0) * spec.n_kv_heads;
        assert_eq!(layout.bytes(), state + 2 * context * row);
        let options = plan_options(&engine, context, 20);
        let plan = Plan::new(spec, &tensor_outlines(engine.file()), layout, &options).expect("a plan");
        assert_eq!(plan.places().map(|place| place.store).sum::<usize>(), layout.bytes());
        assert!(plan.undo >= 3 * state, "{} bytes for states of {state}", plan.undo);
        assert!(session.store().bytes() >= layout.bytes());
    }
}

/// With or without a GPU: the model is refused before one is opened.
#[test]
fn a_convolution_that_cuda_cannot_compute_is_refused_at_the_start() {
    let file = ModelSource::Bytes(family_file("qwen35moe-gqa-f32").into());
    let devices = vec![DeviceOptions::all(DeviceKind::Cuda(0))];
    let opened = Engine::open(&file, &EngineOptions { devices, ..EngineOptions::default() });
    let Err(error) = opened else { panic!("it has 160 channels") };
    assert_eq!(error.hint(), Some(Hint::UseCpu));
    assert!(error.to_string().contains("channels: by CUDA a multiple of 128"), "{error}");
}
