//! A first text that is read twice (KVzip), compared with the attention of the same tokens read in the ordinary way.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ggml::Type;
use longhand::policy::PolicyChoice;
use longhand::store::last_attention;
use longhand::{Engine, EngineOptions, InterruptFlag, ModelSource, Session, SessionOptions};
use models::gguf::GgufFile;
use tests::device_tolerance;
use tests::fixtures::{embedded_model, golden_model, golden_source, random_tokens, sync};

/// Tokens computed at a time: the second reading repeats 24 tokens of a part of 25 behind the 8 before them.
const CHUNK: usize = 32;

/// Sets the scores of a part of `text`, for each layer and KV head: the largest attention that its rows get from the
/// tokens `repeated` behind the text. These see the part, each other, and the first and last 16 rows of the text. The
/// tokens that are followed by one of the part count. `factor` has the factor on a weight, by layer, query head, row and the
/// number of the repeated token.
fn score_part(
    engine: &Arc<Engine>,
    text: &[u32],
    part: Range<usize>,
    repeated: &[u32],
    factor: impl Fn(usize, usize, usize, usize) -> f32,
    scores: &mut [Vec<Vec<f32>>],
) {
    let group = engine.spec().queries_per_kv_head();
    let first = 16.min(part.start);
    let last = text.len().saturating_sub(16).max(part.end);
    for end in repeated.len().saturating_sub(part.len()) + 1..=repeated.len() {
        let tokens = [text, &repeated[..end]].concat();
        let attention =
            last_attention(engine, &tokens, &InterruptFlag::new(), &mut |_| ()).expect("computes");
        for (layer, (scores, heads)) in scores.iter_mut().zip(attention).enumerate() {
            for (head, weights) in heads.iter().enumerate() {
                let seen = [&weights[..first], &weights[part.clone()], &weights[last..]].concat();
                let total: f32 = seen.iter().sum();
                for row in part.clone() {
                    let most = &mut scores[head / group][row];
                    *most = most.max(weights[row] / total * factor(layer, head, row, end - 1));
                }
            }
        }
    }
}

/// A session that has read `text` twice, in chunks of [`CHUNK`] tokens, with values of this type.
fn read_twice(engine: &Arc<Engine>, text: &[u32], policy: &str, value_type: Type) -> Session {
    let options = SessionOptions {
        context: 200,
        policy: policy.parse().expect("a policy"),
        types: (Type::F16, value_type),
        chunk: CHUNK,
        ..SessionOptions::default()
    };
    let mut session = Session::new(engine, options).expect("a session");
    sync(&mut session, text);
    session
}

#[test]
fn rows_are_scored_by_the_largest_attention_of_the_second_reading() {
    for engine in [embedded_model(), golden_model("llama-mha-f32"), golden_model("baichuan-alibi-f16")] {
        let text = random_tokens(&engine, 60, 5);
        let session = read_twice(&engine, &text, "kvzip:heads=off,capacity=150", Type::F16);

        let spec = engine.spec();
        let mut want = vec![vec![vec![0f32; text.len()]; spec.n_kv_heads]; spec.n_layers];
        for (part, repeated) in [(0..25, 0..24), (25..50, 17..49), (50..60, 42..59)] {
            score_part(&engine, &text, part, &text[repeated], |_, _, _, _| 1.0, &mut want);
        }
        for (layer, want) in want.iter().enumerate() {
            let have = session.store().accumulated_attention(layer).expect("numbers");
            for (have, want) in have.iter().map(|have| have.as_ref().expect("scores")).zip(want) {
                let difference = have.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
                assert!(difference < 2e-3 + 3.0 * device_tolerance(), "layer {layer}: {difference}");
            }
        }
        // The session is as if the text had been read once.
        assert_eq!((session.tokens(), session.store().seen()), (&text[..], text.len()));
    }
}

/// The columns `[n]` of a matrix `[rows, n]`, as their norms.
fn norms(matrix: &[f32], rows: usize) -> Vec<f32> {
    matrix.chunks_exact(rows).map(|column| column.iter().map(|x| x * x).sum::<f32>().sqrt()).collect()
}

/// `[n_layers][n_heads][tokens]`: the norms of what the values of `tokens` become behind each query head's part of the output
/// matrix; and `[n_layers][tokens]`: the norms of attention's inputs.
fn norms_of_contributions(name: &str, tokens: &[u32]) -> (Vec<Vec<Vec<f32>>>, Vec<Vec<f32>>) {
    let traced = EngineOptions { trace: true, ..tests::engine_options() };
    let engine = Engine::open(&golden_source(name), &traced).expect("the model opens");
    let options = SessionOptions { context: 200, chunk: 200, ..SessionOptions::default() };
    let mut session = Session::new(&engine, options).expect("a session");
    let found: HashMap<String, Vec<f32>> =
        session.intermediates(tokens).expect("intermediates").into_iter().collect();
    let file = match golden_source(name) {
        ModelSource::File(path) => GgufFile::open(&path).expect("a file"),
        ModelSource::Bytes(bytes) => GgufFile::from_bytes(bytes.to_vec()).expect("a file"),
        _ => unreachable!("golden models are files"),
    };
    let (spec, d) = (engine.spec(), engine.spec().kv_heads(0).dim);
    let of_layer = |layer: usize| {
        let tensor = file.tensor(&format!("blk.{layer}.attn_output.weight")).expect("an output matrix");
        let mut output = vec![0.0; tensor.dims.iter().product::<u64>() as usize];
        let ty = Type::from_id(tensor.ty.id()).expect("a type of ggml");
        assert!(ty.dequantize(file.data(tensor), &mut output));
        let values = &found[&format!("Vcur-{layer}")];
        let of_head = |head: usize| {
            let kv_head = head / spec.queries_per_kv_head();
            let value = |t: usize| &values[(t * spec.n_kv_heads + kv_head) * d..][..d];
            let added = |t: usize| -> Vec<f32> {
                let rows = output.chunks_exact(spec.n_heads * d).map(|row| &row[head * d..][..d]);
                rows.map(|row| row.iter().zip(value(t)).map(|(a, b)| a * b).sum()).collect()
            };
            (0..tokens.len()).map(|t| norms(&added(t), spec.n_embd)[0]).collect()
        };
        (0..spec.n_heads).map(of_head).collect()
    };
    let inputs = |layer: usize| norms(&found[&format!("attn_norm-{layer}")], spec.n_embd);
    ((0..spec.n_layers).map(of_layer).collect(), (0..spec.n_layers).map(inputs).collect())
}

#[test]
fn contributions_are_attention_times_norms() {
    // Values in iq4_nl are stored rotated. With quantised values only the first layer's attention is the same.
    for (name, value_type, tolerance) in [
        ("llama-mha-f32", Type::F16, 1e-2),
        ("qwen2-gqa-f32", Type::F16, 1e-2),
        ("qwen3-gqa-f32", Type::F16, 1e-2),
        ("llama-wide-mqa-q4_k_m", Type::F16, 0.05),
        ("qwen3-wide-mqa-q6_k", Type::IQ4_NL, 0.2),
        ("qwen3-wide-mqa-q6_k", Type::Q8_0, 0.05),
    ] {
        let engine = golden_model(name);
        let text = random_tokens(&engine, 60, 5);
        let session = read_twice(&engine, &text, "kvzip-plus:heads=off,capacity=150", value_type);

        let spec = engine.spec();
        let mut want = vec![vec![vec![0f32; text.len()]; spec.n_kv_heads]; spec.n_layers];
        for (part, repeated) in [(0..25, 0..24), (25..50, 17..49), (50..60, 42..59)] {
            let repeated = &text[repeated];
            let (added, inputs) = norms_of_contributions(name, &[&text[..], repeated].concat());
            let factor = |layer: usize, head: usize, row: usize, token: usize| {
                added[layer][head][row] / inputs[layer][text.len() + token]
            };
            score_part(&engine, &text, part, repeated, factor, &mut want);
        }
        let exact = if value_type == Type::F16 { spec.n_layers } else { 1 };
        for (layer, want) in want.iter().take(exact).enumerate() {
            let have = session.store().accumulated_attention(layer).expect("numbers");
            for (have, want) in have.iter().map(|have| have.as_ref().expect("scores")).zip(want) {
                for (have, want) in have.iter().zip(want) {
                    let want = want / (1.0 + want);
                    assert!(
                        (have - want).abs() < (tolerance + device_tolerance()) * want,
                        "{name}, layer {layer}: {have}, not {want}"
                    );
                }
            }
        }
    }
}

/// The `count` positions with the highest scores, ascending. The first four stay in any case.
fn best_of(mut positions: Vec<u32>, scores: &[f32], count: usize) -> Vec<u32> {
    let score = |position: u32| if position < 4 { f32::MAX } else { scores[position as usize] };
    positions.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
    positions.truncate(count);
    positions.sort_unstable();
    positions
}

#[test]
fn the_rows_with_the_highest_scores_and_the_last_ones_stay() {
    let engine = embedded_model();
    let text = random_tokens(&engine, 100, 6);
    let read = |policy: &str| {
        let policy = policy.parse().expect("a policy");
        let options = SessionOptions { context: 300, policy, chunk: CHUNK, ..SessionOptions::default() };
        let mut session = Session::new(&engine, options).expect("a session");
        sync(&mut session, &text);
        session
    };
    let (all, mut some) =
        (read("kvzip:heads=off,capacity=200"), read("kvzip:heads=off,capacity=40,recent=10,slack=0"));
    let positions = |session: &Session, layer: usize| session.store().positions(layer);
    for layer in 0..engine.spec().n_layers {
        let scores = all.store().accumulated_attention(layer).expect("numbers");
        for (scores, held) in scores.iter().flatten().zip(positions(&some, layer)) {
            let best = best_of((0..90).collect(), scores, 30);
            assert_eq!(held, [best, (90..100).collect()].concat(), "layer {layer}");
        }
    }
    // Tokens that follow have no scores: those that leave the window of the last ten are evicted. So are the worst of
    // the text's own last ten.
    let before = positions(&some, 0);
    let scores = all.store().accumulated_attention(0).expect("numbers");
    let longer = [&text[..], &random_tokens(&engine, 50, 7)].concat();
    sync(&mut some, &longer);
    for ((before, after), scores) in before.into_iter().zip(positions(&some, 0)).zip(scores.iter().flatten())
    {
        let best = best_of(before, scores, 30);
        assert_eq!(after, [best, (140..150).collect()].concat());
    }
}

/// No score is left of tokens that were removed.
#[test]
fn a_shortened_text_is_as_if_it_had_been_read_alone() {
    let engine = embedded_model();
    let text = random_tokens(&engine, 60, 10);
    let policy: PolicyChoice = "kvzip:heads=off,capacity=100,recent=20".parse().expect("a policy");
    let new = || {
        let options = SessionOptions { context: 300, policy: policy.clone(), ..SessionOptions::default() };
        Session::new(&engine, options).expect("a session")
    };
    let (mut shortened, mut alone) = (new(), new());
    sync(&mut shortened, &text);
    sync(&mut shortened, &text[..40]);
    sync(&mut alone, &text[..40]);
    let scores = |session: &Session| session.store().accumulated_attention(0).expect("numbers");
    assert!(scores(&shortened) == scores(&alone));
}

/// The scores of a text that fits are kept for later evictions.
#[test]
fn a_text_that_fits_is_scored_too() {
    let engine = embedded_model();
    let (text, later) = (random_tokens(&engine, 60, 8), random_tokens(&engine, 80, 9));
    let policy = "kvzip:heads=off,capacity=100,recent=20,slack=0".parse().expect("a policy");
    let options = SessionOptions { context: 300, policy, chunk: CHUNK, ..SessionOptions::default() };
    let mut session = Session::new(&engine, options).expect("a session");
    sync(&mut session, &text);
    let scores = session.store().accumulated_attention(0).expect("numbers");
    assert_eq!(session.store().positions(0)[0].len(), 60);
    sync(&mut session, &[&text[..], &later].concat());
    // All rows of the text have a score and stay. Of the later ones the newest stay.
    for (head, held) in scores.iter().zip(session.store().positions(0)) {
        assert!(head.as_ref().is_some_and(|scores| scores.iter().any(|score| *score > 0.1)));
        assert_eq!(held, (0..60).chain(100..140).collect::<Vec<u32>>());
    }
}
