//! Sessions as files: whatever the policy, a session that was kept goes on as if it had not been; and a file that is damaged, or made
//! to do harm, is refused. What moves between host and device is in `device.rs`.

use engine::heads::{HeadProfile, ScoreMap, ScoresPer};
use engine::kv::PolicyChoice;
use engine::kv::policy;
use engine::snapshot::{self, Snapshot};
use engine::{Engine, EngineError, ModelSource, Prefill, Session, SessionOptions};
use ggml::Type;
use models::spec::Positions;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

mod common;
use common::{half, open, options, text, tiny};

/// A folder of a test's own, gone with it.
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

    /// The names of what is in it.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    }

    /// The session as a file's bytes.
    fn bytes(&self, session: &Session) -> Vec<u8> {
        snapshot::save(session, "the caller's", &self.file("kept")).expect("kept");
        fs::read(self.file("kept")).expect("the file")
    }

    /// The session that a file of these bytes holds.
    fn restore<'e>(&self, engine: &'e Engine, bytes: &[u8]) -> Result<Session<'e>, EngineError> {
        fs::write(self.file("given"), bytes).expect("a file");
        Snapshot::open(&self.file("given"))?.restore(engine)
    }

    /// The session after it was kept and opened again.
    fn round_trip<'e>(&self, engine: &'e Engine, session: &Session) -> Session<'e> {
        let policy = &session.options().policy;
        self.restore(engine, &self.bytes(session)).unwrap_or_else(|error| panic!("{policy}: {error}"))
    }

    /// Checks that these bytes are refused, with the file's name, this in the message, and a hint.
    #[track_caller]
    fn refused(&self, engine: &Engine, bytes: &[u8], part: &str) {
        let error = self.restore(engine, bytes).map(|_| ()).expect_err(part).to_string();
        assert!(error.contains("given: ") && error.contains("\nhint: "), "{error}");
        assert!(error.len() < 2000, "{error}");
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The embedded model: four layers, so that policies that leave the first two alone have something to do.
fn grouped() -> Engine {
    Engine::open(&ModelSource::Embedded, &tests::engine_options()).expect("the embedded model opens")
}

/// Every policy, those that bound heads with so many rows, and two more with compensation.
fn policies(engine: &Engine, rows: usize, context: usize) -> Vec<PolicyChoice> {
    let of_entry = |name: &str| -> PolicyChoice { name.parse().expect(name) };
    let mut all: Vec<PolicyChoice> = policy::policies()
        .map(|entry| match entry.factory {
            Some(_) => of_entry(entry.name).with_rows(rows, context).expect("rows enough"),
            None => of_entry(entry.name),
        })
        .collect();
    all.push(of_entry(&format!("l2:keep=0.5,after={rows},skip=0")));
    if engine.spec().positions != Positions::Alibi {
        all.extend(["l2:rows=40,heads=on,compensation=on", "ahakv:budget=40,compensation=on"].map(of_entry));
    }
    all
}

/// Options under a policy, with a head profile where it needs one.
fn with(engine: &Engine, policy: &PolicyChoice, options: SessionOptions) -> SessionOptions {
    let profile = policy.uses_profile().then(|| {
        let half = half(engine);
        let scope = |retrieves: &bool| if *retrieves { 1e9 } else { 40.0 };
        let values = half.retrieval().iter().map(scope).collect();
        let scopes = ScoreMap { name: "scope".into(), per: ScoresPer::KvHead, values };
        HeadProfile::new(half.shape(), half.retrieval().to_vec(), vec![scopes], Default::default())
            .expect("a profile")
    });
    SessionOptions { policy: policy.clone(), profile, ..options }
}

/// Types of keys and values that the model's heads can have.
fn types(engine: &Engine) -> Vec<(Type, Type)> {
    let all = [(Type::F32, Type::F32), (Type::F16, Type::F16), (Type::Q8_0, Type::Q4_0)];
    let fits = |ty: Type| engine.spec().head_dim.is_multiple_of(ty.block_elements());
    all.into_iter().filter(|(k, v)| fits(*k) && fits(*v)).collect()
}

fn read(session: &mut Session, tokens: &[u32]) -> usize {
    session.sync(tokens, &mut |_| {}).expect("reads")
}

/// After a text, a later turn, and again and again while tokens are generated.
#[test]
fn a_kept_session_goes_on_as_if_it_had_not_been_kept() {
    const CONTEXT: usize = 260;
    let folder = Folder::new("goes-on");
    for engine in [grouped(), open("golden/models/baichuan-alibi-f16.gguf")] {
        let tokens = text(&engine, CONTEXT, 3);
        for (policy, types) in policies(&engine, 40, CONTEXT)
            .into_iter()
            .flat_map(|p| types(&engine).into_iter().map(move |t| (p.clone(), t)))
        {
            for prefill in [Prefill::Exact, Prefill::Streaming] {
                let options = with(&engine, &policy, options(CONTEXT, "full"));
                let options = SessionOptions { types, prefill, ..options };
                let mut one = Session::new(&engine, options).expect("a session");
                // An empty session is one too. Texts that end inside a partition, and below what some policies keep.
                let mut other = folder.round_trip(&engine, &one);
                for n in [39, 151, 190] {
                    assert_eq!(read(&mut one, &tokens[..n]), read(&mut other, &tokens[..n]));
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
                assert!(folder.bytes(&one) == folder.bytes(&other), "{policy} {types:?}");
                assert_eq!((other.tokens(), other.options().context), (&tokens[..250], CONTEXT));
            }
        }
    }
}

/// Tokens taken off the end leave a session that can be kept, also where the text was longer before.
#[test]
fn a_shortened_text_can_be_kept() {
    let (engine, folder) = (grouped(), Folder::new("shortened"));
    let tokens = text(&engine, 120, 4);
    for policy in policies(&engine, 200, 260) {
        let make = with(&engine, &policy, options(260, "full"));
        let mut one = Session::new(&engine, make).expect("a session");
        for n in [100, 70] {
            read(&mut one, &tokens[..n]);
        }
        let mut other = folder.round_trip(&engine, &one);
        for session in [&mut one, &mut other] {
            read(session, &tokens);
        }
        assert!(one.logits() == other.logits(), "{policy}");
    }
}

/// What came since a session was opened again is taken back as in any other: answers and whole turns.
#[test]
fn turns_are_taken_back_in_an_opened_session() {
    let (engine, folder) = (grouped(), Folder::new("taken-back"));
    let document = text(&engine, 150, 8);
    let turn = |seed, n| -> Vec<u32> { document.iter().copied().chain(text(&engine, n, seed)).collect() };
    let (question, other_question, answer) = (turn(1, 21), turn(2, 13), text(&engine, 40, 9));
    for policy in policies(&engine, 40, 300) {
        let make = with(&engine, &policy, options(300, "full"));
        let mut never_kept = Session::new(&engine, make).expect("a session");
        read(&mut never_kept, &document);
        let mut opened = folder.round_trip(&engine, &never_kept);
        read(&mut opened, &question);
        let before = opened.logits().to_vec();
        answer.iter().for_each(|token| opened.push(*token).expect("a step"));
        assert_eq!(read(&mut opened, &question), 0, "{policy}: the answer again");
        assert!(opened.logits() == before, "{policy}");
        assert_eq!(read(&mut opened, &other_question), 13, "{policy}: another question");
        read(&mut never_kept, &other_question);
        assert!(opened.logits() == never_kept.logits(), "{policy}");
        // And back to where it was opened, for which nothing is computed.
        assert_eq!(read(&mut opened, &document), 0, "{policy}");
    }
}

/// A small session under a policy that has most of what a store can have: two kinds of lanes, compensation, queries, gathering.
fn rich(engine: &Engine) -> Session<'_> {
    let policy = "ahakv:budget=16,recent=4,heads=on,compensation=on".parse().expect("a policy");
    let mut session = Session::new(engine, with(engine, &policy, options(64, "full"))).expect("a session");
    read(&mut session, &text(engine, 40, 5));
    session
}

#[test]
fn a_file_that_ends_too_early_is_refused() {
    let (engine, folder) = (tiny(), Folder::new("short"));
    let bytes = folder.bytes(&rich(&engine));
    let description = 12 + u32::from_le_bytes(bytes[8..12].try_into().expect("four")) as usize;
    // Everywhere in what is read first, then here and there, then everywhere in what is read last.
    let body = (description + 64..bytes.len() - 64).step_by(bytes.len() / 500 + 1);
    for length in (0..description + 64).step_by(3).chain(body).chain(bytes.len() - 64..bytes.len()) {
        folder.refused(&engine, &bytes[..length], "it ends too early");
    }
    folder.refused(&engine, &[&bytes[..], &[0]].concat(), "it goes on after its end");
    folder.restore(&engine, &bytes).expect("the whole file");
}

#[test]
fn no_byte_can_change_unnoticed() {
    let (engine, folder) = (tiny(), Folder::new("flips"));
    let bytes = folder.bytes(&rich(&engine));
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let description = 12 + u32::from_le_bytes(bytes[8..12].try_into().expect("four")) as usize;
    let caller = bytes.windows(6).position(|part| part == b"caller").expect("the caller's text") + 10;
    for round in 0..1500 {
        let at = match round {
            0 => caller,
            1..900 => random(description + 400),
            _ => random(bytes.len()),
        };
        let mut changed = bytes.clone();
        changed[at] ^= if round == 0 { 1 } else { 1 + random(255) as u8 };
        folder.refused(&engine, &changed, if round == 0 { "do not add up" } else { "" });
    }
}

/// A file in its parts, so that what is wrong in it can still add up.
#[derive(Clone)]
struct Parts {
    magic: [u8; 8],
    description: Value,
    body: Vec<u8>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Parts {
        let end = 12 + u32::from_le_bytes(bytes[8..12].try_into().expect("four")) as usize;
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
        let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// With another value in the description.
    fn saying(&self, name: &str, value: Value) -> Vec<u8> {
        let mut other = self.clone();
        other.description[name] = value;
        other.bytes()
    }

    /// The number at this place of the store.
    fn number(&mut self, at: usize) -> &mut [u8] {
        let of = |name: &str| self.description[name].as_u64().expect("a number") as usize;
        let at = 4 * (of("tokens") + of("logits") + at);
        &mut self.body[at..at + 4]
    }

    /// With other numbers in the store, the first lane's first.
    fn holding(&self, numbers: &[(usize, u32)]) -> Vec<u8> {
        let mut other = self.clone();
        for (at, number) in numbers {
            other.number(*at).copy_from_slice(&number.to_le_bytes());
        }
        other.bytes()
    }
}

#[test]
fn descriptions_that_cannot_be_are_refused() {
    let (engine, folder) = (tiny(), Folder::new("descriptions"));
    let parts = Parts::of(&folder.bytes(&rich(&engine)));
    folder.restore(&engine, &parts.bytes()).expect("parts make a whole");
    let refused = |name: &str, value: Value, part: &str| {
        println!("{name:.20} {part}");
        folder.refused(&engine, &parts.saying(name, value), part);
    };
    refused("colour", json!("red"), "unknown field");
    refused(&"colour".repeat(1 << 20), json!("red"), "unknown field");
    refused("tokens", json!(-1), "cannot be understood");
    refused("tokens", json!(1e300), "cannot be understood");
    refused("tokens", json!(u64::MAX), "more tokens than it has room for");
    refused("context", json!(u64::MAX), "more tokens than it has room for");
    refused("context", json!(39), "more tokens than it has room for");
    refused("context", json!(65), "another capacity");
    refused("logits", json!(1), "not those of this model");
    refused("logits", json!(u64::MAX), "not those of this model");
    refused("model", json!("x".repeat(1 << 20)), "another model");
    refused("policy", json!("rasor"), "there is no policy");
    refused("policy", json!("streaming:window=1e99"), "cannot be");
    refused("policy", json!("x".repeat(1 << 20)), "too long");
    refused("policy", json!("streaming"), "lane");
    refused("type_k", json!("q9_9"), "of no type");
    refused("type_k", json!("f16"), "");
    refused("profile", json!("{}"), "what it asks for");
    refused("profile", Value::Null, "what it asks for");
    let other = open("golden/models/llama-mha-f32.gguf");
    refused("profile", json!(half(&other).to_json()), "what it asks for");
    folder.refused(&other, &parts.bytes(), "made with another model");
    let mut empty = parts.clone();
    (empty.description["tokens"], empty.description["context"]) = (json!(0), json!(0));
    folder.refused(&engine, &empty.bytes(), "what it asks for");
    // A chunk only says how much is computed at once.
    folder.restore(&engine, &parts.saying("chunk", json!(u64::MAX))).expect("any chunk");
    folder.restore(&engine, &parts.saying("chunk", json!(0))).expect("any chunk");

    for (magic, part) in [(b"LHSTATE2", "another version"), (b"GGUF\x03\0\0\0", "no saved session")] {
        folder.refused(&engine, &Parts { magic: *magic, ..parts.clone() }.bytes(), part);
    }
    let mut long = parts.bytes();
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    folder.refused(&engine, &long, "too long");
    let mut token = parts.clone();
    token.body[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    folder.refused(&engine, &token.bytes(), "outside the model's vocabulary");
}

/// The first lane of a window's store, number by number: heads, capacity, live, departed, done, of_text, settled, positions.
#[test]
fn stores_that_cannot_be_are_refused() {
    let (engine, folder) = (tiny(), Folder::new("stores"));
    let mut session =
        Session::new(&engine, options(100, "streaming:sinks=2,window=10,slack=3")).expect("a session");
    read(&mut session, &text(&engine, 60, 5));
    session.push(1).expect("a step");
    let parts = Parts::of(&folder.bytes(&session));
    // 13 rows of 61 tokens: two sinks, ten of the text, and one more.
    assert_eq!(
        folder.bytes(&session),
        parts.holding(&[(2, 13), (3, 48), (4, 50), (5, 12), (6, 60), (19, 60)])
    );
    let lane = |numbers: &[(usize, u32)]| folder.refused(&engine, &parts.holding(numbers), "a lane");
    for number in 0..2 {
        lane(&[(number, 0)]);
        lane(&[(number, u32::MAX)]);
    }
    for number in [2, 3, 4, 5, 6] {
        lane(&[(number, 62)]);
        lane(&[(number, u32::MAX)]);
    }
    lane(&[(2, 0)]);
    lane(&[(2, 12), (3, 48)]);
    lane(&[(3, 0)]);
    lane(&[(6, 0)]); // 61 tokens would have come since
    let position =
        |numbers: &[(usize, u32)]| folder.refused(&engine, &parts.holding(numbers), "positions that");
    position(&[(7, 1)]); // twice
    position(&[(7, 61)]); // not seen yet
    position(&[(7, u32::MAX)]);
    position(&[(18, 60), (19, 59)]); // not in order
    position(&[(19, 30)]);
    position(&[(4, 49)]); // what was not cut is there
    position(&[(6, 59), (18, 40)]);
    // The first head lacks a sink: that is possible as such, and found when the heads are to lose equally many.
    let lacking = parts.holding(&[(7, 20)]);
    let mut session = folder.restore(&engine, &lacking).expect("restored");
    let done = (0..20).try_for_each(|_| session.push(1));
    let error = done.expect_err("heads hold different positions").to_string();
    assert!(error.contains("do not go together") && error.contains("\nhint: "), "{error}");
    assert!(session.tokens().is_empty(), "nothing is half done");
}

/// Numbers of the store that are wrong in a file that adds up: an error, or a session that goes on somehow, also backwards.
#[test]
fn hostile_stores_do_no_harm() {
    let folder = Folder::new("hostile");
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let (mut refused, mut opened) = (0, 0);
    for engine in [tiny(), open("golden/models/baichuan-alibi-f16.gguf")] {
        let tokens = text(&engine, 90, 5);
        let mut all = policies(&engine, 24, 90);
        all.push("l2:rows=24,skip=0,recent=4".parse().expect("a policy"));
        for policy in all {
            let mut session =
                Session::new(&engine, with(&engine, &policy, options(90, "full"))).expect("a session");
            read(&mut session, &tokens[..57]);
            tokens[57..60].iter().for_each(|token| session.push(*token).expect("a step"));
            let parts = Parts::of(&folder.bytes(&session));
            for _ in 0..60 {
                // The first lane's numbers, and the positions of its first heads.
                let wrong: Vec<(usize, u32)> = (0..1 + random(3))
                    .map(|_| match random(3) {
                        0 => (2 + random(5), random(62) as u32),
                        _ => (7 + random(50), random(61) as u32),
                    })
                    .collect();
                let Ok(mut session) = folder.restore(&engine, &parts.holding(&wrong)) else {
                    refused += 1;
                    continue;
                };
                opened += 1;
                // Any of these may fail, and then the session is empty or whole.
                let _ = session.sync(&tokens[..75], &mut |_| {});
                let _ = tokens[75..].iter().try_for_each(|token| session.push(*token));
                for n in [75, 60, 58, 30, 90] {
                    let _ = session.sync(&tokens[..n], &mut |_| {});
                }
                assert!(session.tokens().len() <= 90 && session.store().seen() <= 90);
            }
        }
    }
    assert!(refused > 100 && opened > 100, "{refused} refused, {opened} opened");
}

/// A file that cannot be written leaves nothing behind, and what was there before as it was.
#[test]
fn what_cannot_be_written_leaves_nothing() {
    let (engine, folder) = (tiny(), Folder::new("writing"));
    let session = rich(&engine);
    fs::create_dir(folder.file("directory")).expect("a directory");
    for path in ["missing/kept", "directory", "directory/."] {
        let error = snapshot::save(&session, "", &folder.file(path)).expect_err(path).to_string();
        assert!(error.contains(path) && error.contains("\nhint: check the path"), "{error}");
        assert_eq!(folder.names(), ["directory"], "{path}");
    }
    let before = folder.bytes(&session);
    let too_much = "x".repeat(65 << 20);
    let error = snapshot::save(&session, &too_much, &folder.file("kept")).expect_err("too much").to_string();
    assert!(error.contains("larger than") && error.contains("\nhint: "), "{error}");
    assert_eq!(fs::read(folder.file("kept")).expect("still there"), before);
    assert_eq!(folder.names().len(), 2);
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = Folder::new("no-files");
    for (path, part) in [
        (folder.file("none"), "none: "),
        (folder.0.clone(), "no ordinary file"),
        (PathBuf::from("/dev/zero"), "no ordinary file"),
    ] {
        if path.exists() || part == "none: " {
            let error = Snapshot::open(&path).map(|_| ()).expect_err(part).to_string();
            assert!(error.contains(part) && error.contains("\nhint: "), "{error}");
        }
    }
}
