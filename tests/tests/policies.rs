//! What every policy of the registry must keep to, whatever the types of keys and values and the grouping of heads.

use engine::heads::{HeadProfile, ScoreMap, ScoresPer};
use engine::kv::policy::policies;
use engine::kv::{KvBudget, PolicyChoice};
use engine::{Engine, ModelSource, Prefill, Session, SessionOptions};
use ggml::Type;
use models::spec::Positions;

mod common;
use common::{half, largest_difference, open, options, text, tiny};

/// A model whose query heads share KV heads, one where each has its own, and one whose attention falls with the distance.
fn engines() -> [Engine; 3] {
    [grouped(), open("golden/models/llama-mha-f32.gguf"), open("golden/models/baichuan-alibi-f16.gguf")]
}

/// The embedded model: four layers, so that policies that leave the first two alone have something to do.
fn grouped() -> Engine {
    let options = tests::engine_options();
    Engine::open(&ModelSource::Embedded, &options).expect("the embedded model opens")
}

/// Types of keys and values that the model's heads can have.
fn types(engine: &Engine) -> Vec<(Type, Type)> {
    let all = [(Type::F32, Type::F32), (Type::F16, Type::F16), (Type::Q8_0, Type::Q4_0)];
    let fits = |ty: Type| engine.spec().head_dim.is_multiple_of(ty.block_elements());
    all.into_iter().filter(|(k, v)| fits(*k) && fits(*v)).collect()
}

/// Every policy that bounds heads, told to keep so many rows.
fn bounded(rows: usize, context: usize) -> Vec<PolicyChoice> {
    let entries = policies().filter(|entry| entry.factory.is_some());
    entries
        .map(|entry| {
            let choice: PolicyChoice = entry.name.parse().expect(entry.name);
            choice.with_rows(rows, context).expect("rows enough")
        })
        .collect()
}

fn with(engine: &Engine, policy: &PolicyChoice, options: SessionOptions) -> SessionOptions {
    let profile = policy.uses_profile().then(|| {
        let half = half(engine);
        // Where windows follow from the weights: half of the heads see everything, the others as much as razor's buffer holds.
        let window = policy.value("buffer").unwrap_or_default() as f32;
        let scope = |retrieves: &bool| if *retrieves { 1e9 } else { window };
        let values = half.retrieval().iter().map(scope).collect();
        let scopes = ScoreMap { name: "scope".into(), per: ScoresPer::KvHead, values };
        HeadProfile::new(half.shape(), half.retrieval().to_vec(), vec![scopes], Default::default())
            .expect("a profile")
    });
    SessionOptions { policy: policy.clone(), profile, ..options }
}

fn session(engine: &Engine, options: SessionOptions) -> Session<'_> {
    Session::new(engine, options).expect("a session")
}

/// No bounded head ever holds more than its budget and slack, all of its positions are different ones that were seen, and logits
/// stay finite: read at once and in chunks, in later turns and in decode steps.
#[test]
fn budgets_hold_at_every_step() {
    const CONTEXT: usize = 260;
    for engine in engines() {
        let tokens = text(&engine, CONTEXT, 3);
        for (policy, types) in bounded(48, CONTEXT)
            .into_iter()
            .flat_map(|p| types(&engine).into_iter().map(move |t| (p.clone(), t)))
        {
            let rules = policy.policy().expect("bounded");
            let most = rules.budget(CONTEXT) + rules.slack(CONTEXT);
            for prefill in [Prefill::Exact, Prefill::Streaming] {
                let options = with(&engine, &policy, options(CONTEXT, "full"));
                let mut session = session(&engine, SessionOptions { prefill, types, ..options });
                let profile = session.options().profile.clone();
                let check = |session: &Session| {
                    let seen = session.store().seen();
                    let mut rows = 0;
                    for layer in 0..engine.spec().n_layers {
                        let entries = session.store().compensation(layer).expect("sums");
                        rows += entries.iter().flatten().count();
                        for (head, held) in session.store().positions(layer).into_iter().enumerate() {
                            let free =
                                profile.as_ref().is_some_and(|profile| profile.is_retrieval(layer, head));
                            let most = if free || rules.skips_layer(layer) { seen } else { most };
                            assert!(held.len() <= most, "{policy}: {} rows after {seen}", held.len());
                            assert!(free || held.is_sorted_by(|a, b| a < b), "{policy}: {held:?}");
                            rows += held.len();
                            assert!(held.last().is_some_and(|last| (*last as usize) < seen), "{policy}");
                        }
                    }
                    let row = session.store().layout().row_bytes();
                    assert_eq!(session.store().live_bytes(), rows * row, "{policy} after {seen}");
                    assert!(session.logits().iter().all(|x| x.is_finite()), "{policy} after {seen}");
                };
                session.sync(&tokens[..150], &mut |_| {}).expect("prefill");
                check(&session);
                session.sync(&tokens[..190], &mut |_| {}).expect("a later turn");
                check(&session);
                for token in &tokens[190..] {
                    session.push(*token).expect("a step");
                    check(&session);
                }
                assert!(session.store().bytes() >= session.store().live_bytes());
                let rest = session.store().layout().bytes();
                assert!(
                    session.store().bytes().abs_diff(rest) < rest / 50 + 4096,
                    "{policy}: {rest} planned"
                );
            }
        }
    }
}

/// A budget that nothing exceeds is dense attention.
#[test]
fn a_full_budget_is_dense_attention() {
    const CONTEXT: usize = 140;
    for engine in engines() {
        let tokens = text(&engine, CONTEXT, 4);
        let logits = |options: SessionOptions| {
            let mut session = session(&engine, options);
            session.sync(&tokens[..100], &mut |_| {}).expect("prefill");
            session.sync(&tokens[..120], &mut |_| {}).expect("a later turn");
            tokens[120..].iter().for_each(|token| session.push(*token).expect("a step"));
            session.logits().to_vec()
        };
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let dense = logits(SessionOptions { prefill, ..options(CONTEXT, "full") });
            for policy in bounded(2 * CONTEXT, CONTEXT) {
                let options = with(&engine, &policy, options(CONTEXT, "full"));
                let difference = largest_difference(&logits(SessionOptions { prefill, ..options }), &dense);
                assert!(difference < 1e-4 + tests::slack(), "{policy}: {difference:e}");
            }
        }
    }
}

/// What a policy protects it keeps: sinks where it has them, the window of recent rows where it has one.
#[test]
fn sinks_and_windows_survive() {
    let engine = grouped();
    let tokens = text(&engine, 220, 5);
    for (policy, sinks, recent) in [
        ("streaming:sinks=3,window=20", 3, 20),
        ("razor:sinks=3,buffer=20,ratio=100", 3, 20),
        ("l2:rows=30,sinks=3,recent=9,skip=0", 3, 9),
        ("lagkv:sinks=3,lag=16,ratio=0.25", 3, 16),
        ("locallag:sinks=3,lag=16,ratio=0.25", 3, 16),
        ("lag-l2:sinks=3,lag=16,ratio=0.25", 3, 16),
        ("snapkv:window=8,capacity=30", 0, 8),
        ("slimkv:window=8,capacity=30", 0, 8),
        ("ahakv:budget=30,recent=8", 0, 8),
        ("h2o:heavy=20,recent=8", 0, 8),
        ("tova:capacity=30,protect_last=on", 0, 1),
    ] {
        let policy: PolicyChoice = policy.parse().expect(policy);
        let mut session = session(&engine, with(&engine, &policy, options(220, "full")));
        let check = |session: &Session| {
            let seen = session.store().seen() as u32;
            for held in (0..engine.spec().n_layers).flat_map(|layer| session.store().positions(layer)) {
                assert!(
                    (0..sinks).all(|position| held.binary_search(&position).is_ok()),
                    "{policy}: {held:?}"
                );
                // SnapKV's window is that of the last compression; what came since is there too.
                let window = seen - recent..seen;
                assert!(
                    window.clone().all(|position| held.binary_search(&position).is_ok()),
                    "{policy}: {held:?}"
                );
            }
        };
        session.sync(&tokens[..120], &mut |_| {}).expect("prefill");
        check(&session);
        session.sync(&tokens[..140], &mut |_| {}).expect("a later turn");
        check(&session);
        for token in &tokens[140..] {
            session.push(*token).expect("a step");
            check(&session);
        }
    }
}

/// Where what is kept is a matter of positions, keys and values alone, it does not depend on how a text is cut into chunks (first
/// layer: later ones see other hidden states by design).
#[test]
fn chunks_make_no_difference_where_they_must_not() {
    let engine = grouped();
    let tokens = text(&engine, 230, 6);
    for policy in [
        "streaming:sinks=4,window=24,slack=0",
        "razor:sinks=4,buffer=24,ratio=6,slack=0",
        "l2:rows=40,skip=0,slack=0",
        "l2:rows=40,skip=0,slack=0,order=high",
        "lagkv:sinks=4,lag=16,ratio=0.25",
        "locallag:sinks=4,lag=16,ratio=0.25",
    ] {
        let policy: PolicyChoice = policy.parse().expect(policy);
        let held = |prefill, chunk| {
            let options = with(&engine, &policy, options(230, "full"));
            let mut session = session(&engine, SessionOptions { prefill, chunk, ..options });
            session.sync(&tokens[..200], &mut |_| {}).expect("prefill");
            tokens[200..].iter().for_each(|token| session.push(*token).expect("a step"));
            session.store().positions(0)
        };
        let whole = held(Prefill::Exact, 512);
        assert!(whole.iter().any(|head| head.len() < 200), "{policy}: nothing left");
        for chunk in [1, 7, 32, 512] {
            assert_eq!(held(Prefill::Streaming, chunk), whole, "{policy} in chunks of {chunk}");
        }
    }
}

/// The same token again and again: equal keys but for RoPE, equal scores, and still nothing that is not a number.
#[test]
fn a_text_of_one_token_does_no_harm() {
    let engine = grouped();
    for (policy, types) in
        bounded(32, 200).into_iter().flat_map(|p| types(&engine).into_iter().map(move |t| (p.clone(), t)))
    {
        let options = SessionOptions { types, ..with(&engine, &policy, options(200, "full")) };
        let mut session = session(&engine, options);
        session.sync(&[7; 150], &mut |_| {}).expect("prefill");
        (0..50).for_each(|_| session.push(7).expect("a step"));
        assert!(session.logits().iter().all(|x| x.is_finite()), "{policy}");
    }
}

/// Several sessions that read a text together end as each of them would alone.
#[test]
fn reading_together_is_reading_alone() {
    for engine in engines() {
        let tokens = text(&engine, 150, 11);
        let mut policies = bounded(40, 200);
        policies.push(PolicyChoice::default());
        let make = |policy: &PolicyChoice| session(&engine, with(&engine, policy, options(200, "full")));
        let mut together: Vec<Session> = policies.iter().map(make).collect();
        engine::sync_all(&mut together, &tokens, &mut |_| {}).expect("read together");
        for (policy, together) in policies.iter().zip(&mut together) {
            let mut alone = make(policy);
            alone.sync(&tokens, &mut |_| {}).expect("read alone");
            for session in [&mut alone, together] {
                session.sync(&[&tokens[..], &[1, 2, 3]].concat(), &mut |_| {}).expect("a turn");
            }
            for layer in 0..engine.spec().n_layers {
                assert_eq!(together.store().positions(layer), alone.store().positions(layer), "{policy}");
            }
            assert_eq!(together.logits(), alone.logits(), "{policy}");
            assert_eq!(together.sync(&tokens, &mut |_| {}).expect("taken back"), 0, "{policy}");
        }
    }
}

/// Going back to where an answer began, and to where a turn began, restores the store bit for bit.
#[test]
fn a_turn_taken_back_leaves_no_trace() {
    const CONTEXT: usize = 300;
    for engine in engines() {
        let document = text(&engine, 150, 8);
        let turn = |seed, n| -> Vec<u32> { document.iter().copied().chain(text(&engine, n, seed)).collect() };
        let (question, other, answer) = (turn(1, 21), turn(2, 13), text(&engine, 60, 9));
        let mut policies = bounded(40, CONTEXT);
        policies.push(PolicyChoice::default());
        if engine.spec().positions != Positions::Alibi {
            policies.extend(
                ["l2:rows=40,heads=on,compensation=on", "ahakv:budget=40,compensation=on"]
                    .map(|text| text.parse().expect(text)),
            );
        }
        for (policy, types) in
            policies.into_iter().flat_map(|p| types(&engine).into_iter().map(move |t| (p.clone(), t)))
        {
            for prefill in [Prefill::Exact, Prefill::Streaming] {
                let options = with(&engine, &policy, options(CONTEXT, "full"));
                let options = SessionOptions { types, prefill, ..options };
                let make = || {
                    let mut session = session(&engine, options.clone());
                    session.sync(&document, &mut |_| {}).expect("prefill");
                    session
                };
                let positions = |session: &Session| -> Vec<_> {
                    (0..engine.spec().n_layers).map(|layer| session.store().positions(layer)).collect()
                };
                let mut one = make();
                one.sync(&question, &mut |_| {}).expect("a question");
                let (before, held) = (one.logits().to_vec(), positions(&one));
                let generate = |session: &mut Session| -> Vec<Vec<f32>> {
                    let step = |token: &u32| {
                        session.push(*token).expect("a step");
                        session.logits().to_vec()
                    };
                    answer.iter().map(step).collect()
                };
                let first = generate(&mut one);
                // The answer is taken back and given again.
                assert_eq!(one.sync(&question, &mut |_| {}).expect("regenerated"), 0, "{policy}");
                assert_eq!((one.logits(), positions(&one)), (&before[..], held), "{policy}");
                assert_eq!(generate(&mut one), first, "{policy} {types:?}");
                // The whole turn is taken back and another one comes.
                assert_eq!(one.sync(&other, &mut |_| {}).expect("another turn"), 13, "{policy}");
                let mut fresh = make();
                fresh.sync(&other, &mut |_| {}).expect("the other turn alone");
                assert_eq!((one.logits(), positions(&one)), (fresh.logits(), positions(&fresh)), "{policy}");
                assert_eq!(generate(&mut one), generate(&mut fresh), "{policy} {types:?}");
            }
        }
    }
}

/// A turn that lets too much leave is not taken back by halves: the text is read again.
#[test]
fn what_cannot_be_taken_back_is_read_again() {
    let engine = tiny();
    let document = text(&engine, 60, 8);
    let options = options(1400, "h2o:heavy=10,recent=10");
    let mut one = session(&engine, options.clone());
    one.sync(&document, &mut |_| {}).expect("prefill");
    text(&engine, 1200, 2).iter().for_each(|token| one.push(*token).expect("a step"));
    assert_eq!(one.sync(&document, &mut |_| {}).expect("read again"), 60);
    let mut fresh = session(&engine, options);
    fresh.sync(&document, &mut |_| {}).expect("prefill");
    assert_eq!(one.logits(), fresh.logits());
}

/// Rows, bytes and shares become stores of at most that size, as large as whole rows allow; what cannot be is refused.
#[test]
fn budgets_become_bytes() {
    let engine = grouped();
    let spec = engine.spec();
    let profile = half(&engine);
    let room = engine::kv::StoreOptions { context: 2000, types: (Type::F16, Type::F16), reserve: None };
    let layout = |choice: &PolicyChoice| {
        engine::kv::Layout::new(spec, choice, Some(&profile), room).expect("a layout")
    };
    let full = layout(&PolicyChoice::default()).full_bytes(2000);
    for entry in policies().filter(|entry| entry.factory.is_some()) {
        let choice: PolicyChoice = entry.name.parse().expect(entry.name);
        let apply = |budget: KvBudget| budget.apply(&choice, spec, Some(&profile), room);
        for share in [0.7, 0.9] {
            let fitted = apply(KvBudget::Share(share)).expect("fits");
            let bytes = layout(&fitted).bytes() as f64 / full as f64;
            assert!(bytes <= share && bytes > share - 0.1, "{fitted}: {bytes} of {share}");
        }
        let fitted = apply(KvBudget::Bytes(full * 8 / 10)).expect("fits");
        assert!(layout(&fitted).bytes() <= full * 8 / 10);
        let rows = apply(KvBudget::Rows(200)).expect("fits").policy().expect("bounded").budget(2000);
        assert!((100..=200).contains(&rows), "{rows}");
        let error = apply(KvBudget::Bytes(1000)).expect_err("too small").to_string();
        assert!(error.contains("too small") && error.contains("hint"), "{error}");
    }
    assert!(KvBudget::Share(0.5).apply(&PolicyChoice::default(), spec, None, room).is_err());
}
