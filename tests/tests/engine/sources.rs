//! Where answers come from: what retrieval heads attend to while an answer is written. Recording it changes nothing else.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::unfinished::with_description;
use longhand::heads::HeadProfile;
use longhand::policy::PolicyChoice;
use longhand::saved::SavedChat;
use longhand::setup::plan_session;
use longhand::sources::{NoSources, Source};
use longhand::store::last_attention;
use longhand::testing::placement::Place;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{
    Chat, ChatOptions, DeviceOptions, Engine, EngineError, EngineOptions, InterruptFlag, ModelSource,
    Preamble, Session, SessionOptions, Type,
};
use models::spec::PositionEncoding;
use serde_json::{Value, json};
use tests::fixtures::{
    bounded_policies, case_tokens, embedded_model, family_cases, family_model, max_difference, options,
    random_tokens, session, sync, with_policy,
};
use tests::{device_tolerance, emulated, engine_options, is_gpu};

const QUESTION: &str = "What is Mary's favorite number?";
const NEEDLE: &str = "Mary's favorite number is 34251.";
const TYPES: [(Type, Type); 3] =
    [(Type::F16, Type::F16), (Type::Q8_0, Type::Q8_0), (Type::IQ4_NL, Type::IQ4_NL)];

/// A document with the needle among sentences that say nothing of it.
fn document() -> String {
    let filler = |number: usize| {
        let kind = ["old", "small", "red"][number % 3];
        format!("The {kind} boat crossed the river {number} times before it rained. ")
    };
    let (before, after): (String, String) = ((0..40).map(filler).collect(), (40..70).map(filler).collect());
    format!("  {before}{NEEDLE} {after}Bob's favorite number is 7690.")
}

/// A chat about the document. Retrieval heads of the embedded model are those of models/needle.
fn chat(policy: &str, types: (Type, Type)) -> Chat {
    chat_about(&document(), policy, types)
}

fn chat_about(document: &str, policy: &str, types: (Type, Type)) -> Chat {
    let engine = Engine::open(&ModelSource::Embedded, &engine_options()).expect("embedded model");
    let policy: PolicyChoice = policy.parse().expect("a policy");
    let shape = engine.head_shape().expect("its heads");
    let retrieval = (0..shape.all_kv_heads()).map(|head| [13, 15].contains(&head)).collect();
    let profile = HeadProfile::new(shape, retrieval, Vec::new(), Default::default()).expect("a profile");
    let profile = policy.uses_profile().then_some(profile);
    let options = SessionOptions { context: 4096, policy, types, profile, ..SessionOptions::default() };
    let session = Session::new(&engine, options).expect("a session");
    let format = engine.model().chat_format().expect("its format");
    let preamble = Preamble::new(format, None, document).expect("a preamble");
    let options = ChatOptions { preamble, answer_limit: Some(24), ..ChatOptions::default() };
    Chat::new(session, options).expect("a chat")
}

fn asked(policy: &str, types: (Type, Type)) -> Chat {
    let mut chat = chat(policy, types);
    chat.record_sources(true).expect("memory");
    chat.ask(QUESTION, &mut |_| ()).expect("an answer");
    chat
}

/// The texts of the last answer's sources.
fn sources(chat: &mut Chat) -> Vec<String> {
    let sources = chat.sources(3).expect("sources");
    assert_eq!(sources.found.is_empty(), sources.missing.is_some(), "{sources:?}");
    sources.found.iter().map(|source| chat.source_text(source).to_owned()).collect()
}

fn missing(chat: &mut Chat) -> Option<NoSources> {
    chat.sources(3).expect("sources").missing
}

#[test]
fn the_sentence_with_the_answer_comes_first() {
    // Other policies evict it before the question is known.
    for policy in ["full", "razor:buffer=64", "kvzip:heads=off,capacity=600", "streaming:window=3000"] {
        for types in TYPES {
            let mut chat = asked(policy, types);
            let answer = chat.messages().last().expect("an answer").content.clone();
            assert_eq!(answer.trim(), NEEDLE, "{policy} {types:?}");
            assert_eq!(sources(&mut chat)[0], NEEDLE, "{policy} {types:?}");
            let found = chat.sources(100).expect("sources").found;
            assert!(found[0].weight > 0.5, "{policy} {types:?} {found:?}");
            let all: f32 = found.iter().map(|source| source.weight).sum();
            assert!(all <= 1.001 && found.is_sorted_by(|one, other| one.weight >= other.weight), "{found:?}");
        }
    }
}

#[test]
fn nothing_points_anywhere_where_the_rows_are_gone() {
    let mut chat = asked("streaming:sinks=4,window=20,slack=0", TYPES[0]);
    assert_eq!(missing(&mut chat), Some(NoSources::NothingAttended));
    assert_eq!(NoSources::NothingAttended.to_string(), "nothing points anywhere in the documents");
}

#[test]
fn sources_are_those_of_the_last_answer() {
    let mut chat = chat("full", TYPES[1]);
    chat.ask(QUESTION, &mut |_| ()).expect("an answer");
    assert_eq!(missing(&mut chat), Some(NoSources::NotRecorded), "recording is off");
    assert!(!chat.records_sources());
    chat.record_sources(true).expect("memory");
    assert_eq!(missing(&mut chat), Some(NoSources::NotRecorded), "it was off");

    chat.ask("What is Bob's favorite number?", &mut |_| ()).expect("an answer");
    assert_eq!(sources(&mut chat)[0], "Bob's favorite number is 7690.");
    assert_eq!(sources(&mut chat)[0], "Bob's favorite number is 7690.", "asked twice");
    chat.ask(QUESTION, &mut |_| ()).expect("an answer");
    assert_eq!(sources(&mut chat)[0], NEEDLE);
    let before = chat.sources(5).expect("sources");
    chat.retract_answer(&mut |_| ()).expect("the question").expect("an answer");
    assert_eq!(missing(&mut chat), Some(NoSources::NotRecorded), "there is no answer");
    chat.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("an answer");
    assert_eq!(chat.sources(5).expect("sources").found[0], before.found[0]);

    // Of an answer before it nothing is kept.
    assert!(chat.undo());
    assert_eq!(missing(&mut chat), Some(NoSources::NotRecorded));
    chat.ask(QUESTION, &mut |_| ()).expect("an answer");
    assert_eq!(sources(&mut chat)[0], NEEDLE);

    // A session that takes the place of this one goes on recording.
    chat.set_context(4000, &mut |_| ()).expect("room");
    chat.ask("What is Bob's favorite number?", &mut |_| ()).expect("an answer");
    assert_eq!(sources(&mut chat)[0], "Bob's favorite number is 7690.");
    chat.record_sources(false).expect("off");
    assert_eq!(missing(&mut chat), Some(NoSources::NotRecorded));
}

#[test]
fn documents_that_were_attached_are_named() {
    let mut chat = chat_about("The old boat crossed the river. The garden is green.", "full", TYPES[0]);
    chat.record_sources(true).expect("memory");
    chat.ask("What is the color of the garden?", &mut |_| ()).expect("an answer");
    let more = "It rained for a week. Carol's favorite number is 91827. The boat sank.";
    chat.attach("more.txt", more).expect("a document");
    chat.ask("What is Carol's favorite number?", &mut |_| ()).expect("an answer");
    let found = chat.sources(1).expect("sources").found;
    assert_eq!(found[0].part, 1);
    assert_eq!(chat.source_text(&found[0]), "Carol's favorite number is 91827.");
    let foreign = Source { part: 7, range: 5..9, weight: 1.0, statements: Vec::new() };
    assert_eq!(chat.source_text(&foreign), "");
    assert_eq!(chat.document_texts().len(), 2);
}

#[test]
fn a_conversation_without_documents_has_no_sources() {
    let session = session(&embedded_model(), options(2048, "full"));
    let mut chat = Chat::new(session, ChatOptions::default()).expect("a chat");
    chat.record_sources(true).expect("memory");
    assert_eq!(missing(&mut chat), Some(NoSources::NotRecorded));
    chat.ask(&format!("{NEEDLE} {QUESTION}"), &mut |_| ()).expect("an answer");
    assert_eq!(missing(&mut chat), Some(NoSources::NoDocuments));
}

/// Where the sources of the answers of a chat stand, by turn.
fn kept(chat: &Chat) -> Vec<Option<Vec<String>>> {
    let of_turn = |turn| {
        let found = &chat.sources_of(turn)?.found;
        Some(found.iter().map(|source| chat.source_text(source).to_owned()).collect())
    };
    (0..chat.conversation().len()).map(of_turn).collect()
}

#[test]
fn sources_of_earlier_answers_are_kept_until_these_change() {
    let bob = "Bob's favorite number is 7690.";
    let first = |chat: &Chat| -> Vec<Option<String>> {
        kept(chat).into_iter().map(|sources| sources.map(|sources| sources[0].clone())).collect()
    };
    let [needle, bob] = [NEEDLE, bob].map(|text| Some(text.to_owned()));
    let mut chat = asked("full", TYPES[0]);
    assert_eq!(kept(&chat), [None], "nobody has asked for them");
    sources(&mut chat);
    chat.ask("What is Bob's favorite number?", &mut |_| ()).expect("an answer");
    assert_eq!(first(&chat), [needle.clone(), None]);
    sources(&mut chat);
    assert_eq!(first(&chat), [needle.clone(), bob.clone()]);
    assert_eq!(chat.sources_of(2), None);
    // They stay where all is read again, and go with their answer.
    chat.set_system(Some("Be brief."), &mut |_| ()).expect("a system message");
    assert_eq!(first(&chat), [needle.clone(), bob.clone()]);
    chat.compact("What was said?", "Numbers.", None, &mut |_| ()).expect("a summary");
    assert_eq!(kept(&chat), [None]);
    assert!(chat.undo());
    assert_eq!(first(&chat), [needle.clone(), bob]);
    chat.retract_answer(&mut |_| ()).expect("the question").expect("an answer");
    assert_eq!(first(&chat), [needle.clone(), None]);
    chat.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("an answer");
    assert_eq!(first(&chat), [needle, None]);
    assert!(chat.undo() && chat.undo());
    assert!(kept(&chat).is_empty());
}

#[test]
fn saved_conversations_have_the_sources_of_their_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("talk");
    let mut chat = asked("full", TYPES[0]);
    sources(&mut chat);
    chat.ask("What is the color of the garden?", &mut |_| ()).expect("an answer");
    chat.save(&path).expect("saved");
    let before = kept(&chat);
    let engine = chat.session().engine().clone();
    let saved = SavedChat::open(&path).expect("a conversation");
    assert_eq!(saved.sources_of(0), chat.sources_of(0));
    assert_eq!((saved.sources_of(1), saved.sources_of(2)), (None, None));
    assert_eq!(saved.document_texts(), chat.document_texts());
    let restored = saved.restore(&engine, ChatOptions::default()).expect("restored");
    assert_eq!(kept(&restored), before);

    // Files are not trusted.
    let bytes = std::fs::read(&path).expect("the file");
    let open = |change: &dyn Fn(&mut Value)| {
        std::fs::write(&path, with_record(&bytes, change)).expect("written");
        let saved = SavedChat::open(&path)?;
        assert!(saved.sources_of(0).is_none(), "{:?}", saved.sources_of(0));
        saved.verify()?;
        saved.restore(&engine, ChatOptions::default())
    };
    let source = |part: usize, start: usize, end: usize, weight: f64| json!({ "part": part, "range": { "start": start, "end": end }, "weight": weight });
    let with_statements = |n: usize| {
        let mut source = source(0, 0, 3, 0.5);
        source["statements"] = json!(vec![json!({ "start": 0, "end": 2 }); n]);
        source
    };
    let text = document();
    assert!(text.is_char_boundary(3) && text.len() < 10_000);
    for forged in [
        json!({ "found": [source(1, 0, 1, 0.5)] }),
        json!({ "found": [source(0, 0, 10_000, 0.5)] }),
        json!({ "found": [source(0, 5, 3, 0.5)] }),
        json!({ "found": [source(0, 0, 3, 1.5)] }),
        json!({ "found": [source(0, 0, 3, -0.5)] }),
        json!({ "found": [source(0, 0, 3, 1e300)] }),
        json!({ "found": vec![source(0, 0, 3, 0.01); 33] }),
        json!({ "found": [with_statements(25)] }),
        json!({ "found": [], "missing": "why not" }),
        json!({ "found": 7 }),
    ] {
        let error = open(&|record| record["conversation"]["turns"][0]["sources"] = forged.clone())
            .err()
            .unwrap_or_else(|| panic!("{forged}"));
        assert!(matches!(error, EngineError::SavedChat { .. }), "{forged}: {error}");
    }
    let most = json!({ "found": [with_statements(24)] });
    let as_many = with_record(&bytes, &|record| record["conversation"]["turns"][0]["sources"] = most.clone());
    std::fs::write(&path, as_many).expect("written");
    let saved = SavedChat::open(&path).expect("a conversation");
    assert_eq!(saved.sources_of(0).expect("sources").found[0].statements, vec![0..2; 24]);
}

/// A session file with another conversation and a correct checksum.
fn with_record(bytes: &[u8], change: &dyn Fn(&mut Value)) -> Vec<u8> {
    with_description(bytes, &|description| {
        let mut record: Value =
            serde_json::from_str(description["caller"].as_str().expect("a text")).expect("a conversation");
        change(&mut record);
        description["caller"] = record.to_string().into();
    })
}

/// Logits after a text, steps, a second text, its undo and other steps.
fn logits(session: &mut Session, tokens: &[u32]) -> Vec<f32> {
    let mut all = Vec::new();
    let (first, rest) = tokens.split_at(60);
    sync(session, first);
    for token in &rest[..8] {
        session.push(*token).expect("a step");
        all.extend_from_slice(session.logits());
    }
    sync(session, &tokens[..88]);
    all.extend_from_slice(session.logits());
    sync(session, first);
    for token in rest.iter().rev().take(40) {
        session.push(*token).expect("a step");
        all.extend_from_slice(session.logits());
    }
    all
}

/// What an answer in one part paid.
fn all_paid(session: &mut Session, by: &[usize], to: Range<usize>, counts: &[f32]) -> Vec<f32> {
    session.attention_paid(by, to, counts).expect("computed").expect("recorded").remove(0).paid
}

#[test]
fn logits_are_the_same_bits_while_attention_is_recorded() {
    let engine = embedded_model();
    let tokens = random_tokens(&engine, 110, 5);
    let mut policies = bounded_policies(24, 128);
    policies.push(PolicyChoice::default());
    for policy in policies {
        for types in [(Type::F32, Type::F32), (Type::Q8_0, Type::Q4_0)] {
            let options = SessionOptions { types, ..options(128, "full") };
            let new = || session(&engine, with_policy(&engine, &policy, options.clone()));
            let (mut off, mut on) = (new(), new());
            on.record_attention(true).expect("memory");
            assert!(logits(&mut off, &tokens) == logits(&mut on, &tokens), "{policy} {types:?}");
            let n = on.tokens().len();
            let paid = all_paid(&mut on, &[0, n], 0..60, &[]);
            assert!(paid.len() == 60 && paid.iter().all(|paid| paid.is_finite() && *paid >= 0.0), "{policy}");
            assert_eq!(off.attention_paid(&[0, n], 0..60, &[]).expect("nothing to do"), None);
            // Off again, and as if it had never been on.
            on.record_attention(false).expect("off");
            on.push(tokens[0]).expect("a step");
            off.push(tokens[0]).expect("a step");
            assert!(on.logits() == off.logits(), "{policy} {types:?}");
        }
    }
}

#[test]
fn every_kind_of_model_records_what_it_can() {
    let mut seen = BTreeSet::new();
    for case in family_cases() {
        let (name, tokens) = (case["name"].as_str().expect("a name"), case_tokens(&case));
        if !name.ends_with("f32") {
            continue;
        }
        let engine = family_model(name);
        let (spec, n) = (engine.spec(), tokens.len());
        let new = || session(&engine, options(n, "full"));
        let (mut off, mut on) = (new(), new());
        on.record_attention(true).expect("memory");
        for session in [&mut off, &mut on] {
            sync(session, &tokens[..n - 6]);
            tokens[n - 6..].iter().for_each(|token| session.push(*token).expect("a step"));
        }
        // The same bits, except on a GPU: there ggml joins other operations of a graph with more results.
        let is_close = is_gpu() && max_difference(on.logits(), off.logits()) <= device_tolerance();
        assert!(is_close || on.logits() == off.logits(), "{name}");
        let paid = on.attention_paid(&[n - 7, n], 0..n - 6, &[]).expect("computed");
        let sees_all = (0..spec.n_layers).any(|layer| spec.has_rows(layer) && spec.window(layer).is_none());
        let is_alibi = matches!(spec.position_encoding, PositionEncoding::Alibi { .. });
        let can = sees_all && spec.latent.is_none() && !is_alibi;
        assert_eq!(paid.is_some(), can, "{name}");
        seen.insert(can);
    }
    assert_eq!(seen.len(), 2, "models with and without such heads");
}

/// The plan of a session that records has the bytes that recording allocates, where they are allocated.
#[test]
fn what_recording_takes_is_planned_to_the_byte() {
    let devices =
        [1, 2].map(|number| DeviceOptions { layers: number, ..DeviceOptions::all(emulated(number)) });
    let emulated = EngineOptions { devices: devices.to_vec(), ..EngineOptions::default() };
    let on_devices = Engine::open(&ModelSource::Embedded, &emulated).expect("emulated devices");
    let cases = family_cases();
    let names = cases.iter().map(|case| case["name"].as_str().expect("a name"));
    let families = names.filter(|name| name.ends_with("f32")).map(family_model);
    for engine in families.chain([on_devices.clone()]) {
        let asked = |record_attention| SessionOptions { record_attention, ..options(64, "full") };
        let plan = |on| plan_session(&engine, asked(on), None, 32).expect("a plan").1;
        let (off, on) = (plan(false), plan(true));
        let mut session = Session::new(&engine, asked(true)).expect("a session");
        let bytes = session.recording_bytes().expect("it records").clone();
        let name = engine.model().name();
        // A GPU pads each tensor to 128 bytes, four times what the host does.
        let padding = if is_gpu() { 96 * engine.spec().n_layers } else { 0 };
        let is_planned = |planned: usize, place| (planned..=planned + padding).contains(&bytes[place]);
        for ((place, _), (on, off)) in bytes.iter().zip(on.places().zip(off.places())) {
            assert!(off.recording == 0 && is_planned(on.recording, place), "{name}: {on:?}, {bytes:?}");
        }
        assert!(is_planned(on.total() - off.total(), Place::Host), "{name}");
        for device in 0..on.devices.len() {
            let planned = on.device_allocated(device) - off.device_allocated(device);
            assert!(is_planned(planned, Place::Device(device)), "{name}");
        }
        let on_all = bytes.iter().all(|(_, bytes)| *bytes > 0);
        assert!(on_all || !Arc::ptr_eq(&engine, &on_devices), "{bytes:?}");
        assert!(session.records_attention() && session.options().record_attention);
        session.record_attention(false).expect("off");
        assert_eq!((session.recording_bytes(), session.options().record_attention), (None, false));
    }
}

/// What four heads pay: those that pay most to the token that follows, as they are chosen for an answer of one token. The
/// fourth is the one with this rank, from 0.
fn reference(engine: &Arc<Engine>, tokens: &[u32], to: usize, fourth: usize) -> Vec<f32> {
    let (follower, asking) = tokens.split_last().expect("tokens");
    let layers = last_attention(engine, asking, &InterruptFlag::new(), &mut |_| ()).expect("attention");
    let found: Vec<usize> = (0..to).filter(|at| tokens[*at] == *follower).collect();
    let weight = ((to + 1) as f32 / found.len() as f32).ln();
    let copied = |weights: &Vec<f32>| {
        let all: f32 = weights[..to].iter().sum();
        found.iter().map(|at| weights[*at]).sum::<f32>() - all * found.len() as f32 / to as f32
    };
    let mut heads: Vec<&Vec<f32>> = layers.iter().flatten().collect();
    heads.sort_by(|one, other| copied(other).total_cmp(&copied(one)));
    assert!(copied(heads[0]) > 0.5, "a head that copies: {}", copied(heads[0]));
    let chosen = [heads[0], heads[1], heads[2], heads[fourth]];
    (0..to).map(|at| weight * chosen.iter().map(|weights| weights[at]).sum::<f32>()).collect()
}

#[test]
fn attention_is_what_the_model_computes() {
    let engine = embedded_model();
    // The model goes on with a sequence that it has seen.
    let block = random_tokens(&engine, 40, 9);
    let tokens = [&block[..], &block[..20]].concat();
    let mut session = session(&engine, options(128, "full"));
    session.record_attention(true).expect("memory");
    sync(&mut session, &tokens[..50]);
    tokens[50..].iter().for_each(|token| session.push(*token).expect("a step"));
    // The token at 58 is the last one whose follower is known.
    let paid = all_paid(&mut session, &[58, 59], 0..40, &[]);
    // Two heads pay it nearly the same, so that rounding decides which is the fourth.
    let differences = [3, 4].map(|fourth| {
        let reference = reference(&engine, &tokens, 40, fourth);
        let largest = reference.iter().copied().fold(0.0, f32::max);
        paid.iter().zip(&reference).map(|(paid, other)| (paid - other).abs() / largest).fold(0.0, f32::max)
    });
    let difference = differences[0].min(differences[1]);
    // Queries are kept in f16.
    assert!(difference < 2e-2 + device_tolerance(), "{differences:?}");
    let best = (0..40).max_by(|one, other| paid[*one].total_cmp(&paid[*other]));
    assert_eq!(best, Some(19));
}

#[test]
fn a_long_answer_is_recorded_beyond_the_rings() {
    let engine = embedded_model();
    let block = random_tokens(&engine, 90, 11);
    let tokens = [&block[..], &block[..]].concat();
    let mut session = session(&engine, options(256, "full"));
    session.record_attention(true).expect("memory");
    sync(&mut session, &tokens[..100]);
    tokens[100..].iter().for_each(|token| session.push(*token).expect("a step"));
    let paid = all_paid(&mut session, &[100, 180], 0..90, &[]);
    // Each of the tokens 11 to 89 is looked at by the token before its second occurrence.
    let all: f32 = paid.iter().sum();
    assert!(paid[11..].iter().all(|paid| *paid > 0.2 * all / 79.0), "{paid:?}");
    assert!(paid[..11].iter().all(|paid| *paid < 0.2 * all / 79.0), "{paid:?}");
    // In two parts, each pays what its own tokens look at.
    let parts = session.attention_paid(&[100, 120, 180], 0..90, &[]).expect("computed").expect("recorded");
    let by_both: Vec<f32> =
        parts[0].paid.iter().zip(&parts[1].paid).map(|(one, other)| one + other).collect();
    assert!(max_difference(&by_both, &paid) < 1e-5 * all);
    for (part, looked_at) in parts.iter().zip([11..31, 31..90]) {
        assert!((11..90).all(|at| (part.paid[at] > 0.2 * all / 79.0) == looked_at.contains(&at)), "{part:?}");
    }
    // One token counts nothing.
    let mut counts = [1.0; 80];
    counts[20] = 0.0;
    let paid = all_paid(&mut session, &[100, 180], 0..90, &counts);
    let looked_at = |at: usize| paid[at] > 0.2 * all / 79.0;
    assert!((11..90).all(|at| looked_at(at) == (at != 31)), "{paid:?}");
}

#[test]
fn saved_sessions_are_the_same_with_and_without_recording() {
    let engine = embedded_model();
    let tokens = random_tokens(&engine, 80, 3);
    let folder = tempfile::tempdir().expect("a folder");
    let saved = |is_on: bool| {
        let mut session = session(&engine, options(128, "streaming:sinks=2,window=30,slack=0"));
        session.record_attention(is_on).expect("memory");
        sync(&mut session, &tokens[..70]);
        tokens[70..].iter().for_each(|token| session.push(*token).expect("a step"));
        let path = folder.path().join(if is_on { "on" } else { "off" });
        snapshot::save(&session, "", &path).expect("saved");
        path
    };
    let [off, on] = [false, true].map(saved);
    assert!(std::fs::read(&off).expect("a file") == std::fs::read(&on).expect("a file"));
    let mut restored = Snapshot::open(&on).expect("a session").restore(&engine).expect("a session");
    assert!(!restored.records_attention());
    restored.record_attention(true).expect("memory");
    restored.push(tokens[5]).expect("a step");
    assert!(restored.attention_paid(&[80, 81], 0..80, &[]).expect("computed").is_some());
    assert_eq!(restored.attention_paid(&[0, 80], 0..80, &[]).expect("computed"), None, "it was not recorded");
}
