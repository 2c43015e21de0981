//! Session files that one process owns: what they hold after each kind of save, and what nobody may do to them.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use longhand::saved::{ChatFile, SavedChat};
use longhand::setup::{Context, DeviceRequest};
use longhand::{
    Chat, ChatOptions, Engine, EngineError, EngineOptions, Model, ModelSource, Preamble, Session,
    SessionOptions, Setup, SetupOptions,
};
use tempfile::TempDir;

const DOCUMENT: &str =
    "The old boat crossed the river. Mary's favorite number is 34251. The pass key is 9078648.";
const NUMBER: &str = "What is Mary's favorite number?";
const NUMBER_IS: &str = "Mary's favorite number is 34251.";
const KEY: &str = "What is the pass key?";
const KEY_IS: &str = "The pass key is 9078648.";

fn engine() -> Arc<Engine> {
    Engine::open(&ModelSource::Embedded, &EngineOptions { threads: Some(1), ..EngineOptions::default() })
        .expect("the embedded model")
}

/// A conversation about the document, before its first question.
fn chat(engine: &Arc<Engine>) -> Chat {
    chat_in(engine, SessionOptions::default())
}

fn chat_in(engine: &Arc<Engine>, options: SessionOptions) -> Chat {
    let format = engine.model().chat_format().expect("a chat format");
    let preamble =
        Preamble::new(format, None, DOCUMENT).expect("a preamble").with_names(vec!["boat.txt".into()]);
    let session = Session::new(engine, options).expect("a session");
    Chat::new(session, ChatOptions { preamble, ..ChatOptions::default() }).expect("a chat")
}

fn ask(chat: &mut Chat, question: &str) -> String {
    chat.ask(question, &mut |_| ()).expect("an answer").text
}

/// A folder and the path of a file in it.
fn scratch() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("talk");
    (folder, path)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

fn restore(engine: &Arc<Engine>, saved: SavedChat) -> Chat {
    saved.restore(engine, ChatOptions::default()).expect("restored")
}

/// Opens a file that must be refused.
fn refused(path: &Path) -> String {
    ChatFile::open(path).err().expect("an error").to_string()
}

/// A conversation with one question, and its file.
fn begun(engine: &Arc<Engine>, path: &Path) -> (Chat, ChatFile) {
    let mut chat = chat(engine);
    let mut file = ChatFile::create(path, &chat).expect("created");
    ask(&mut chat, NUMBER);
    file.save(&chat).expect("saved");
    (chat, file)
}

#[test]
fn a_saved_conversation_goes_on_without_its_cache_and_with_it() {
    let (folder, path) = scratch();
    let engine = engine();
    let mut chat = chat(&engine);
    let mut file = ChatFile::create(&path, &chat).expect("created");
    assert_eq!(ask(&mut chat, NUMBER), NUMBER_IS);

    file.save_conversation(&chat).expect("saved");
    assert_eq!(names(folder.path()), ["talk"]);
    drop(file);
    let (mut file, saved) = ChatFile::open(&path).expect("opened");
    assert!(!saved.has_cache());
    assert_eq!(saved.turns(), [(NUMBER, Some(NUMBER_IS))]);
    assert_eq!((saved.document_names(), saved.tokens()), (vec!["boat.txt".to_owned()], chat.tokens()));
    let mut resumed = restore(&engine, saved);
    assert!(resumed.session().tokens().is_empty());
    let reading = resumed.read(KEY, &mut |_| ()).expect("read");
    assert!(reading.tokens > chat.tokens(), "everything is read again");
    let answer = resumed.answer(&mut |_| ControlFlow::Continue(())).expect("an answer");
    assert_eq!(answer.text, KEY_IS);

    file.save(&resumed).expect("saved");
    assert_eq!(names(folder.path()), ["talk"]);
    drop(file);
    let (_file, saved) = ChatFile::open(&path).expect("opened");
    assert!(saved.has_cache());
    assert_eq!(saved.turns(), [(NUMBER, Some(NUMBER_IS)), (KEY, Some(KEY_IS))]);
    let again = restore(&engine, saved);
    assert_eq!(again.session().tokens(), resumed.session().tokens());
}

/// A cache that is some turns old is used: only what came later is read.
#[test]
fn the_last_cache_stays_beside_newer_turns() {
    let (folder, path) = scratch();
    let engine = engine();
    let (mut chat, mut file) = begun(&engine, &path);
    let tokens_with_cache = chat.session().tokens().len();
    for question in [KEY, NUMBER] {
        ask(&mut chat, question);
        file.save_conversation(&chat).expect("saved");
        assert_eq!(names(folder.path()), ["talk", "talk.cache"]);
    }
    drop(file);

    let (file, saved) = ChatFile::open(&path).expect("opened");
    assert_eq!(saved.turns().len(), 3);
    let mut resumed = restore(&engine, saved);
    assert_eq!(resumed.session().tokens().len(), tokens_with_cache);
    let reading = resumed.read(KEY, &mut |_| ()).expect("read");
    assert!(reading.tokens + tokens_with_cache == resumed.tokens(), "{reading:?}");
    drop(file);

    // A damaged cache is none, and neither is one of another session.
    let cache = folder.path().join("talk.cache");
    let mut bytes = fs::read(&cache).expect("the cache");
    let end = bytes.len() - 100;
    bytes[end] ^= 1;
    fs::write(&cache, &bytes).expect("damaged");
    let (mut file, saved) = ChatFile::open(&path).expect("opened");
    let mut resumed = restore(&engine, saved);
    assert!(resumed.session().tokens().is_empty());
    assert_eq!(ask(&mut resumed, KEY), KEY_IS);
    file.save(&resumed).expect("saved");
    assert_eq!(names(folder.path()), ["talk"], "a whole save needs no other cache");
}

/// The context of a conversation may grow after its cache was written.
#[test]
fn an_older_cache_has_the_context_of_the_newer_turns() {
    let (_folder, path) = scratch();
    let engine = engine();
    let mut chat = chat_in(&engine, SessionOptions { context: 100, ..SessionOptions::default() });
    let mut file = ChatFile::create(&path, &chat).expect("created");
    ask(&mut chat, NUMBER);
    file.save(&chat).expect("saved");
    let tokens_with_cache = chat.session().tokens().len();
    chat.set_context(400, &mut |_| ()).expect("room");
    ask(&mut chat, KEY);
    file.save_conversation(&chat).expect("saved");
    drop(file);
    let (_file, saved) = ChatFile::open(&path).expect("opened");
    let mut resumed = restore(&engine, saved);
    assert_eq!(resumed.session().tokens().len(), tokens_with_cache);
    assert_eq!(resumed.session().options().context, 400);
    assert_eq!(ask(&mut resumed, NUMBER), NUMBER_IS);
}

/// A process may be killed while it saves, at any moment.
#[test]
fn a_file_is_there_at_any_moment_of_a_save() {
    let (_folder, path) = scratch();
    let mut chat = chat(&engine());
    let mut file = ChatFile::create(&path, &chat).expect("created");
    ask(&mut chat, NUMBER);
    let is_done = AtomicBool::new(false);
    let missing = thread::scope(|scope| {
        let watched = scope.spawn(|| {
            let mut missing = 0;
            while !is_done.load(Ordering::Relaxed) {
                missing += usize::from(!path.exists());
            }
            missing
        });
        let saved = (0..100).try_for_each(|_| file.save(&chat).and_then(|()| file.save_conversation(&chat)));
        is_done.store(true, Ordering::Relaxed);
        saved.expect("saved");
        watched.join().expect("a number")
    });
    assert_eq!(missing, 0);
}

/// A save where the file system knows no links, between its two steps: the file is already the cache, and the new file
/// has no name yet.
#[test]
fn a_process_that_ends_while_it_saves_leaves_the_last_whole_file() {
    let (folder, path) = scratch();
    let engine = engine();
    let (_chat, file) = begun(&engine, &path);
    drop(file);
    fs::rename(&path, folder.path().join("talk.cache")).expect("renamed");
    // What is no temporary file of this program is the user's: known by its name and its content.
    let leftover = format!("talk.longhand-{}-abcdefABCDEF.tmp", u32::MAX);
    fs::write(folder.path().join(leftover), "LHSTATE5 and half of the rest").expect("a leftover");
    fs::write(folder.path().join("talk.Ab12.tmp"), "half").expect("a file");
    fs::write(folder.path().join("talkative.tmp"), "of another file").expect("a file");
    let (_file, saved) = ChatFile::open(&path).expect("opened");
    assert!(saved.has_cache());
    assert_eq!(names(folder.path()), ["talk", "talk.Ab12.tmp", "talkative.tmp"], "leftovers are removed");
}

#[test]
fn one_process_at_a_time_owns_a_file() {
    let (_folder, path) = scratch();
    let chat = chat(&engine());
    let mut file = ChatFile::create(&path, &chat).expect("created");
    assert!(refused(&path).ends_with("another longhand has this conversation open"), "{}", refused(&path));
    file.save(&chat).expect("saved");
    refused(&path);
    file.save_conversation(&chat).expect("saved");
    refused(&path);
    assert!(SavedChat::open(&path).is_ok(), "reading needs no ownership");
    drop(file);
    ChatFile::open(&path).expect("opened");
}

#[test]
fn a_file_that_another_program_changed_is_not_overwritten() {
    let (folder, path) = scratch();
    let chat = chat(&engine());
    assert!(ChatFile::create(&path, &chat).is_ok());
    assert!(ChatFile::create(&path, &chat).is_err(), "it exists");
    for change in [
        |path: &Path| fs::write(path, "mine"),
        |path: &Path| {
            fs::remove_file(path)?;
            fs::write(path, "mine")
        },
    ] {
        fs::remove_file(&path).expect("removed");
        let mut file = ChatFile::create(&path, &chat).expect("created");
        change(&path).expect("changed");
        for saved in [file.save(&chat), file.save_conversation(&chat)] {
            let error = saved.expect_err("an error");
            assert!(error.to_string().ends_with("another program has changed it"), "{error}");
            assert!(error.hint().is_some());
        }
        assert!(file.remove().is_err());
        assert_eq!(fs::read(&path).expect("a file"), b"mine");
        assert_eq!(names(folder.path()), ["talk"], "nothing is left behind");
    }
    assert!(matches!(ChatFile::open(&path), Err(EngineError::Snapshot { .. })), "it is no conversation");
}

/// The folder may come back, as that of a network does. What is gone cannot be overwritten.
#[test]
fn a_file_that_is_gone_is_written_again() {
    let (folder, path) = scratch();
    let chat = chat(&engine());
    let mut file = ChatFile::create(&path, &chat).expect("created");
    file.save(&chat).expect("saved");
    fs::remove_file(&path).expect("removed");
    file.save_conversation(&chat).expect("saved");
    assert_eq!(names(folder.path()), ["talk"]);
}

#[test]
fn a_cache_is_removed_and_the_conversation_stays() {
    let (folder, path) = scratch();
    let engine = engine();
    let (chat, mut file) = begun(&engine, &path);
    let with_cache = fs::metadata(&path).expect("a file").len();
    file.remove_cache().expect("removed");
    assert!(fs::metadata(&path).expect("a file").len() < with_cache / 10);
    file.save(&chat).expect("saved");
    file.save_conversation(&chat).expect("saved");
    assert_eq!(names(folder.path()), ["talk", "talk.cache"]);
    file.remove_cache().expect("removed");
    assert_eq!(names(folder.path()), ["talk"]);
    drop(file);
    let (file, saved) = ChatFile::open(&path).expect("opened");
    saved.verify().expect("whole");
    assert_eq!(ask(&mut restore(&engine, saved), KEY), KEY_IS);
    file.remove().expect("removed");
    assert!(names(folder.path()).is_empty());
}

/// A conversation gets more room while it goes on, and when it is resumed.
#[test]
fn a_conversation_goes_on_in_a_larger_context() {
    let (_folder, path) = scratch();
    let engine = engine();
    let new_chat = |context| chat_in(&engine, SessionOptions { context, ..SessionOptions::default() });
    let (mut small, mut large) = (new_chat(70), new_chat(400));
    for chat in [&mut small, &mut large] {
        assert_eq!(ask(chat, NUMBER), NUMBER_IS);
    }
    let error = small.read(KEY, &mut |_| ()).expect_err("no room");
    assert!(matches!(error, EngineError::ContextFull { context: 70, .. }), "{error}");
    assert!(small.set_context(20, &mut |_| ()).is_err(), "the conversation is longer");
    for context in [i32::MAX as usize + 1, usize::MAX / 2 + 1, usize::MAX] {
        let error = small.set_context(context, &mut |_| ()).expect_err("no session is that long").to_string();
        assert!(error.contains("a session holds 1 to 2147483647 tokens"), "{context}: {error}");
    }
    assert_eq!(small.session().options().context, 70, "and it is as it was");
    small.save(&path).expect("saved");
    small.set_context(400, &mut |_| ()).expect("room");
    let mut resumed = SavedChat::open(&path).expect("opened");
    resumed.set_context(400);
    let mut resumed = restore(&engine, resumed);
    for chat in [&mut small, &mut large, &mut resumed] {
        let reading = chat.read(KEY, &mut |_| ()).expect("read");
        assert!(reading.tokens < 30, "nothing is read again: {reading:?}");
        assert_eq!(chat.answer(&mut |_| ControlFlow::Continue(())).expect("an answer").text, KEY_IS);
    }
    assert_eq!(small.session().logits(), large.session().logits());
    assert_eq!(resumed.session().logits(), large.session().logits());
}

/// In another context its heads would keep other rows.
#[test]
fn a_conversation_whose_heads_keep_shares_is_read_again_in_another_context() {
    let (_folder, path) = scratch();
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let options = SetupOptions {
        policy: Some("kvzip:capacity=60,recent=20".parse().expect("a policy")),
        context: Context::Tokens(150),
        device: DeviceRequest::Cpu,
        profile_folder: None,
        ..SetupOptions::default()
    };
    let setup = Setup::resolve(&model, &options, 0, &mut ()).expect("a setup");
    let session = setup.start(&mut ()).expect("a session");
    let engine = session.engine().clone();
    let mut chat = chat_in(&engine, session.options().clone());
    assert!(!chat.rereads_in(400), "nothing was read");
    assert_eq!(ask(&mut chat, NUMBER), NUMBER_IS);
    chat.save(&path).expect("saved");
    assert!(chat.rereads_in(400) && !chat.rereads_in(150));
    let read = chat.tokens();
    assert_eq!(chat.set_context(400, &mut |_| ()).expect("read again").tokens, read);
    let mut resumed = SavedChat::open(&path).expect("opened");
    resumed.set_context(400);
    let mut resumed = restore(&engine, resumed);
    for chat in [&mut chat, &mut resumed] {
        assert_eq!(chat.session().options().context, 400);
        assert_eq!(ask(chat, KEY), KEY_IS);
    }
}

#[test]
fn every_damaged_byte_is_found_without_a_model() {
    let (_folder, path) = scratch();
    let engine = engine();
    let mut chat = chat(&engine);
    ask(&mut chat, NUMBER);
    chat.save(&path).expect("saved");
    let bytes = fs::read(&path).expect("the file");
    SavedChat::open(&path).expect("opened").verify().expect("whole");
    for position in [bytes.len() - 1, bytes.len() / 2, bytes.len() - 9] {
        let mut damaged = bytes.clone();
        damaged[position] ^= 4;
        fs::write(&path, damaged).expect("damaged");
        let error = SavedChat::open(&path).expect("opened").verify().expect_err("an error");
        assert!(error.to_string().ends_with("its checksum is wrong"), "{error}");
    }
    for length in [bytes.len() - 1, bytes.len() / 2] {
        fs::write(&path, &bytes[..length]).expect("shortened");
        SavedChat::open(&path).expect("opened").verify().expect_err("an error");
    }
}

/// A file in place of the cache is somebody else's, unless it is an earlier state of this conversation. The cache has the
/// other name then.
#[cfg(unix)]
#[test]
fn a_cache_replaces_no_file_of_the_user() {
    let engine = engine();
    let mut other = chat(&engine);
    ask(&mut other, KEY);
    let another: fn(&Chat, &Path) = |other, path| other.save(path).expect("saved");
    let letter: fn(&Chat, &Path) = |_, path| fs::write(path, "a letter").expect("written");
    let link: fn(&Chat, &Path) = |_, path| std::os::unix::fs::symlink("nowhere", path).expect("a link");
    for (kind, put) in [another, letter, link].into_iter().enumerate() {
        let (folder, path) = scratch();
        let theirs = folder.path().join("talk.cache");
        put(&other, &theirs);
        let before = fs::read(&theirs).ok();
        let check = |moment: &str| {
            assert!(
                fs::symlink_metadata(&theirs).is_ok() && fs::read(&theirs).ok() == before,
                "{kind} {moment}"
            );
        };
        assert!(!ChatFile::exists(&path), "{kind}: it is not what a killed process has left");
        let mut chat = chat(&engine);
        let mut file = ChatFile::create(&path, &chat).expect("created");
        ask(&mut chat, NUMBER);
        file.save(&chat).expect("saved");
        check("saved");
        for _ in 0..2 {
            file.save_conversation(&chat).expect("saved");
            check("saved without its cache");
        }
        assert_eq!(names(folder.path()), ["talk", "talk.cache", "talk.longhand-cache"], "{kind}");
        drop(file);
        let (mut file, saved) = ChatFile::open(&path).expect("opened");
        assert!(ChatFile::has_older_cache(&saved));
        let resumed = restore(&engine, saved);
        assert!(!resumed.session().tokens().is_empty(), "{kind}: it is found");
        file.save(&resumed).expect("saved");
        assert_eq!(names(folder.path()), ["talk", "talk.cache"], "{kind}");
        check("saved again");
        file.remove().expect("removed");
        check("removed");
    }
}

/// It could never be used, so nobody is told of it, and a copy does not get it.
#[test]
fn an_older_cache_of_other_settings_does_not_count() {
    let (folder, path) = scratch();
    let engine = engine();
    let (mut chat, mut file) = begun(&engine, &path);
    let policy = "streaming:sinks=4,window=200,slack=0".parse().expect("a policy");
    let other = SessionOptions { policy, ..SessionOptions::default() };
    chat.move_to(Session::new(&engine, other).expect("a session"), &mut |_| ()).expect("moved");
    file.save_conversation(&chat).expect("saved");
    drop(file);
    assert_eq!(names(folder.path()), ["talk", "talk.cache"]);
    let saved = SavedChat::open(&path).expect("a saved chat");
    assert!(!saved.has_cache() && !ChatFile::has_older_cache(&saved));
    ChatFile::fork(&path, &folder.path().join("copy")).expect("copied");
    assert_eq!(names(folder.path()), ["copy", "talk", "talk.cache"]);
}

#[test]
fn a_renamed_conversation_and_a_copy_keep_their_caches() {
    let (folder, path) = scratch();
    let engine = engine();
    let (mut chat, mut file) = begun(&engine, &path);
    ask(&mut chat, KEY);
    file.save_conversation(&chat).expect("saved");
    let (renamed, copy) = (folder.path().join("renamed"), folder.path().join("copy"));
    ChatFile::fork(&path, &copy).expect("copied");
    file.rename(&renamed).expect("renamed");
    assert_eq!(names(folder.path()), ["copy", "copy.cache", "renamed", "renamed.cache"]);
    for (path, question) in [(&renamed, NUMBER), (&copy, KEY)] {
        let (mut file, saved) = ChatFile::open(path).expect("opened");
        assert_eq!(saved.turns(), [(NUMBER, Some(NUMBER_IS)), (KEY, Some(KEY_IS))]);
        let mut resumed = restore(&engine, saved);
        assert!(!resumed.session().tokens().is_empty(), "nothing is read again");
        ask(&mut resumed, question);
        file.save(&resumed).expect("saved");
    }
    assert_eq!(names(folder.path()), ["copy", "renamed"]);
    for (path, question) in [(&renamed, NUMBER), (&copy, KEY)] {
        assert_eq!(SavedChat::open(path).expect("opened").turns()[2].0, question, "they go on separately");
    }
    assert!(ChatFile::fork(&copy, &renamed).is_err(), "it exists");
    let (file, _) = ChatFile::open(&copy).expect("opened");
    assert!(file.rename(&renamed).is_err(), "it exists");
}
