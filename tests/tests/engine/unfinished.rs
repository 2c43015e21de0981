//! A first text that is read in many processes: it is interrupted after any operation, saved, and goes on in a fresh
//! session, again and again. At the end the session is the one that has read the text at once, bit for bit, under every
//! policy and with every kind of model. Damaged and foreign files are rejected.

use std::path::Path;
use std::sync::Arc;

use longhand::reading::Prefill;
use longhand::testing::kv::PolicyChoice;
use longhand::testing::snapshot;
use longhand::{Engine, EngineOptions, ModelSource, Session, SessionOptions};
use serde_json::{Value, json};
use tests::fixtures::{
    Random, bounded_policies, embedded_model, family_model, golden_model, options, random_tokens, session,
    sync, tiny_model, with_policy,
};
use twox_hash::XxHash3_64;

const CONTEXT: usize = 300;
/// Windows; layers that attend to the rows of earlier ones; recurrent layers; latent attention; experts and sink logits.
const FAMILIES: [&str; 5] =
    ["gemma3-mqa-f32", "gemma4-shared-kv-f32", "qwen35-gqa-f32", "deepseek2-lite-f32", "gpt-oss-window-f32"];
const PREFILLS: [Prefill; 2] = [Prefill::Exact, Prefill::Streaming];

/// The tiny model with its last layers on devices that the host stands in for, so many on each. With `host_residual` the residual stream is on the host.
fn device_model(layers: &[usize], host_residual: bool) -> Arc<Engine> {
    let options = EngineOptions {
        devices: tests::host_devices(layers),
        host_residual,
        threads: Some(1),
        ..EngineOptions::default()
    };
    let file = tests::data("golden/models/llama-gqa-llama3rope-f32.gguf");
    Engine::open(&ModelSource::File(file), &options).expect("the model opens")
}

/// These policies, or every one that the model can have.
fn policies(engine: &Engine, names: &[&str]) -> Vec<PolicyChoice> {
    let mut all = bounded_policies(40, CONTEXT);
    all.push(PolicyChoice::default());
    all.push("kvzip:capacity=100,heads=on".parse().expect("a policy"));
    all.push("streaming:sinks=4,window=40,slack=30,compensation=on".parse().expect("a policy"));
    all.retain(|policy| names.is_empty() || names.contains(&policy.name()));
    all.retain(|policy| policy.check(engine.spec()).is_ok());
    all
}

fn make(engine: &Arc<Engine>, policy: &PolicyChoice, prefill: Prefill, context: usize) -> Session {
    let options = with_policy(engine, policy, options(context, "full"));
    session(engine, SessionOptions { prefill, ..options })
}

/// Every byte of the store, the tokens and the logits.
fn state(session: &Session) -> (Vec<u8>, Vec<u32>, Vec<f32>) {
    let rows = session.store().contents().expect("the store");
    (rows, session.tokens().to_vec(), session.logits().to_vec())
}

/// Reads a text until so many operations were computed in a place. Whether it was read to its end.
fn read_some(session: &mut Session, tokens: &[u32], operations: usize) -> bool {
    let engine = session.engine().clone();
    let backends: Vec<_> = engine.placement().places().map(|place| engine.backends().at(place)).collect();
    backends.iter().for_each(|backend| backend.interrupt_after(operations));
    let read = session.sync(tokens, &mut |_| ());
    backends.iter().for_each(|backend| backend.interrupt_after(usize::MAX));
    session.interrupt().clear();
    read.map_err(|error| assert!(error.is_interrupt(), "{error}")).is_ok()
}

/// How much a session has read of its text: the share of an exact prefill, or tokens.
fn reached(session: &Session) -> (Option<f64>, usize) {
    (session.first_text_share(), session.tokens().len())
}

/// Reads a text in as many sessions as it takes, each of which computes so many operations, and more where that is not
/// enough for a chunk. Returns the last session, and how many there were.
fn read_in_parts(
    new: &dyn Fn() -> Session,
    tokens: &[u32],
    operations: usize,
    path: &Path,
) -> (Session, usize) {
    let (mut session, mut parts, mut enough, mut last) = (new(), 1, operations, (None, 0));
    while !read_some(&mut session, tokens, enough) {
        let now = reached(&session);
        enough = if now == last { enough + operations } else { operations };
        if now == (None, 0) {
            continue;
        }
        snapshot::save_unfinished(&session, tokens, path).expect("saved");
        session = new();
        snapshot::resume(path, &mut session, tokens).expect("it goes on");
        assert_eq!(reached(&session), now);
        (last, parts) = (now, parts + 1);
    }
    (session, parts)
}

/// Checks that a text is read in parts as it is at once, and that the session then goes on in the same way.
fn check(engine: &Arc<Engine>, names: &[&str], operations: usize) {
    let tokens = random_tokens(engine, CONTEXT, 51);
    let folder = tempfile::tempdir().expect("a folder");
    // The weights are checked only once.
    sync(&mut make(engine, &PolicyChoice::default(), Prefill::Streaming, CONTEXT), &tokens[..2]);
    for policy in policies(engine, names) {
        for prefill in PREFILLS {
            let case = format!("{policy} {prefill:?}");
            let new = || make(engine, &policy, prefill, CONTEXT);
            let path = folder.path().join("unfinished");
            let (mut parts, count) = read_in_parts(&new, &tokens[..200], operations, &path);
            assert!(count > 1, "{case}: read in {count} parts");
            let mut whole = new();
            sync(&mut whole, &tokens[..200]);
            assert!(state(&parts) == state(&whole), "{case}");
            for session in [&mut parts, &mut whole] {
                sync(session, &tokens[..230]);
                tokens[230..234].iter().for_each(|token| session.push(*token).expect("a step"));
            }
            assert!(state(&parts) == state(&whole), "{case}, afterwards");
            for session in [&mut parts, &mut whole] {
                sync(session, &tokens[..200]);
            }
            assert!(state(&parts) == state(&whole), "{case}, undone");
        }
    }
}

/// A text that begins like one that is half read goes on with what they share, where all rows are kept where they are read, and
/// is read anew elsewhere. The session is then the one that has read the text without all this, bit for bit.
#[test]
fn a_text_that_begins_like_a_half_read_one_goes_on() {
    const CHUNK: usize = 16;
    let engines = FAMILIES.iter().map(|name| family_model(name)).chain([tiny_model()]);
    let (mut went_on, mut began_anew) = (0, 0);
    for engine in engines {
        let (one, mut other) = (random_tokens(&engine, 120, 51), random_tokens(&engine, 140, 52));
        other[..90].copy_from_slice(&one[..90]);
        // The weights are checked only once.
        sync(&mut make(&engine, &PolicyChoice::default(), Prefill::Streaming, CONTEXT), &one[..2]);
        for (policy, prefill) in
            [("full", Prefill::Exact), ("full", Prefill::Sparse), ("streaming:window=40", Prefill::Exact)]
        {
            let policy: PolicyChoice = policy.parse().expect("a policy");
            let new = || {
                let made = with_policy(&engine, &policy, options(CONTEXT, "full"));
                session(&engine, SessionOptions { prefill, chunk: CHUNK, ..made })
            };
            for text in [&other[..], &one[..100], &[&one[..], &other[..10]].concat()] {
                for (operations, is_saved) in
                    [3, 40, 150, 250, 400].into_iter().flat_map(|n| [(n, false), (n, true)])
                {
                    let case = format!(
                        "{} {policy} {prefill:?} {} {operations} {is_saved}",
                        engine.spec().arch.name(),
                        text.len()
                    );
                    let (mut half, mut fresh) = (new(), new());
                    if read_some(&mut half, &one, operations) {
                        continue;
                    }
                    // A file has no more of the residual stream than the same text needs.
                    let file = tempfile::NamedTempFile::new().expect("a file");
                    if is_saved && snapshot::save_unfinished(&half, &one, file.path()).is_ok() {
                        half = new();
                        snapshot::resume(file.path(), &mut half, &one).expect("it goes on");
                    }
                    let begun = half.begun_of(text);
                    let mut reading = half.read(text).expect("a text");
                    let mut shares = Vec::new();
                    while let Some(progress) = reading.step().expect("a piece") {
                        shares.push(progress.share);
                    }
                    drop(reading);
                    assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{case}: {shares:?}");
                    let common = one.iter().zip(text).take_while(|(a, b)| a == b).count();
                    if begun > 0 {
                        went_on += 1;
                        assert!(begun <= common, "{case}: {begun}");
                        let whole = if common == one.len() { common } else { common / CHUNK * CHUNK };
                        let whole = if whole == text.len() { whole - CHUNK } else { whole };
                        sync(&mut fresh, &text[..whole]);
                    } else {
                        began_anew += 1;
                    }
                    sync(&mut fresh, text);
                    assert!(state(&half) == state(&fresh), "{case}");
                }
            }
        }
    }
    assert!(went_on > 5 && began_anew > 5, "{went_on} {began_anew}");
}

#[test]
fn a_text_is_read_in_parts_under_every_policy() {
    let engine = tiny_model();
    for operations in [37, 90] {
        check(&engine, &[], operations);
    }
    // Four layers, so that policies that skip the first two still evict rows.
    check(&embedded_model(), &["razor", "h2o", "kvzip", "kvzip-plus", "tova"], 200);
}

#[test]
fn a_text_is_read_in_parts_on_a_device() {
    let all = ["full", "h2o", "kvzip-plus", "snapkv"];
    for (layers, host_residual, names) in [
        (&[1][..], false, &all[..]),
        (&[2], false, &["h2o", "kvzip-plus"]),
        (&[1], true, &["full", "kvzip-plus"]),
        (&[1, 1], false, &["full", "snapkv"]),
        (&[1, 1], true, &all),
    ] {
        check(&device_model(layers, host_residual), names, 60);
    }
}

#[test]
fn a_text_is_read_in_parts_by_every_kind_of_model() {
    check(&golden_model("baichuan-alibi-f16"), &["full", "razor", "snapkv"], 300);
    for family in FAMILIES {
        check(&family_model(family), &["full", "h2o", "kvzip-plus", "streaming"], 150);
    }
}

/// Sessions in the middle of a text, each with its policy: layer by layer with all that a layer can have, and chunk by
/// chunk.
fn begun(engine: &Arc<Engine>, tokens: &[u32]) -> Vec<Session> {
    let cases = [
        ("kvzip:capacity=100,heads=on", Prefill::Exact, 180),
        ("h2o:heavy=20,recent=20", Prefill::Exact, 150),
        ("h2o:heavy=20,recent=20", Prefill::Streaming, 150),
    ];
    let begin = |(policy, prefill, operations): (&str, Prefill, usize)| {
        let mut session = make(engine, &policy.parse().expect(policy), prefill, CONTEXT);
        assert!(!read_some(&mut session, tokens, operations));
        assert_ne!(reached(&session), (None, 0), "{policy}");
        session
    };
    cases.map(begin).into()
}

/// The end of the description in a file: it follows a magic of 8 bytes and its own length in 4.
fn description_end(bytes: &[u8]) -> usize {
    12 + u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")) as usize
}

/// A file with another description and a correct checksum.
pub(super) fn with_description(bytes: &[u8], change: &dyn Fn(&mut Value)) -> Vec<u8> {
    let end = description_end(bytes);
    let mut description: Value = serde_json::from_slice(&bytes[12..end]).expect("a description");
    change(&mut description);
    let description = description.to_string();
    let length = (description.len() as u32).to_le_bytes();
    let mut changed = [&bytes[..8], &length, description.as_bytes(), &bytes[end..bytes.len() - 8]].concat();
    changed.extend(XxHash3_64::oneshot(&changed).to_le_bytes());
    changed
}

#[test]
fn damaged_and_forged_files_are_rejected_and_leave_an_empty_session() {
    let engine = tiny_model();
    let tokens = &random_tokens(&engine, CONTEXT, 52)[..200];
    sync(&mut make(&engine, &PolicyChoice::default(), Prefill::Streaming, CONTEXT), &tokens[..2]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("unfinished");
    for saved in begun(&engine, tokens) {
        let options = saved.options().clone();
        let mut fresh = session(&engine, options.clone());
        let empty = state(&fresh);
        snapshot::save_unfinished(&saved, tokens, &path).expect("saved");
        let bytes = std::fs::read(&path).expect("the file");
        let mut rejected = |bytes: &[u8], part: &str| {
            std::fs::write(&path, bytes).expect("written");
            let error = snapshot::resume(&path, &mut fresh, tokens).expect_err(part).to_string();
            assert!(error.contains(part) && error.len() < 2000, "{part:?} is not in {error}");
            assert_eq!((reached(&fresh), state(&fresh) == empty), ((None, 0), true), "{part}");
        };
        let mut random = Random(3);
        for _ in 0..300 {
            rejected(&bytes[..random.below(bytes.len())], "");
            let mut changed = bytes.clone();
            let at = random.below(bytes.len());
            changed[at] ^= 1 + random.below(255) as u8;
            rejected(&changed, "");
        }
        rejected(&[&bytes[..], b"x"].concat(), "");
        let value = |name: &'static str, value: Value| {
            with_description(&bytes, &move |description| description["unfinished"][name] = value.clone())
        };
        for reached in [
            json!({ "Layer": { "layer": u64::MAX, "chunks": 0 } }),
            json!({ "Layer": { "layer": 2, "chunks": 0 } }),
            json!({ "Layer": { "layer": 0, "chunks": 1000 } }),
            json!({ "Layer": { "layer": 0, "chunks": u64::MAX } }),
            json!({ "Tokens": 0 }),
            json!({ "Tokens": 200 }),
            json!({ "Tokens": u64::MAX }),
        ] {
            rejected(&value("reached", reached), "");
        }
        rejected(&value("reached", json!("all")), "cannot be read");
        rejected(&value("seconds", json!(1e300)), "a time that cannot be");
        rejected(&value("seconds", json!(-1)), "a time that cannot be");
        rejected(&value("text", json!(u64::MAX)), "another text");
        rejected(&value("text", json!(199)), "another text");
        rejected(
            &with_description(&bytes, &|description| description["cache"] = json!(true)),
            "not read to its end",
        );
        rejected(
            &with_description(&bytes, &|description| description["unfinished"] = Value::Null),
            "settings",
        );
        rejected(&with_description(&bytes, &|description| description["chunk"] = json!(64)), "settings");
        // As a saved session it is an empty one.
        std::fs::write(&path, &bytes).expect("written");
        let restored =
            snapshot::Snapshot::open(&path).and_then(|file| file.restore(&engine)).expect("restored");
        assert_eq!(reached(&restored), (None, 0));

        // Other settings, or another text.
        for other in [
            SessionOptions { types: (longhand::Type::F16, longhand::Type::F16), ..options.clone() },
            SessionOptions { chunk: 16, ..options.clone() },
            with_policy(&engine, &"razor:buffer=20".parse().expect("a policy"), options.clone()),
        ] {
            let mut other = session(&engine, other);
            let error = snapshot::resume(&path, &mut other, tokens).expect_err("other settings").to_string();
            assert!(error.contains("of other settings") && reached(&other) == (None, 0), "{error}");
        }
        let error =
            snapshot::resume(&path, &mut fresh, &tokens[..199]).expect_err("another text").to_string();
        assert!(error.contains("of another text"), "{error}");
        // More room for questions is no other reading.
        let mut larger = session(&engine, SessionOptions { context: 2 * CONTEXT, ..options });
        let mut whole = make(&engine, &larger.options().policy.clone(), larger.options().prefill, CONTEXT);
        snapshot::resume(&path, &mut larger, tokens).expect("it goes on");
        for session in [&mut larger, &mut whole] {
            sync(session, tokens);
        }
        assert!(state(&larger) == state(&whole));
    }
}

#[test]
fn a_text_whose_old_rows_are_read_in_groups_is_read_in_parts() {
    let engine = embedded_model();
    let tokens = random_tokens(&engine, 1000, 52);
    let folder = tempfile::tempdir().expect("a folder");
    for policy in ["full", "h2o:heavy=40,recent=40", "kvzip:heads=off,capacity=100"] {
        let policy: PolicyChoice = policy.parse().expect("a policy");
        let new = || make(&engine, &policy, Prefill::Sparse, 1000);
        let (parts, count) = read_in_parts(&new, &tokens, 300, &folder.path().join("unfinished"));
        let mut whole = new();
        sync(&mut whole, &tokens);
        assert!(count > 1, "{policy}: read in {count} parts");
        assert!(state(&parts) == state(&whole), "{policy}");
    }
}
