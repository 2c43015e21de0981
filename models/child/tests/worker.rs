//! Workers: this program, which is started once more.
//!
//! On Linux children are forks; workers are tested there all the same.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use child::worker::Child;
use child::{Ending, Limits, Work};

const LIMITS: Limits = Limits { stack_bytes: 1 << 20, memory_bytes: 64 << 20 };
/// Time after which a test has failed.
const WATCHDOG: Duration = Duration::from_secs(120);

/// What a worker is to do.
struct Task(u8);

const ECHO: u8 = 0;
const NEVER_END: u8 = 1;
const PANIC: u8 = 2;
const OVERFLOW: u8 = 3;
#[cfg(windows)]
const TAKE_MEMORY: u8 = 4;
const OPEN: u8 = 5;

impl Work for Task {
    const NAME: &'static str = "test";

    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&[self.0])
    }

    fn read(from: &mut dyn Read) -> io::Result<Task> {
        let mut task = [0];
        from.read_exact(&mut task)?;
        Ok(Task(task[0]))
    }

    fn run(&self, input: &mut dyn Read, output: &mut dyn Write) -> io::Result<()> {
        match self.0 {
            ECHO => {
                let mut length = [0; 8];
                input.read_exact(&mut length)?;
                let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
                input.read_exact(&mut bytes)?;
                output.write_all(&bytes)?;
                output.flush()
            }
            NEVER_END => loop {
                std::hint::spin_loop();
            },
            PANIC => panic!("a defect"),
            OVERFLOW => {
                output.write_all(&[overflow(1)])?;
                output.flush()
            }
            OPEN => {
                let opened = File::open(std::env::current_exe()?).is_ok();
                let connected = UdpSocket::bind("127.0.0.1:0").is_ok();
                output.write_all(&[opened.into(), connected.into()])?;
                output.flush()
            }
            _ => {
                let blocks: Vec<Vec<u8>> = (0..64).map(|byte| vec![byte | 1; 16 << 20]).collect();
                output.write_all(&[blocks.len() as u8])?;
                output.flush()
            }
        }
    }
}

#[expect(unconditional_recursion, reason = "it is the test")]
fn overflow(depth: u8) -> u8 {
    let block = std::hint::black_box([depth; 4096]);
    overflow(block[7]) ^ block[9]
}

fn start(task: u8) -> Child {
    Child::start(LIMITS, &Task(task)).expect("a worker")
}

/// What a worker that fails is said to end with.
fn ending(task: u8) -> (io::ErrorKind, Ending) {
    let child = start(task);
    let error = child.channel(Instant::now() + WATCHDOG).read_exact(&mut [0]).expect_err("no answer");
    (error.kind(), child.end())
}

fn a_worker_answers() {
    let child = start(ECHO);
    // More than the pipes hold.
    let text: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut channel = child.channel(Instant::now() + WATCHDOG);
    channel.write_all(&(text.len() as u64).to_le_bytes()).expect("sent");
    channel.write_all(&text).expect("sent");
    let mut answer = Vec::new();
    channel.read_to_end(&mut answer).expect("received");
    assert!(answer == text);
    assert_eq!(child.end(), Ending::Other);
}

fn a_worker_that_never_ends_is_ended() {
    let child = start(NEVER_END);
    let error = child.channel(Instant::now() + Duration::from_millis(200)).read_exact(&mut [0]);
    assert_eq!(error.expect_err("no answer").kind(), io::ErrorKind::TimedOut);
    let child = child.if_running().expect("it runs");
    child.end();
}

fn a_worker_says_how_it_failed() {
    assert_eq!(ending(PANIC), (io::ErrorKind::UnexpectedEof, Ending::Panicked));
    let (error, ending) = ending(OVERFLOW);
    assert_eq!(error, io::ErrorKind::UnexpectedEof);
    // Wine ends a process so whose stack overflows.
    assert!(ending == Ending::StackOverflow || cfg!(windows) && ending == Ending::Panicked, "{ending:?}");
}

/// A job object of Windows has no limit for that.
fn a_worker_opens_nothing() {
    let child = start(OPEN);
    let mut opened = [9; 2];
    child.channel(Instant::now() + WATCHDOG).read_exact(&mut opened).expect("an answer");
    assert_eq!(opened, [u8::from(cfg!(windows)); 2]);
}

/// Wine takes the limit and does not keep it.
#[cfg(windows)]
fn a_worker_has_a_limit_on_memory() {
    let child = start(TAKE_MEMORY);
    match child.channel(Instant::now() + WATCHDOG).read_exact(&mut [0]) {
        Ok(()) => println!("    this system does not keep the limit on memory"),
        Err(_) => assert_eq!(child.end(), Ending::OutOfMemory),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if child::requested(&arguments).is_some() {
        child::serve::<Task>();
    }
    let none = Child::start(LIMITS, &Task(ECHO)).expect_err("no worker yet");
    assert_eq!(none.kind(), io::ErrorKind::Unsupported);
    child::use_worker();
    let tests: &[(&str, fn())] = &[
        ("a_worker_answers", a_worker_answers),
        ("a_worker_that_never_ends_is_ended", a_worker_that_never_ends_is_ended),
        ("a_worker_says_how_it_failed", a_worker_says_how_it_failed),
        ("a_worker_opens_nothing", a_worker_opens_nothing),
        #[cfg(windows)]
        ("a_worker_has_a_limit_on_memory", a_worker_has_a_limit_on_memory),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}
