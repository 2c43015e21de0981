//! A first text that is read twice (KVzip), compared with the attention of the same tokens read in the ordinary way.

use std::ops::Range;
use std::sync::Arc;

use longhand::policy::PolicyChoice;
use longhand::store::last_attention;
use longhand::{Engine, InterruptFlag, Session, SessionOptions};
use tests::fixtures::{embedded_model, golden_model, random_tokens, sync};

/// Tokens computed at a time: the second reading repeats 24 tokens of a part of 25 behind the 8 before them.
const CHUNK: usize = 32;

/// Sets the scores of a part of `text`, for each layer and KV head: the largest attention that its rows get from the
/// tokens `repeated` behind the text. These see the part, each other, and the first and last 16 rows of the text. The
/// tokens that are followed by one of the part count.
fn score_part(
    engine: &Arc<Engine>,
    text: &[u32],
    part: Range<usize>,
    repeated: &[u32],
    scores: &mut [Vec<Vec<f32>>],
) {
    let group = engine.spec().queries_per_kv_head();
    let first = 16.min(part.start);
    let last = text.len().saturating_sub(16).max(part.end);
    for end in repeated.len().saturating_sub(part.len()) + 1..=repeated.len() {
        let tokens = [text, &repeated[..end]].concat();
        let attention =
            last_attention(engine, &tokens, &InterruptFlag::new(), &mut |_| ()).expect("computes");
        for (scores, heads) in scores.iter_mut().zip(attention) {
            for (head, weights) in heads.iter().enumerate() {
                let seen = [&weights[..first], &weights[part.clone()], &weights[last..]].concat();
                let total: f32 = seen.iter().sum();
                let rows = scores[head / group][part.clone()].iter_mut();
                rows.zip(&weights[part.clone()]).for_each(|(most, weight)| *most = most.max(*weight / total));
            }
        }
    }
}

#[test]
fn rows_are_scored_by_the_largest_attention_of_the_second_reading() {
    for engine in [embedded_model(), golden_model("llama-mha-f32"), golden_model("baichuan-alibi-f16")] {
        let text = random_tokens(&engine, 60, 5);
        let options = SessionOptions {
            context: 200,
            policy: "kvzip:heads=off,capacity=150".parse().expect("a policy"),
            chunk: CHUNK,
            ..SessionOptions::default()
        };
        let mut session = Session::new(&engine, options).expect("a session");
        sync(&mut session, &text);

        let spec = engine.spec();
        let mut want = vec![vec![vec![0f32; text.len()]; spec.n_kv_heads]; spec.n_layers];
        for (part, repeated) in [(0..25, 0..24), (25..50, 17..49), (50..60, 42..59)] {
            score_part(&engine, &text, part, &text[repeated], &mut want);
        }
        for (layer, want) in want.iter().enumerate() {
            let have = session.store().accumulated_attention(layer).expect("numbers");
            for (have, want) in have.iter().map(|have| have.as_ref().expect("scores")).zip(want) {
                let difference = have.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
                assert!(difference < 2e-3, "layer {layer}: {difference}");
            }
        }
        // The session is as if the text had been read once.
        assert_eq!((session.tokens(), session.store().seen()), (&text[..], text.len()));
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
