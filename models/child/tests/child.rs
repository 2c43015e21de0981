//! What a child may do, and when it ends.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use child::{Child, Ending, Limits};

const LIMITS: Limits = Limits { stack_bytes: 1 << 20, memory_bytes: 64 << 20 };
/// Time after which a test has failed.
const WATCHDOG: Duration = Duration::from_secs(600);
/// Set where the test of a killed parent has started itself, to play that parent.
const IS_PARENT: &str = "FORK_TEST_IS_PARENT";

fn kernel_has_filters() -> bool {
    let is_filtered = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    is_filtered && fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Seccomp:"))
}

/// What a child answers.
fn answer(work: impl Fn() -> String + Sync) -> String {
    let child = Child::fork(LIMITS, |mut socket| {
        let _ = socket.write_all(work().as_bytes());
    });
    let child = child.expect("a child");
    let mut answer = String::new();
    child.channel(Instant::now() + WATCHDOG).read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_child_has_no_files_and_no_network() {
    let answer = answer(|| {
        let tried = [
            ("read a file", File::open("/proc/self/status").is_ok()),
            ("write a file", File::create(env::temp_dir().join("longhand-test-child")).is_ok()),
            ("list a folder", fs::read_dir("/").is_ok()),
            ("listen", TcpListener::bind("127.0.0.1:0").is_ok()),
            ("send", UdpSocket::bind("127.0.0.1:0").is_ok()),
            ("make a socket", UnixStream::pair().is_ok()),
            ("start a program", Command::new("/bin/true").status().is_ok()),
        ];
        tried.iter().filter(|(_, done)| *done).map(|(what, _)| format!("{what}\n")).collect()
    });
    assert_eq!(answer, "");
}

#[test]
fn a_child_can_make_few_system_calls() {
    if !kernel_has_filters() {
        println!("skipped: this kernel has no filters of system calls");
        return;
    }
    let parent = rustix::process::getpid();
    let answer = answer(|| {
        let signal = rustix::process::test_kill_process(parent).err();
        let limit = rustix::process::setrlimit(
            rustix::process::Resource::As,
            rustix::process::Rlimit { current: Some(1 << 40), maximum: Some(1 << 40) },
        );
        format!("{signal:?} {:?} {}", limit.err(), fs::metadata("/").is_ok())
    });
    let refused = Some(rustix::io::Errno::PERM);
    assert_eq!(answer, format!("{refused:?} {refused:?} false"));
}

#[test]
fn limits_cannot_be_raised_again() {
    let child = Child::fork(LIMITS, |mut socket| while socket.read(&mut [0]).is_ok_and(|n| n > 0) {});
    let child = child.expect("a child");
    let table = fs::read_to_string(format!("/proc/{}/limits", child.pid())).expect("its limits");
    let of = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).expect(name);
        line[name.len()..].split_whitespace().map(str::to_owned).collect()
    };
    let memory = of("Max address space");
    assert!(memory[0] == memory[1] && memory[0].parse::<u64>().is_ok(), "{memory:?}");
    for name in ["Max open files", "Max processes", "Max file size", "Max core file size"] {
        assert_eq!(of(name)[..2], ["0", "0"], "{name}");
    }
}

#[test]
fn what_ends_a_child_is_known() {
    let ending = |work: fn()| {
        let child = Child::fork(LIMITS, |_| work()).expect("a child");
        // The end of the stream: the child has ended.
        let _ = child.channel(Instant::now() + WATCHDOG).read(&mut [0]);
        wait_for("the end", || !is_running(child.pid()));
        child.end()
    };
    assert_eq!(ending(|| panic!("on purpose")), Ending::Panicked);
    assert_eq!(ending(|| std::process::abort()), Ending::OutOfMemory);
    assert_eq!(ending(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 40)))), Ending::OutOfMemory);
}

#[test]
fn a_child_ends_when_its_parent_is_killed() {
    if env::var_os(IS_PARENT).is_some() {
        // The process that is killed: it starts a child that computes for ever, and prints its number.
        let child = Child::fork(LIMITS, |_| {
            loop {
                std::hint::spin_loop();
            }
        });
        println!("\nchild {}", child.as_ref().expect("a child").pid());
        thread::sleep(WATCHDOG * 2);
        return;
    }
    let test = env::current_exe().expect("this test");
    let mut parent = Command::new(test)
        .args(["--exact", "a_child_ends_when_its_parent_is_killed", "--nocapture"])
        .env(IS_PARENT, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let lines = BufReader::new(parent.stdout.take().expect("a pipe")).lines();
    let number = |line: String| line.strip_prefix("child ").and_then(|number| number.parse::<i32>().ok());
    let child = lines.map_while(Result::ok).find_map(number).expect("a child");
    assert!(is_running(child));
    // SIGKILL.
    parent.kill().expect("the parent is there");
    parent.wait().expect("the parent ends");
    let ended = wait_until(|| !is_running(child));
    if let (false, Some(child)) = (ended, rustix::process::Pid::from_raw(child)) {
        let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
    }
    assert!(ended, "the child outlives its parent");
}

/// Whether there is such a process that has not ended. One that nobody has waited for is still listed.
fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
    })
}

fn wait_until(done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + WATCHDOG;
    while !done() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    done()
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    assert!(wait_until(done), "{what}");
}
