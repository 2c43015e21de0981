//! What containers do: quotas and limits of control groups, and the program as process 1. `scripts/bare-root.sh` has the rest:
//! a read-only root, no /proc, a user without a name.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{DOCUMENT, Run, add_program, command, endless_model, file, finished, limited, scratch};

/// Time after which a test has failed.
const WATCHDOG: Duration = Duration::from_secs(120);

/// A control group that is removed when it is dropped, after its processes have ended.
struct Group(PathBuf);

impl Group {
    /// A group of a controller with these settings; `None` where this user cannot make one.
    fn new(version: u8, controller: &str, name: &str, settings: &[(&str, &str)]) -> Option<Group> {
        let root = Path::new("/sys/fs/cgroup");
        let parent = if version == 1 { root.join(controller) } else { root.to_owned() };
        // Of another version, or the controller is not handed on.
        let is_there = match version {
            1 => parent.join("tasks").exists(),
            _ => fs::read_to_string(root.join("cgroup.subtree_control"))
                .is_ok_and(|list| list.split_whitespace().any(|found| found == controller)),
        };
        let group = Group(parent.join(format!("longhand-test-{name}-{}", std::process::id())));
        (is_there && fs::create_dir(&group.0).is_ok()).then_some(())?;
        let set = |(setting, value): &(&str, &str)| fs::write(group.0.join(setting), value).is_ok();
        settings.iter().all(set).then_some(group)
    }

    /// Runs the program in the group.
    fn run(&self, args: &[&str]) -> Run {
        let enter = format!("echo $$ > {}/cgroup.procs", self.0.display());
        limited(&enter, false, Path::new("."), args, "").expect("the program runs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Runs a test in groups of both versions, as far as this machine has them.
fn in_groups(controller: &str, name: &str, settings: [&[(&str, &str)]; 2], test: impl Fn(&Group)) {
    for (version, settings) in [1, 2].into_iter().zip(settings) {
        match Group::new(version, controller, name, settings) {
            Some(group) => test(&group),
            None => {
                println!("skipped: no control group of version {version} can be made for {controller} here")
            }
        }
    }
}

/// With a quota of one processor, two threads would wait for each other.
#[test]
fn a_quota_decides_the_number_of_threads() {
    let v1 = [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "100000")];
    in_groups("cpu", "quota", [&v1, &[("cpu.max", "100000 100000")]], |group| {
        assert_eq!(group.run(&["devices", "--json"]).json()["cpu"]["threads"], 1);
    });
}

#[test]
fn the_memory_of_a_group_is_what_is_free() {
    let limit = 400_u64 << 20;
    let text = limit.to_string();
    let (v1, v2) = ([("memory.limit_in_bytes", text.as_str())], [("memory.max", text.as_str())]);
    in_groups("memory", "memory", [&v1, &v2], |group| {
        let cpu = group.run(&["devices", "--json"]).json()["cpu"].clone();
        assert_eq!(cpu["limit"], "cgroup", "{cpu}");
        assert!(cpu["free"].as_u64().expect("known on Linux") < limit, "{cpu}");
        // The embedded model takes 4 KiB for each token in f16: 500 MiB.
        let document = file("containers.txt", DOCUMENT);
        let ask = ["ask", "-f", &document, "-c", "128000", "What is Mary's favorite number?"];
        let asked = group.run(&ask);
        assert!(asked.stderr.contains("within the memory limit of the container"), "{}", asked.stderr);
        assert_eq!(asked.ok(), "Mary's favorite number is 34251.\n");
    });
}

/// What `docker stop` does. The system ignores a signal to process 1 that it does not handle.
#[test]
fn sigterm_ends_process_1_in_every_phase() {
    let unshare = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    if !Command::new("unshare").args(unshare).arg("true").status().is_ok_and(|status| status.success()) {
        return println!("skipped: this system lets nobody make namespaces");
    }
    let model = endless_model("containers-endless.gguf");
    let long: String =
        (0..20_000).map(|line| format!("Line {line} of a text that takes minutes to read.\n")).collect();
    let long = file("containers-long.txt", long);
    for (phase, args, input, sign, is_kept) in [
        ("the prompt", &["chat", "-m", &model][..], "", "the model is ready", false),
        (
            "an answer",
            &["chat", "-m", &model, "--temp", "0", "-n", "100000", "-c", "30000"],
            "Why?\n",
            "!!!!",
            true,
        ),
        ("a reading", &["chat", "-f", &long], "Why?\n", "tokens", false),
        ("a question's reading", &["ask", "-f", &long, "Why?"], "", "tokens", false),
    ] {
        let folder = scratch(&format!("containers-{}", phase.replace([' ', '\''], "-")));
        let kept = folder.join("kept.session");
        let _ = fs::remove_file(&kept);
        let mut unshared = Command::new("unshare");
        unshared.args(unshare);
        add_program(&mut unshared, &command(args));
        if args[0] == "chat" {
            unshared.args(["--session", kept.to_str().expect("text")]);
        }
        let (output, errors) = (folder.join("stdout"), folder.join("stderr"));
        let mut unshared = unshared
            .stdin(if args[0] == "chat" { Stdio::piped() } else { Stdio::null() })
            .stdout(fs::File::create(&output).expect("a file"))
            .stderr(fs::File::create(&errors).expect("a file"))
            .spawn()
            .expect("unshare starts");
        if let Some(stdin) = &mut unshared.stdin {
            std::io::Write::write_all(stdin, input.as_bytes()).expect("the program reads");
        }
        let said = || [&output, &errors].map(|path| fs::read_to_string(path).unwrap_or_default()).concat();
        let started = Instant::now();
        let wait = |what: &str, is_done: &mut dyn FnMut() -> bool| {
            while !is_done() {
                assert!(started.elapsed() < WATCHDOG, "{phase}: {what}: {}", said());
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let children = format!("/proc/{0}/task/{0}/children", unshared.id());
        let mut first = String::new();
        wait("it does not start", &mut || {
            first = fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
            !first.is_empty()
        });
        match phase {
            // Nothing is said there: it sleeps.
            "the prompt" => wait(sign, &mut || waits(&first)),
            _ => wait(sign, &mut || said().contains(sign)),
        }
        let killed = Command::new("kill").args(["-TERM", &first]).status();
        assert!(killed.expect("kill runs").success());
        wait("it does not end", &mut || unshared.try_wait().expect("known").is_some());
        let run = finished(unshared.wait_with_output().expect("ended"));
        assert_eq!(run.code, Some(143), "{phase}: {}", said());
        assert!(!is_kept || kept.exists(), "{phase}: {}", said());
    }
}

/// Whether a process has started its threads and none of them runs.
fn waits(process: &str) -> bool {
    let of_threads = |file: &str| -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        threads.map(|thread| fs::read_to_string(thread.path().join(file)).unwrap_or_default()).collect()
    };
    let sleeps = |stat: &String| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'));
    of_threads("stat").iter().all(sleeps) && of_threads("comm").iter().any(|name| name.trim() == "lines")
}
