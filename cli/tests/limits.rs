//! Limits of the system: threads and memory.
#![cfg(target_os = "linux")]

mod common;

use std::path::Path;

use common::limited;

#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let out = std::env::temp_dir().join("longhand-test-limits.npy");
    let logits = |threads| ["logits", "--tokens", "1,2", "-t", threads, "-o", out.to_str().expect("text")];
    let Some(run) = limited("ulimit -u 1", true, Path::new("."), &logits("4"), "") else {
        println!("skipped: the limit cannot be set here");
        return;
    };
    run.assert_failed(1, "cannot start 4 threads");
    // One thread needs no other.
    limited("ulimit -u 1", true, Path::new("."), &logits("1"), "").expect("as above").ok();
    std::fs::remove_file(&out).expect("the output");
}
