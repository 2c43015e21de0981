//! `eval`: scores of many ways of keeping the cache, results that are kept, and parts of the work.

use std::fs;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::{Command, Stdio};
#[cfg(unix)]
use std::thread;
#[cfg(unix)]
use std::time::{Duration, Instant};

use models::gguf::write::MetaValue;
use serde_json::{Value, json};

use crate::common::{Run, longhand, scratch};

/// An empty folder for results.
fn folder(name: &str) -> PathBuf {
    let folder = scratch("eval").join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Evaluates with the full caches of the policies' types only.
fn eval(output: &Path, args: &[&str]) -> Run {
    let output = output.to_str().expect("text");
    longhand(&[&["eval", "-t", "1", "--full-types", "f16", "-o", output], args].concat())
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("a result")).collect()
}

/// The SVG pictures whose names begin so, in the order of their names.
fn pictures(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let is_meant = |path: &PathBuf| name(path).starts_with(begin) && name(path).ends_with(".svg");
    let mut found: Vec<PathBuf> = paths.filter(is_meant).collect();
    found.sort();
    found
}

/// The only one of them.
fn picture(folder: &Path, begin: &str) -> String {
    let found = pictures(folder, begin);
    assert_eq!(found.len(), 1, "{found:?}");
    fs::read_to_string(&found[0]).expect("an SVG file")
}

const SMALL: [&str; 10] =
    ["needle", "-c", "600", "--samples", "4", "--policy", "streaming", "--kv-budget", "30%,400KiB", "-q"];

#[test]
fn scores_are_those_of_the_answers_and_a_second_run_computes_nothing() {
    let output = folder("scores");
    let summary = eval(&output, &[&SMALL[..], &["--json"]].concat()).json();
    let results = lines(&output.join("results.jsonl"));
    assert_eq!(results.len(), 4 * 3, "texts, and caches");
    let summary = summary.as_array().expect("an array").clone();
    assert_eq!(summary.len(), 3);
    for cell in &summary {
        let mine: Vec<&Value> = results
            .iter()
            .filter(|result| result["budget"] == cell["budget"] && result["cache"] == cell["policy"])
            .collect();
        let mean = |name: &str| {
            mine.iter().map(|result| result[name].as_f64().expect("a number")).sum::<f64>() / 4.0
        };
        let number = |name: &str| cell[name].as_f64().expect("a number");
        assert!((number("score") - 100.0 * mean("score")).abs() < 1e-9 && cell["samples"] == 4, "{cell}");
        assert!((number("kv_share") - mean("kv_share")).abs() < 1e-9, "{cell}");
        assert_eq!(
            (&cell["task"], &cell["model"], &cell["context"]),
            (&"needle".into(), &"needle".into(), &600.into())
        );
        assert_eq!(
            (&cell["type_k"], &cell["type_v"], &cell["query_aware"]),
            (&"f16".into(), &"f16".into(), &false.into())
        );
    }
    let share = |index: usize| summary[index]["kv_share"].as_f64().expect("a share");
    assert_eq!(
        (summary[0]["policy"].as_str(), summary[0]["budget"].as_str(), share(0)),
        (Some("full"), Some(""), 1.0)
    );
    assert!(share(1) <= 0.3 && share(1) > 0.2, "{summary:?}");
    // The full cache finds what a window of a few tokens cannot.
    assert!(summary[0]["score"].as_f64() > summary[1]["score"].as_f64(), "{summary:?}");

    let again = eval(&output, &[&SMALL[..], &["--json"]].concat()).json();
    assert_eq!(again.as_array(), Some(&summary));
    assert_eq!(lines(&output.join("results.jsonl")), results);
    let table = eval(&output, &SMALL).ok();
    assert!(
        table.contains("| full ") && table == fs::read_to_string(output.join("table.md")).expect("a table")
    );
}

#[test]
fn a_run_that_was_stopped_goes_on_and_parts_add_up() {
    let whole = folder("whole");
    eval(&whole, &SMALL).ok();
    let expected = lines(&whole.join("results.jsonl"));
    // As if it had been killed in the middle of a line.
    let stopped = folder("stopped");
    fs::create_dir_all(&stopped).expect("a folder");
    let text = fs::read_to_string(whole.join("results.jsonl")).expect("results");
    fs::write(stopped.join("results.jsonl"), &text[..text.len() / 2]).expect("written");
    eval(&stopped, &SMALL).ok();
    assert_eq!(lines(&stopped.join("results.jsonl")), expected);
    // In parts, each in a file of its own.
    let parts = folder("parts");
    for part in ["1/3", "2/3", "3/3"] {
        eval(&parts, &[&SMALL[..], &["--shard", part]].concat()).ok();
    }
    let mut all: Vec<Value> = ["1", "2", "3"]
        .iter()
        .flat_map(|part| lines(&parts.join(format!("results-{part}-of-3.jsonl"))))
        .collect();
    all.sort_by_key(|result| result["sample"].as_u64());
    assert_eq!(all, expected);
    let same = |folder: &Path| fs::read(folder.join("table.md")).expect("a table");
    assert_eq!(same(&parts), same(&whole));
}

#[test]
fn predictions_of_full_caches_are_the_reference() {
    let (output, data) = (folder("predictions"), folder("books"));
    fs::create_dir_all(&data).expect("a folder");
    let sentence =
        "Mary's favorite number is 34251. The boat crossed the river again, and it rained on the hill. ";
    fs::write(data.join("book.txt"), sentence.repeat(60)).expect("written");
    let data = data.to_str().expect("text");
    let args = ["perplexity", "-c", "300", "--samples", "2", "--data", data, "--policy", "streaming", "-q"];
    let args = [&args[..], &["--cache-types", "f16,q8_0/q4_0", "--kv-budget", "20%", "--json"]].concat();
    let cells = eval(&output, &args).json();
    let cells = cells.as_array().expect("an array");
    let number = |index: usize, name: &str| cells[index]["prediction"][name].as_f64().expect("a number");
    let names: Vec<&str> = cells.iter().filter_map(|cell| cell["policy"].as_str()).collect();
    assert_eq!(names, ["full", "full", "streaming", "streaming"]);
    assert_eq!((number(0, "kl"), number(0, "agreement")), (0.0, 1.0));
    assert!(number(1, "kl") > 0.0 && number(2, "kl") > number(1, "kl"), "{cells:?}");
    let parts = cells[0]["prediction"]["nll_by_position"].as_array().expect("an array");
    let mean = parts.iter().filter_map(Value::as_f64).sum::<f64>() / parts.len() as f64;
    assert!((mean - number(0, "nll")).abs() < 1e-9 && parts.len() == 4, "{cells:?}");
    assert!(picture(&output, "perplexity").contains(">streaming q8_0/q4_0 20%</text>"));
    for (index, cell) in cells.iter().enumerate() {
        let parts = cell["prediction"]["kl_by_position"].as_array().expect("an array");
        let mean = parts.iter().filter_map(Value::as_f64).sum::<f64>() / parts.len() as f64;
        assert!((mean - number(index, "kl")).abs() < 1e-9 && parts.len() == 4, "{cell}");
    }
    let divergence = picture(&output, "kl-divergence");
    assert!(divergence.contains(">full q8_0/q4_0</text>"), "{divergence}");
    assert!(divergence.contains(">streaming q8_0/q4_0 20%</text>"), "{divergence}");
    // The reference has none.
    assert!(!divergence.contains(">full</text>"), "{divergence}");
}

/// A folder with a book.
fn book(name: &str) -> String {
    let data = folder(name);
    fs::create_dir_all(&data).expect("a folder");
    let names = ["Mary", "John", "Anna", "Peter", "Paul", "Lucy", "Tom", "Jane"];
    let name = |number: usize| names[(7 * number * number + number / 3) % names.len()];
    let fact = |number: usize| {
        format!("{}'s favorite number is {}. ", name(number), 10_000 + number * number * 7919 % 80_000)
    };
    fs::write(data.join("book.txt"), (0..400).map(fact).collect::<String>()).expect("written");
    data.to_str().expect("text").to_owned()
}

#[test]
fn a_full_cache_agrees_with_itself_and_others_less() {
    let (output, data) = (folder("agreement"), book("agreement-books"));
    let args = ["agreement", "-c", "600", "--samples", "3", "--data", &data, "--answer-tokens", "24", "-q"];
    let caches = ["--policy", "streaming", "--kv-budget", "15%", "--cache-types", "f16,q8_0"];
    let cells = eval(&output, &[&args[..], &caches, &["--json"]].concat()).json();
    let cells = cells.as_array().expect("an array");
    let number = |index: usize, name: &str| cells[index]["agreement"][name].as_f64().expect("a number");
    assert_eq!((cells[0]["policy"].as_str(), cells[0]["score"].as_f64()), (Some("full"), Some(100.0)));
    let tokens = number(0, "tokens");
    assert!(tokens > 0.0 && tokens <= 24.0, "{cells:?}");
    assert_eq!((number(0, "share"), number(0, "tokens_before_difference")), (1.0, tokens));
    assert!(number(2, "share") < 1.0 && number(2, "tokens_before_difference") < tokens, "{cells:?}");
    let table = eval(&output, &[&args[..], &caches].concat()).ok();
    assert!(table.contains(" same |") && table.contains(" before |"), "{table}");
    assert!(picture(&output, "agreement").contains(">streaming q8_0</text>"));
    // The question is a part of the text.
    let run = eval(&output, &["agreement", "-c", "40", "--data", &data]);
    assert!(run.stderr.contains("the question and the answer alone have"), "{}", run.stderr);
}

#[test]
fn a_text_is_read_exactly_or_chunk_by_chunk() {
    let (output, data) = (folder("prefill"), book("prefill-books"));
    let args = ["perplexity", "-c", "1000", "--samples", "1", "--data", &data, "--policy", "streaming;razor"];
    let prefill = ["--kv-budget", "60%", "--prefill", "exact,streaming", "-q"];
    let cells = eval(&output, &[&args[..], &prefill, &["--json"]].concat()).json();
    let name = |cell: &Value| format!("{} {}", cell["policy"], cell["prefill"]).replace('"', "");
    let names: Vec<String> = cells.as_array().expect("an array").iter().map(name).collect();
    // It makes no difference to a cache that keeps everything.
    assert_eq!(
        names,
        ["full exact", "razor exact", "razor streaming", "streaming exact", "streaming streaming"]
    );
    let divergence = |index: usize| cells[index]["prediction"]["kl"].as_f64().expect("a number");
    // The reference is read in f32, too.
    assert_eq!(divergence(0), 0.0, "{cells}");
    for exact in [1, 3] {
        assert!(divergence(exact) > 0.0 && divergence(exact) != divergence(exact + 1), "{cells}");
        assert_eq!(cells[exact]["heads"], cells[exact + 1]["heads"]);
    }
    let table = eval(&output, &[&args[..], &prefill].concat()).ok();
    assert!(table.contains("| type | prefill   |") && table.contains("| f16  | streaming |"), "{table}");
    assert!(picture(&output, "perplexity").contains(">razor 60%, streaming prefill</text>"));
}

#[test]
fn the_positions_that_a_window_keeps_are_the_last_ones() {
    let (output, data) = (folder("retention"), book("retention-books"));
    let args = ["retention", "-c", "640", "--samples", "2", "--data", &data, "--policy", "streaming:sinks=4"];
    let cells = eval(&output, &[&args[..], &["--kv-budget", "25%", "-q", "--json"]].concat()).json();
    let shares = |index: usize| -> Vec<f64> {
        serde_json::from_value(cells[index]["retention"].clone()).expect("numbers")
    };
    assert_eq!(shares(0), [1.0; 32]);
    let window = shares(1);
    // Four sinks of twenty rows.
    assert!((window[0] - 0.2).abs() < 1e-9 && window[1..16].iter().all(|share| *share == 0.0), "{window:?}");
    assert!(window[31] == 1.0 && window.windows(2).skip(1).all(|pair| pair[0] <= pair[1]), "{window:?}");
    let rows = window.iter().sum::<f64>() / 32.0;
    assert!((rows - cells[1]["kv_share"].as_f64().expect("a share")).abs() < 0.01, "{rows} {cells}");
    let pictures = fs::read_dir(&output).expect("the folder");
    let names: Vec<String> =
        pictures.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|name| name.starts_with("retention-") && name.ends_with(".svg")), "{names:?}");
}

#[test]
fn attention_is_lost_with_evicted_rows_only() {
    let (output, data) = (folder("attention-loss"), book("attention-loss-books"));
    let args =
        ["attention-loss", "-c", "500", "--samples", "2", "--data", &data, "--policy", "streaming;h2o"];
    let cells = eval(&output, &[&args[..], &["--kv-budget", "30%", "-q", "--json"]].concat()).json();
    let loss = |index: usize, name: &str| cells[index]["attention_loss"][name].as_f64().expect("a share");
    assert_eq!((cells[0]["policy"].as_str(), loss(0, "lost"), loss(0, "least")), (Some("full"), 0.0, 0.0));
    for index in [1, 2] {
        assert!(loss(index, "lost") > loss(index, "least") && loss(index, "lost") < 1.0, "{cells}");
        let layers = cells[index]["attention_loss"]["by_head"].as_array().expect("layers");
        assert!(
            layers.len() == 4
                && layers.iter().all(|heads| heads.as_array().is_some_and(|all| all.len() == 8))
        );
    }
    let names = fs::read_dir(&output).expect("the folder").map(|entry| entry.expect("a file").file_name());
    let maps = names.filter(|name| name.to_string_lossy().starts_with("attention-loss-")).count();
    assert_eq!(maps, 2, "two caches");
    // The paper's measure is another one.
    assert!(longhand(&["eval", "--help"]).ok().contains("ALR"));
}

#[test]
fn several_models_are_in_one_table() {
    let output = folder("models");
    let model = |name: &str| {
        crate::common::changed_model(&format!("eval-{name}.gguf"), |writer| {
            writer.set("general.name", MetaValue::String(name.into()));
        })
    };
    let (one, two) = (model("first"), model("second"));
    let args = ["needle", "-c", "600", "--samples", "2", "--policy", "full", "-q", "-m", &one, "-m", &two];
    let table = eval(&output, &args).ok();
    assert!(table.contains("| first (") && table.contains("| second ("), "{table}");
    assert_eq!(table.matches("| model").count(), 1, "{table}");
    assert_eq!(lines(&output.join("results.jsonl")).len(), 4);
    eval(&output, &[&args[..], &["--policy", "razor", "--heads", "x.json"]].concat())
        .assert_failed(2, "--heads is for one model");
    // The second one is looked at before the first one is loaded.
    eval(&output, &["needle", "-m", &one, "-m", "missing.gguf"]).assert_failed(1, "missing.gguf");
    longhand(&["ask", "-m", &one, "-m", &two, "Why?"]).assert_failed(2, "two models are given");
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_the_answers_so_far_and_the_next_run_goes_on() {
    let output = folder("interrupted");
    let args = ["needle", "-c", "600", "--samples", "60", "--policy", "streaming", "-q", "-t", "1"];
    let path = output.join("results.jsonl");
    let folder = output.to_str().expect("text");
    let mut child =
        crate::common::command(&[&["eval", "--full-types", "f16", "-o", folder], &args[..]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
    let has_answer = || fs::read(&path).is_ok_and(|bytes| bytes.contains(&b'\n'));
    let begun = Instant::now();
    while !has_answer() {
        assert!(begun.elapsed() < Duration::from_secs(300) && child.try_wait().expect("a state").is_none());
        thread::sleep(Duration::from_millis(2));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.is_ok_and(|status| status.success()));
    let ended = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{stderr}");
    assert!(ended.stdout.is_empty() && !stderr.contains("panicked"), "{stderr}");
    let hint = format!("hint: the results so far are kept in {folder}: repeat the command to resume");
    assert!(stderr.contains(&hint), "{stderr}");
    // Whole lines, which the next run does not compute again.
    let so_far = lines(&path);
    assert!(!so_far.is_empty() && so_far.len() < 120, "{}", so_far.len());
    assert!(fs::read(&path).expect("results").ends_with(b"\n"));
    eval(&output, &args[..8]).ok();
    let all = lines(&path);
    assert_eq!((&all[..so_far.len()], all.len()), (&so_far[..], 120));
}

/// Quantised caches that keep everything are what policies compete with.
#[test]
fn full_caches_of_three_types_are_in_every_table() {
    let output = folder("full-types");
    let folder = output.to_str().expect("text");
    let args = ["eval", "needle", "-c", "600", "--samples", "1", "--policy", "streaming", "-t", "1"];
    let args = [&args[..], &["-q", "--json", "-o", folder, "--cache-types", "q8_0/q4_0"]].concat();
    let cells = longhand(&args).json();
    let types = |cell: &Value| format!("{} {} {}", cell["policy"], cell["type_k"], cell["type_v"]);
    let mut found: Vec<String> = cells.as_array().expect("an array").iter().map(types).collect();
    found.sort();
    let expected = [
        r#""full" "f16" "f16""#,
        r#""full" "q4_0" "q4_0""#,
        r#""full" "q8_0" "q4_0""#,
        r#""full" "q8_0" "q8_0""#,
        r#""streaming" "q8_0" "q4_0""#,
    ];
    assert_eq!(found, expected);
}

#[test]
fn policies_keep_their_own_sizes() {
    let output = folder("own");
    let args = ["needle", "-c", "600", "--samples", "1", "--policy", "streaming:sinks=4,window=60,slack=0"];
    let cells = eval(&output, &[&args[..], &["--kv-budget", "own", "-q", "--json"]].concat()).json();
    let record = &lines(&output.join("results.jsonl"))[1];
    let share = 64.0 / record["tokens"].as_f64().expect("tokens");
    assert_eq!((cells[1]["budget"].as_str(), cells[0]["budget"].as_str()), (Some("own"), Some("")));
    assert!((record["kv_share"].as_f64().expect("a share") - share).abs() < 1e-9, "{record}");
    eval(&output, &[&args[..], &["--kv-budget", "owned"]].concat()).assert_failed(2, "not a budget");
}

#[test]
fn long_bench_is_read_from_its_files() {
    let (output, data) = (folder("longbench"), folder("longbench-data"));
    fs::create_dir_all(&data).expect("a folder");
    let book = fs::read_to_string(Path::new(&book("longbench-book")).join("book.txt")).expect("a book");
    let line = |task: &str, input: &str, answer: &str| {
        let line = json!({
            "input": input, "context": &book[..4000], "answers": [answer], "length": 400, "dataset": task,
            "language": "en", "all_classes": null, "_id": "1",
        });
        fs::write(data.join(format!("{task}.jsonl")), format!("{line}\n")).expect("written");
    };
    let first = book.split("number is ").nth(1).expect("a number").split('.').next().expect("digits");
    line("hotpotqa", "What is Mary's favorite number?", first);
    line("lcc", "", "x");
    let data = data.to_str().expect("text");
    let args = ["longbench", "-c", "800", "--samples", "1", "--data", data, "--policy", "full"];
    let run = eval(&output, &[&args[..], &["--json"]].concat());
    assert!(run.stderr.contains("qasper is left out at 800 tokens: it needs qasper.jsonl"), "{}", run.stderr);
    let cells = run.json();
    let tasks: Vec<&str> =
        cells.as_array().expect("cells").iter().filter_map(|cell| cell["task"].as_str()).collect();
    assert_eq!(tasks, ["hotpotqa", "lcc"]);
    for record in lines(&output.join("results.jsonl")) {
        let tokens = record["tokens"].as_u64().expect("tokens");
        assert!((600..900).contains(&tokens), "{record}");
    }
    eval(&output, &["vcsum"]).assert_failed(2, "Chinese");
}

#[test]
fn wrong_tasks_data_and_folders_are_errors() {
    let output = folder("wrong");
    let fails = |args: &[&str], code, text: &str| eval(&output, args).assert_failed(code, text);
    fails(&[], 2, "TASK");
    fails(&["niah_singel_1"], 2, "niah_single_1");
    fails(&["needle", "--shard", "3/2"], 2, "not a part of the work");
    fails(&["needle", "--data", "missing"], 1, "missing");
    fails(&["perplexity", "--policy", "nonsense"], 2, "nonsense");
    let run = eval(&output, &["perplexity", "-c", "300"]);
    assert!(run.stderr.contains("perplexity is left out at 300 tokens: it needs books"), "{}", run.stderr);
    run.assert_failed(1, "every task was left out");
    // The depth of a needle depends on the number of texts.
    eval(&output, &SMALL).ok();
    let more = SMALL.map(|arg| if arg == "4" { "5" } else { arg });
    eval(&output, &more).assert_failed(1, "has results of other texts for needle");
    fs::write(output.join("results.jsonl"), "no result").expect("written");
    fails(&["needle"], 1, "line 1 is no result");
    let file = output.join("results.jsonl");
    eval(&file, &["needle"]).assert_failed(1, "results.jsonl");
    // A part of the work may be empty.
    let run = eval(&folder("empty"), &[&SMALL[..], &["--shard", "9/9"]].concat());
    assert_eq!(run.ok().lines().count(), 1);
}

#[test]
fn head_profiles_and_seeds_are_kept_apart_and_repeated_flags_count_once() {
    let output = folder("apart");
    let profile = |layer: usize| {
        let kept =
            (0..4).map(|index| if index == layer { "[0]" } else { "[]" }).collect::<Vec<_>>().join(",");
        let text = format!(
            r#"{{"format":"longhand-heads","version":1,"layers":4,"heads":8,"kv_heads":4,"retrieval":[{kept}],"provenance":{{"source":"a test"}}}}"#
        );
        crate::common::file(&format!("eval-heads-{layer}.json"), text)
    };
    let run = |heads: &str, seed: &str| {
        let args = [
            "needle",
            "-c",
            "600,600",
            "--samples",
            "2",
            "--policy",
            "razor;razor",
            "-s",
            seed,
            "--heads",
            heads,
        ];
        eval(
            &output,
            &[&args[..], &["--kv-budget", "50%,50%", "--cache-types", "f16,f16", "-q", "--json"]].concat(),
        )
        .json()
    };
    let counts = |summary: &Value| {
        let cells = summary.as_array().expect("an array");
        assert!(cells.iter().all(|cell| cell["samples"] == 2), "{summary}");
        cells.len()
    };
    let (one, two) = (profile(1), profile(2));
    assert_eq!(counts(&run(&one, "1")), 2, "full and razor");
    assert_eq!(counts(&run(&two, "1")), 3, "another profile");
    assert_eq!(counts(&run(&two, "2")), 5, "another seed");
    assert_eq!(counts(&run(&one, "1")), 5, "nothing new");
    assert_eq!(lines(&output.join("results.jsonl")).len(), 2 * 5);
}

#[test]
fn a_known_question_changes_what_policies_keep() {
    let output = folder("aware");
    let args =
        ["needle", "-c", "800", "--samples", "4", "--policy", "snapkv", "--kv-budget", "40%", "-q", "--json"];
    let score = |flags: &[&str]| {
        let cells = eval(&output, &[&args[..], flags].concat()).json();
        let cells = cells.as_array().expect("an array").clone();
        let aware = flags.contains(&"--query-aware");
        let cell = cells.iter().find(|cell| cell["policy"] == "snapkv" && cell["query_aware"] == aware);
        cell.and_then(|cell| cell["score"].as_f64()).expect("a score")
    };
    let (unknown, known) = (score(&[]), score(&["--query-aware"]));
    assert!(known > unknown, "{known} {unknown}");
}

#[test]
fn a_known_question_is_in_every_heading_and_title_and_nothing_where_there_is_none() {
    let (output, data) = (folder("question"), book("question-books"));
    let tasks = ["perplexity", "retention", "attention-loss", "agreement"];
    let args = ["-c", "500", "--samples", "1", "--data", &data, "--answer-tokens", "8", "-q"];
    let caches = ["--policy", "streaming", "--kv-budget", "30%"];
    let args = [&tasks[..], &args, &caches].concat();
    eval(&output, &args).ok();
    let before = lines(&output.join("results.jsonl"));
    let table = eval(&output, &[&args[..], &["--query-aware"]].concat()).ok();
    let after = lines(&output.join("results.jsonl"));
    assert!(before.len() == 2 * tasks.len() && after[..before.len()] == before, "{after:?}");
    let added: Vec<_> =
        after[before.len()..].iter().map(|result| (&result["task"], &result["query_aware"])).collect();
    assert_eq!(added, [(&"agreement".into(), &true.into()); 2]);
    let count = |text: &str| table.matches(text).count();
    assert_eq!(count(" tokens of books"), 5, "{table}");
    assert_eq!(count("texts: 1, without a question. "), 3, "{table}");
    assert_eq!(count("texts: 1, the question is unknown while a text is read. "), 1, "{table}");
    assert_eq!(count("texts: 1, the question is known while a text is read. "), 1, "{table}");
    let drawn = pictures(&output, "agreement");
    let texts = drawn.iter().map(|path| fs::read_to_string(path).expect("an SVG file"));
    let known: Vec<bool> = texts.map(|text| text.contains(" 500 tokens, query-aware</text>")).collect();
    assert!(known.len() == 2 && known.iter().filter(|known| **known).count() == 1, "{drawn:?}");
    for task in &tasks[..3] {
        assert_eq!(pictures(&output, task).len(), 1, "{task}");
    }
}

/// The program answers nothing, and counts the prompts.
#[cfg(unix)]
#[test]
fn another_program_is_asked_the_same_with_a_full_cache_of_each_type() {
    use std::os::unix::fs::PermissionsExt as _;

    let output = folder("peer");
    fs::create_dir_all(&output).expect("a folder");
    let (program, prompts) = (output.join("silent"), output.join("prompts"));
    let script =
        format!("#!/bin/sh\nwhile read -r line; do echo $1 $line >> {}; echo; done\n", prompts.display());
    fs::write(&program, script).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let peer = format!("silent={} {{type_k}}/{{type_v}}", program.display());
    let args = ["needle", "-c", "600", "--samples", "2", "--policy", "streaming", "--kv-budget", "30%", "-q"];
    let args = [&args[..], &["--cache-types", "f16,q8_0/q4_0", "--json", "--peer", &peer]].concat();
    for _ in 0..2 {
        let cells = eval(&output, &args).json();
        let cells = cells.as_array().expect("an array").iter().filter(|cell| cell["policy"] == "silent");
        let cells: Vec<_> = cells.map(|cell| (cell["type_v"].clone(), cell["score"].clone())).collect();
        assert_eq!(cells, [("f16".into(), 0.0.into()), ("q4_0".into(), 0.0.into())]);
        // The second run asks nothing.
        let asked = fs::read_to_string(&prompts).expect("prompts");
        assert_eq!(asked.lines().count(), 4);
        assert_eq!(asked.lines().filter(|line| line.starts_with("q8_0/q4_0 ")).count(), 2);
    }
    let missing = eval(&output, &[&args[..args.len() - 1], &["gone=/nowhere"]].concat());
    missing.assert_failed(1, "gone: cannot start /nowhere");
}
