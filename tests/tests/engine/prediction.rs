//! Scores that are predicted when rows are appended (KVzap).

use std::sync::Arc;

use kernels::predict::predicted_score;
use longhand::heads::SelectionRule;
use longhand::reading::Prefill;
use longhand::testing::calibrate::{CalibrationOptions, calibrate};
use longhand::{Engine, EngineOptions, InterruptFlag, ModelSource, Session, SessionOptions};
use models::tokenizer::Tokenizer;
use tests::fixtures::{
    embedded_model, family_file, golden_source, half_retrieval, model_in_memory, options, random_predictors,
    random_tokens, sync, tiny_model,
};
use tests::rounds_alike;

/// A session that keeps up to `capacity` rows of each head.
fn session(engine: &Arc<Engine>, capacity: usize, prefill: Prefill) -> Session {
    let policy = format!("kvzap:heads=off,capacity={capacity},recent=10,slack=0");
    let profile = Some(half_retrieval(engine));
    Session::new(engine, SessionOptions { profile, prefill, ..options(300, &policy) }).expect("a session")
}

/// The scores of the rows of all KV heads that have any.
fn scores(session: &Session) -> Vec<Vec<f32>> {
    let of_layer = |layer| session.store().accumulated_attention(layer).expect("numbers");
    let layers = 0..session.engine().spec().n_layers;
    layers.flat_map(of_layer).flatten().collect()
}

fn assert_close(have: &[Vec<f32>], want: &[Vec<f32>], what: &str) {
    assert_eq!(have.len(), want.len());
    for (head, (have, want)) in have.iter().zip(want).enumerate() {
        assert_eq!(have.len(), want.len(), "{what}, head {head}");
        for (row, (have, want)) in have.iter().zip(want).enumerate() {
            let difference = (have - want).abs() / want.abs().max(1.0);
            assert!(difference < 2e-3, "{what}, head {head}, row {row}: {have}, not {want}");
        }
    }
}

/// At position 0 RoPE changes nothing, so the keys there are those that scores are predicted from.
#[test]
fn scores_are_those_of_the_formula() {
    for source in [ModelSource::Embedded, golden_source("llama-gqa-llama3rope-f32")] {
        let traced = EngineOptions { trace: true, ..tests::engine_options() };
        let engine = Engine::open(&source, &traced).expect("the model opens");
        let (token, n_kv_heads) = (random_tokens(&engine, 1, 3), engine.spec().n_kv_heads);
        let mut read = session(&engine, 100, Prefill::Exact);
        sync(&mut read, &token);
        let have = scores(&read);

        let named = session(&engine, 100, Prefill::Exact).intermediates(&token).expect("intermediates");
        let rows = |name: &str, head: usize| {
            let step = format!("{name}-{}", head / n_kv_heads);
            let (_, values) = named.iter().find(|(other, _)| *other == step).expect("keys and values");
            let head_dim = values.len() / n_kv_heads;
            values[head % n_kv_heads * head_dim..][..head_dim].to_vec()
        };
        let predictors = random_predictors(&engine).into_iter().enumerate();
        let want: Vec<Vec<f32>> = predictors
            .map(|(head, map)| {
                // Rows are stored with zeros behind them, if at all.
                let stored = (map.len() - 5) / 6;
                let [k, v] = ["Kcur", "Vcur"].map(|name| {
                    let mut row = rows(name, head);
                    row.resize(stored, 0.0);
                    row
                });
                vec![predicted_score(&k, &v, &map)]
            })
            .collect();
        assert_close(&have, &want, "the first row");
    }
}

/// In the first layer, rows of the same token differ by RoPE only.
#[test]
fn scores_do_not_depend_on_the_position() {
    let engine = embedded_model();
    let part = random_tokens(&engine, 40, 4);
    let mut read = session(&engine, 100, Prefill::Exact);
    sync(&mut read, &[&part[..], &part].concat());
    let of_layer: Vec<Vec<f32>> = scores(&read).into_iter().take(engine.spec().n_kv_heads).collect();
    let [first, second] = [0, 40].map(|from| -> Vec<Vec<f32>> {
        of_layer.iter().map(|scores| scores[from..from + 40].to_vec()).collect()
    });
    assert_close(&second, &first, "the second part");
    assert!(first[0].windows(2).any(|pair| (pair[0] - pair[1]).abs() > 0.1), "scores differ");
}

/// With every kind of rows: grouped and shared heads, windows in other layers, latent attention, recurrent layers.
#[test]
fn scores_are_the_same_however_a_text_is_read() {
    let families = ["gemma4-shared-kv-f32", "gpt-oss-window-f32", "deepseek2-lite-f32", "qwen35-gqa-f32"];
    let models = families.map(|name| model_in_memory(name, family_file(name), &tests::engine_options()));
    let first = if rounds_alike() { embedded_model() } else { tiny_model() };
    for engine in [first].into_iter().chain(models) {
        let text = random_tokens(&engine, 90, 5);
        let read = |prefill, parts: &[usize]| {
            let mut session = session(&engine, 100, prefill);
            for end in parts {
                sync(&mut session, &text[..*end]);
            }
            scores(&session)
        };
        let exact = read(Prefill::Exact, &[90]);
        assert!(!exact.is_empty());
        assert_close(&read(Prefill::Streaming, &[90]), &exact, "chunk by chunk");
        let one_by_one: Vec<usize> = (50..=90).collect();
        assert_close(&read(Prefill::Exact, &one_by_one), &exact, "a text and single tokens");
    }
}

/// Drafted tokens that are accepted have the scores of steps.
#[test]
fn drafted_tokens_have_the_scores_of_steps() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 80, 9);
    let [mut one, mut many] = [(); 2].map(|()| session(&engine, 100, Prefill::Exact));
    for session in [&mut one, &mut many] {
        sync(session, &tokens[..40]);
    }
    for (n, accepted) in [(2, 2), (7, 3), (14, 14), (9, 1)] {
        let at = many.tokens().len();
        many.verify(&tokens[at..at + n]).expect("logits");
        many.accept(accepted).expect("they count");
        tokens[at..at + accepted].iter().for_each(|token| one.push(*token).expect("a step"));
        assert_close(&scores(&many), &scores(&one), "drafted");
    }
}

/// Scores of later tokens count as those of the text.
#[test]
fn the_rows_with_the_highest_scores_stay() {
    // Numbers in f32, which depend little on how many tokens are computed at once.
    let engine = tiny_model();
    let text = random_tokens(&engine, 150, 6);
    let mut all = session(&engine, 200, Prefill::Exact);
    let mut some = session(&engine, 40, Prefill::Exact);
    sync(&mut some, &text[..100]);
    // The same rows in all layers: those that are evicted would change the later ones of the next layer.
    let first_layer = |session: &Session| session.store().positions(0);
    sync(&mut all, &text);
    let scores = scores(&all);
    let best_of = |mut positions: Vec<u32>, scores: &[f32], end: u32| {
        let score = |position: u32| match position {
            _ if position < 4 || position + 10 >= end => f32::MAX,
            _ => scores[position as usize],
        };
        positions.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
        positions.truncate(40);
        positions.sort_unstable();
        positions
    };
    for (held, scores) in first_layer(&some).into_iter().zip(&scores) {
        assert_eq!(held, best_of((0..100).collect(), scores, 100));
    }
    for end in 101..=150 {
        let before = first_layer(&some);
        sync(&mut some, &text[..end as usize]);
        for ((held, before), scores) in first_layer(&some).into_iter().zip(before).zip(&scores) {
            let candidates = [before, vec![end - 1]].concat();
            assert_eq!(held, best_of(candidates, scores, end), "after {end} tokens");
        }
    }
}

/// Scores of rows that stay do not depend on tokens that are removed.
#[test]
fn a_shortened_text_is_as_if_it_had_been_read_alone() {
    let engine = embedded_model();
    let text = random_tokens(&engine, 80, 7);
    let [mut shortened, mut alone] = [(); 2].map(|()| session(&engine, 100, Prefill::Exact));
    sync(&mut shortened, &text);
    assert!(shortened.store().can_truncate(40));
    sync(&mut shortened, &text[..40]);
    sync(&mut alone, &text[..40]);
    assert_close(&scores(&shortened), &scores(&alone), "shortened");
}

/// Without predictors there is no such session.
#[test]
fn a_profile_without_predictors_is_refused() {
    let engine = embedded_model();
    let shape = engine.head_shape().expect("heads");
    let profile = longhand::heads::HeadProfile::uniform(shape, false);
    let asked = SessionOptions { profile: Some(profile.clone()), ..options(100, "kvzap:heads=off") };
    let error = Session::new(&engine, asked).err().expect("no predictors").to_string();
    assert!(error.contains("no row predictors"), "{error}");
    // Maps of another length are those of another model.
    let maps = vec![vec![0.0; 3]; shape.all_kv_heads()];
    let profile = profile.with_row_predictors(maps).expect("finite numbers");
    let asked = SessionOptions { profile: Some(profile), ..options(100, "kvzap:heads=off") };
    let error = Session::new(&engine, asked).err().expect("short maps").to_string();
    assert!(error.contains("predicts the rows of layer 0"), "{error}");
}

/// A map that was fitted to the texts of calibration predicts the scores of another text.
#[test]
fn calibration_predicts_what_kvzip_finds_in_another_text() {
    let engine = embedded_model();
    let (flag, rule) = (InterruptFlag::new(), SelectionRule::default());
    let asked = CalibrationOptions { row_predictors: true, ..CalibrationOptions::default() };
    let profile = calibrate(&engine, &asked, &rule, &flag, &mut |_| ()).expect("a profile");
    let tokenizer = Tokenizer::from_gguf(engine.file()).expect("a tokenizer");
    let mut text = tokenizer.encode(include_str!("../../README.md"), true, false).expect("tokens");
    text.truncate(600);
    let read = |policy: &str| {
        let options = SessionOptions { profile: Some(profile.clone()), ..options(1000, policy) };
        let mut session = Session::new(&engine, options).expect("a session");
        sync(&mut session, &text);
        scores(&session)
    };
    let (predicted, found) = (read("kvzap:heads=off,capacity=900"), read("kvzip:heads=off,capacity=900"));
    // Rows of some heads get no attention at all.
    let with_scores =
        predicted.iter().zip(&found).filter(|(_, found)| found.iter().any(|score| *score > 0.01));
    let correlations: Vec<f64> = with_scores
        .map(|(predicted, found)| {
            let found: Vec<f32> = found.iter().map(|score| score.max(1e-7).ln()).collect();
            correlation(&predicted[8..], &found[8..])
        })
        .collect();
    let mean = correlations.iter().sum::<f64>() / correlations.len() as f64;
    assert!(correlations.len() >= 8 && mean > 0.2, "{correlations:?}");
}

fn correlation(x: &[f32], y: &[f32]) -> f64 {
    let mean =
        |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64;
    let (x_mean, y_mean) = (mean(x), mean(y));
    let [mut xy, mut xx, mut yy] = [0.0; 3];
    for (x, y) in x.iter().zip(y) {
        let (x, y) = (f64::from(*x) - x_mean, f64::from(*y) - y_mean);
        (xy, xx, yy) = (xy + x * y, xx + x * x, yy + y * y);
    }
    xy / (xx * yy).sqrt()
}
