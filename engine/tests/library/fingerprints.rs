//! What a model is identified by, and that nothing is used which was kept for another model.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use longhand::saved::{DocumentCache, DocumentReading, SavedChat};
use longhand::setup::{DeviceRequest, Profiles};
use longhand::{Chat, ChatOptions, InterruptFlag, Model, ModelSource, Preamble, Setup, SetupOptions};
use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, MetaValue};
use tempfile::TempDir;

const DOCUMENT: &str =
    "The old boat crossed the river. Mary's favorite number is 34251. The pass key is 9078648.";
const NUMBER: &str = "What is Mary's favorite number?";
const NUMBER_IS: &str = "Mary's favorite number is 34251.";
const KEY: &str = "What is the pass key?";

/// The embedded model in a file, and the folders of what is kept.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().expect("a folder") };
        place.write("model.gguf", models::embedded::needle());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a new file and gives it this name.
    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path("new"), bytes).expect("a file");
        fs::rename(self.path("new"), self.path(name)).expect("renamed");
    }

    fn open(&self, name: &str) -> Arc<Model> {
        Model::open_with(self.path(name), Some(self.path("fingerprints.json"))).expect("a model")
    }

    fn setup_options(&self, policy: &str) -> SetupOptions {
        SetupOptions {
            policy: Some(policy.parse().expect("a policy")),
            device: DeviceRequest::Cpu,
            profile_folder: Some(self.path("heads")),
            ..SetupOptions::default()
        }
    }

    /// A chat that has read the document.
    fn chat(&self, model: &Arc<Model>, policy: &str) -> (Chat, DocumentReading) {
        let preamble =
            Preamble::new(model.chat_format().expect("a format"), None, DOCUMENT).expect("a preamble");
        let setup = Setup::resolve(model, &self.setup_options(policy), 200, &mut ()).expect("a setup");
        let session = setup.start(&mut ()).expect("a session");
        let options = ChatOptions { preamble, ..ChatOptions::default() };
        let mut chat = Chat::new(session, options).expect("a chat");
        let reading = chat.read_documents(Some(&self.documents()), &mut |_| ()).expect("read");
        (chat, reading)
    }

    fn documents(&self) -> DocumentCache {
        DocumentCache { max_share: f64::INFINITY, ..DocumentCache::new(&self.path("read"), 1 << 30) }
    }
}

/// The embedded model with another bit in the middle of a tensor.
fn edited(tensor: &str) -> Vec<u8> {
    let file = GgufFile::from_bytes(models::embedded::needle()).expect("the embedded model");
    let tensor = file.tensor(tensor).expect("a tensor");
    let mut bytes = models::embedded::needle().to_vec();
    bytes[(tensor.offset + tensor.bytes / 2 + 5) as usize] ^= 1;
    bytes
}

fn embedded_fingerprint() -> String {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    model.fingerprint().expect("a fingerprint").to_owned()
}

/// The embedded model in two files.
fn split(place: &Place) {
    let file = GgufFile::from_bytes(models::embedded::needle()).expect("the embedded model");
    for part in 0..2 {
        let mut writer = if part == 0 { GgufWriter::with_metadata_of(&file) } else { GgufWriter::new() };
        let tensors = file.tensors().iter().enumerate().filter(|(number, _)| number % 2 == part);
        writer.set("split.no", MetaValue::U16(part as u16));
        writer.set("split.count", MetaValue::U16(2));
        writer.set("split.tensors.count", MetaValue::I32(file.tensors().len() as i32));
        for (_, tensor) in tensors {
            writer.tensor(&tensor.name, &tensor.dims, tensor.ty);
        }
        let bytes = writer.to_bytes_with_data_of(&file).expect("a part");
        place.write(&format!("split-0000{}-of-00002.gguf", part + 1), &bytes);
    }
}

#[test]
fn copies_renamed_and_split_files_find_what_was_kept() {
    let place = Place::new();
    assert!(!place.chat(&place.open("model.gguf"), "full").1.found);
    fs::copy(place.path("model.gguf"), place.path("copy.gguf")).expect("copied");
    split(&place);
    for name in ["copy.gguf", "split-00001-of-00002.gguf", "model.gguf"] {
        let model = place.open(name);
        assert_eq!(model.fingerprint().expect("a fingerprint"), embedded_fingerprint(), "{name}");
        let (mut chat, reading) = place.chat(&model, "full");
        assert!(reading.found, "{name}");
        assert_eq!(chat.ask(NUMBER, &mut |_| ()).expect("an answer").text, NUMBER_IS);
    }
    fs::rename(place.path("copy.gguf"), place.path("renamed.gguf")).expect("renamed");
    assert!(place.chat(&place.open("renamed.gguf"), "full").1.found);
}

/// One bit of one tensor is another. No file of the old model is used, but the conversation goes on.
#[test]
fn nothing_of_a_replaced_file_is_used() {
    const POLICY: &str = "razor:buffer=256,ratio=5,sinks=4";
    let place = Place::new();
    let model = place.open("model.gguf");
    let (mut chat, _) = place.chat(&model, POLICY);
    assert_eq!(chat.ask(NUMBER, &mut |_| ()).expect("an answer").text, NUMBER_IS);
    chat.save(&place.path("talk")).expect("saved");
    let read = chat.tokens();

    place.write("model.gguf", &edited("blk.1.attn_norm.weight"));
    let replaced = place.open("model.gguf");
    assert_eq!(replaced.known_fingerprint(), None);
    assert_ne!(replaced.fingerprint().expect("a fingerprint"), model.fingerprint().expect("a fingerprint"));
    let options = place.setup_options(POLICY);
    let cached = |model| Profiles::new(model, &options).cached(&mut ()).expect("no error").is_some();
    assert!(cached(&model) && !cached(&replaced));

    let mut saved = SavedChat::open(&place.path("talk")).expect("a saved chat");
    assert!(!saved.adapt_to(&model).expect("the same model"));
    assert!(saved.adapt_to(&replaced).expect("its file"));
    assert!(saved.options().profile.is_none() && !saved.has_cache());
    let setup = Setup::resume(&replaced, &options, saved.options().clone(), &mut ()).expect("a setup");
    let engine = setup.load(&mut ()).expect("an engine");
    let profile = Profiles::new(&replaced, &options).find_or_calibrate(
        &engine,
        &saved.options().policy.clone(),
        &mut (),
    );
    saved.set_profile(profile.expect("calibrated"));
    let mut resumed = saved.restore(&engine, ChatOptions::default()).expect("restored");
    assert_eq!((resumed.tokens(), resumed.session().tokens().len()), (read, 0));
    let reading = resumed.read(KEY, &mut |_| ()).expect("read");
    assert!(reading.tokens > read, "{reading:?}");
    drop(resumed);
    assert!(!place.chat(&replaced, POLICY).1.found);

    // A file with another name is another model.
    place.write("other.gguf", &edited("blk.1.attn_norm.weight"));
    place.write("model.gguf", models::embedded::needle());
    let mut saved = SavedChat::open(&place.path("talk")).expect("a saved chat");
    let error = saved.adapt_to(&place.open("other.gguf")).expect_err("another model").to_string();
    assert!(error.contains("made with other weights of the model needle"), "{error}");
}

#[test]
fn a_fingerprint_is_remembered_until_the_file_changes() {
    let (written, place) = (Instant::now(), Place::new());
    let fresh = place.open("model.gguf");
    fresh.fingerprint().expect("a fingerprint");
    let is_remembered = fs::remove_file(place.path("fingerprints.json")).is_ok();
    assert!(!is_remembered || written.elapsed() > Duration::from_secs(2), "it has just been written");
    // Longer than file systems take for two times to differ.
    thread::sleep(Duration::from_millis(2100));
    let model = place.open("model.gguf");
    assert_eq!(model.known_fingerprint(), None);
    assert_eq!(model.fingerprint().expect("a fingerprint"), embedded_fingerprint());
    assert_eq!(place.open("model.gguf").known_fingerprint(), Some(&*embedded_fingerprint()));

    let path = place.path("fingerprints.json");
    let remembered = fs::read(&path).expect("a file");
    for damaged in
        [&b"{"[..], b"", b"[{\"files\": [], \"fingerprint\": \"x\"}]", &remembered[..remembered.len() / 2]]
    {
        fs::write(&path, damaged).expect("a file");
        let model = place.open("model.gguf");
        assert_eq!(model.known_fingerprint(), None);
        assert_eq!(model.fingerprint().expect("a fingerprint"), embedded_fingerprint());
        assert_eq!(fs::read(&path).expect("a file"), remembered);
    }

    // The same size, the same time of change, and other weights.
    let modified = fs::metadata(place.path("model.gguf")).and_then(|file| file.modified()).expect("a time");
    fs::write(place.path("model.gguf"), edited("blk.0.ffn_up.weight")).expect("a file");
    fs::File::open(place.path("model.gguf")).and_then(|file| file.set_modified(modified)).expect("a time");
    let model = place.open("model.gguf");
    assert_eq!(model.known_fingerprint(), None);
    assert_ne!(model.fingerprint().expect("a fingerprint"), embedded_fingerprint());
}

#[test]
fn reading_for_a_fingerprint_reports_progress_and_stops() {
    let place = Place::new();
    let model = place.open("model.gguf");
    let (stop, mut shares) = (InterruptFlag::new(), Vec::new());
    stop.set();
    let stopped = model.identify(2, &stop, &mut |progress| shares.push(progress.share));
    assert!(stopped.expect_err("stopped").is_interrupt());
    assert!(!shares.is_empty() && model.known_fingerprint().is_none());
    shares.clear();
    let mut all = 0.0;
    model.identify(1, &InterruptFlag::new(), &mut |progress| all = progress.share).expect("a fingerprint");
    assert_eq!(all, 1.0);
}

/// The weights that are used may not be those of the fingerprint.
#[test]
fn nothing_is_kept_of_a_file_that_changes_while_it_is_used() {
    let place = Place::new();
    let model = place.open("model.gguf");
    let (chat, reading) = place.chat(&model, "full");
    assert_eq!(reading.problem, None);
    fs::remove_dir_all(place.path("read")).expect("removed");

    write_in_place(&place.path("model.gguf"), &edited("blk.0.ffn_up.weight"));
    chat.save(&place.path("talk")).expect("saved");
    assert!(!SavedChat::open(&place.path("talk")).expect("a saved chat").has_cache());
    let options = place.setup_options("razor");
    let engine = chat.session().engine().clone();
    let policy = "razor".parse().expect("a policy");
    Profiles::new(&model, &options).find_or_calibrate(&engine, &policy, &mut ()).expect("a profile");
    assert!(!place.path("heads").exists(), "the profile is not cached");
    drop(chat);

    let preamble = Preamble::new(model.chat_format().expect("a format"), None, DOCUMENT).expect("a preamble");
    let session = longhand::Session::new(&engine, Default::default()).expect("a session");
    let mut chat = Chat::new(session, ChatOptions { preamble, ..ChatOptions::default() }).expect("a chat");
    let reading = chat.read_documents(Some(&place.documents()), &mut |_| ()).expect("read");
    let problem = reading.problem.expect("it is said");
    assert!(problem.contains("was changed while it was in use"), "{problem}");
    assert!(!place.path("read").exists());
}

fn write_in_place(path: &Path, bytes: &[u8]) {
    use std::io::Write as _;
    // Another time than that of the file, whatever the clock of the file system.
    let mut file = fs::OpenOptions::new().write(true).open(path).expect("the model");
    file.write_all(bytes).expect("written");
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("a time");
}
