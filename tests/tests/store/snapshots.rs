//! Sessions saved in files. With every policy, a restored session continues exactly like the saved one.
//! Damaged and hostile files are rejected. Moves between host and device are tested in `device.rs`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use longhand::testing::kv::{PolicyChoice, policy};
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{Engine, EngineError, Hint, Session, SessionOptions};
use serde_json::{Value, json};
use tests::fixtures::{
    Random, embedded_model, golden_model, half_retrieval, options, random_tokens, session, sync, tiny_model,
    with_policy, with_types_and_prefills,
};
use twox_hash::XxHash3_64;

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("longhand-snapshots-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Names of the folder's entries.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    }

    /// Saves a session and returns the bytes of the file.
    fn save(&self, session: &Session) -> Vec<u8> {
        snapshot::save(session, "the caller's", &self.file("saved")).expect("saved");
        fs::read(self.file("saved")).expect("the file")
    }

    /// Restores a session from the bytes of a file.
    fn restore(&self, engine: &Arc<Engine>, bytes: &[u8]) -> Result<Session, EngineError> {
        fs::write(self.file("given"), bytes).expect("a file");
        Snapshot::open(&self.file("given"))?.restore(engine)
    }

    /// Saves a session and restores it.
    fn round_trip(&self, engine: &Arc<Engine>, session: &Session) -> Session {
        let policy = &session.options().policy;
        self.restore(engine, &self.save(session)).unwrap_or_else(|error| panic!("{policy}: {error}"))
    }

    /// Checks that a file of these bytes is rejected. The error names the file, contains `part` and has a
    /// hint.
    #[track_caller]
    fn assert_rejected(&self, engine: &Arc<Engine>, bytes: &[u8], part: &str) {
        let error = self.restore(engine, bytes).map(|_| ()).expect_err(part);
        assert!(error.hint().is_some(), "{error}");
        let error = error.to_string();
        assert!(error.contains("given: ") && error.len() < 2000, "{error}");
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Every policy, with parameters that keep `rows` rows a head, and three more, two of which have compensation
/// entries.
fn policies(engine: &Engine, rows: usize, context: usize) -> Vec<PolicyChoice> {
    let parse = |text: &str| -> PolicyChoice { text.parse().expect(text) };
    let mut all: Vec<PolicyChoice> = policy::policies()
        .map(|entry| match entry.factory {
            Some(_) => parse(entry.name).with_rows(rows, context).expect("enough rows"),
            None => parse(entry.name),
        })
        .collect();
    all.push(parse(&format!("l2:keep=0.5,after={rows},skip=0")));
    if !engine.spec().position_encoding.is_alibi() {
        all.extend(["l2:rows=40,heads=on,compensation=on", "ahakv:budget=40,compensation=on"].map(parse));
    }
    all
}

/// Sessions are saved and restored while empty, after each turn, and repeatedly between decode steps.
#[test]
fn a_restored_session_continues_like_the_saved_one() {
    const CONTEXT: usize = 260;
    let folder = Folder::new("goes-on");
    for engine in [embedded_model(), golden_model("baichuan-alibi-f16")] {
        let tokens = random_tokens(&engine, CONTEXT, 3);
        for (policy, types, prefill) in with_types_and_prefills(&engine, policies(&engine, 40, CONTEXT)) {
            let options = with_policy(&engine, &policy, options(CONTEXT, "full"));
            let options = SessionOptions { types, prefill, ..options };
            let mut one = session(&engine, options);
            let mut other = folder.round_trip(&engine, &one);
            // The texts end inside a partition; the first one is shorter than what some policies keep.
            for n in [39, 151, 190] {
                assert_eq!(sync(&mut one, &tokens[..n]), sync(&mut other, &tokens[..n]));
                other = folder.round_trip(&engine, &other);
                assert!(one.logits() == other.logits(), "{policy} {types:?}");
            }
            for (step, token) in tokens[190..250].iter().enumerate() {
                one.push(*token).expect("a step");
                other.push(*token).expect("a step");
                assert!(one.logits() == other.logits(), "{policy} {types:?} {step}");
                if step % 7 == 0 {
                    other = folder.round_trip(&engine, &other);
                }
            }
            assert!(folder.save(&one) == folder.save(&other), "{policy} {types:?}");
            assert_eq!((other.tokens(), other.options().context), (&tokens[..250], CONTEXT));
        }
    }
}

/// A session can be saved after its text was shortened.
#[test]
fn a_session_with_a_shortened_text_can_be_saved() {
    let (engine, folder) = (embedded_model(), Folder::new("shortened"));
    let tokens = random_tokens(&engine, 120, 4);
    for policy in policies(&engine, 200, 260) {
        let mut one = session(&engine, with_policy(&engine, &policy, options(260, "full")));
        for n in [100, 70] {
            sync(&mut one, &tokens[..n]);
        }
        let mut other = folder.round_trip(&engine, &one);
        for session in [&mut one, &mut other] {
            sync(session, &tokens);
        }
        assert!(one.logits() == other.logits(), "{policy}");
    }
}

/// Answers and turns after a restore are undone as in any other session.
#[test]
fn turns_are_undone_in_a_restored_session() {
    let (engine, folder) = (embedded_model(), Folder::new("taken-back"));
    let document = random_tokens(&engine, 150, 8);
    let turn =
        |seed, n| -> Vec<u32> { document.iter().copied().chain(random_tokens(&engine, n, seed)).collect() };
    let (question, other_question, answer) = (turn(1, 21), turn(2, 13), random_tokens(&engine, 40, 9));
    for policy in policies(&engine, 40, 300) {
        let mut original = session(&engine, with_policy(&engine, &policy, options(300, "full")));
        sync(&mut original, &document);
        let mut restored = folder.round_trip(&engine, &original);
        sync(&mut restored, &question);
        let before = restored.logits().to_vec();
        answer.iter().for_each(|token| restored.push(*token).expect("a step"));
        assert_eq!(sync(&mut restored, &question), 0, "{policy}: the answer again");
        assert!(restored.logits() == before, "{policy}");
        assert_eq!(sync(&mut restored, &other_question), 13, "{policy}: another question");
        sync(&mut original, &other_question);
        assert!(restored.logits() == original.logits(), "{policy}");
        // Back to the restored state, without any computation.
        assert_eq!(sync(&mut restored, &document), 0, "{policy}");
    }
}

/// A small session whose store has most parts: two kinds of lanes, compensation entries, queries, accumulated
/// attention.
fn session_with_all_parts(engine: &Arc<Engine>) -> Session {
    let policy = "ahakv:budget=16,recent=4,heads=on,compensation=on".parse().expect("a policy");
    let mut session = session(engine, with_policy(engine, &policy, options(64, "full")));
    sync(&mut session, &random_tokens(engine, 40, 5));
    session
}

#[test]
fn truncated_and_extended_files_are_rejected() {
    let (engine, folder) = (tiny_model(), Folder::new("short"));
    let bytes = folder.save(&session_with_all_parts(&engine));
    let description = description_end(&bytes);
    // Lengths close together at both ends of the file, further apart between.
    let body = (description + 64..bytes.len() - 64).step_by(bytes.len() / 500 + 1);
    for length in (0..description + 64).step_by(3).chain(body).chain(bytes.len() - 64..bytes.len()) {
        folder.assert_rejected(&engine, &bytes[..length], "the file ends too early");
    }
    folder.assert_rejected(&engine, &[&bytes[..], &[0]].concat(), "it has more bytes than it should");
    folder.restore(&engine, &bytes).expect("the whole file");
}

/// The file is mapped. What the system has no content for are zeros, and no SIGBUS.
/// Windows lets nobody shorten it.
#[cfg(unix)]
#[test]
fn a_file_that_becomes_shorter_while_it_is_open_is_rejected() {
    let (engine, folder) = (tiny_model(), Folder::new("shrinks"));
    let bytes = folder.save(&session_with_all_parts(&engine));
    let opened = Snapshot::open(&folder.file("saved")).expect("opens");
    let file = fs::File::options().write(true).open(folder.file("saved")).expect("opens");
    // Not at once, and the rest of the page.
    for length in [bytes.len() / 2, 0] {
        file.set_len(length as u64).expect("shorter");
        let error = opened.verify().expect_err("zeros").to_string();
        assert!(error.contains("saved: its checksum is wrong"), "{error}");
    }
    opened.restore(&engine).map(|_| ()).expect_err("zeros");
}

#[test]
fn every_changed_byte_is_detected() {
    let (engine, folder) = (tiny_model(), Folder::new("flips"));
    let bytes = folder.save(&session_with_all_parts(&engine));
    let mut random = Random(1);
    let description = description_end(&bytes);
    let caller = bytes.windows(6).position(|part| part == b"caller").expect("the caller's text") + 10;
    for round in 0..1500 {
        let at = match round {
            0 => caller,
            1..900 => random.below(description + 400),
            _ => random.below(bytes.len()),
        };
        let mut changed = bytes.clone();
        changed[at] ^= if round == 0 { 1 } else { 1 + random.below(255) as u8 };
        folder.assert_rejected(&engine, &changed, if round == 0 { "its checksum is wrong" } else { "" });
    }
}

/// End of the description in a file: it follows a magic of 8 bytes and its own length in 4.
fn description_end(bytes: &[u8]) -> usize {
    12 + u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")) as usize
}

/// The parts of a file, so that a changed file can have a correct checksum.
#[derive(Clone)]
struct Parts {
    magic: [u8; 8],
    description: Value,
    body: Vec<u8>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Parts {
        let end = description_end(bytes);
        Parts {
            magic: bytes[..8].try_into().expect("eight"),
            description: serde_json::from_slice(&bytes[12..end]).expect("a description"),
            body: bytes[end..bytes.len() - 8].to_vec(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let description = self.description.to_string();
        let length = (description.len() as u32).to_le_bytes();
        let mut bytes = [&self.magic[..], &length, description.as_bytes(), &self.body].concat();
        bytes.extend(XxHash3_64::oneshot(&bytes).to_le_bytes());
        bytes
    }

    /// The file with another value in its description.
    fn with_value(&self, name: &str, value: Value) -> Vec<u8> {
        let mut other = self.clone();
        other.description[name] = value;
        other.bytes()
    }

    /// The store's number with this index.
    fn number(&mut self, index: usize) -> &mut [u8] {
        let of = |name: &str| self.description[name].as_u64().expect("a number") as usize;
        let at = 4 * (of("tokens") + of("logits") + index);
        &mut self.body[at..at + 4]
    }

    /// The file with other numbers in its store: pairs of index and number. The first lane's numbers come
    /// first.
    fn with_numbers(&self, numbers: &[(usize, u32)]) -> Vec<u8> {
        let mut other = self.clone();
        for (index, number) in numbers {
            other.number(*index).copy_from_slice(&number.to_le_bytes());
        }
        other.bytes()
    }
}

/// A conversation that needs more room goes on in a larger context, with the same rows.
#[test]
fn a_session_goes_on_in_another_context() {
    let (engine, folder) = (tiny_model(), Folder::new("contexts"));
    for policy in policies(&engine, 20, 60) {
        let mut saved = session(&engine, with_policy(&engine, &policy, options(60, "full")));
        sync(&mut saved, &random_tokens(&engine, 40, 3));
        let parts = Parts::of(&folder.save(&saved));
        let mut larger = folder.restore(&engine, &parts.with_value("context", json!(90))).expect("restored");
        assert_eq!((larger.options().context, larger.logits()), (90, saved.logits()), "{policy}");
        let contents = |session: &Session| session.store().contents().expect("rows");
        assert!(contents(&larger) == contents(&saved), "{policy}");
        (0..50).for_each(|token| larger.push(token % 7).expect("room"));
        // In a smaller one, only what has room.
        let smaller = folder.restore(&engine, &parts.with_value("context", json!(40)));
        if let Ok(mut session) = smaller {
            assert!(session.push(1).is_err(), "{policy}: the context is full");
        }
    }
}

#[test]
fn invalid_descriptions_are_rejected() {
    let (engine, folder) = (tiny_model(), Folder::new("descriptions"));
    let parts = Parts::of(&folder.save(&session_with_all_parts(&engine)));
    folder.restore(&engine, &parts.bytes()).expect("the unchanged file");
    let rejected = |name: &str, value: Value, part: &str| {
        println!("{name:.20} {part}");
        folder.assert_rejected(&engine, &parts.with_value(name, value), part);
    };
    rejected("colour", json!("red"), "unknown field");
    rejected(&"colour".repeat(1 << 20), json!("red"), "unknown field");
    for name in parts.description.as_object().expect("an object").keys() {
        let mut other = parts.clone();
        other.description.as_object_mut().expect("an object").remove(name);
        // `null` is the same as nothing.
        if !["model_file", "profile"].contains(&&**name) {
            folder.assert_rejected(&engine, &other.bytes(), "missing field");
        }
    }
    rejected("tokens", json!(-1), "cannot be read");
    rejected("tokens", json!(1e300), "cannot be read");
    rejected("tokens", json!(u64::MAX), "more tokens than its context");
    rejected("context", json!(u64::MAX), "more tokens than its context");
    rejected("context", json!(39), "more tokens than its context");
    rejected("cache", json!(false), "tokens without a cache");
    rejected("logits", json!(1), "logits of another vocabulary");
    rejected("logits", json!(u64::MAX), "logits of another vocabulary");
    rejected("model", json!("x".repeat(1 << 20)), "made with other weights");
    rejected("policy", json!("rasor"), "there is no such policy");
    rejected("policy", json!("streaming:window=1e99"), "cannot be");
    rejected("policy", json!("x".repeat(1 << 20)), "too long");
    rejected("policy", json!("streaming"), "lane");
    rejected("type_k", json!("q9_9"), "cache type is unknown");
    rejected("type_k", json!("f16"), "");
    rejected("profile", json!("{}"), "its settings cannot be used");
    rejected("profile", Value::Null, "its settings cannot be used");
    let other = golden_model("llama-mha-f32");
    rejected("profile", json!(half_retrieval(&other).to_json()), "its settings cannot be used");
    folder.assert_rejected(&other, &parts.bytes(), "it was made with the model ");
    let mut empty = parts.clone();
    (empty.description["tokens"], empty.description["context"]) = (json!(0), json!(0));
    folder.assert_rejected(&engine, &empty.bytes(), "its settings cannot be used");
    // The chunk size changes only how many tokens are computed at once.
    folder.restore(&engine, &parts.with_value("chunk", json!(u64::MAX))).expect("any chunk");
    folder.restore(&engine, &parts.with_value("chunk", json!(0))).expect("any chunk");

    for (magic, part) in [(b"LHSTATE1", "another version"), (b"GGUF\x03\0\0\0", "not a saved session")] {
        folder.assert_rejected(&engine, &Parts { magic: *magic, ..parts.clone() }.bytes(), part);
    }
    let mut long = parts.bytes();
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    folder.assert_rejected(&engine, &long, "too long");
    let mut token = parts.clone();
    token.body[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    folder.assert_rejected(&engine, &token.bytes(), "outside the model's vocabulary");
}

/// The numbers of the first lane: heads, live, evicted, scanned_until, prompt_rows_kept, last_eviction_at,
/// positions.
#[test]
fn invalid_stores_are_rejected() {
    let (engine, folder) = (tiny_model(), Folder::new("stores"));
    let mut streaming = session(&engine, options(100, "streaming:sinks=2,window=10,slack=3"));
    sync(&mut streaming, &random_tokens(&engine, 60, 5));
    streaming.push(1).expect("a step");
    let parts = Parts::of(&folder.save(&streaming));
    // 13 rows of 61 tokens: two sinks, ten recent tokens of the text, and the decoded one.
    assert_eq!(
        folder.save(&streaming),
        parts.with_numbers(&[(1, 13), (2, 48), (3, 50), (4, 12), (5, 60), (18, 60)])
    );
    let lane =
        |numbers: &[(usize, u32)]| folder.assert_rejected(&engine, &parts.with_numbers(numbers), "a lane");
    lane(&[(0, 0)]);
    lane(&[(0, u32::MAX)]);
    for number in [1, 2, 3, 4, 5] {
        lane(&[(number, 62)]);
        lane(&[(number, u32::MAX)]);
    }
    lane(&[(1, 0)]);
    lane(&[(1, 12), (2, 48)]);
    lane(&[(2, 0)]);
    lane(&[(5, 0)]); // there would be 61 tokens since the last eviction
    let position = |numbers: &[(usize, u32)]| {
        folder.assert_rejected(&engine, &parts.with_numbers(numbers), "impossible positions")
    };
    position(&[(6, 1)]); // twice
    position(&[(6, 61)]); // not seen yet
    position(&[(6, u32::MAX)]);
    position(&[(17, 60), (18, 59)]); // not in order
    position(&[(18, 30)]);
    position(&[(3, 49)]); // rows that no eviction has considered must be kept
    position(&[(5, 59), (17, 40)]);
    // The first head lacks a sink. That is a valid store; the error comes when the heads must evict equally
    // many rows.
    let without_sink = parts.with_numbers(&[(6, 20)]);
    let mut session = folder.restore(&engine, &without_sink).expect("restored");
    let done = (0..20).try_for_each(|_| session.push(1));
    let error = done.expect_err("heads hold different positions");
    assert!(error.to_string().contains("rows of different positions") && error.hint().is_some(), "{error}");
    assert_eq!(session.tokens().len(), 61, "the session is as it was restored");
}

#[test]
fn a_full_lane_is_restored_and_more_rows_than_it_holds_are_refused() {
    let (engine, folder) = (tiny_model(), Folder::new("full-lane"));
    let mut full = session(&engine, options(40, "full"));
    sync(&mut full, &random_tokens(&engine, 40, 3));
    let saved = folder.save(&full);
    let restored = folder.restore(&engine, &saved).expect("as many rows as there is room for");
    assert_eq!(restored.tokens(), full.tokens());
    // The second number is how many rows the first lane has.
    let more_rows = Parts::of(&saved).with_numbers(&[(1, 41)]);
    folder.assert_rejected(&engine, &more_rows, "a lane has more rows than this session has room for");
}

/// Wrong numbers in a file with a correct checksum give an error, or a session that can be used: reading,
/// decoding and undo do not panic.
#[test]
fn wrong_store_numbers_do_not_cause_panics() {
    let folder = Folder::new("hostile");
    let mut random = Random(7);
    let (mut rejected, mut restored) = (0, 0);
    for engine in [tiny_model(), golden_model("baichuan-alibi-f16")] {
        let tokens = random_tokens(&engine, 90, 5);
        let mut all = policies(&engine, 24, 90);
        all.push("l2:rows=24,skip=0,recent=4".parse().expect("a policy"));
        for policy in all {
            let mut valid = session(&engine, with_policy(&engine, &policy, options(90, "full")));
            sync(&mut valid, &tokens[..57]);
            tokens[57..60].iter().for_each(|token| valid.push(*token).expect("a step"));
            let parts = Parts::of(&folder.save(&valid));
            for _ in 0..40 {
                // The first lane's numbers, and the positions of its first heads.
                let wrong: Vec<(usize, u32)> = (0..1 + random.below(3))
                    .map(|_| match random.below(3) {
                        0 => (2 + random.below(5), random.below(62) as u32),
                        _ => (7 + random.below(50), random.below(61) as u32),
                    })
                    .collect();
                let Ok(mut session) = folder.restore(&engine, &parts.with_numbers(&wrong)) else {
                    rejected += 1;
                    continue;
                };
                restored += 1;
                // Each of these may fail; the session is then empty or consistent.
                let _ = session.sync(&tokens[..75], &mut |_| {});
                let _ = tokens[75..].iter().try_for_each(|token| session.push(*token));
                for n in [75, 60, 58, 30, 90] {
                    let _ = session.sync(&tokens[..n], &mut |_| {});
                }
                assert!(session.tokens().len() <= 90 && session.store().seen() <= 90);
            }
        }
    }
    assert!(rejected > 100 && restored > 100, "{rejected} rejected, {restored} restored");
}

/// If a file cannot be written, no partial file is left and an existing file is unchanged.
#[test]
fn a_failed_save_leaves_no_partial_file() {
    let (engine, folder) = (tiny_model(), Folder::new("writing"));
    let session = session_with_all_parts(&engine);
    fs::create_dir(folder.file("directory")).expect("a directory");
    for path in ["missing/saved", "directory", "directory/."] {
        let error = snapshot::save(&session, "", &folder.file(path)).expect_err(path);
        assert!(error.to_string().contains(path) && error.hint() == Some(Hint::CheckPath), "{error}");
        assert_eq!(folder.names(), ["directory"], "{path}");
    }
    let before = folder.save(&session);
    let too_large = "x".repeat(65 << 20);
    let error = snapshot::save(&session, &too_large, &folder.file("saved")).expect_err("too large");
    assert!(error.to_string().contains("larger than") && error.hint().is_some(), "{error}");
    assert_eq!(fs::read(folder.file("saved")).expect("still there"), before);
    assert_eq!(folder.names().len(), 2);
}

#[test]
fn folders_and_devices_are_rejected() {
    let folder = Folder::new("no-files");
    for (path, part) in [
        (folder.file("none"), "none: "),
        (folder.0.clone(), "not a regular file"),
        (PathBuf::from("/dev/zero"), "not a regular file"),
    ] {
        if path.exists() || part == "none: " {
            let error = Snapshot::open(&path).map(|_| ()).expect_err(part);
            assert!(error.to_string().contains(part) && error.hint().is_some(), "{error}");
        }
    }
}
