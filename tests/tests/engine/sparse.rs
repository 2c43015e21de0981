//! Sparse prefill: old rows are read in groups, and only there. Short texts are read as by exact prefill, long ones nearly so.
//! A saved session says how its text was read.

use kernels::prefill::{FIRST_ROWS, GROUP, RECENT_ROWS};
use longhand::reading::Prefill;
use longhand::setup::plan::{Plan, PlanOptions};
use longhand::testing::outline::tensor_outlines;
use longhand::testing::snapshot;
use longhand::{Session, SessionOptions};
use tests::fixtures::{
    attends_in_full, embedded_model, family_model, half_retrieval, options, plan_options, random_tokens,
    relative_difference, session, sync,
};
use tests::is_cpu;

/// A session that reads its first text so.
fn make(prefill: Prefill, policy: &str) -> Session {
    session(&embedded_model(), SessionOptions { prefill, ..options(3000, policy) })
}

/// Logits and rows after a text.
fn read(prefill: Prefill, policy: &str, tokens: &[u32]) -> (Vec<f32>, Vec<u8>) {
    let mut session = make(prefill, policy);
    sync(&mut session, tokens);
    (session.logits().to_vec(), session.store().contents().expect("the store"))
}

#[test]
fn short_texts_are_read_exactly_and_long_ones_nearly_so() {
    let tokens = random_tokens(&embedded_model(), 2500, 8);
    for policy in ["full", "streaming:sinks=4,window=100", "kvzip:heads=off,capacity=200"] {
        // With a second reading of a short text behind it, kvzip's rows are more.
        if !policy.starts_with("kvzip") {
            let [exact, sparse] = [Prefill::Exact, Prefill::Sparse]
                .map(|prefill| read(prefill, policy, &tokens[..FIRST_ROWS + RECENT_ROWS]));
            assert!(exact == sparse, "{policy}: a short text");
        }
        let [exact, sparse] = [Prefill::Exact, Prefill::Sparse].map(|prefill| read(prefill, policy, &tokens));
        assert_eq!(exact == sparse, !is_cpu(), "{policy}: only the CPU has groups");
        let error = relative_difference(&sparse.0, &exact.0);
        assert!(error < 0.3, "{policy}: {error}");
    }
}

#[test]
fn a_saved_session_says_how_its_text_was_read_and_goes_on() {
    let tokens = random_tokens(&embedded_model(), 1500, 9);
    let mut sparse = make(Prefill::Sparse, "full");
    sync(&mut sparse, &tokens[..700]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("saved");
    snapshot::save(&sparse, "", &path).expect("saved");
    let saved = snapshot::Snapshot::open(&path).expect("opened");
    assert_eq!(saved.options().prefill, Prefill::Sparse);
    let mut restored = saved.restore(sparse.engine()).expect("restored");
    for session in [&mut sparse, &mut restored] {
        sync(session, &tokens);
        session.push(tokens[0]).expect("a step");
    }
    assert!(sparse.logits() == restored.logits());
}

/// Windows; recurrent layers; latent attention; sink logits; layers that attend to the rows of others. What random weights
/// attend to is no text, so results may differ much; where no layer can have groups they are equal.
#[test]
fn every_kind_of_model_has_groups_or_is_read_exactly() {
    let families = [
        "gemma3-mqa-f32",
        "qwen35-gqa-f32",
        "deepseek2-lite-f32",
        "gpt-oss-window-f32",
        "gemma4-shared-kv-f32",
        "bloom-4-f32",
    ];
    for family in families {
        let engine = family_model(family);
        let can = attends_in_full(engine.spec());
        let tokens = random_tokens(&engine, 600, 4);
        let [exact, sparse] = [Prefill::Exact, Prefill::Sparse].map(|prefill| {
            let mut session = session(&engine, SessionOptions { prefill, ..options(700, "full") });
            sync(&mut session, &tokens);
            session.push(1).expect("a step");
            session.logits().to_vec()
        });
        assert_eq!(exact != sparse, can && is_cpu(), "{family}");
        let error = relative_difference(&sparse, &exact);
        assert!(error < 1.0, "{family}: {error}");
    }
}

/// The plan has the means of groups, and no more than them beside what exact prefill takes.
#[test]
fn the_means_of_groups_are_planned() {
    let engine = embedded_model();
    let outline = tensor_outlines(engine.file());
    let layout = session(&engine, options(3000, "full")).store().layout().clone();
    let bytes = |prefill, prompt| {
        let options = PlanOptions { prefill, ..plan_options(&engine, prompt, 256) };
        let plan = Plan::new(engine.spec(), &outline, &layout, &options).expect("a plan");
        (plan.host.scratch, plan.host.compute)
    };
    let heads = layout.heads[0];
    let means = if is_cpu() { 4 * 2 * heads.head_dim * heads.n_kv_heads * (2500 / GROUP) } else { 0 };
    assert_eq!(bytes(Prefill::Sparse, 2500).0, bytes(Prefill::Exact, 2500).0 + means);
    assert_eq!(bytes(Prefill::Sparse, 300).0, bytes(Prefill::Exact, 300).0);
    if !is_cpu() {
        return;
    }
    let mut session =
        session(&engine, SessionOptions { prefill: Prefill::Sparse, chunk: 256, ..options(3000, "full") });
    sync(&mut session, &random_tokens(&engine, 2500, 4));
    let (planned, compute) = (bytes(Prefill::Sparse, 2500).1, session.compute_bytes());
    assert!(compute <= planned && planned <= 2 * compute, "{compute} allocated, {planned} planned");
}

/// Layers with windows beside others, several lanes, and sink logits.
#[test]
fn plans_cover_what_sparse_prefill_allocates() {
    let engines = [
        embedded_model(),
        family_model("gemma3-mqa-f32"),
        family_model("gpt-oss-window-f32"),
        family_model("gemma4-shared-kv-f32"),
    ];
    for engine in engines {
        for policy in
            ["razor:buffer=64,ratio=5,sinks=4", "kvzip:heads=on,capacity=100", "h2o:heavy=40,recent=40"]
        {
            let options = SessionOptions {
                prefill: Prefill::Sparse,
                chunk: 256,
                profile: Some(half_retrieval(&engine)),
                ..options(700, policy)
            };
            let mut session = session(&engine, options);
            sync(&mut session, &random_tokens(&engine, 600, 4));
            let asked = PlanOptions { prefill: Prefill::Sparse, ..plan_options(&engine, 600, 256) };
            let outline = tensor_outlines(engine.file());
            let plan = Plan::new(engine.spec(), &outline, session.store().layout(), &asked)
                .unwrap_or_else(|error| panic!("{policy}: {error}"));
            let planned = plan.places().map(|place| place.compute).sum::<usize>();
            assert!(session.compute_bytes() <= planned, "{policy}: {} of {planned}", session.compute_bytes());
        }
    }
}
