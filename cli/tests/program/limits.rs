//! Limits of the system: threads and memory.
#![cfg(target_os = "linux")]

use std::path::Path;

use crate::common::{DOCUMENT, file, limited, longhand};

#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let out = std::env::temp_dir().join("longhand-test-limits.npy");
    let logits = |threads| ["logits", "--tokens", "1,2", "-t", threads, "-o", out.to_str().expect("text")];
    let Some(run) = limited("ulimit -u 1", true, Path::new("."), &logits("4"), "") else {
        println!("skipped: the limit cannot be set here");
        return;
    };
    // There is one thread for each processor at most, and one thread needs no other.
    match std::thread::available_parallelism().map_or(1, |processors| processors.get().min(4)) {
        1 => _ = run.ok(),
        threads => run.assert_failed(1, &format!("cannot start {threads} threads")),
    }
    limited("ulimit -u 1", true, Path::new("."), &logits("1"), "").expect("as above").ok();
    std::fs::remove_file(&out).expect("the output");
}

/// What the system refuses is no fault of the document or of the model.
#[test]
fn processes_that_cannot_be_started_are_an_error() {
    // Unlike the number of processes, that of open files is limited for root too.
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/documents/tests/fixtures/boat.docx");
    let Some(run) = limited("ulimit -n 8", false, Path::new("."), &["text", document], "") else {
        println!("skipped: the limit cannot be set here");
        return;
    };
    assert!(run.stderr.contains("\nhint: allow this program more processes"), "{}", run.stderr);
    run.assert_failed(1, "the process that converts it to text cannot be started: ");

    let args = ["ask", "-t", "1", "The pass key is 12. What is the pass key?"];
    let run = limited("ulimit -u 1", true, Path::new("."), &args, "").expect("as above");
    assert!(run.stderr.contains("\nhint: allow this program more processes"), "{}", run.stderr);
    run.assert_failed(1, "cannot start the thread that runs the model's chat template: ");
}

/// Runs with more and more address space, until one succeeds. The loader, the C library and the C++ runtime need some
/// too, and end the process if they are refused it: those moments are few.
#[test]
fn too_little_memory_is_an_error() {
    let out = std::env::temp_dir().join("longhand-test-memory.npy");
    let tokens = (1..200).map(|token| token.to_string()).collect::<Vec<_>>().join(",");
    let logits = ["logits", "-t", "1", "--tokens", &tokens, "-o", out.to_str().expect("text")];
    let question = "The pass key is 12. What is the pass key?";
    for args in [&logits[..], &["ask", "-t", "1", question]] {
        let (mut errors, mut aborted) = (0, 0);
        for kib in (16_000..1_000_000).step_by(400) {
            let Some(run) = limited(&format!("ulimit -v {kib}"), false, Path::new("."), args, "") else {
                continue;
            };
            if run.code == Some(0) {
                break;
            }
            match run.code {
                Some(1) => errors += 1,
                _ if errors > 0 => aborted += 1,
                _ => continue, // before the program began
            }
            let told = run.stderr.contains("error: ") && run.stderr.contains("\nhint: ");
            assert!(told || run.code.is_none(), "{kib} KiB: {:?} {}", run.code, run.stderr);
        }
        assert!(errors > 3 && aborted * 10 <= errors, "{args:?}: {errors} errors, {aborted} aborted");
    }
    let _ = std::fs::remove_file(&out);
}

/// A container and `ulimit` allow less memory than the machine has free.
#[test]
fn a_limit_on_memory_is_the_memory_that_is_free() {
    let document = file("limits.txt", DOCUMENT);
    for (limit, name, part) in [
        ("ulimit -v 1500000", "ulimit -v", "within the limit on address space (ulimit -v)"),
        ("ulimit -d 1200000", "ulimit -d", "within the limit on data (ulimit -d)"),
    ] {
        let run = |args: &[&str]| limited(limit, false, Path::new("."), args, "");
        let Some(devices) = run(&["devices", "--json"]) else {
            println!("skipped: the limit cannot be set here");
            return;
        };
        let cpu = devices.json()["cpu"].clone();
        let free = cpu["free"].as_u64().expect("known on Linux");
        if cpu["limit"] != name {
            println!("skipped: the machine has less memory free than {limit}");
            continue;
        }
        assert!(free < 1_500_000 << 10, "{cpu}");
        assert!(run(&["devices"]).expect("as above").ok().contains(part));
        // The embedded model takes 4 KiB for each token in f16. In 8 bits all fits.
        let context = (free / 4096 * 5 / 4).to_string();
        let ask = |flags: &[&str]| {
            let question = ["ask", "-f", &document, "-c", &context, "What is Mary's favorite number?"];
            run(&[&question, flags].concat()).expect("as above")
        };
        ask(&["--policy", "full"]).assert_failed(1, part);
        let asked = ask(&[]);
        assert!(asked.stderr.contains("Using -ctk q8_0 -ctv q8_0 instead"), "{limit}: {}", asked.stderr);
        assert!(asked.stderr.contains(part), "{}", asked.stderr);
        assert_eq!(asked.ok(), "Mary's favorite number is 34251.\n");
        let plan = run(&["plan", "-c", &context, "--policy", "full", "-ctk", "f16"]).expect("as above");
        assert!(plan.stdout.starts_with("No: ") && plan.stdout.contains(part), "{}", plan.stdout);
    }
}

/// A limit that is asked for and cannot be kept is no secret.
#[test]
fn a_limit_that_is_not_kept_is_told() {
    for (memory, part) in [("1KiB", "is not kept: the weights alone take"), ("8GiB", "")] {
        let run =
            longhand(&["ask", "--device", "cpu", "--memory", memory, "Mary's favorite number is 7. Which?"]);
        assert_eq!(run.stderr.contains("is not kept"), !part.is_empty(), "{memory}: {}", run.stderr);
        assert!(run.stderr.contains(part), "{}", run.stderr);
        run.ok();
    }
}
