//! Attention in integers of 8 bits, on processors that multiply bytes: results as in f32 but for rounding, in every kind of
//! model. On others nothing changes.

use kernels::prefill::has_int8;
use longhand::reading::Prefill;
use longhand::testing::snapshot;
use longhand::{Session, SessionOptions};
use tests::fixtures::{
    attends_in_full, embedded_model, family_model, half_retrieval, options, random_tokens,
    relative_difference, session, sync,
};
use tests::is_cpu;

/// A session that may compute so.
fn make(int8: bool, prefill: Prefill, policy: &str) -> Session {
    let profile = Some(half_retrieval(&embedded_model()));
    session(&embedded_model(), SessionOptions { int8, prefill, profile, ..options(3000, policy) })
}

#[test]
fn first_and_later_texts_are_as_in_f32_but_for_rounding() {
    let tokens = random_tokens(&embedded_model(), 2500, 8);
    for prefill in [Prefill::Exact, Prefill::Streaming] {
        for policy in ["full", "razor:buffer=900,ratio=2,sinks=4", "kvzip:heads=off,capacity=700"] {
            for first in [2500, 1300] {
                let [exact, rounded] = [false, true].map(|int8| {
                    let mut session = make(int8, prefill, policy);
                    sync(&mut session, &tokens[..first]);
                    sync(&mut session, &tokens);
                    session.logits().to_vec()
                });
                let what = format!("{policy}, {prefill:?}, {first} tokens first");
                assert_eq!(exact != rounded, has_int8() && is_cpu(), "{what}");
                let error = relative_difference(&rounded, &exact);
                assert!(error < 0.1, "{what}: {error}");
            }
        }
    }
}

/// Windows, recurrent layers, latent attention, sink logits, layers that attend to the rows of others, ALiBi, soft caps.
#[test]
fn every_kind_of_model() {
    let families = [
        "gemma3-mqa-f32",
        "qwen35-gqa-f32",
        "deepseek2-lite-f32",
        "gpt-oss-window-f32",
        "gemma4-shared-kv-f32",
        "gemma2-gqa-f32",
        "bloom-4-f32",
    ];
    for family in families {
        let engine = family_model(family);
        let can = attends_in_full(engine.spec()) && engine.spec().attention.softcap.is_none();
        let tokens = random_tokens(&engine, 900, 4);
        let [exact, rounded] = [false, true].map(|int8| {
            let mut session = session(&engine, SessionOptions { int8, ..options(1000, "full") });
            sync(&mut session, &tokens);
            session.push(1).expect("a step");
            session.logits().to_vec()
        });
        assert_eq!(exact != rounded, can && has_int8() && is_cpu(), "{family}");
        let error = relative_difference(&rounded, &exact);
        assert!(error < 0.1, "{family}: {error}");
    }
}

#[test]
fn answers_are_computed_in_f32() {
    let tokens = random_tokens(&embedded_model(), 32, 6);
    let [exact, other] = [false, true].map(|int8| {
        let mut session = make(int8, Prefill::Exact, "full");
        session.fill_random(900, 1).expect("rows");
        assert_eq!(session.steps_at_once(40), 32);
        session.verify(&tokens).expect("logits").to_vec()
    });
    assert!(exact == other);
}

#[test]
fn a_saved_session_says_whether_all_was_computed_in_f32() {
    let tokens = random_tokens(&embedded_model(), 900, 9);
    for int8 in [true, false] {
        let mut saved = make(int8, Prefill::Exact, "full");
        sync(&mut saved, &tokens[..700]);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("saved");
        snapshot::save(&saved, "", &path).expect("saved");
        let opened = snapshot::Snapshot::open(&path).expect("opened");
        assert_eq!(opened.options().int8, int8);
        let mut restored = opened.restore(saved.engine()).expect("restored");
        for session in [&mut saved, &mut restored] {
            sync(session, &tokens);
            session.push(tokens[0]).expect("a step");
        }
        assert!(saved.logits() == restored.logits());
    }
}
