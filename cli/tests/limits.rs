//! Limits of the system: threads and memory.
#![cfg(target_os = "linux")]

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use common::{Run, command, finished};

/// Runs the program under `limit`, an argument of bash's `ulimit`. `None` if there is no bash here, or if the user
/// without rights cannot run the program.
fn limited(limit: &str, without_rights: bool, args: &[&str]) -> Option<Run> {
    let program = command(args);
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "bash"]);
    bash.arg(program.get_program()).args(program.get_args()).stdin(Stdio::null());
    for (name, value) in program.get_envs() {
        value.map(|value| bash.env(name, value));
    }
    if without_rights && is_root() {
        bash.uid(65534);
    }
    let run = finished(bash.output().ok()?);
    // 126 and 127: bash cannot run it.
    (!matches!(run.code, Some(126 | 127))).then_some(run)
}

/// Limits on processes do not hold for root.
fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let out = std::env::temp_dir().join("longhand-test-limits.npy");
    let logits = |threads| ["logits", "--tokens", "1,2", "-t", threads, "-o", out.to_str().expect("text")];
    let Some(run) = limited("-u 1", true, &logits("4")) else {
        println!("skipped: the limit cannot be set here");
        return;
    };
    run.assert_failed(1, "cannot start 4 threads");
    // One thread needs no other.
    limited("-u 1", true, &logits("1")).expect("as above").ok();
    std::fs::remove_file(&out).expect("the output");
}
