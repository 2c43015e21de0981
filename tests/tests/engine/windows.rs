//! Layers with a sliding window: a random model of six layers whose last one is global, as in Gemma 3.

use std::sync::Arc;

use longhand::heads::SelectionRule;
use longhand::reading::Prefill;
use longhand::store::last_attention;
use longhand::testing::calibrate::{CalibrationOptions, calibrate};
use longhand::testing::kv::{KvBudget, Layout, PolicyChoice, StoreOptions};
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{Engine, InterruptFlag, ModelSource, Session, SessionOptions};
use models::arch::Arch;
use models::gguf::write::{GgufWriter, MetaValue};
use models::spec::{Attention, LocalLayers, ModelSpec, ModelTensors, Rope};
use models::types::TensorType;
use tests::device_tolerance;
use tests::fixtures::{
    self, Random, bounded_policies, max_difference, random_tokens, session, sync, with_policy,
};

const WINDOW: usize = 12;
const GLOBAL: usize = 5;

/// A model of `arch` with six layers and random weights.
fn model(arch: Arch, softcap: Option<f32>) -> Arc<Engine> {
    let base = ModelSpec::base(arch, 6, 16);
    let rope = base.position_encoding.rope().copied();
    let spec = ModelSpec {
        name: "windows".into(),
        n_embd: 32,
        n_heads: 4,
        n_kv_heads: 2,
        n_ff: 48,
        n_vocab: 64,
        n_ctx_train: 4096,
        tied_output: true,
        attention: Attention { softcap, ..base.attention },
        local_layers: Some(LocalLayers {
            window: WINDOW,
            is_local: (0..6).map(|layer| layer != GLOBAL).collect(),
            rope: rope.map(|rope| Rope { base: 100.0, ..rope }),
            heads: None,
        }),
        ..base
    }
    .with_default_factors();
    let mut writer = GgufWriter::new();
    for (key, value) in spec.metadata() {
        writer.set(key, value);
    }
    writer.set("tokenizer.ggml.model", "llama");
    writer.set("tokenizer.ggml.tokens", MetaValue::strings((0..64).map(|id| format!("t{id}"))));
    writer.set("tokenizer.ggml.scores", MetaValue::f32s([0.0; 64]));
    writer.set("tokenizer.ggml.token_type", MetaValue::i32s([1; 64]));
    for need in ModelTensors::in_file(&spec) {
        writer.tensor(&need.name, &need.dims, TensorType::F32);
    }
    let (mut file, mut random) = (Vec::new(), Random(3));
    let written = writer.write(&mut file, |tensor, out| {
        let floats = tensor.bytes().unwrap_or_default() / 4;
        let base = if tensor.name.contains("norm") { 1.0 } else { 0.0 };
        (0..floats).try_for_each(|_| {
            let value = base + (random.below(2001) as f32 / 1000.0 - 1.0) * 0.4;
            out.write_all(&value.to_le_bytes())
        })
    });
    written.expect("a file in memory");
    let engine =
        Engine::open(&ModelSource::Bytes(file.into()), &tests::engine_options()).expect("the model opens");
    assert_eq!(engine.spec().local_layers, spec.local_layers, "the file says the same");
    engine
}

fn gemma() -> Arc<Engine> {
    model(Arch::Gemma3, None)
}

fn options(policy: &str, prefill: Prefill) -> SessionOptions {
    SessionOptions { prefill, ..fixtures::options(4000, policy) }
}

/// The logits after each of `tokens`, computed in one chunk with full attention and a mask. So no row is evicted before
/// it is seen.
fn dense(engine: &Arc<Engine>, tokens: &[u32]) -> Vec<f32> {
    let n = tokens.len();
    let mut session = session(engine, SessionOptions { chunk: n, ..options("full", Prefill::Exact) });
    session.all_logits(tokens).expect("computed")
}

/// Layer by layer, in chunks that cut windows, and token by token.
#[test]
fn all_ways_of_reading_a_text_give_the_same_logits() {
    for engine in
        [gemma(), model(Arch::Gemma2, Some(2.0)), model(Arch::Cohere2, None), model(Arch::Exaone4, None)]
    {
        let tokens = random_tokens(&engine, 97, 5);
        let want = dense(&engine, &tokens);
        let want = &want[96 * 64..];
        for (prefill, chunk) in
            [(Prefill::Exact, 32), (Prefill::Exact, 7), (Prefill::Streaming, 32), (Prefill::Streaming, 1)]
        {
            let mut session = session(&engine, SessionOptions { chunk, ..options("full", prefill) });
            sync(&mut session, &tokens);
            let difference = max_difference(session.logits(), want);
            assert!(difference < 1e-3 + device_tolerance(), "{prefill:?} {chunk}: {difference:e}");
            check_windows(&session);
        }
        let mut session = session(&engine, options("full", Prefill::Streaming));
        tokens.iter().for_each(|token| session.push(*token).expect("a step"));
        assert!(max_difference(session.logits(), want) < 1e-3 + device_tolerance());
        check_windows(&session);
    }
}

/// Local layers hold the last tokens, the global layer those that the policy keeps.
fn check_windows(session: &Session) {
    let seen = session.store().seen();
    for layer in 0..GLOBAL {
        let window: Vec<u32> = (seen.saturating_sub(WINDOW) as u32..seen as u32).collect();
        assert_eq!(session.store().positions(layer), vec![window; 2], "layer {layer}");
    }
    assert!(session.logits().iter().all(|x| x.is_finite()));
}

#[test]
fn the_last_tokens_attention_is_that_of_the_global_layer() {
    let engine = gemma();
    let tokens = random_tokens(&engine, 97, 5);
    let layers = last_attention(&engine, &tokens, &InterruptFlag::new(), &mut |_| ()).expect("computed");
    assert_eq!(layers.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 4]);
    assert!(layers[GLOBAL].iter().all(|weights| (weights.iter().sum::<f32>() - 1.0).abs() < 1e-3));
}

#[test]
fn a_token_outside_all_windows_reaches_the_global_layer_only() {
    let engine = gemma();
    let mut tokens = random_tokens(&engine, 97, 5);
    let before = dense(&engine, &tokens);
    tokens[0] = (tokens[0] + 1) % 64;
    let after = dense(&engine, &tokens);
    assert!(max_difference(&before[96 * 64..], &after[96 * 64..]) > 1e-6, "the global layer sees it");
    // Without a global layer, five windows of 12 tokens reach back 5 * 11 tokens.
    let spec = ModelSpec { n_layers: GLOBAL, ..engine.spec().clone() };
    assert!(
        (0..GLOBAL).all(|layer| spec.window(layer) == Some(WINDOW)) && engine.spec().window(GLOBAL).is_none()
    );
}

#[test]
fn policies_bound_the_global_layer_only() {
    let engine = gemma();
    let tokens = random_tokens(&engine, 97, 5);
    for policy in bounded_policies(24, 4000) {
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let options = with_policy(&engine, &policy, options("full", prefill));
            let mut session = session(&engine, options);
            sync(&mut session, &tokens[..80]);
            tokens[80..].iter().for_each(|token| session.push(*token).expect("a step"));
            check_windows(&session);
            let usage = session.kv_usage();
            let windows = GLOBAL * 2 * WINDOW;
            assert_eq!(usage.full_bytes, (windows + 2 * 97) * 2 * 16 * 4, "{policy}");
            assert!(usage.bytes <= usage.full_bytes, "{policy}");
        }
    }
    let mut full = session(&engine, options("full", Prefill::Exact));
    sync(&mut full, &tokens);
    assert_eq!(full.kv_usage().share(), 1.0);
    assert_eq!(full.kv_usage().full_heads, 2);
}

#[test]
fn an_undone_turn_leaves_windows_as_they_were() {
    let engine = gemma();
    let tokens = random_tokens(&engine, 97, 5);
    for policy in ["full", "streaming:sinks=2,window=20"] {
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let mut session = session(&engine, options(policy, prefill));
            sync(&mut session, &tokens[..60]);
            let (contents, logits) = (session.store().contents().expect("bytes"), session.logits().to_vec());
            sync(&mut session, &tokens);
            tokens[..30].iter().for_each(|token| session.push(*token).expect("a step"));
            assert_eq!(sync(&mut session, &tokens[..60]), 0, "{policy}: nothing is read again");
            assert_eq!(session.store().contents().expect("bytes"), contents, "{policy} {prefill:?}");
            assert_eq!(session.logits(), logits);
        }
    }
}

#[test]
fn budgets_and_plans_count_windows_apart() {
    let engine = gemma();
    let spec = engine.spec();
    let store = StoreOptions { context: 4000, types: fixtures::options(1, "full").types, reserve: None };
    let streaming: PolicyChoice = "streaming:sinks=0".parse().expect("a policy");
    let layout = |choice: &PolicyChoice| Layout::new(spec, choice, None, store).expect("a layout");
    let full = layout(&PolicyChoice::default());
    // A row of both KV heads has 2 * 2 * 16 floats, and a window two positions for each head.
    let windows = GLOBAL * (WINDOW + 1 + 512) * (2 * 2 * 16 * 4 + 2 * (4 + 4));
    assert_eq!(full.fixed_bytes(), windows);
    assert_eq!(full.bytes(), windows + 4000 * 2 * 2 * 16 * 4);
    let half = KvBudget::Share(0.5).apply(&streaming, spec, None, store).expect("fits");
    let bytes = layout(&half).bytes() - windows;
    let global = 4000 * 2 * 2 * 16 * 4;
    assert!(bytes <= global / 2 && bytes > global / 2 - 1000, "{bytes} of {global}");
}

#[test]
fn calibration_selects_heads_of_global_layers() {
    let engine = gemma();
    let options = CalibrationOptions { period: 20, ..CalibrationOptions::default() };
    let rule = SelectionRule { induction: 0.5, echo: 0.0, group_max: true };
    let profile = calibrate(&engine, &options, &rule, &InterruptFlag::new(), &mut |_| {}).expect("a profile");
    assert_eq!(
        (profile.retrieval_count(), profile.layer(GLOBAL).iter().filter(|keeps| **keeps).count()),
        (1, 1)
    );
}

#[test]
fn a_restored_session_has_its_windows() {
    let engine = gemma();
    let tokens = random_tokens(&engine, 97, 5);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("saved");
    let mut one = session(&engine, options("streaming:sinks=2,window=20", Prefill::Exact));
    sync(&mut one, &tokens[..80]);
    one.push(3).expect("a step"); // one row more than the window
    snapshot::save(&one, "the caller's", &file).expect("saved");
    let mut other = Snapshot::open(&file).expect("a file").restore(&engine).expect("restored");
    for token in tokens {
        one.push(token).expect("a step");
        other.push(token).expect("a step");
        assert_eq!(one.logits(), other.logits());
    }
    check_windows(&other);
}
