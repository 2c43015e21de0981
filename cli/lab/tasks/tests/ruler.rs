//! RULER's tasks beyond what the official scripts can do.

use std::cell::Cell;
use std::path::Path;

use tasks::{Data, RulerTask, SampleOptions, TaskError};

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn data() -> Data {
    Data::open(Some(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/data"))).unwrap()
}

#[test]
fn the_question_is_not_in_the_context() {
    let options = SampleOptions { tokens: 3000, samples: 1, seed: 1 };
    let data = data();
    for task in RulerTask::ALL {
        let sample = &task.samples(&options, &data, &words).unwrap()[0];
        let question = sample.question.trim_start();
        assert!(question.starts_with("What ") || question.starts_with("Question: "), "{task}: {question}");
        assert!(question.ends_with(['?', '.']), "{task}: {question}");
        // Questions of `cwe` and `fwe` are always the same.
        let is_known = matches!(task, RulerTask::CommonWords | RulerTask::FrequentWords);
        assert!(is_known || !sample.context.contains(question), "{task}");
        assert!(sample.answer_prefix.starts_with(' '), "{task}");
    }
}

/// The official scripts never end.
#[test]
fn a_length_that_is_too_small_is_an_error() {
    let data = data();
    for task in RulerTask::ALL {
        let samples = |tokens| task.samples(&SampleOptions { tokens, samples: 1, seed: 1 }, &data, &words);
        for tokens in [0, 1, 40, task.answer_tokens() + 5] {
            match samples(tokens) {
                Err(TaskError::TooShort { tokens: asked, minimum }) => {
                    assert_eq!(asked, tokens);
                    assert!(minimum > tokens && minimum < 1000, "{task}: {minimum}");
                    assert!(samples(minimum + 20).is_ok(), "{task}: {minimum}");
                }
                result => panic!("{task}, {tokens} tokens: {result:?}"),
            }
        }
    }
}

/// With a size that just fits, the official script goes on to the next one and never ends.
#[test]
fn variable_tracking_ends_where_the_script_does_not() {
    let data = data();
    for tokens in 760..1000 {
        let options = SampleOptions { tokens, samples: 2, seed: 1 };
        let samples = RulerTask::VariableTracking.samples(&options, &data, &words).unwrap();
        assert!(samples.iter().all(|sample| sample.tokens <= tokens));
    }
}

#[test]
fn counters_of_any_kind_end() {
    let data = data();
    let counters: [&dyn Fn(&str) -> usize; 4] = [&|_| 0, &|_| 1, &str::len, &|text| text.len() * 3];
    for task in RulerTask::ALL {
        for count in counters {
            let _ = task.samples(&SampleOptions { tokens: 1000, samples: 1, seed: 1 }, &data, count);
        }
    }
}

#[test]
fn options_are_checked() {
    let data = data();
    let error = |task: RulerTask, tokens, samples, seed| {
        let options = SampleOptions { tokens, samples, seed };
        task.samples(&options, &data, &words).unwrap_err().to_string()
    };
    let task = RulerTask::NiahSingle1;
    assert_eq!(error(task, 1 << 25, 1, 1), "tokens is 33554432, but must be at most 16777216");
    let expected = "seed is 4294967296, but must be at most 4294967295 for tasks of RULER";
    assert_eq!(error(task, 1000, 1, 1 << 32), expected);
    let message = error(RulerTask::Qa2, 1000, 10, 1);
    assert!(message.starts_with("10 samples are too many: "), "{message}");
    assert!(message.ends_with("hotpotqa.json has 9 questions"), "{message}");
    assert_eq!(
        task.samples(&SampleOptions { tokens: 1000, samples: 0, seed: 1 }, &data, &words).unwrap(),
        []
    );
}

#[test]
fn a_long_list_is_counted_a_few_times_only() {
    let calls = Cell::new(0);
    let count = |text: &str| {
        calls.set(calls.get() + 1);
        text.len() / 4
    };
    let options = SampleOptions { tokens: 20_000, samples: 2, seed: 42 };
    let samples = RulerTask::CommonWords.samples(&options, &Data::open(None).unwrap(), &count).unwrap();
    assert!(samples[0].tokens > 10_000);
    assert!(calls.get() < 30, "{}", calls.get());
}

#[test]
fn names_are_those_of_ruler() {
    for task in RulerTask::ALL {
        assert_eq!(task.to_string().parse(), Ok(task));
    }
    assert_eq!("niah".parse::<RulerTask>().unwrap_err().to_string(), "RULER has no task niah");
}
