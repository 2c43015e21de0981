//! Data in a folder: what is found, and what is refused.

use std::fs;
use std::path::Path;

use tasks::{Data, DataFile, RulerTask, SampleOptions, TaskError};

const OPTIONS: SampleOptions = SampleOptions { tokens: 1000, samples: 1, seed: 42 };

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn error_of(task: RulerTask, data: &Data) -> TaskError {
    task.samples(&OPTIONS, data, &words).unwrap_err()
}

/// The error when a task reads a file with this content.
fn error_with(task: RulerTask, file: DataFile, content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(file.name()), content).unwrap();
    let error = error_of(task, &Data::open(Some(folder.path())).unwrap()).to_string();
    error.replace(folder.path().to_str().unwrap(), "FOLDER").replace('\\', "/")
}

#[test]
fn files_are_found_four_levels_below() {
    let folder = tempfile::tempdir().unwrap();
    let below = |levels: usize| {
        (0..levels).fold(folder.path().to_owned(), |path, level| path.join(level.to_string()))
    };
    let write = |levels, file: DataFile, text: &str| {
        fs::create_dir_all(below(levels)).unwrap();
        fs::write(below(levels).join(file.name()), text).unwrap();
    };
    write(4, DataFile::Essays, r#"{"text": "Deep."}"#);
    write(5, DataFile::Squad, "{}");
    write(1, DataFile::HotpotQa, "damaged");
    write(0, DataFile::HotpotQa, "[]");
    // A folder is no file.
    fs::create_dir(folder.path().join(DataFile::Nouns.name())).unwrap();

    let data = Data::open(Some(folder.path())).unwrap();
    let found: Vec<DataFile> = DataFile::all().filter(|&file| data.has(file)).collect();
    assert_eq!(found, [DataFile::Essays, DataFile::HotpotQa]);
    let sample = &RulerTask::NiahSingle2.samples(&OPTIONS, &data, &words).unwrap()[0];
    assert!(sample.context.contains("Deep."));
    // The one that is higher up.
    assert!(matches!(error_of(RulerTask::Qa2, &data), TaskError::TooFewQuestions { questions: 0, .. }));
}

#[test]
fn missing_data_are_named() {
    let data = Data::open(None).unwrap();
    assert_eq!(error_of(RulerTask::NiahMultiQuery, &data).to_string(), "PaulGrahamEssays.json is needed");
    assert_eq!(error_of(RulerTask::Qa1, &data).to_string(), "squad.json is needed");
    let folder = tempfile::tempdir().unwrap();
    let error = error_of(RulerTask::Qa2, &Data::open(Some(folder.path())).unwrap()).to_string();
    assert_eq!(error, format!("hotpotqa.json is needed, and is not in {}", folder.path().display()));
    for task in RulerTask::ALL {
        assert_eq!(task.samples(&OPTIONS, &data, &words).is_ok(), task.data().is_none(), "{task}");
    }
}

#[test]
fn a_missing_folder_is_an_error() {
    let error = Data::open(Some(Path::new("no/such/folder"))).unwrap_err().to_string();
    assert!(error.starts_with("cannot read no/such/folder: "), "{error}");
}

#[test]
fn damaged_files_are_errors() {
    let essays = |content: &[u8]| error_with(RulerTask::NiahSingle2, DataFile::Essays, content);
    assert_eq!(essays(b"\xff"), "FOLDER/PaulGrahamEssays.json: not UTF-8");
    assert_eq!(essays(br#"{"text": " \n"}"#), "FOLDER/PaulGrahamEssays.json: it has no text");
    let expected =
        "FOLDER/PaulGrahamEssays.json: not the expected JSON: missing field `text` at line 1 column 2";
    assert_eq!(essays(b"{}"), expected);
    let nested = "[".repeat(100_000);
    assert!(essays(nested.as_bytes()).contains("not the expected JSON"));

    let squad =
        br#"{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": []}]}]}]}"#;
    assert_eq!(
        error_with(RulerTask::Qa1, DataFile::Squad, squad),
        "FOLDER/squad.json: question 0 has no answer"
    );
    let documents = [r#"["title", ["text"]]"#; 11].join(", ");
    let hotpotqa = format!(r#"[{{"question": "a", "answer": "b", "context": [{documents}]}}]"#);
    let expected = "FOLDER/hotpotqa.json: question 0 has more than 10 documents";
    assert_eq!(error_with(RulerTask::Qa2, DataFile::HotpotQa, hotpotqa.as_bytes()), expected);
}

#[test]
fn a_file_that_was_mended_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DataFile::Essays.name());
    fs::write(&path, "{").unwrap();
    let data = Data::open(Some(folder.path())).unwrap();
    error_of(RulerTask::NiahSingle2, &data);
    fs::write(&path, r#"{"text": "Mended."}"#).unwrap();
    assert!(RulerTask::NiahSingle2.samples(&OPTIONS, &data, &words).is_ok());
}

#[test]
fn short_word_lists_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let list = |file: DataFile, word: &dyn Fn(usize) -> usize| {
        let lines: String = (0..99).map(|line| format!("word{}\n", word(line))).collect();
        fs::write(folder.path().join(file.name()), lines).unwrap();
    };
    list(DataFile::Nouns, &|line| line);
    list(DataFile::Adjectives, &|line| line);
    // Two of three lists are not used.
    let text =
        |data: &Data| RulerTask::CommonWords.samples(&OPTIONS, data, &words).unwrap()[0].context.clone();
    assert!(!text(&Data::open(Some(folder.path())).unwrap()).contains("word1"));
    list(DataFile::Verbs, &|line| line % 39);
    let error = error_of(RulerTask::CommonWords, &Data::open(Some(folder.path())).unwrap()).to_string();
    assert!(error.ends_with("verblist.txt: it has 39 different words, but 40 are needed"), "{error}");
    list(DataFile::Verbs, &|line| line);
    assert!(text(&Data::open(Some(folder.path())).unwrap()).contains("word1"));
}
