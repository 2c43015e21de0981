//! Compares prompts and scores with those of LongBench's official functions. `golden/longbench.py` makes the cases.

use std::fs::{self, File};
use std::path::Path;

use brotli_decompressor::Decompressor;
use serde::Deserialize;
use tasks::{Data, LongBenchTask, SampleOptions, TaskError};

#[derive(Deserialize)]
struct Cases {
    scores: Vec<ScoreCase>,
    prompts: Vec<PromptCase>,
}

#[derive(Deserialize)]
struct ScoreCase {
    task: String,
    answer: String,
    references: Vec<String>,
    classes: Vec<String>,
    score: f64,
}

#[derive(Deserialize)]
struct PromptCase {
    task: String,
    tokens: usize,
    answer_tokens: usize,
    line: String,
    prompt: String,
}

fn cases() -> Cases {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/longbench.json.br");
    serde_json::from_reader(Decompressor::new(File::open(path).unwrap(), 4096)).unwrap()
}

fn task(name: &str) -> LongBenchTask {
    LongBenchTask::ALL.into_iter().find(|task| task.name() == name).unwrap()
}

/// Characters are tokens.
fn shorten(text: &str, most: usize) -> (String, usize) {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= most {
        return (text.to_owned(), chars.len());
    }
    let half = most / 2;
    (chars[..half].iter().chain(&chars[chars.len() - half..]).collect(), 2 * half)
}

/// The samples of a file with these lines.
fn samples(
    task: LongBenchTask,
    lines: &str,
    (tokens, samples): (usize, usize),
) -> Result<Vec<tasks::LongBenchSample>, TaskError> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(format!("{task}.jsonl")), lines).unwrap();
    let data = Data::open(Some(folder.path())).unwrap();
    task.samples(&SampleOptions { tokens, samples, seed: 1 }, &data, &shorten)
}

#[test]
fn scores_are_those_of_the_official_functions() {
    let cases = cases().scores;
    for ScoreCase { task: name, answer, references, classes, score } in &cases {
        let ours = task(name).score(answer, references, classes);
        assert!((ours - score).abs() < 1e-12, "{name}: {ours}, not {score}: {answer:?}, {references:?}");
    }
    let partial = cases.iter().filter(|case| case.score > 0.0 && case.score < 1.0).count();
    assert!(partial > 40, "{partial} of {} are neither right nor wrong", cases.len());
}

#[test]
fn prompts_are_those_of_the_official_scripts() {
    let cases = cases().prompts;
    for PromptCase { task: name, tokens, answer_tokens, line, prompt } in &cases {
        let sample = &samples(task(name), line, (*tokens, 1)).unwrap()[0].sample;
        let ours = [sample.context.as_str(), &sample.question].concat();
        assert_eq!(&ours, prompt, "{name}, {tokens}");
        assert_eq!(task(name).answer_tokens(), *answer_tokens, "{name}");
        assert_eq!(sample.tokens, ours.chars().count() + answer_tokens, "{name}");
        if *tokens == 2000 {
            assert!(
                sample.context.ends_with("Rain on the hill. {input}"),
                "the context is read first: {sample:?}"
            );
        }
    }
    assert_eq!(cases.len(), 2 * LongBenchTask::COUNT);
}

#[test]
fn files_are_checked() {
    let error =
        |name: &str, lines: &str, count| samples(task(name), lines, (1000, count)).unwrap_err().to_string();
    let line = r#"{"input": "a", "context": "b", "answers": ["c"], "all_classes": null}"#;
    assert_eq!(samples(task("lcc"), &format!("{line}\n\n{line}\n"), (1000, 2)).unwrap().len(), 2);
    assert!(error("lcc", line, 2).contains("2 samples are too many: "), "{}", error("lcc", line, 2));
    for (name, line, part) in [
        ("lcc", "[", "line 1: not the expected JSON"),
        ("lcc", "\u{0}", "line 1: not the expected JSON"),
        ("lcc", r#"{"input": "a", "context": "b", "answers": []}"#, "line 1: it has no answer"),
        ("trec", line, "line 1: it has no \"all_classes\""),
        ("passage_retrieval_en", line, "line 1: an answer is not like \"Paragraph 1\""),
        ("lcc", &line.replace("\"c\"", &format!("\"{}\"", "c".repeat(100_001))), "more than 100000 bytes"),
    ] {
        let error = error(name, line, 1);
        assert!(error.contains(part), "{error}");
    }
    let short = samples(task("gov_report"), line, (513, 1)).unwrap_err().to_string();
    assert_eq!(short, "513 tokens are too few: the text cannot be shorter than 514 tokens");
    let missing = task("lcc").samples(
        &SampleOptions { tokens: 1000, samples: 1, seed: 1 },
        &Data::open(None).unwrap(),
        &shorten,
    );
    assert!(matches!(missing, Err(TaskError::MissingData { .. })));
}
