//! Logits of tiny random models equal those of Hugging Face transformers and of llama.cpp (`golden/README.md`
//! describes how these are made), and all ways to read a text give the same logits.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhand::heads::HeadProfile;
use longhand::reading::Prefill;
use longhand::{Engine, SessionOptions};
use models::spec::PositionEncoding;
use serde_json::Value;
use tests::fixtures::{case_tokens, golden_cases, golden_model, max_difference, session, sync};
use tests::{device_tolerance, fixtures, packed};

struct Case {
    name: String,
    engine: Arc<Engine>,
    tokens: Vec<u32>,
    json: Value,
}

fn cases() -> impl Iterator<Item = Case> {
    golden_cases().into_iter().map(|json| {
        let name = json["name"].as_str().expect("name").to_owned();
        assert_eq!(json["gguf"], format!("models/{name}.gguf"));
        Case { engine: golden_model(&name), tokens: case_tokens(&json), name, json }
    })
}

fn options(chunk: usize) -> SessionOptions {
    SessionOptions { chunk, ..fixtures::options(128, "full") }
}

/// References have the logits of every fourth token, the last one among them.
const EVERY: usize = 4;

/// Those of the logits of all tokens that references have.
fn kept(logits: &[f32], n_vocab: usize) -> Vec<f32> {
    logits.chunks(n_vocab).skip(EVERY - 1).step_by(EVERY).flatten().copied().collect()
}

fn rms_difference(a: &[f32], b: &[f32]) -> f32 {
    let squares: f32 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    (squares / a.len() as f32).sqrt()
}

#[test]
fn logits_equal_those_of_transformers_and_llama_cpp() {
    let references: BTreeMap<String, Vec<f32>> = packed::logits("golden/logits.br");
    let mut failures = Vec::new();
    for case in cases() {
        let logits = session(&case.engine, options(512)).all_logits(&case.tokens).expect("logits");
        for (reference, name, tolerance) in [
            ("transformers", "logits_hf", "tolerance_hf"),
            ("numpy", "logits_numpy", "tolerance_numpy"),
            ("llama.cpp", "logits_llamacpp", "tolerance_llamacpp"),
        ] {
            let Some(name) = case.json[name].as_str() else { continue };
            let want = &references[name];
            let have = kept(&logits, case.engine.spec().n_vocab);
            assert_eq!(have.len(), case.tokens.len() / EVERY * case.engine.spec().n_vocab);
            let (max, rms) = (max_difference(&have, want), rms_difference(&have, want));
            let limit =
                |key: &str| case.json[tolerance][key].as_f64().expect(key) as f32 + device_tolerance();
            println!("{:28} {reference:12} max {max:.2e} rms {rms:.2e}", case.name);
            if max > limit("max_abs") || rms > limit("rms") {
                failures.push(format!("{} against {reference}: max {max:.2e}, rms {rms:.2e}", case.name));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Exact prefill in chunks of any size, streaming prefill, and decoding token by token give the same logits.
#[test]
fn prefill_modes_chunk_sizes_and_decoding_agree() {
    for case in cases() {
        let mut reference: Option<Vec<f32>> = None;
        let mut check = |what: &str, logits: &[f32]| {
            let reference = reference.get_or_insert_with(|| logits.to_vec());
            // The chunk size changes how products with quantised weights are batched. With f32 weights only
            // rounding differs.
            let is_f32 = case.name.ends_with("f32");
            let max = max_difference(logits, reference);
            let limit = if is_f32 { 1e-4 + device_tolerance() } else { 5e-2 + 10.0 * device_tolerance() };
            assert!(max < limit, "{}, {what}: {max:e}", case.name);
        };
        let all = session(&case.engine, options(512)).all_logits(&case.tokens).expect("logits");
        check("one chunk", &all[all.len() - case.engine.spec().n_vocab..]);
        for chunk in [1, 7, 32, 80] {
            for prefill in [Prefill::Exact, Prefill::Streaming] {
                let mut session = session(&case.engine, SessionOptions { prefill, ..options(chunk) });
                sync(&mut session, &case.tokens);
                check(&format!("{prefill:?} in chunks of {chunk}"), session.logits());
            }
        }
        let mut session = session(&case.engine, options(512));
        for token in &case.tokens {
            session.push(*token).expect("a step");
        }
        check("token by token", session.logits());
    }
}

/// A policy whose window covers the whole text gives dense attention.
#[test]
fn a_window_as_long_as_the_text_gives_dense_attention() {
    for case in cases() {
        // With ALiBi, razor's windows follow from the weights: see `alibi.rs`.
        let razor = match case.engine.spec().position_encoding {
            PositionEncoding::Alibi { .. } => "razor:buffer=100,ratio=5,sinks=4,heads=off",
            _ => "razor:buffer=100,ratio=5,sinks=4",
        };
        for policy in ["streaming:sinks=4,window=100", razor] {
            let shape = case.engine.head_shape().expect("heads");
            let windowed = SessionOptions {
                policy: policy.parse().expect("a policy"),
                profile: Some(HeadProfile::uniform(shape, false)),
                ..options(32)
            };
            let (mut full, mut windowed) =
                (session(&case.engine, options(32)), session(&case.engine, windowed));
            let (prompt, rest) = case.tokens.split_at(70);
            for session in [&mut full, &mut windowed] {
                sync(session, prompt);
                rest.iter().for_each(|token| session.push(*token).expect("a step"));
            }
            let max = max_difference(windowed.logits(), full.logits());
            assert!(max < 1e-4 + device_tolerance(), "{} under {policy}: {max:e}", case.name);
        }
    }
}
