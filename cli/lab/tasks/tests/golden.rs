//! Compares prompts and scores with those of RULER's official scripts. `golden/make.py` makes the cases.

use std::fs::File;
use std::path::{Path, PathBuf};

use brotli_decompressor::Decompressor;
use serde::Deserialize;
use tasks::{Data, RulerTask, Sample, SampleOptions};

#[derive(Deserialize)]
struct Cases {
    ruler: Vec<RulerCase>,
    scores: Vec<ScoreCase>,
}

#[derive(Deserialize)]
struct RulerCase {
    task: String,
    tokens: usize,
    seed: u64,
    samples: Vec<GoldenSample>,
}

#[derive(Deserialize)]
struct GoldenSample {
    sha256: String,
    bytes: usize,
    tokens: usize,
    outputs: Vec<String>,
    input: Option<String>,
}

#[derive(Deserialize)]
struct ScoreCase {
    answer: String,
    references: Vec<String>,
    /// In percent.
    all: f64,
    part: f64,
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The cases that are checked in.
fn cases() -> Cases {
    let file = File::open(golden().join("ruler.json.br")).unwrap();
    serde_json::from_reader(Decompressor::new(file, 4096)).unwrap()
}

/// `count_tokens` of `make.py`.
fn count_tokens(text: &str) -> usize {
    text.split_whitespace().map(|word| 1 + word.len() / 6).sum()
}

fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn prompt(sample: &Sample) -> String {
    [sample.context.as_str(), &sample.question, &sample.answer_prefix].concat()
}

fn check(case: &RulerCase, data: &Data) {
    let RulerCase { task, tokens, seed, samples } = case;
    let name = format!("{task}, {tokens} tokens, seed {seed}");
    let options = SampleOptions { tokens: *tokens, samples: samples.len(), seed: *seed };
    let task: RulerTask = task.parse().unwrap();
    let ours = task.samples(&options, data, &count_tokens).unwrap();
    assert_eq!(ours.len(), samples.len(), "{name}");
    for (index, (ours, golden)) in ours.iter().zip(samples).enumerate() {
        let text = prompt(ours);
        if let Some(input) = &golden.input {
            assert_eq!(&text, input, "{name}, sample {index}");
        }
        assert_eq!(ours.references, golden.outputs, "{name}, sample {index}");
        assert_eq!((ours.tokens, text.len()), (golden.tokens, golden.bytes), "{name}, sample {index}");
        assert_eq!(sha256(&text), golden.sha256, "{name}, sample {index}");
    }
}

/// With `LONGHAND_RULER_DATA`, the folder that `make.py --real` got, and `LONGHAND_RULER_CASES`, a file with what it
/// printed, prompts from the real data are compared, too.
#[test]
fn prompts_are_those_of_the_official_scripts() {
    let data = Data::open(Some(&golden())).unwrap();
    let cases = cases().ruler;
    for task in RulerTask::ALL {
        assert!(cases.iter().any(|case| case.task == task.name()), "{task}");
    }
    cases.iter().for_each(|case| check(case, &data));
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    let Some(data) = path("LONGHAND_RULER_DATA") else { return };
    let data = Data::open(Some(&data)).unwrap();
    let cases = path("LONGHAND_RULER_CASES").expect("LONGHAND_RULER_CASES is not set");
    let cases: Cases = serde_json::from_reader(File::open(cases).unwrap()).unwrap();
    for case in cases.ruler {
        check(&case, &data);
        println!("{}: {} equal prompts of {} tokens", case.task, case.samples.len(), case.tokens);
    }
}

#[test]
fn scores_are_those_of_the_official_scripts() {
    for case in cases().scores {
        let ScoreCase { answer, references, all, part } = &case;
        assert_eq!(RulerTask::CommonWords.score(answer, references) * 100.0, *all, "{answer:?}");
        assert_eq!(RulerTask::Qa1.score(answer, references) * 100.0, *part, "{answer:?}");
    }
}
