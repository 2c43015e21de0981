//! Standard input: whether a document is piped into the program, and the terminal behind it.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::sync::atomic::AtomicBool;
#[cfg(windows)]
use std::thread;
#[cfg(windows)]
use std::time::{Duration, Instant};

use anyhow::Result;
#[cfg(windows)]
use win32::{InputKind as Kind, input_kind as kind};

use crate::console::{self, Console};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long a pipe may stay silent before it counts as one that nobody writes to.
const PATIENCE_SECONDS: i64 = 5;
/// What a shell is told where a program has nothing to read.
const NO_INPUT: &str = if cfg!(windows) { "<NUL" } else { "</dev/null" };

/// Whether a document is piped into the program: stdin is a file or a pipe, and has something to read.
///
/// Services and other programs often leave a pipe open that nobody ever writes to. So if nothing arrives for
/// five seconds, the pipe counts as empty, unless a person is watching who can end the wait.
pub fn is_piped(console: &Console) -> bool {
    match kind() {
        Kind::File => true,
        Kind::Pipe => has_input(Some(1)) || wait_for_input(console),
        _ => false,
    }
}

/// What standard input is.
#[cfg(unix)]
#[derive(PartialEq)]
enum Kind {
    File,
    Pipe,
    Other,
}

#[cfg(unix)]
fn kind() -> Kind {
    use rustix::fs::FileType;

    match rustix::fs::fstat(io::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::RegularFile) => Kind::File,
        Ok(FileType::Fifo) => Kind::Pipe,
        _ => Kind::Other,
    }
}

fn wait_for_input(console: &Console) -> bool {
    if console.stderr_terminal() {
        console.note("waiting for a document on standard input");
        return has_input(None);
    }
    if has_input(Some(PATIENCE_SECONDS)) {
        return true;
    }
    console.note(&format!(
        "note: standard input is open, but nothing arrives; it is not read (-f - waits for it, {NO_INPUT} closes it)"
    ));
    false
}

/// Whether a pipe holds something that this command does not read.
#[cfg(unix)]
pub fn holds_unread() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // At its end a pipe hangs up, and holds nothing.
    kind() == Kind::Pipe
        && poll(&mut polled, Some(&now)).is_ok()
        && polled[0].revents().contains(PollFlags::IN)
}

/// Whether a pipe holds something that this command does not read.
#[cfg(windows)]
pub fn holds_unread() -> bool {
    kind() == Kind::Pipe && win32::pipe_has_input().is_ok_and(|bytes| bytes > 0)
}

/// Whether stdin has bytes or ends within so many seconds.
#[cfg(unix)]
fn has_input(seconds: Option<i64>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let stdin = io::stdin();
    let timeout = seconds.map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
    // A poll that fails says nothing: reading will.
    poll(&mut [PollFd::new(&stdin, PollFlags::IN)], timeout.as_ref()).map_or(true, |ready| ready > 0)
}

/// Whether stdin has bytes or ends within so many seconds.
#[cfg(windows)]
fn has_input(seconds: Option<i64>) -> bool {
    /// How often the pipe is looked at: Windows has no way to wait for one.
    const POLL: Duration = Duration::from_millis(20);
    let deadline = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.unsigned_abs()));
    // An error is the end of the pipe, or says nothing: reading will.
    while win32::pipe_has_input().is_ok_and(|bytes| bytes == 0) {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// Asks a question that is answered with yes or no; Enter is yes, and the end of input no. Without a terminal there is
/// nobody to ask, and the answer is yes.
///
/// # Errors
/// Where standard input cannot be read, or Ctrl-C is pressed.
pub fn confirm(console: &Console, interrupt: &Interrupt, question: &str) -> Result<bool> {
    if !(io::stdin().is_terminal() && console.stderr_terminal()) {
        return Ok(true);
    }
    loop {
        console::print_progress(&format!("{question} [Y/n] "));
        let read_line = |_: &AtomicBool| {
            let mut line = String::new();
            io::stdin().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
        };
        let line = interrupt.until_pressed(read_line)?.ok_or_else(Failure::interrupted)??;
        match line.as_deref().map(|line| line.trim().to_lowercase()).as_deref() {
            Some("" | "y" | "yes") => return Ok(true),
            Some("n" | "no") => return Ok(false),
            None => {
                console::print_progress("\n");
                return Ok(false);
            }
            Some(_) => {}
        }
    }
}

/// Makes the terminal standard input, after a document was read from it.
///
/// # Errors
/// The program has no terminal.
pub fn open_terminal() -> Result<()> {
    if io::stdin().is_terminal() {
        return Ok(());
    }
    terminal().map_err(|error| {
        let message =
            format!("standard input was the document, and there is no terminal for questions: {error}");
        Failure::new(message, "use `longhand ask`, which takes its questions as arguments").into()
    })
}

#[cfg(unix)]
fn terminal() -> io::Result<()> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    Ok(rustix::stdio::dup2_stdin(terminal)?)
}

#[cfg(windows)]
fn terminal() -> io::Result<()> {
    win32::use_as_stdin(File::options().read(true).write(true).open("CONIN$")?)
}
