//! Interrupts and errors in the middle of a computation. Afterwards the session is exactly what it would be
//! if it had read only the text that it says it holds. That is true of every policy, of every byte of the
//! store, and of the logits of what follows.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, Barrier};

use ggml::Backend;
use longhand::heads::SelectionRule;
use longhand::reading::Prefill;
use longhand::testing::calibrate::{CalibrationOptions, calibrate};
use longhand::testing::kv::PolicyChoice;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{Engine, EngineError, EngineOptions, InterruptFlag, ModelSource, Session, SessionOptions};
use models::shapes::{FileType, ModelShape};
use tests::fixtures::{
    bounded_policies, golden_model, options, random_tokens, session, sync, tiny_model, with_policy,
};

const CONTEXT: usize = 300;
const PREFILLS: [Prefill; 2] = [Prefill::Exact, Prefill::Streaming];

/// Every policy, those that change something in place also with compensation, and slack beyond what is free.
/// With ALiBi and on the emulated device, which are slow, a few of them.
fn policies(engine: &Engine) -> Vec<PolicyChoice> {
    let mut all = bounded_policies(40, CONTEXT);
    all.push(PolicyChoice::default());
    let is_device = engine.backends().placement().on_devices() > 0;
    if is_device || engine.spec().position_encoding.rope().is_none() {
        all.retain(|policy| ["h2o", "razor", "snapkv"].contains(&policy.name()));
    } else {
        let more = [
            "ahakv:budget=40,compensation=on",
            "h2o:heavy=20,recent=20,compensation=on,heads=on",
            "streaming:sinks=4,window=40,slack=30,compensation=on",
            "snapkv:window=16,capacity=40,slack=60",
        ];
        all.extend(more.map(|text| text.parse::<PolicyChoice>().expect(text)));
    }
    all
}

/// The tiny model with its last layers on devices that the host stands in for, so many on each.
fn device_model(layers: &[usize]) -> Arc<Engine> {
    let options =
        EngineOptions { devices: tests::host_devices(layers), threads: Some(1), ..EngineOptions::default() };
    let file = tests::data("golden/models/llama-gqa-llama3rope-f32.gguf");
    Engine::open(&longhand::ModelSource::File(file), &options).expect("the model opens")
}

/// The backend that computes all layers.
fn backend(engine: &Engine) -> &Backend {
    engine.backends().at(engine.backends().placement().of(0))
}

fn make(engine: &Arc<Engine>, policy: &PolicyChoice, prefill: Prefill) -> Session {
    let options = with_policy(engine, policy, options(CONTEXT, "full"));
    session(engine, SessionOptions { prefill, ..options })
}

/// A number that every byte of the store determines, and the tokens.
fn state(session: &Session) -> (u64, Vec<u32>) {
    let mut hasher = DefaultHasher::new();
    session.store().contents().expect("the store").hash(&mut hasher);
    (hasher.finish(), session.tokens().to_vec())
}

/// What `work` gives if it is interrupted after so many operations; `None` if it was interrupted.
fn interrupted<T>(
    session: &mut Session,
    operations: usize,
    work: impl FnOnce(&mut Session) -> Result<T, EngineError>,
) -> Option<T> {
    let engine = session.engine().clone();
    backend(&engine).interrupt_after(operations);
    let result = work(session);
    backend(&engine).interrupt_after(usize::MAX);
    session.interrupt().clear();
    result.map_err(|error| assert!(error.is_interrupt(), "{error}")).ok()
}

/// Interrupts the reading of `tokens` after so many operations. Returns whether it was interrupted.
fn interrupt(session: &mut Session, tokens: &[u32], operations: usize) -> bool {
    interrupted(session, operations, |session| session.sync(tokens, &mut |_| ())).is_none()
}

/// Computes tokens step by step.
fn push_all(session: &mut Session, tokens: &[u32]) {
    tokens.iter().for_each(|token| session.push(*token).expect("a step"));
}

/// Checks that two sessions are equal and stay so when both read `text` and then compute some `steps`. What a session
/// has read of a first text layer by layer is not compared.
fn check_equal(mut sessions: [&mut Session; 2], text: &[u32], steps: &[u32], case: &str) {
    if sessions.iter().all(|session| session.first_text_share().is_none()) {
        let states = sessions.each_ref().map(|session| state(session));
        assert_eq!(states[0], states[1], "{case}");
    }
    for session in &mut sessions {
        sync(session, text);
        push_all(session, steps);
    }
    let [one, other] = sessions;
    assert_eq!(one.logits(), other.logits(), "{case}");
    assert_eq!(state(one), state(other), "{case}");
}

/// Operations after which tests interrupt: in the first chunk, in later ones, and never.
fn stops() -> impl Iterator<Item = usize> {
    [1, 9, 17, 26, 33, 47, 75, 98, 131, 1 << 20].into_iter()
}

/// The first text, read exactly or chunk by chunk, and what follows.
#[test]
fn an_interrupted_first_text_leaves_a_whole_beginning() {
    for engine in [tiny_model(), golden_model("baichuan-alibi-f16")] {
        let tokens = random_tokens(&engine, CONTEXT, 31);
        for policy in policies(&engine) {
            for prefill in PREFILLS {
                let mut interrupts = 0;
                for operations in stops() {
                    let mut stopped = make(&engine, &policy, prefill);
                    interrupts += usize::from(interrupt(&mut stopped, &tokens[..150], operations));
                    let held = stopped.tokens().len();
                    let mut fresh = make(&engine, &policy, prefill);
                    if held > 0 {
                        sync(&mut fresh, &tokens[..held]);
                    }
                    let case = format!("{policy} {prefill:?} after {operations}");
                    check_equal([&mut stopped, &mut fresh], &tokens[..150], &tokens[150..156], &case);
                }
                assert!(interrupts > 4, "{interrupts} interrupts");
            }
        }
    }
}

/// A first text is read layer by layer, a few operations at a time. Reading all of it takes many times as many.
#[test]
fn an_interrupted_exact_prefill_goes_on_where_it_stopped() {
    let alibi = golden_model("baichuan-alibi-f16");
    // A portable operation is many of ggml's, so that under some policies a chunk takes as many as the whole text under others.
    let is_portable = tests::is_portable();
    let times = if is_portable { 8 } else { 1 };
    for (engine, operations) in [
        (tiny_model(), 40 * times),
        (alibi, 300 * times),
        (device_model(&[1]), 40 * times),
        (device_model(&[1, 1]), 40 * times),
    ] {
        let tokens = random_tokens(&engine, CONTEXT, 39);
        let backends: Vec<_> = engine.placement().places().map(|place| engine.backends().at(place)).collect();
        // The weights are checked only once.
        sync(&mut make(&engine, &PolicyChoice::default(), Prefill::Streaming), &tokens[..2]);
        for policy in policies(&engine) {
            let mut stopped = make(&engine, &policy, Prefill::Exact);
            let (mut interrupts, mut share) = (0, 0.0);
            loop {
                backends.iter().for_each(|backend| backend.interrupt_after(operations));
                let mut first_progress = None;
                let read = stopped.sync(&tokens[..200], &mut |progress| {
                    first_progress.get_or_insert(progress.share);
                });
                backends.iter().for_each(|backend| backend.interrupt_after(usize::MAX));
                stopped.interrupt().clear();
                assert!(first_progress.is_none_or(|first| first > share), "{policy}: nothing is read twice");
                let Err(error) = read else { break };
                assert!(error.is_interrupt() && stopped.tokens().is_empty(), "{policy}: {error}");
                let now = stopped.first_text_share().unwrap_or(0.0);
                assert!(now >= share && interrupts < 1000, "{policy}: {now} after {share}");
                (interrupts, share) = (interrupts + 1, now);
            }
            assert!(
                is_portable || interrupts > 2 && share > 0.5,
                "{policy}: {interrupts} interrupts, {share}"
            );
            assert_eq!(stopped.first_text_share(), None);
            let mut fresh = make(&engine, &policy, Prefill::Exact);
            sync(&mut fresh, &tokens[..200]);
            assert_eq!(stopped.logits(), fresh.logits(), "{policy}");
            check_equal([&mut stopped, &mut fresh], &tokens[..220], &tokens[220..224], &policy.to_string());
        }
    }
}

/// After an interrupt in the middle of a first text something else is done with the session than reading on.
#[test]
fn an_interrupted_exact_prefill_leaves_an_empty_session_for_other_texts() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, CONTEXT, 40);
    for policy in policies(&engine) {
        let stop = || {
            let mut session = make(&engine, &policy, Prefill::Exact);
            assert!(interrupt(&mut session, &tokens[..200], 131), "{policy}");
            assert!(session.first_text_share().is_some_and(|share| share > 0.0), "{policy}");
            session
        };
        let mut fresh = make(&engine, &policy, Prefill::Exact);
        sync(&mut fresh, &tokens[50..150]);
        let (mut other, mut stepped, mut saved) = (stop(), stop(), stop());
        sync(&mut other, &tokens[50..150]);
        assert_eq!(
            (state(&other), other.logits()),
            (state(&fresh), fresh.logits()),
            "{policy}: another text"
        );

        let mut fresh = make(&engine, &policy, Prefill::Exact);
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["fresh", "stopped"].map(|name| folder.path().join(name));
        snapshot::save(&fresh, "", &paths[0]).expect("saved");
        snapshot::save(&saved, "", &paths[1]).expect("saved");
        let restored = Snapshot::open(&paths[1]).and_then(|saved| saved.restore(&engine)).expect("restored");
        assert_eq!((state(&restored), restored.first_text_share()), (state(&fresh), None), "{policy}: saved");
        saved.clear().expect("empty");
        assert_eq!(state(&saved), state(&fresh), "{policy}: cleared");

        push_all(&mut fresh, &tokens[..3]);
        push_all(&mut stepped, &tokens[..3]);
        assert_eq!((state(&stepped), stepped.logits()), (state(&fresh), fresh.logits()), "{policy}: steps");
    }
}

/// A later text, after which an interrupt must also leave what undoes the turn before.
#[test]
fn an_interrupted_later_text_leaves_a_whole_beginning() {
    for engine in [tiny_model(), golden_model("baichuan-alibi-f16")] {
        let tokens = random_tokens(&engine, CONTEXT, 32);
        for policy in policies(&engine) {
            let begin = || {
                let mut session = make(&engine, &policy, Prefill::Exact);
                sync(&mut session, &tokens[..100]);
                let read = (state(&session), session.logits().to_vec());
                push_all(&mut session, &tokens[100..105]);
                (session, read)
            };
            let mut interrupts = 0;
            for operations in stops() {
                let ((mut stopped, read), (mut fresh, _)) = (begin(), begin());
                interrupts += usize::from(interrupt(&mut stopped, &tokens[..200], operations));
                let held = stopped.tokens().len();
                assert!(held >= 105);
                sync(&mut fresh, &tokens[..held]);
                if held == 105 {
                    assert_eq!(stopped.logits(), fresh.logits(), "{policy} after {operations}");
                    let (mut undone, _) = begin();
                    interrupt(&mut undone, &tokens[..200], operations);
                    assert_eq!(sync(&mut undone, &tokens[..100]), 0, "{policy}: the turn before is undone");
                    assert_eq!((state(&undone), undone.logits().to_vec()), read, "{policy}");
                }
                let case = format!("{policy} after {operations}");
                check_equal([&mut stopped, &mut fresh], &tokens[..220], &tokens[220..224], &case);
            }
            assert!(interrupts > 4, "{interrupts} interrupts");
        }
    }
}

/// A step is not interrupted once it has begun, and not begun once the flag is set.
#[test]
fn an_interrupted_step_changes_nothing() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, CONTEXT, 33);
    for policy in policies(&engine) {
        let mut session = make(&engine, &policy, Prefill::Exact);
        sync(&mut session, &tokens[..100]);
        for token in &tokens[100..110] {
            session.interrupt().set();
            let before = (state(&session), session.logits().to_vec());
            assert!(session.push(*token).expect_err("interrupted").is_interrupt());
            assert!(session.sync(&tokens[..session.tokens().len() + 1], &mut |_| ()).is_err());
            assert_eq!((state(&session), session.logits().to_vec()), before, "{policy}");
            session.interrupt().clear();
            backend(&engine).interrupt_after(7);
            session.push(*token).expect("a step");
            backend(&engine).interrupt_after(usize::MAX);
        }
        let mut fresh = make(&engine, &policy, Prefill::Exact);
        sync(&mut fresh, &tokens[..100]);
        push_all(&mut fresh, &tokens[100..110]);
        assert_eq!((state(&session), session.logits()), (state(&fresh), fresh.logits()), "{policy}");
    }
}

/// A text that is interrupted and then read on, by a chunk or by a step, is one turn.
#[test]
fn a_text_that_is_read_on_after_an_interrupt_is_undone_as_a_whole() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, CONTEXT, 38);
    for policy in policies(&engine) {
        for end in [150, 200] {
            let mut session = make(&engine, &policy, Prefill::Exact);
            sync(&mut session, &tokens[..100]);
            let before = (state(&session), session.logits().to_vec());
            let stop = (1..).find(|stop| {
                sync(&mut session, &tokens[..100]);
                interrupt(&mut session, &tokens[..end], *stop);
                session.tokens().len() > 100
            });
            assert!(stop.is_some() && session.tokens().len() < end, "{policy}");
            let held = session.tokens().len();
            let rest = if end == 150 { held + 1 } else { end };
            sync(&mut session, &tokens[..rest]);
            assert_eq!(sync(&mut session, &tokens[..100]), 0, "{policy}: {held} of {end}");
            assert_eq!((state(&session), session.logits().to_vec()), before, "{policy}");
        }
    }
}

/// The weights are checked before the first step of an engine. An interrupt there must leave what undoes the
/// turn before.
#[test]
fn a_text_of_one_token_interrupted_before_its_step_leaves_the_turn_before() {
    let engine = tiny_model();
    let policy = "streaming:sinks=4,window=40,slack=0".parse().expect("a policy");
    let tokens = [vec![0; 60], random_tokens(&engine, 31, 37)].concat();
    let mut session = make(&engine, &policy, Prefill::Exact);
    session.fill_random(60, 1).expect("a turn begins here");
    session.intermediates(&tokens[60..90]).expect("a chunk of the turn");
    let before = state(&session);
    assert!(interrupt(&mut session, &tokens, 3));
    assert_eq!(state(&session), before);
    assert_eq!(sync(&mut session, &tokens[..61]), 1, "the turn before is undone");
}

/// The flag is set by another thread at any moment.
#[test]
fn an_interrupt_by_another_thread_leaves_a_whole_beginning() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, CONTEXT, 34);
    let start = Barrier::new(2);
    for policy in ["h2o:heavy=20,recent=20", "snapkv:window=16,capacity=40", "ahakv:budget=40,recent=8"] {
        let policy: PolicyChoice = policy.parse().expect(policy);
        for spins in (0..40).map(|i| i * 4000) {
            let mut stopped = make(&engine, &policy, Prefill::Streaming);
            let flag = stopped.interrupt().clone();
            let result = std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    (0..spins).for_each(|_| std::hint::spin_loop());
                    flag.set();
                });
                start.wait();
                stopped.sync(&tokens[..200], &mut |_| ())
            });
            assert!(result.as_ref().err().is_none_or(EngineError::is_interrupt));
            let mut fresh = make(&engine, &policy, Prefill::Streaming);
            if !stopped.tokens().is_empty() {
                sync(&mut fresh, &tokens[..stopped.tokens().len()]);
            }
            assert_eq!(state(&stopped), state(&fresh), "{policy}");
        }
    }
}

/// Two threads read with one engine. One of them is stopped in the middle of its text, and the other one goes on.
#[test]
fn a_flag_stops_its_own_session_only() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, CONTEXT, 40);
    let policy = "h2o:heavy=20,recent=20".parse().expect("a policy");
    for prefill in PREFILLS {
        let [mut stopped, mut other, mut whole] = [(); 3].map(|()| make(&engine, &policy, prefill));
        sync(&mut whole, &tokens);
        let (flag, both_read, one_is_stopped) =
            (stopped.interrupt().clone(), Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut pieces = 0;
                let read = stopped.sync(&tokens, &mut |_| {
                    pieces += 1;
                    if pieces == 2 {
                        both_read.wait();
                        flag.set();
                    }
                });
                one_is_stopped.wait();
                assert!(read.expect_err("stopped").is_interrupt());
                assert_eq!(pieces, 2, "{prefill:?}");
            });
            let mut pieces = 0;
            let read = other.sync(&tokens, &mut |_| {
                pieces += 1;
                if pieces == 2 {
                    both_read.wait();
                    one_is_stopped.wait();
                }
            });
            read.expect("nobody stopped it");
            assert!(pieces > 3, "{prefill:?}: {pieces} pieces");
        });
        assert_eq!((state(&other), other.logits()), (state(&whole), whole.logits()), "{prefill:?}");
        // Nothing was reset: the one stays stopped, and the other one answers.
        assert!(stopped.sync(&tokens, &mut |_| ()).expect_err("stopped").is_interrupt());
        other.clear().expect("an empty session");
        sync(&mut other, &tokens[..9]);
        other.push(tokens[9]).expect("a step");
        // A new flag for the next call.
        stopped.set_interrupt(&InterruptFlag::new());
        sync(&mut stopped, &tokens);
        assert_eq!((state(&stopped), stopped.logits()), (state(&whole), whole.logits()), "{prefill:?}");
    }
}

/// A flag that is set stops what it is given to before anything is done: loading, calibration, windows.
#[test]
fn a_flag_stops_the_call_that_it_is_given_to() {
    let flag = InterruptFlag::new();
    flag.set();
    let options = EngineOptions { interrupt: flag.clone(), ..tests::engine_options() };
    let file = tests::data("golden/models/llama-gqa-llama3rope-f32.gguf");
    let loaded = Engine::open(&ModelSource::File(file), &options);
    assert!(loaded.err().expect("stopped").is_interrupt());
    let engine = tiny_model();
    let (options, rule) =
        (CalibrationOptions { period: 16, ..CalibrationOptions::default() }, SelectionRule::default());
    let stopped = calibrate(&engine, &options, &rule, &flag, &mut |_| ());
    assert!(stopped.expect_err("stopped").is_interrupt());
    calibrate(&engine, &options, &rule, &InterruptFlag::new(), &mut |_| ()).expect("the engine is as before");
    let tokens = random_tokens(&engine, 20, 41);
    let stopped = longhand::store::last_attention(&engine, &tokens, &flag, &mut |_| ());
    assert!(stopped.expect_err("stopped").is_interrupt());
    let mut sessions =
        ["full", "tova"].map(|policy| make(&engine, &policy.parse().expect(policy), Prefill::Exact));
    sessions[0].set_interrupt(&flag);
    let stopped = longhand::reading::sync_all(&mut sessions, &tokens, &mut |_| ());
    assert!(stopped.expect_err("stopped").is_interrupt());
}

/// Texts of which all logits, or all intermediates, are wanted.
#[test]
fn interrupted_diagnoses_leave_a_whole_beginning() {
    let options = EngineOptions { trace: true, ..tests::engine_options() };
    let file = tests::data("golden/models/llama-gqa-llama3rope-f32.gguf");
    let engine = Engine::open(&longhand::ModelSource::File(file), &options).expect("the model opens");
    let tokens = random_tokens(&engine, CONTEXT, 35);
    for policy in policies(&engine) {
        for operations in stops() {
            let mut stopped = make(&engine, &policy, Prefill::Streaming);
            let all = interrupted(&mut stopped, operations, |session| session.all_logits(&tokens[..100]));
            let held = stopped.tokens().len();
            assert_eq!(all.is_some(), held == 100);
            let mut fresh = make(&engine, &policy, Prefill::Streaming);
            fresh.all_logits(&tokens[..held]).expect("logits");
            assert_eq!(state(&stopped), state(&fresh), "{policy} after {operations}");
            let more = &tokens[held..held + 20];
            if interrupted(&mut stopped, operations, |session| session.intermediates(more)).is_some() {
                fresh.intermediates(more).expect("intermediates");
            }
            assert_eq!(state(&stopped), state(&fresh), "{policy} after {operations}");
        }
    }
}

/// A device that fails in the middle of a chunk or a step.
#[test]
fn errors_of_a_device_leave_a_whole_beginning() {
    let engine = device_model(&[usize::MAX]);
    let tokens = random_tokens(&engine, CONTEXT, 36);
    for policy in [
        "h2o:heavy=20,recent=20,compensation=on",
        "snapkv:window=16,capacity=40,slack=60",
        "ahakv:budget=40,recent=8",
    ] {
        let policy: PolicyChoice = policy.parse().expect(policy);
        for operations in [2, 5, 12] {
            let mut failed = make(&engine, &policy, Prefill::Streaming);
            sync(&mut failed, &tokens[..40]);
            backend(&engine).lose_after(operations);
            let read = failed.sync(&tokens[..72], &mut |_| ());
            backend(&engine).lose_after(usize::MAX);
            let held = failed.tokens().len();
            assert_eq!(read.is_ok(), held == 72);
            let mut fresh = make(&engine, &policy, Prefill::Streaming);
            let lengths: &[usize] = if held > 40 { &[40, held] } else { &[held] };
            lengths.iter().filter(|n| **n > 0).for_each(|n| {
                sync(&mut fresh, &tokens[..*n]);
            });
            assert_eq!(state(&failed), state(&fresh), "{policy} after {operations}");

            for session in [&mut failed, &mut fresh] {
                sync(session, &tokens[..80]);
            }
            let before = (state(&failed), failed.logits().to_vec());
            assert_eq!(before.0, state(&fresh), "{policy} after {operations}");
            failed.push(tokens[80]).expect("a step");
            backend(&engine).lose_after(operations);
            let step = failed.push(tokens[81]);
            backend(&engine).lose_after(usize::MAX);
            match failed.tokens().len() {
                82 => assert!(step.is_ok()),
                80 => assert_eq!((state(&failed), failed.logits().to_vec()), before, "{policy}"),
                held => assert_eq!(held, 0, "{policy} after {operations}"),
            }
        }
    }
}

/// A device that fails while random rows are compressed.
#[test]
fn errors_of_a_device_during_random_rows_leave_an_empty_session() {
    let engine = device_model(&[usize::MAX]);
    let policy = "snapkv:window=16,capacity=40,slack=60".parse().expect("a policy");
    let mut failed = make(&engine, &policy, Prefill::Exact);
    let empty = state(&failed);
    backend(&engine).lose_after(2);
    failed.fill_random(200, 1).expect_err("the device is lost");
    backend(&engine).lose_after(usize::MAX);
    assert_eq!(state(&failed), empty);
}

/// Bytes of a file that are mapped and resident in this process, where the system tells.
fn resident(path: &Path) -> Option<usize> {
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let (mut is_file, mut bytes) = (false, 0);
    for line in maps.lines() {
        match line.strip_prefix("Rss:") {
            Some(rss) if is_file => bytes += 1024 * rss.split_whitespace().next()?.parse::<usize>().ok()?,
            Some(_) => {}
            // A mapping begins with its addresses.
            None if line.split(' ').next()?.contains('-') => is_file = line.ends_with(path.to_str()?),
            None => {}
        }
    }
    Some(bytes)
}

/// Pages of the file that only prefill needs go back to the system when a layer is done, and when it is interrupted.
#[test]
fn an_interrupted_calibration_leaves_no_pages_of_its_layer() {
    const SOME: usize = 2 << 20;
    let like = ModelShape::find("llama-3.2-1b").expect("a shape");
    let shape = ModelShape { n_layers: 2, n_vocab: 300, n_embd: 1024, n_ff: 4096, n_heads: 16, ..*like };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut bytes = Vec::new();
    shape.write_synthetic(FileType::Q4KM, &mut bytes, &mut |_, _| ()).expect("written");
    std::fs::write(&path, bytes).expect("written");
    let options = EngineOptions { threads: Some(1), ..EngineOptions::default() };
    let engine = Engine::open(&ModelSource::File(path.clone()), &options).expect("the model opens");
    let options = CalibrationOptions { period: 16, chunk: 32, ..CalibrationOptions::default() };
    // The most bytes that are resident in the meantime, and those afterwards.
    let calibrate = |stop: f64| {
        let (mut most, flag) = (None, InterruptFlag::new());
        let result = calibrate(&engine, &options, &SelectionRule::default(), &flag, &mut |progress| {
            most = most.max(resident(&path));
            if progress.share > stop {
                flag.set();
            }
        });
        assert_eq!(result.is_err_and(|error| error.is_interrupt()), stop < 1.0);
        most.zip(resident(&path))
    };
    let Some((most, done)) = calibrate(1.0) else { return };
    if most < done + SOME {
        return; // prefill uses the same layout as decoding here
    }
    let (_, stopped) = calibrate(0.0).expect("the system tells");
    assert!(stopped < done + SOME, "{stopped} bytes are resident, {done} without an interrupt");
}
