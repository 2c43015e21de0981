//! ALiBi: attention depends on distances, so rows must keep their positions when they move.
//! `golden/baichuan.py` makes the tiny random Baichuan model and its logits.

use std::collections::BTreeMap;
use std::sync::Arc;

use ggml::Type;
use longhand::heads::{HeadProfile, Provenance, SelectionRule};
use longhand::reading::Prefill;
use longhand::setup::plan::{PlaceBytes, Plan};
use longhand::testing::alibi::{self, ScopeOptions};
use longhand::testing::calibrate::{CalibrationOptions, calibrate};
use longhand::testing::kv::{KvBudget, PolicyChoice, StoreOptions};
use longhand::testing::outline::tensor_outlines;
use longhand::{Engine, EngineOptions, Hint, InterruptFlag, Session, SessionOptions};
use models::random::Random;
use serde_json::Value;
use tests::fixtures::{case_tokens, golden_cases, max_difference, plan_options, session, sync};
use tests::{device_tolerance, fixtures, packed};

const NAME: &str = "baichuan-alibi-f16";

fn open(threads: usize) -> Arc<Engine> {
    let options = EngineOptions { threads: Some(threads), ..tests::engine_options() };
    Engine::open(&fixtures::golden_source(NAME), &options).expect("the model opens")
}

fn case() -> Value {
    golden_cases().into_iter().find(|case| case["name"] == NAME).expect("the case")
}

fn options(policy: &str, prefill: Prefill) -> SessionOptions {
    SessionOptions { prefill, ..fixtures::options(128, policy) }
}

/// With a window, other rows move to the places of evicted ones. Their distances must not change.
#[test]
fn logits_of_bounded_heads_equal_the_formulas() {
    let case = case();
    let tokens = case_tokens(&case);
    let bounded = &case["bounded"];
    let policy = bounded["policy"].as_str().expect("a policy");
    let prompt = bounded["prompt"].as_u64().expect("a prompt") as usize;
    let limit = case["tolerance_numpy"]["max_abs"].as_f64().expect("a tolerance") as f32;
    let references: BTreeMap<String, Vec<f32>> = packed::logits("golden/logits.br");
    // The logits after token `at`.
    let expected = |name: &str, at: usize| {
        let logits = &references[bounded[name].as_str().expect(name)];
        let n_vocab = logits.len() / (tokens.len() - prompt);
        &logits[(at - prompt) * n_vocab..][..n_vocab]
    };
    for (threads, steps) in [(1, usize::MAX), (2, 5)] {
        let engine = open(threads);
        // Token by token from the beginning, and after a prompt with full attention.
        for (name, prefill, prompt_read) in
            [("from_the_beginning", Prefill::Streaming, 0), ("after_the_prompt", Prefill::Exact, prompt)]
        {
            let mut session = session(&engine, options(policy, prefill));
            sync(&mut session, &tokens[..prompt_read]);
            for (at, token) in tokens.iter().enumerate().skip(prompt_read).take(steps) {
                session.push(*token).expect("a step");
                if at >= prompt {
                    let difference = max_difference(session.logits(), expected(name, at));
                    assert!(difference < limit, "{name}, token {at}, {threads} threads: {difference:e}");
                }
            }
            assert!(session.store().positions(0)[0].len() < 30, "rows were evicted");
        }
        // As a text, in chunks of one token. Longer chunks would see rows before their eviction.
        let mut session =
            session(&engine, SessionOptions { chunk: 1, ..options(policy, Prefill::Streaming) });
        sync(&mut session, &tokens);
        let want = expected("from_the_beginning", tokens.len() - 1);
        let difference = max_difference(session.logits(), want);
        assert!(difference < limit, "in chunks: {difference:e}");
    }
}

/// Rows that overwrite those of an undone turn have the positions of the new tokens.
#[test]
fn positions_are_correct_after_an_undone_turn() {
    let engine = open(1);
    let tokens = case_tokens(&case());
    let turn = |shift: u32| -> Vec<u32> {
        let changed = tokens[60..66].iter().map(|token| (token + shift) % 260);
        tokens[..60].iter().copied().chain(changed).collect()
    };
    for policy in ["full", "streaming:sinks=4,window=24,slack=8"] {
        let [mut undone, mut fresh] = [(); 2].map(|()| session(&engine, options(policy, Prefill::Exact)));
        for (session, shifts) in [(&mut undone, &[1, 2][..]), (&mut fresh, &[2])] {
            sync(session, &tokens[..60]);
            for shift in shifts {
                assert_eq!(sync(session, &turn(*shift)), 6, "{policy}");
            }
            session.push(7).expect("a step");
        }
        assert!(max_difference(undone.logits(), fresh.logits()) < 1e-5 + device_tolerance(), "{policy}");
    }
}

/// Options for razor with these scopes for the three heads of every layer.
fn razor(engine: &Engine, scopes: [f64; 3], prefill: Prefill) -> SessionOptions {
    let all = vec![scopes.to_vec(); engine.spec().n_layers];
    let shape = engine.head_shape().expect("heads");
    let profile = HeadProfile::from_scopes(shape, &all, Provenance::default()).expect("a profile");
    SessionOptions { profile: Some(profile), ..options("razor", prefill) }
}

/// Each head keeps the tokens within its scope, and at most an eighth more. Heads whose scope is the whole
/// context keep everything. There are no compensation entries: a mean of rows has no position.
#[test]
fn razor_keeps_the_scope_of_each_head() {
    let engine = open(1);
    let tokens = case_tokens(&case());
    let scopes = [20.5, 1e9, 8.0];
    for prefill in [Prefill::Exact, Prefill::Streaming] {
        let mut session = session(&engine, razor(&engine, scopes, prefill));
        for lanes in &session.store().layout().layers {
            let heads: Vec<_> =
                lanes.iter().map(|lane| (&lane.kv_heads[..], lane.policy.is_some())).collect();
            assert_eq!(heads, [(&[1][..], false), (&[0], true), (&[2], true)]);
        }
        let check = |session: &Session, slack: [usize; 3]| {
            let seen = session.store().seen();
            for layer in 0..engine.spec().n_layers {
                let held = session.store().positions(layer);
                for ((held, window), slack) in held.iter().zip([21, 128, 8]).zip(slack) {
                    let kept: Vec<u32> = (seen.saturating_sub(held.len()) as u32..seen as u32).collect();
                    assert_eq!(*held, kept, "the last tokens");
                    let max_rows = seen.min(window + slack);
                    assert!((seen.min(window)..=max_rows).contains(&held.len()), "{} of {seen}", held.len());
                }
                assert!(session.store().compensation(layer).expect("sums").iter().all(Option::is_none));
            }
            assert!(session.logits().iter().all(|x| x.is_finite()));
        };
        sync(&mut session, &tokens[..60]);
        check(&session, if prefill == Prefill::Exact { [0; 3] } else { [2, 0, 1] });
        sync(&mut session, &tokens[..66]);
        check(&session, [2, 0, 1]);
        for token in &tokens[66..] {
            session.push(*token).expect("a step");
            check(&session, [2, 0, 1]);
        }
    }
}

/// With equal scopes razor equals a window for all heads; with scopes longer than the text it equals dense
/// attention.
#[test]
fn razor_with_equal_scopes_equals_a_window() {
    let engine = open(1);
    let tokens = case_tokens(&case());
    let logits = |options: SessionOptions| {
        let mut session = session(&engine, options);
        sync(&mut session, &tokens[..60]);
        tokens[60..].iter().for_each(|token| session.push(*token).expect("a step"));
        session.logits().to_vec()
    };
    for prefill in [Prefill::Exact, Prefill::Streaming] {
        let window = logits(options("streaming:sinks=0,window=24", prefill));
        let dense = logits(options("full", prefill));
        assert!(max_difference(&window, &dense) > 1e-3, "the window changes the logits");
        assert_eq!(logits(razor(&engine, [23.5, 24.0, 23.1], prefill)), window);
        assert!(
            max_difference(&logits(razor(&engine, [100.0, 1e9, 110.0], prefill)), &dense)
                < 1e-5 + device_tolerance()
        );
        assert_eq!(logits(razor(&engine, [f64::NAN; 3], prefill)), dense);
        // Without a head profile razor is a window that grows with the text.
        let text = "razor:heads=off,buffer=24,ratio=1000,sinks=0";
        assert_eq!(logits(options(text, prefill)), window);
    }
}

/// Scopes that follow from the weights survive a head profile's file, and a session can use them.
#[test]
fn scopes_from_the_weights_can_be_saved_and_used() {
    let engine = open(1);
    let policy: PolicyChoice = "razor:eps=0.5,rigorous=on".parse().expect("a policy");
    let scopes = policy.scope_options(engine.spec()).expect("windows follow from the weights");
    assert_eq!(scopes, ScopeOptions { epsilon: 0.5, rigorous: true });
    let profile =
        alibi::profile(engine.model(), engine.threads(), &InterruptFlag::new(), &scopes, &mut |_| {})
            .expect("a profile");
    let again = HeadProfile::from_json(&profile.to_json()).expect("the profile is parsed");
    assert_eq!(again, profile);
    let want = alibi::scopes(engine.model(), engine.threads(), &InterruptFlag::new(), &scopes, &mut |_| {})
        .expect("scopes");
    for (layer, want) in want.iter().enumerate() {
        let have = again.scopes(layer).expect("scopes");
        assert!(have.iter().zip(want).all(|(have, want)| (f64::from(*have) / want - 1.0).abs() < 1e-6));
    }
    let options = SessionOptions { policy, profile: Some(again), ..options("full", Prefill::Exact) };
    let mut session = session(&engine, options);
    sync(&mut session, &case_tokens(&case()));
    assert!(session.logits().iter().all(|x| x.is_finite()));
}

/// Compensation, budgets for razor, and calibration are rejected for models with ALiBi, with a hint.
#[test]
fn options_that_alibi_does_not_allow_are_rejected() {
    let engine = open(1);
    let profile = HeadProfile::uniform(engine.head_shape().expect("heads"), false);
    for (policy, part) in [
        ("razor", "has none"),
        ("razor:compensation=on", "stands for many rows"),
        ("streaming:compensation=on", "stands for many rows"),
    ] {
        let options = SessionOptions { profile: Some(profile.clone()), ..options(policy, Prefill::Exact) };
        let error = Session::new(&engine, options).err().expect(policy);
        assert!(error.to_string().contains(part) && error.hint().is_some(), "{error}");
    }
    let store_options = StoreOptions { context: 128, types: (Type::F32, Type::F32), reserve: None };
    for budget in [KvBudget::Rows(64), KvBudget::Share(0.5)] {
        let apply = |text: &str| budget.apply(&text.parse().expect(text), engine.spec(), None, store_options);
        let error = apply("razor").expect_err("no budget");
        assert!(error.to_string().contains("no budget can be set"), "{error}");
        assert_eq!(error.hint(), Some(Hint::OtherPolicy("snapkv")));
        apply("razor:heads=off").expect("a window for all heads");
    }
    let options = CalibrationOptions::default();
    let error = calibrate(&engine, &options, &SelectionRule::default(), &InterruptFlag::new(), &mut |_| {})
        .expect_err("ALiBi");
    assert_eq!(error.hint(), Some(Hint::WindowsFromWeights));
}

#[test]
fn the_plan_counts_the_bytes_of_positions() {
    let engine = open(1);
    let mut session = session(&engine, options("streaming:window=64", Prefill::Exact));
    sync(&mut session, &case_tokens(&case()));
    session.push(1).expect("a step");
    let plan = Plan::new(
        engine.spec(),
        &tensor_outlines(engine.file()),
        session.store().layout(),
        &plan_options(&engine, 80, 32),
    )
    .expect("a plan");
    let planned = |part: fn(&PlaceBytes) -> usize| plan.places().map(part).sum::<usize>();
    let predicted = planned(|place| place.store) as f64;
    let (planned, allocated) = (planned(|place| place.compute), session.store().bytes() as f64);
    assert!((allocated / predicted - 1.0).abs() < 0.01, "{predicted} planned, {allocated} allocated");
    let compute = session.compute_bytes();
    // The plan counts later texts. Portable operations work on whole lanes, which are longer then. A GPU divides the rows of a
    // few tokens among all of its multiprocessors.
    let most = if tests::is_portable() || tests::is_gpu() { 10 } else { 2 };
    assert!(compute <= planned && planned <= most * compute, "{compute} allocated, {planned} planned");
}

/// A head's query or key matrix in f64, `[head_dim][inputs]`. With a bias, its last column is the bias, whose input
/// is 1.
struct HeadMatrix(Vec<Vec<f64>>);

impl HeadMatrix {
    fn times(&self, x: &[f64]) -> Vec<f64> {
        self.0.iter().map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
    }

    fn transposed_times(&self, y: &[f64]) -> Vec<f64> {
        (0..self.0[0].len()).map(|i| self.0.iter().zip(y).map(|(row, y)| row[i] * y).sum()).collect()
    }
}

/// The largest singular value of a map, by power iteration with its square A^T A.
fn largest_singular_value(size: usize, square: impl Fn(&[f64]) -> Vec<f64>) -> f64 {
    let length = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut x: Vec<f64> = (0..size).map(|i| 1.0 + i as f64 / 7.0).collect();
    for _ in 0..2000 {
        let norm = length(&x);
        x = square(&x.iter().map(|x| x / norm).collect::<Vec<_>>());
    }
    length(&x).sqrt()
}

/// The attention weights of a layer of a file, read without the engine's declarations.
struct LayerWeights {
    queries: Vec<HeadMatrix>,
    keys: Vec<HeadMatrix>,
    gamma: Vec<f64>,
    bias: Vec<f64>,
}

impl LayerWeights {
    fn read(engine: &Engine, layer: usize) -> LayerWeights {
        let floats = |part: &str| -> Option<Vec<f64>> {
            let info = engine.file().tensor(&format!("blk.{layer}.{part}"))?;
            let mut floats = vec![0.0; info.elements() as usize];
            let ty = Type::from_id(info.ty.id()).expect("a type");
            assert!(ty.dequantize(engine.file().data(info), &mut floats));
            Some(floats.into_iter().map(f64::from).collect())
        };
        let spec = engine.spec();
        let heads = |name: &str, offset: usize| -> Vec<HeadMatrix> {
            let (weights, bias) =
                (floats(&format!("{name}.weight")).expect(name), floats(&format!("{name}.bias")));
            let row = |row: usize| {
                let bias = bias.as_ref().map(|bias| bias[offset + row]);
                weights[(offset + row) * spec.n_embd..][..spec.n_embd].iter().copied().chain(bias).collect()
            };
            let head = |head: usize| (head * spec.head_dim..(head + 1) * spec.head_dim).map(row).collect();
            (0..spec.n_heads).map(|number| HeadMatrix(head(number))).collect()
        };
        // A fused matrix has all queries, then all keys, then all values.
        let (queries, keys) = match floats("attn_qkv.weight") {
            Some(_) => (heads("attn_qkv", 0), heads("attn_qkv", spec.n_embd)),
            None => (heads("attn_q", 0), heads("attn_k", 0)),
        };
        let gamma = floats("attn_norm.weight").expect("a norm");
        let bias = floats("attn_norm.bias").unwrap_or_else(|| vec![0.0; spec.n_embd]);
        LayerWeights { queries, keys, gamma, bias }
    }
}

/// Scopes equal those of a plain computation from the weights: separate matrices (Baichuan), fused ones with biases
/// (BLOOM) and without, and clamped queries and keys (MPT). No text exceeds the strict bound.
#[test]
fn scopes_equal_a_plain_computation_from_the_weights() {
    let family = |name: &str| fixtures::family_model(name);
    let four = [0.25, 0.0625, 0.015625, 0.00390625];
    let six = [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125];
    for (name, engine, layers, slopes) in [
        (NAME, open(2), &[0, 17, 39][..], &[1.0 / 16.0, 1.0 / 256.0, 1.0 / 4.0][..]),
        ("bloom-4-f32", family("bloom-4-f32"), &[0, 1], &four),
        ("bloom-6-q8_0", family("bloom-6-q8_0"), &[0, 1], &six),
        ("mpt-4-f32", family("mpt-4-f32"), &[0, 1], &four),
        ("mpt-clip-f32", family("mpt-clip-f32"), &[0, 1], &six),
    ] {
        let spec = engine.spec();
        assert_eq!(spec.attention.clamp_qkv.is_some(), name.contains("clip"));
        assert_eq!(spec.attention.qkv_bias, name.contains("bloom"));
        let scopes = |rigorous: bool| {
            let options = ScopeOptions { rigorous, ..ScopeOptions::default() };
            alibi::scopes(engine.model(), engine.threads(), &InterruptFlag::new(), &options, &mut |_| {})
                .expect("scopes")
        };
        let (paper, rigorous) = (scopes(false), scopes(true));
        assert_eq!((paper.len(), paper[0].len()), (spec.n_layers, spec.n_kv_heads));
        let clamp = spec.attention.clamp_qkv.map_or(f64::INFINITY, f64::from);
        let mut random = Random(11);
        for &layer in layers {
            let weights = LayerWeights::read(&engine, layer);
            let squares = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
            let constant = f64::from(u8::from(spec.attention.qkv_bias));
            let largest = weights.gamma.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            let length = (spec.n_embd as f64).sqrt() * largest + squares(&weights.bias).sqrt();
            let lengths = [squares(&weights.gamma) + squares(&weights.bias), length * length];
            for head in 0..spec.n_heads {
                let (q, k) = (&weights.queries[head], &weights.keys[head]);
                let inputs = q.0[0].len();
                let both = |x: &[f64]| k.transposed_times(&q.times(&q.transposed_times(&k.times(x))));
                let of_one =
                    |m: &HeadMatrix| largest_singular_value(inputs, |x| m.transposed_times(&m.times(x)));
                for (rigorous, (scopes, size)) in [&paper, &rigorous].into_iter().zip(lengths).enumerate() {
                    let size = size + constant;
                    let bound = match spec.attention.clamp_qkv {
                        None => largest_singular_value(inputs, both) * size,
                        Some(_) => {
                            let longest = clamp * (spec.head_dim as f64).sqrt();
                            [q, k].map(|m| (of_one(m) * size.sqrt()).min(longest)).iter().product()
                        }
                    };
                    let scale = f64::from(spec.attention.scale);
                    let want = (2.0 * scale * bound - 1e-3f64.ln()) / slopes[head];
                    let have = scopes[layer][head];
                    let what = format!("{name}, layer {layer}, head {head}, rigorous {rigorous}");
                    assert!((have / want - 1.0).abs() < 1e-6, "{what}: {have}, not {want}");
                    // Normed inputs, of which the sign of each element is random.
                    for _ in 0..20 {
                        let mut normed = || -> Vec<f64> {
                            let signs = weights.gamma.iter().zip(&weights.bias);
                            let sign = |random: &mut Random| if random.below(2) == 0 { 1.0 } else { -1.0 };
                            let x = signs.map(|(gamma, bias)| gamma * sign(&mut random) + bias);
                            x.chain((constant > 0.0).then_some(1.0)).collect()
                        };
                        let [q, k] = [(q, normed()), (k, normed())].map(|(m, x)| m.times(&x));
                        let dot: f64 = q
                            .iter()
                            .zip(k)
                            .map(|(q, k)| q.clamp(-clamp, clamp) * k.clamp(-clamp, clamp))
                            .sum();
                        assert!(rigorous == 0 || dot.abs() <= bound, "{what}: {dot} is more than {bound}");
                    }
                }
                assert!(rigorous[layer][head] >= paper[layer][head]);
            }
        }
    }
}
