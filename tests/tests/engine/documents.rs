//! Documents that were read once are found again: with every policy the session is what it was, bit for bit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhand::reading::Prefill;
use longhand::saved::{DocumentCache, DocumentReading};
use longhand::testing::kv::policy;
use longhand::{Chat, ChatOptions, Engine, Preamble, Session, SessionOptions};
use tests::fixtures::{embedded_model, options, with_policy};

use crate::unfinished::with_description;

const NUMBER: &str = "What is Mary's favorite number?";

fn document() -> String {
    let fact = "Mary's favorite number is 34251. ";
    format!("{}{fact}{}", "The old boat crossed the river. ".repeat(30), "The sun was warm. ".repeat(20))
}

/// These options with the head profile that their policy needs.
fn with_heads(engine: &Arc<Engine>, options: SessionOptions) -> SessionOptions {
    with_policy(engine, &options.policy.clone(), options)
}

fn cache(folder: &Path) -> DocumentCache {
    DocumentCache { max_share: f64::INFINITY, ..DocumentCache::new(folder, 1 << 30) }
}

fn chat(engine: &Arc<Engine>, document: &str, options: SessionOptions) -> Chat {
    let format = engine.model().chat_format().expect("a chat format");
    let preamble = Preamble::new(format, None, document).expect("a preamble");
    let session = Session::new(engine, options).expect("a session");
    let options = ChatOptions { preamble, answer_limit: Some(20), ..ChatOptions::default() };
    Chat::new(session, options).expect("a chat")
}

fn read(chat: &mut Chat, cache: &DocumentCache) -> DocumentReading {
    chat.read_documents(Some(cache), &mut |_| ()).expect("read")
}

#[test]
fn a_session_with_found_documents_is_the_one_that_read_them() {
    let engine = embedded_model();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(folder.path());
    let document = document();
    for entry in policy::policies() {
        let policy = match entry.factory {
            Some(_) => {
                entry.name.parse::<policy::PolicyChoice>().and_then(|choice| choice.with_rows(80, 800))
            }
            None => entry.name.parse(),
        };
        let policy = policy.expect("a policy");
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let what = format!("{policy} {prefill:?}");
            let options = SessionOptions { prefill, ..with_policy(&engine, &policy, options(800, "full")) };
            let mut first = chat(&engine, &document, options.clone());
            let reading = read(&mut first, &cache);
            assert!(
                !reading.found && reading.problem.is_none() && reading.tokens > 300,
                "{what}: {reading:?}"
            );
            let mut second = chat(&engine, &document, options.clone());
            let found = read(&mut second, &cache);
            assert!(found.found && found.tokens == reading.tokens, "{what}: {found:?}");
            let contents = |chat: &Chat| chat.session().store().contents().expect("rows");
            assert!(contents(&first) == contents(&second), "{what}");
            assert_eq!(first.session().logits(), second.session().logits(), "{what}");
            for question in [NUMBER, "Who crossed the river?"] {
                let texts = [&mut first, &mut second].map(|chat| {
                    let read = chat.read(question, &mut |_| ()).expect("read");
                    assert!(read.tokens < 40, "only the question is read: {read:?}");
                    chat.answer(&mut |_| std::ops::ControlFlow::Continue(())).expect("an answer").text
                });
                assert_eq!(texts[0], texts[1], "{what}");
                assert_eq!(first.session().logits(), second.session().logits(), "{what}");
            }
            // Reading again changes nothing.
            assert_eq!(read(&mut second, &cache), DocumentReading::default(), "{what}");
        }
    }
}

/// More room for questions is no other reading.
#[test]
fn documents_are_found_in_another_context_and_not_with_other_settings() {
    let engine = embedded_model();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(folder.path());
    let document = document();
    let reads =
        |document: &str, options: SessionOptions| read(&mut chat(&engine, document, options), &cache).found;
    assert!(!reads(&document, options(700, "full")));
    assert!(reads(&document, options(900, "full")));
    assert!(reads(&document, options(450, "full")));
    assert!(!reads(&document, options(700, "streaming:window=100")));
    assert!(!reads(&document, options(700, "streaming:window=101")));
    assert!(!reads(&format!("{document} The end."), options(700, "full")));
    // Heads that keep shares of the context keep other rows in another one. Of a text that is read twice, the size of
    // the chunks says what is repeated at once.
    let shares = |context| with_heads(&engine, options(context, "kvzip:capacity=80,heads=shares"));
    assert!(!reads(&document, shares(700)) && reads(&document, shares(700)));
    assert!(!reads(&document, shares(900)));
    assert!(!reads(&document, SessionOptions { chunk: 64, ..shares(700) }));
    let types = (longhand::Type::Q8_0, longhand::Type::F16);
    assert!(!reads(&document, SessionOptions { types, ..options(700, "full") }));
}

#[test]
fn a_damaged_or_foreign_file_means_a_fresh_reading() {
    let engine = embedded_model();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(folder.path());
    let document = document();
    let new_chat = || chat(&engine, &document, options(700, "full"));
    let mut whole = new_chat();
    read(&mut whole, &cache);
    let file =
        fs::read_dir(folder.path()).expect("a folder").next().expect("a file").expect("an entry").path();
    let bytes = fs::read(&file).expect("the file");
    let mut flipped = bytes.clone();
    flipped[bytes.len() - 5000] ^= 1;
    // The file of another text under this name, as after a collision of names.
    let mut other = chat(&engine, "The night was long.", options(700, "full"));
    let elsewhere = tempfile::tempdir().expect("a folder");
    read(&mut other, &DocumentCache { folder: elsewhere.path().to_owned(), ..cache.clone() });
    let foreign =
        fs::read_dir(elsewhere.path()).expect("a folder").next().expect("a file").expect("an entry");
    for (damaged, problem) in [
        (flipped, "its checksum is wrong"),
        (bytes[..bytes.len() / 2].to_vec(), "ends too early"),
        (Vec::new(), "ends too early"),
        (b"text".repeat(100), "not a saved session"),
        (fs::read(foreign.path()).expect("the file"), "it is of another text"),
    ] {
        fs::write(&file, damaged).expect("written");
        let mut chat = new_chat();
        let reading = read(&mut chat, &cache);
        assert!(!reading.found, "{problem}");
        assert!(reading.problem.as_ref().is_some_and(|found| found.ends_with(problem)), "{reading:?}");
        assert_eq!(chat.session().logits(), whole.session().logits());
        assert_eq!(fs::read(&file).expect("the file"), bytes, "it was written again");
    }
}

/// Texts of 600 tokens that have so many in common at their beginnings.
fn text(shared: u32, own: u32) -> Vec<u32> {
    (0..600)
        .map(|token| 20 + if token < shared { token * token % 400 } else { (token + own) % 400 })
        .collect()
}

#[test]
fn the_beginning_of_another_text_is_used_where_all_rows_are_kept() {
    let engine = embedded_model();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(folder.path());
    let session = |policy: &str| Session::new(&engine, options(800, policy)).expect("a session");
    let keep = |policy: &str, tokens: &[u32]| {
        let mut session = session(policy);
        session.sync(tokens, &mut |_| ()).expect("read");
        cache.keep(&session, &[], Duration::from_secs(1)).expect("kept").expect("room")
    };
    let windowed = "streaming:sinks=4,window=64";
    let best = keep("full", &text(500, 1));
    keep("full", &text(400, 2));
    keep(windowed, &text(500, 1));
    let wanted = text(500, 3);
    let restored = |policy: &str, tokens: &[u32]| {
        let mut session = session(policy);
        let promised = cache.longest(&session, tokens).expect("a folder");
        cache.restore_longest(&mut session, tokens).expect("a folder");
        assert_eq!(promised, session.kept_of(tokens));
        session
    };
    let mut found = restored("full", &wanted);
    assert_eq!(found.kept_of(&wanted), 500);
    found.sync(&wanted, &mut |_| ()).expect("read");
    let mut alone = session("full");
    alone.sync(&wanted, &mut |_| ()).expect("read");
    let distances = found.logits().iter().zip(alone.logits()).map(|(one, other)| (one - other).abs());
    assert!(distances.fold(0.0, f32::max) < 0.05);
    assert_eq!(restored(windowed, &wanted).kept_of(&wanted), 0, "rows were evicted");
    assert_eq!(restored("full", &text(200, 3)).kept_of(&text(200, 3)), 0, "too little is shared");
    // A file that is damaged leaves the next best one.
    let mut bytes = fs::read(&best).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&best, bytes).expect("written");
    let mut second = session("full");
    cache.restore_longest(&mut second, &wanted).expect("a folder");
    assert_eq!(second.kept_of(&wanted), 400);
}

#[test]
fn the_files_that_were_not_used_for_longest_make_room() {
    let engine = embedded_model();
    let folder = tempfile::tempdir().expect("a folder");
    let documents = [1, 2, 3].map(|number| format!("{} {number}", document()));
    let reads = |number: usize, limit: u64| {
        let cache = DocumentCache { limit, ..cache(folder.path()) };
        // Times of files may be coarse.
        std::thread::sleep(std::time::Duration::from_millis(20));
        read(&mut chat(&engine, &documents[number], options(700, "full")), &cache).found
    };
    assert_eq!([reads(0, 1 << 30), reads(1, 1 << 30), reads(0, 1 << 30)], [false, false, true]);
    let bytes = fs::read_dir(folder.path()).expect("a folder").next().expect("a file").expect("an entry");
    let two = 2 * bytes.metadata().expect("a size").len() + 1000;
    assert!(!reads(2, two));
    assert_eq!([reads(0, two), reads(2, two)], [true, true], "the one that was used last stays");
    assert!(!reads(1, 100), "what does not fit is not kept");
    assert_eq!([reads(0, two), reads(2, two), reads(1, 100)], [true, true, false], "and removes nothing");
}

/// A policy that reads a first text twice knows which rows of a second one are needed only if it reads both again.
#[test]
fn documents_before_the_first_question_are_one_text_for_kvzip() {
    let engine = embedded_model();
    let (first, second) = (document(), "Paul's favorite color is green. ".repeat(20));
    let state =
        |chat: &Chat| (chat.session().store().contents().expect("rows"), chat.session().logits().to_vec());
    for (policy, is_reread) in [("kvzip:capacity=80", true), ("snapkv:capacity=80", false)] {
        let options = with_heads(&engine, options(900, policy));
        let mut together = chat(&engine, "", options.clone());
        together.attach("a.txt", &first).expect("a document");
        together.attach("b.txt", &second).expect("a document");
        together.read_documents(None, &mut |_| ()).expect("read");
        let mut added = chat(&engine, "", options);
        added.attach("a.txt", &first).expect("a document");
        let alone = added.read_documents(None, &mut |_| ()).expect("read").tokens;
        added.attach("b.txt", &second).expect("a document");
        let all = together.session().tokens().len();
        let rest = if is_reread { all } else { all - alone };
        assert_eq!(added.tokens_to_read(None).expect("a number"), rest, "{policy}");
        assert_eq!(added.read_documents(None, &mut |_| ()).expect("read").tokens, rest, "{policy}");
        assert_eq!(state(&added) == state(&together), is_reread, "{policy}");
        assert!(!added.has_unread_documents().expect("known"));
    }
}

/// Reads until half of the work is done, as if Ctrl-C were pressed then.
fn read_half(chat: &mut Chat, cache: &DocumentCache) {
    let flag = chat.session().interrupt().clone();
    let mut stop = |now: longhand::Progress| {
        if now.share > 0.5 {
            flag.set();
        }
    };
    let error = chat.read_documents(Some(cache), &mut stop).expect_err("interrupted");
    flag.clear();
    assert!(error.is_interrupt() && chat.read_share() > 0.5, "{error}");
}

/// A document that is read to its end takes the place of its unfinished reading, and of no other document.
#[test]
fn an_unfinished_reading_makes_room_for_the_whole() {
    let engine = embedded_model();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(folder.path());
    let size = |path: &Path| fs::metadata(path).expect("a file").len();
    let mut first = chat(&engine, &format!("{} 1", document()), options(700, "full"));
    let kept = read(&mut first, &cache).kept.expect("it is kept");
    let mut second = chat(&engine, &format!("{} 2", document()), options(700, "full"));
    read_half(&mut second, &cache);
    second.keep_reading(&cache).expect("kept").expect("a share");
    let part = unfinished(&cache).remove(0);
    // A byte too few for both documents and the part.
    let limit = size(&kept) + size(&part) + first.session().kv_usage().bytes as u64 - 1;
    let limited = DocumentCache { limit, ..cache.clone() };
    assert!(read(&mut second, &limited).kept.is_some());
    assert!(kept.exists() && unfinished(&cache).is_empty());
}

/// Files that only have such a name are somebody else's.
#[test]
fn only_files_of_the_cache_are_listed_and_make_room() {
    let engine = embedded_model();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(folder.path());
    let theirs = ["letter.part", "letter.read", "0123456789abcdef.part", "0123456789abcdef.read"]
        .map(|name| folder.path().join(name));
    for path in &theirs {
        fs::write(path, "a letter").expect("written");
        // They were not used for longest.
        let file = fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
    }
    let mut first = chat(&engine, &format!("{} 1", document()), options(700, "full"));
    let kept = read(&mut first, &cache).kept.expect("it is kept");
    assert_eq!(cache.list().expect("the files").len(), 1);
    let one = DocumentCache { limit: fs::metadata(&kept).expect("a file").len() + 1000, ..cache.clone() };
    let mut second = chat(&engine, &format!("{} 2", document()), options(700, "full"));
    assert!(read(&mut second, &one).kept.is_some() && !kept.exists());
    assert!(theirs.iter().all(|path| fs::read(path).is_ok_and(|text| text == b"a letter")));
}

/// The files of unfinished readings.
fn unfinished(cache: &DocumentCache) -> Vec<PathBuf> {
    let files = fs::read_dir(&cache.folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "part")).collect()
}

#[test]
fn a_reading_that_is_kept_goes_on_in_another_chat() {
    let engine = embedded_model();
    let document = document();
    let state =
        |chat: &Chat| (chat.session().store().contents().expect("rows"), chat.session().logits().to_vec());
    for policy in ["full", "razor:buffer=64", "h2o:heavy=40,recent=40", "kvzip:capacity=100,heads=on"] {
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let (what, folder) = (format!("{policy} {prefill:?}"), tempfile::tempdir().expect("a folder"));
            let cache = cache(folder.path());
            let options = SessionOptions { prefill, ..with_heads(&engine, options(800, policy)) };
            let mut whole = chat(&engine, &document, options.clone());
            whole.read_documents(None, &mut |_| ()).expect("read");
            let mut stopped = chat(&engine, &document, options.clone());
            assert_eq!(stopped.known_share(&cache).expect("known"), 0.0);
            read_half(&mut stopped, &cache);
            let kept = stopped.keep_reading(&cache).expect("kept").expect("a share");
            assert_eq!((kept, unfinished(&cache).len()), (stopped.read_share(), 1), "{what}");
            // Two others find it. While the first one lives, they write nothing.
            let bytes = fs::read(&unfinished(&cache)[0]).expect("the file");
            let [mut one, mut other] = [(); 2].map(|()| chat(&engine, &document, options.clone()));
            assert_eq!(one.known_share(&cache).expect("known"), kept, "{what}");
            let mut first = None;
            let reading = one.read_documents(Some(&cache), &mut |now| {
                first.get_or_insert(now);
            });
            let reading = reading.expect("read");
            assert_eq!(
                (reading.resumed, reading.problem, reading.found),
                (Some(kept), None, false),
                "{what}"
            );
            let first = first.expect("progress");
            assert!(first.share > kept && first.elapsed < reading.elapsed.max(first.elapsed * 2), "{what}");
            assert!(state(&one) == state(&whole), "{what}");
            assert_eq!(
                fs::read(&unfinished(&cache)[0]).expect("the file"),
                bytes,
                "it belongs to another chat"
            );
            // What was read to its end is found first, and nobody needs the part any more.
            drop(stopped);
            assert!(read(&mut other, &cache).found && unfinished(&cache).is_empty(), "{what}");
            assert!(state(&other) == state(&whole), "{what}");
        }
    }
}

#[test]
fn a_damaged_unfinished_reading_means_a_fresh_one() {
    let engine = embedded_model();
    let (document, folder) = (document(), tempfile::tempdir().expect("a folder"));
    let cache = cache(folder.path());
    let new_chat = || chat(&engine, &document, options(700, "full"));
    let mut whole = new_chat();
    whole.read_documents(None, &mut |_| ()).expect("read");
    let mut stopped = new_chat();
    read_half(&mut stopped, &cache);
    stopped.keep_reading(&cache).expect("kept").expect("a share");
    drop(stopped);
    let part = unfinished(&cache).remove(0);
    let bytes = fs::read(&part).expect("the file");
    let mut flipped = bytes.clone();
    flipped[bytes.len() - 5000] ^= 1;
    for (damaged, problem) in [
        (flipped, "its checksum is wrong"),
        (bytes[..bytes.len() / 2].to_vec(), "ends too early"),
        (Vec::new(), "ends too early"),
        (b"text".repeat(100), "not a saved session"),
    ] {
        fs::write(&part, damaged).expect("written");
        let mut chat = new_chat();
        let reading = read(&mut chat, &cache);
        assert!(reading.problem.as_ref().is_some_and(|found| found.ends_with(problem)), "{reading:?}");
        assert_eq!((reading.resumed, unfinished(&cache).len()), (None, 0), "{problem}");
        assert_eq!(chat.session().logits(), whole.session().logits());
        fs::remove_file(reading.kept.expect("it is kept")).expect("removed");
    }
    // A folder whose limit it exceeds keeps nothing, and one that cannot be written is an error.
    let mut stopped = new_chat();
    read_half(&mut stopped, &cache);
    let small = DocumentCache { limit: 1000, ..cache.clone() };
    assert_eq!(stopped.keep_reading(&small).expect("no error"), None);
    assert!(unfinished(&cache).is_empty());
}

#[test]
fn cached_documents_are_listed_with_their_names() {
    let engine = embedded_model();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(folder.path());
    assert!(cache.list().expect("the files").is_empty());
    let mut named = chat(&engine, "", options(700, "full"));
    named.attach("a.txt", &document()).expect("a document");
    named.attach("b.txt", "The night was long.").expect("a document");
    let tokens = read(&mut named, &cache).tokens;
    let mut begun = chat(&engine, "", options(700, "h2o:heavy=40,recent=40"));
    begun.attach("c.txt", &document()).expect("a document");
    read_half(&mut begun, &cache);
    let share = begun.keep_reading(&cache).expect("kept");
    let list = cache.list().expect("the files");
    let find = |name: &str| {
        let has_name = |names: &[String]| names.first().is_some_and(|first| first == name);
        let mut contents = list.iter().map(|documents| documents.contents.as_ref().expect("a file"));
        contents.find(|contents| has_name(&contents.names)).expect(name)
    };
    let (finished, unfinished) = (find("a.txt"), find("c.txt"));
    assert_eq!((finished.names.len(), finished.tokens, finished.unfinished), (2, tokens, None));
    assert_eq!((unfinished.policy.as_str(), unfinished.unfinished), ("h2o:heavy=40,recent=40", share));
    assert!(list.iter().all(|documents| documents.bytes > 1000));
    // One that does not say its names is damaged.
    for caller in ["", "{}", "[7]"] {
        let bytes = fs::read(&list[0].path).expect("the file");
        let nameless = with_description(&bytes, &|description| description["caller"] = caller.into());
        fs::write(&list[0].path, nameless).expect("written");
        let contents = cache.list().expect("the files").into_iter().map(|documents| documents.contents);
        let errors: Vec<String> = contents.filter_map(Result::err).collect();
        assert!(errors.len() == 1 && errors[0].contains("names of its documents"), "{caller}: {errors:?}");
    }
    // A reading whose file is removed writes it again.
    list.iter().for_each(|documents| documents.remove().expect("removed"));
    list.iter().for_each(|documents| documents.remove().expect("it is gone"));
    assert!(cache.list().expect("the files").is_empty());
}
