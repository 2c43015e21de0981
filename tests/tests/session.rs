//! A session over many turns and interruptions, on tiny random models and on the embedded one. What every policy must keep to is in
//! `policies.rs`.

use engine::devices::{Devices, Place};
use engine::outline::tensor_outlines;
use engine::plan::{Plan, PlanOptions};
use engine::{Engine, EngineError, ModelSource, Prefill, Session, SessionOptions, Weights};
use ggml::{Backend, Type};
use models::gguf::GgufFile;
use models::spec::ModelSpec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod common;
use common::{half, largest_difference, options, text, tiny};

#[test]
fn the_twentieth_turn_equals_a_fresh_session() {
    let engine = tiny();
    let tokens = text(&engine, 400, 7);
    let mut turns = Session::new(&engine, options(400, "full")).expect("a session");
    for turn in 1..=20 {
        turns.sync(&tokens[..20 * turn], &mut |_| {}).expect("a turn");
    }
    let mut fresh = Session::new(&engine, options(400, "full")).expect("a session");
    fresh.sync(&tokens, &mut |_| {}).expect("the whole text");
    assert_eq!(turns.tokens(), fresh.tokens());
    let difference = largest_difference(turns.logits(), fresh.logits());
    assert!(difference < 1e-4 + tests::slack(), "{difference:e}");
}

#[test]
fn a_changed_text_keeps_its_common_beginning() {
    let engine = tiny();
    let (first, other) = (text(&engine, 100, 1), text(&engine, 60, 2));
    let changed: Vec<u32> = first[..70].iter().chain(&other).copied().collect();
    let mut session = Session::new(&engine, options(200, "full")).expect("a session");
    session.sync(&first, &mut |_| {}).expect("prefill");
    assert_eq!(session.sync(&changed, &mut |_| {}).expect("the changed text"), 60);
    let mut fresh = Session::new(&engine, options(200, "full")).expect("a session");
    fresh.sync(&changed, &mut |_| {}).expect("prefill");
    assert!(largest_difference(session.logits(), fresh.logits()) < 1e-4 + tests::slack());
    // A text that ends earlier has its last token computed again, for the logits.
    assert_eq!(session.sync(&changed[..50], &mut |_| {}).expect("a shorter text"), 1);
    fresh.clear().expect("clear");
    fresh.sync(&changed[..50], &mut |_| {}).expect("prefill");
    assert!(largest_difference(session.logits(), fresh.logits()) < 1e-4 + tests::slack());
}

/// Reading layer by layer and token by token leaves the same rows and the same compensation entries (first layer: later ones
/// see different hidden states by design).
#[test]
fn compensation_does_not_depend_on_the_way() {
    let engine = tiny();
    let tokens = text(&engine, 120, 5);
    let make = |prefill| {
        let policy = "razor:buffer=16,ratio=5,sinks=4,slack=0";
        let options = SessionOptions { prefill, profile: Some(half(&engine)), ..options(120, policy) };
        Session::new(&engine, options).expect("a session")
    };
    let mut exact = make(Prefill::Exact);
    exact.sync(&tokens, &mut |_| {}).expect("prefill");
    let mut steps = make(Prefill::Streaming);
    for token in &tokens {
        steps.push(*token).expect("a step");
    }
    assert_eq!(exact.store().positions(0), steps.store().positions(0));
    let entries = |session: &Session| session.store().compensation(0).expect("sums");
    for (a, b) in entries(&exact).into_iter().zip(entries(&steps)) {
        match (a, b) {
            (None, None) => {}
            (Some(a), Some(b)) => {
                assert_eq!((a.rows, b.rows), (120 - 24 - 4, 120 - 24 - 4));
                assert!(largest_difference(&a.keys, &b.keys) < 1e-2);
                assert!(largest_difference(&a.values, &b.values) < 1e-2);
            }
            _ => panic!("one way has a compensation entry, the other has none"),
        }
    }
}

#[test]
fn an_interrupted_reading_leaves_a_session_that_works() {
    let engine = tiny();
    let tokens = text(&engine, 200, 9);
    for prefill in [Prefill::Exact, Prefill::Streaming] {
        let mut session =
            Session::new(&engine, SessionOptions { prefill, ..options(200, "full") }).expect("a session");
        let flag = engine.interrupt();
        let stopped =
            session.sync(&tokens, &mut |progress| flag.store(progress.share > 0.3, Ordering::Relaxed));
        assert!(stopped.expect_err("interrupted").is_interrupt());
        flag.store(false, Ordering::Relaxed);
        assert_eq!(session.tokens(), &tokens[..session.tokens().len()]);
        session.sync(&tokens, &mut |_| {}).expect("the second try");
        let mut fresh = Session::new(&engine, options(200, "full")).expect("a session");
        fresh.sync(&tokens, &mut |_| {}).expect("prefill");
        assert!(largest_difference(session.logits(), fresh.logits()) < 1e-4 + tests::slack());
    }
}

/// A stop while rows are leaving or between chunks never leaves rows and bookkeeping apart.
#[test]
fn an_interrupted_bounded_session_goes_on_where_it_was() {
    let engine = tiny();
    let tokens = text(&engine, 200, 11);
    let make = || {
        let policy = "razor:buffer=16,ratio=5,sinks=4";
        let options = SessionOptions {
            prefill: Prefill::Streaming,
            profile: Some(half(&engine)),
            ..options(200, policy)
        };
        Session::new(&engine, options).expect("a session")
    };
    let mut whole = make();
    whole.sync(&tokens, &mut |_| {}).expect("prefill");
    let mut broken = make();
    let flag = engine.interrupt();
    let mut stops = 0;
    while let Err(error) = broken.sync(&tokens, &mut |_| flag.store(true, Ordering::Relaxed)) {
        assert!(error.is_interrupt(), "{error}");
        flag.store(false, Ordering::Relaxed);
        stops += 1;
    }
    flag.store(false, Ordering::Relaxed);
    assert!(stops > 3, "{stops} stops");
    assert_eq!(broken.store().positions(0), whole.store().positions(0));
    assert_eq!(largest_difference(broken.logits(), whole.logits()), 0.0);
}

/// What was added since rows last left can be taken back.
#[test]
fn a_bounded_session_takes_back_a_turn() {
    let engine = tiny();
    let document = text(&engine, 150, 12);
    let turn = |seed| -> Vec<u32> { document.iter().copied().chain(text(&engine, 5, seed)).collect() };
    let make = || {
        let policy = "razor:buffer=64,ratio=5,sinks=4";
        let options = SessionOptions { profile: Some(half(&engine)), ..options(200, policy) };
        Session::new(&engine, options).expect("a session")
    };
    let (mut one, mut other) = (make(), make());
    one.sync(&document, &mut |_| {}).expect("prefill");
    one.sync(&turn(1), &mut |_| {}).expect("a turn");
    assert_eq!(one.sync(&turn(2), &mut |_| {}).expect("another turn instead"), 5);
    other.sync(&document, &mut |_| {}).expect("prefill");
    other.sync(&turn(2), &mut |_| {}).expect("a turn");
    assert_eq!(one.store().positions(1), other.store().positions(1));
    assert!(largest_difference(one.logits(), other.logits()) < 1e-5 + tests::slack());
}

#[test]
fn what_does_not_fit_is_refused() {
    let engine = tiny();
    let tokens = text(&engine, 40, 1);
    let mut session = Session::new(&engine, options(32, "full")).expect("a session");
    let error = session.sync(&tokens, &mut |_| {}).expect_err("too long");
    assert!(matches!(error, EngineError::ContextFull { needed: 40, context: 32 }), "{error}");
    session.sync(&tokens[..32], &mut |_| {}).expect("exactly full");
    assert!(matches!(session.push(1), Err(EngineError::ContextFull { .. })));
    let beyond = engine.spec().n_vocab as u32;
    assert!(matches!(session.sync(&[beyond], &mut |_| {}), Err(EngineError::Token { .. })));
    assert!(Session::new(&engine, options(0, "full")).is_err());
    assert!(Session::new(&engine, options(32, "razor")).is_err(), "razor needs a profile");
}

/// The plan counts the same tensors as used in two layouts.
#[test]
fn the_plan_knows_what_is_used_in_two_layouts() {
    let file = tests::data("golden/models/llama-wide-mqa-q4_k_m.gguf");
    let file = GgufFile::open(&file).expect("the model opens");
    let spec = ModelSpec::from_gguf(&file).expect("a model");
    let all = spec.n_layers;
    for (repack, on_device) in [(true, 0), (false, 0), (true, 1), (true, all)] {
        let flag = Arc::new(AtomicBool::new(false));
        let device = Backend::emulated(flag.clone(), None).expect("starts");
        let host = Backend::cpu(1, flag).expect("starts");
        let devices = Devices::new(host, Some(device), spec.n_layers, on_device);
        let (mut copied, mut all) = (0, 0);
        let loaded = Weights::load(&file, &spec, repack, &devices, &mut |done, of| {
            (copied, all) = (done, of);
            Ok(())
        });
        let loaded = loaded.expect("weights");
        let planned = Weights::pretend(&spec, &tensor_outlines(&file), repack, devices.placement())
            .expect("weights without memory");
        assert_eq!(loaded.bytes, planned.bytes);
        assert_eq!(loaded.twice_bytes, planned.twice_bytes);
        assert_eq!(copied, all, "loading is told to the end");
        assert!(
            all >= loaded.bytes.repacked + loaded.bytes.copied
                && (on_device > 0) == (loaded.bytes.device > 0)
        );
        let repacked: usize = loaded.twice_bytes.iter().sum();
        assert!(repacked <= loaded.bytes.repacked, "{repacked} of {}", loaded.bytes.repacked);
    }
}

/// The plan's numbers are the allocated ones: weights and store to the byte (but for alignment), compute buffers at most.
#[test]
fn the_plan_is_what_is_allocated() {
    let options = tests::engine_options();
    let engine = Engine::open(&ModelSource::Embedded, &options).expect("the embedded model opens");
    let tokens = text(&engine, 700, 4);
    for (policy, types) in [
        ("full", (Type::F16, Type::F16)),
        ("streaming:window=64", (Type::Q8_0, Type::Q4_0)),
        ("h2o:heavy=64,recent=64", (Type::F16, Type::F16)),
        ("ahakv:budget=128", (Type::F16, Type::Q8_0)),
        ("razor:buffer=64,ratio=5,sinks=4", (Type::F16, Type::F16)),
    ] {
        let options = SessionOptions {
            context: 800,
            policy: policy.parse().expect("a policy"),
            profile: Some(half(&engine)),
            types,
            chunk: 256,
            ..SessionOptions::default()
        };
        let mut session = Session::new(&engine, options).expect("a session");
        session.sync(&tokens, &mut |_| {}).expect("prefill");
        session.push(1).expect("a step");
        let on_device = engine.devices().placement().on_device();
        let how = PlanOptions {
            repack: true,
            prompt: 700,
            chunk: 256,
            exact: true,
            threads: 1,
            on_device,
            blocks: engine.devices().at(Place::Device).blocks(),
        };
        let outline = tensor_outlines(engine.file());
        let plan = Plan::new(engine.spec(), &outline, session.store().layout(), &how).expect("a plan");
        assert_eq!(plan.weights, engine.weight_bytes());
        let (predicted, allocated) =
            ((plan.host.store + plan.device.store) as f64, session.store().bytes() as f64);
        // A GPU aligns and pads each tensor of a layer by more than the host does.
        let alignment = 1024 * on_device;
        assert!(
            (allocated - predicted).abs() < 0.01 * predicted + alignment as f64,
            "{policy}: store {predicted} planned, {allocated} taken"
        );
        let compute = session.compute_bytes();
        let planned = plan.host.compute + plan.device.compute;
        assert!(compute <= planned && planned <= 2 * compute, "{policy}: {compute} of {planned}");
    }
}
