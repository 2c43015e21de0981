//! The program with a mock GPU (tests/mock-cuda; scripts/mock-gpu.sh runs these tests). The mock checks all
//! CUDA calls. Each failure there gives one error, and the conversation is saved.
#![cfg(mock_cuda)]

use std::io::Write;
use std::process::Stdio;
use std::sync::OnceLock;

use crate::common::{DOCUMENT, Run, command, file, scratch};

const QUESTION: &str = "What is the pass key?";
const ANSWER: &str = "The pass key is 9078648.";

/// Runs the program with `input` in a folder of its own, and with a cache of its own: heads that were calibrated on a mock
/// that computes nothing are of no use to other tests. `mock` sets up the mock: pairs of a name (without
/// `LONGHAND_MOCK_`) and a value.
fn run_on(mock: &[(&str, &str)], folder: &str, args: &[&str], input: &str) -> Run {
    let mut command = command(args);
    for (name, value) in mock {
        command.env(format!("LONGHAND_MOCK_{name}"), value);
    }
    let mut child = command
        .env("TMPDIR", scratch(folder))
        .env("XDG_CACHE_HOME", scratch(&format!("cache-of-{folder}")))
        .current_dir(scratch(folder))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("the program ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn ask(mock: &[(&str, &str)], folder: &str, more: &[&str]) -> Run {
    run_on(mock, folder, &[&["ask", "-f", document(), QUESTION][..], more].concat(), "")
}

/// The document's file. It is written once, because several tests read it at the same time.
fn document() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| file("mock.txt", DOCUMENT))
}

/// Checks that the program ended with code 1 and one error with a hint, not by a signal.
#[track_caller]
fn assert_one_error(run: &Run, when: &str) {
    let Run { code, stderr, .. } = run;
    assert_eq!(*code, Some(1), "{when}: {stderr}");
    assert_eq!(stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{when}: {stderr}");
    assert!(stderr.contains("\nhint: "), "{when}: {stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("mock CUDA: "), "{when}: {stderr}");
}

#[test]
fn answers_equal_those_of_the_cpu() {
    for (mock, device, flags) in [
        (&[][..], &["--device", "cuda"][..], &[][..]),
        (&[("EAGER", "1")], &["--device", "cuda:0"], &["--policy", "snapkv", "--keep", "64"]),
        (&[], &["--device", "cuda"], &["--policy", "razor:buffer=32", "-ctk", "q8_0", "-ctv", "q4_0"]),
        (&[], &["-ngl", "2"], &["--policy", "h2o:heavy=40,recent=40"]),
        // Two mock GPUs: the second one is used if it is named.
        (&[("GPUS", "2")], &["--device", "cuda:1"], &[]),
    ] {
        for device in [device, &["--device", "cpu"]] {
            let more = [device, flags].concat();
            assert_eq!(ask(mock, "answers", &more).ok(), format!("{ANSWER}\n"), "{more:?}");
        }
    }
}

#[test]
fn devices_prints_one_line_for_a_gpu_or_its_problem() {
    let output = |mock: &[(&str, &str)]| run_on(mock, "devices", &["devices"], "").ok();
    assert!(output(&[("MEMORY", "24564")]).contains("24.0 GiB"));
    assert!(output(&[("DRIVER", "0")]).contains("no NVIDIA driver was found"));
    assert!(output(&[("DRIVER", "12080")]).contains("knows CUDA 12.8 at most"));
    assert!(output(&[("GPUS", "0")]).contains("shows no GPU"));
    // With `--device cuda` it is an error; otherwise the CPU computes.
    ask(&[("DRIVER", "12080")], "devices", &["--device", "cuda"]).assert_failed(2, "knows CUDA 12.8 at most");
    assert_eq!(ask(&[("DRIVER", "0")], "devices", &[]).ok(), format!("{ANSWER}\n"));
}

/// Each allocation on the GPU fails in turn, ggml's own included.
#[test]
fn each_failed_allocation_is_one_error() {
    for number in 1..200 {
        let run = ask(&[("REFUSE", &number.to_string())], "memory", &["--device", "cuda"]);
        if run.code == Some(0) {
            assert!(number > 4, "the GPU allocates memory");
            assert_eq!(run.stdout, format!("{ANSWER}\n"));
            return;
        }
        assert_one_error(&run, &format!("allocation {number}"));
    }
    panic!("more than 200 allocations");
}

/// A GPU that is too small for the model is an error with `-ngl all`; otherwise the CPU computes.
#[test]
fn a_small_gpu_is_not_used() {
    let small = [("MEMORY", "306")];
    ask(&small, "small", &["--device", "cuda", "-ngl", "all"]).assert_failed(1, "bytes on CUDA0");
    let run = ask(&small, "small", &["--device", "cuda"]);
    assert!(run.stderr.contains("not even one layer fits"), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{ANSWER}\n"));
}

/// If the GPU is lost, at whatever launch, the process ends with one error and the conversation is in a file. While the
/// document is read, before the question, there is none.
#[test]
fn a_lost_gpu_takes_no_conversation_with_it() {
    let (mut lost, mut saved_files, mut answered) = (0, 0, false);
    for launch in [1, 2, 10, 40, 150, 200, 240, 280, 320, 400, 100_000] {
        let folder = format!("lost/{launch}");
        let _ = std::fs::remove_dir_all(scratch(&folder));
        let run = run_on(
            &[("LOSE", &launch.to_string())],
            &folder,
            &["chat", "--device", "cuda", "-f", document()],
            &format!("{QUESTION}\n"),
        );
        if run.code == Some(0) {
            answered = true;
            assert_eq!(run.stdout, format!("{ANSWER}\n"));
            continue;
        }
        lost += 1;
        assert_one_error(&run, &format!("launch {launch}"));
        let saved: Vec<_> = std::fs::read_dir(scratch(&folder)).expect("the folder").flatten().collect();
        let [saved] = &saved[..] else {
            assert!(saved.is_empty() && saved_files == 0, "launch {launch}: {saved:?}, {}", run.stderr);
            assert_eq!(run.stdout, "", "launch {launch}");
            continue;
        };
        saved_files += 1;
        let saved = std::fs::read_to_string(saved.path()).expect("the conversation");
        assert!(saved.contains(QUESTION), "launch {launch}: {saved}");
        assert!(saved.ends_with(&run.stdout), "what was answered so far: {saved}");
    }
    assert!(lost > 5 && saved_files > 3 && answered, "{lost} lost, {saved_files} saved");
}

/// Two processes that die with the same GPU at the same time save two conversations.
#[test]
fn two_processes_save_two_files() {
    let folder = "together";
    let _ = std::fs::remove_dir_all(scratch(folder));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let args = ["chat", "--device", "cuda", "-f", document()];
                assert_one_error(
                    &run_on(&[("LOSE", "280")], folder, &args, &format!("{QUESTION}\n")),
                    "launch 280",
                );
            });
        }
    });
    assert_eq!(std::fs::read_dir(scratch(folder)).expect("the folder").count(), 2);
}

/// The peak of allocated bytes, ggml's own included, is at most the planned one. The plan's estimates for the
/// driver and the kernels' code are not tested: the mock has neither.
#[test]
fn the_plan_covers_all_allocations() {
    let (document, memory) = (file("mock-long.txt", DOCUMENT.repeat(40)), 1 << 20);
    for (policy, prefill) in
        [("full", "exact"), ("streaming:window=256", "streaming"), ("razor:buffer=256", "exact")]
    {
        let how = ["--policy", policy, "--prefill", prefill, "-c", "4096"];
        let ask = ["ask", "--device", "cuda", "-f", &document, QUESTION];
        let run =
            run_on(&[("IDLE", "1"), ("REPORT", "1")], "plan", &[&ask[..], &how, &["-n", "4"]].concat(), "");
        let report = run.stderr.split_once("mock CUDA: ").expect("a report").1;
        let peak: f64 = report.split_whitespace().next().and_then(|number| number.parse().ok()).expect("MiB");
        let plan =
            run_on(&[], "plan", &[&["plan", "--device", "cuda", "--json"], &how[..]].concat(), "").json();
        let device = &plan["plans"][0]["device"];
        let planned = device["total"].as_f64().expect("bytes") / f64::from(memory);
        let overhead = device["overhead"].as_f64().expect("bytes") / f64::from(memory);
        assert!(peak <= planned, "{policy}: {peak} MiB of {planned}");
        assert!(peak >= 0.8 * (planned - overhead), "{policy}: {peak} MiB of {planned}, {overhead} overhead");
    }
}
