//! Logits of tiny random models equal those of Hugging Face transformers and of llama.cpp (`golden/README.md` says how those
//! were made), and the engine's own ways through a text agree with each other.

use engine::{Engine, ModelSource, Prefill, Session, SessionOptions};
use ggml::Type;
use models::spec::PositionEncoding;
use serde_json::Value;
use std::sync::Arc;
use tests::npy::Array;

struct Case {
    name: String,
    engine: Arc<Engine>,
    tokens: Vec<u32>,
    entry: Value,
}

fn cases() -> Vec<Case> {
    let index = std::fs::read_to_string(tests::data("golden/index.json")).expect("golden/index.json");
    let index: Value = serde_json::from_str(&index).expect("golden/index.json is JSON");
    let cases = index["cases"].as_array().expect("cases").iter().map(|entry| {
        let text = |key: &str| entry[key].as_str().expect(key).to_owned();
        let file = tests::data("golden").join(text("gguf"));
        let options = tests::engine_options();
        Case {
            name: text("name"),
            engine: Engine::open(&ModelSource::File(file), &options).expect("the model opens"),
            tokens: entry["tokens"]
                .as_array()
                .expect("tokens")
                .iter()
                .map(|t| t.as_u64().expect("token") as u32)
                .collect(),
            entry: entry.clone(),
        }
    });
    cases.collect()
}

fn options(chunk: usize) -> SessionOptions {
    SessionOptions { context: 128, types: (Type::F32, Type::F32), chunk, ..SessionOptions::default() }
}

fn differences(a: &[f32], b: &[f32]) -> (f32, f32) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().all(|x| x.is_finite()));
    let largest = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let squares: f32 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    (largest, (squares / a.len() as f32).sqrt())
}

#[test]
fn logits_equal_transformers_and_llama_cpp() {
    let mut wrong = Vec::new();
    for case in cases() {
        let mut session = Session::new(&case.engine, options(512)).expect("a session");
        let logits = session.all_logits(&case.tokens).expect("logits");
        for (peer, file, tolerance) in [
            ("transformers", "logits_hf", "tolerance_hf"),
            ("numpy", "logits_numpy", "tolerance_numpy"),
            ("llama.cpp", "logits_llamacpp", "tolerance_llamacpp"),
        ] {
            let Some(file) = case.entry[file].as_str() else { continue };
            let want = Array::read(&tests::data("golden").join(file)).expect("reference logits");
            assert_eq!(want.shape, [case.tokens.len(), case.engine.spec().n_vocab]);
            let (largest, rms) = differences(&logits, &want.data);
            let limit = |key: &str| case.entry[tolerance][key].as_f64().expect(key) as f32 + tests::slack();
            println!("{:28} {peer:12} max {largest:.2e} rms {rms:.2e}", case.name);
            if largest > limit("max_abs") || rms > limit("rms") {
                wrong.push(format!("{} against {peer}: max {largest:.2e}, rms {rms:.2e}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Exact prefill in chunks of any size, streaming prefill, and decode token by token end in the same logits.
#[test]
fn every_way_through_a_text_agrees() {
    for case in cases() {
        let mut reference: Option<Vec<f32>> = None;
        let mut check = |way: &str, logits: &[f32]| {
            let reference = reference.get_or_insert_with(|| logits.to_vec());
            // Chunks differ in how matrix products of quantised weights are batched; f32 differs in rounding only.
            let exact = case.name.ends_with("f32");
            let (largest, _) = differences(logits, reference);
            let limit = if exact { 1e-4 + tests::slack() } else { 5e-2 + 10.0 * tests::slack() };
            assert!(largest < limit, "{}, {way}: {largest:e}", case.name);
        };
        let mut session = Session::new(&case.engine, options(512)).expect("a session");
        let all = session.all_logits(&case.tokens).expect("logits");
        check("one chunk", &all[all.len() - case.engine.spec().n_vocab..]);
        for chunk in [1, 7, 32, 80] {
            for prefill in [Prefill::Exact, Prefill::Streaming] {
                let options = SessionOptions { prefill, ..options(chunk) };
                let mut session = Session::new(&case.engine, options).expect("a session");
                session.sync(&case.tokens, &mut |_| {}).expect("prefill");
                check(&format!("{prefill:?} in chunks of {chunk}"), session.logits());
            }
        }
        let mut session = Session::new(&case.engine, options(512)).expect("a session");
        for token in &case.tokens {
            session.push(*token).expect("a step");
        }
        check("token by token", session.logits());
    }
}

/// A bounded policy whose window covers the text is dense attention.
#[test]
fn a_window_as_long_as_the_text_changes_nothing() {
    for case in cases() {
        // Under ALiBi razor's windows follow from the weights: see `alibi.rs`.
        let razor = match case.engine.spec().position_encoding {
            PositionEncoding::Alibi => "razor:buffer=100,ratio=5,sinks=4,heads=off",
            PositionEncoding::Rope(_) => "razor:buffer=100,ratio=5,sinks=4",
        };
        for policy in ["streaming:sinks=4,window=100", razor] {
            let shape = case.engine.head_shape().expect("heads");
            let options = SessionOptions {
                policy: policy.parse().expect("a policy"),
                profile: Some(engine::heads::HeadProfile::uniform(shape, false)),
                ..options(32)
            };
            let mut full = Session::new(&case.engine, self::options(32)).expect("a session");
            let mut bounded = Session::new(&case.engine, options).expect("a session");
            let (head, tail) = case.tokens.split_at(70);
            full.sync(head, &mut |_| {}).expect("prefill");
            bounded.sync(head, &mut |_| {}).expect("prefill");
            for token in tail {
                full.push(*token).expect("a step");
                bounded.push(*token).expect("a step");
            }
            let (largest, _) = differences(bounded.logits(), full.logits());
            assert!(largest < 1e-4 + tests::slack(), "{} under {policy}: {largest:e}", case.name);
        }
    }
}
