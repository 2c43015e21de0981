//! A child that is this program, started once more with pipes. It does one work, which it reads from its standard input. Nothing
//! untrusted gets there before its limits are set.
//!
//! Reading from a pipe cannot be limited in time everywhere. So two threads of the parent move what is sent and received.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::panic;
use std::path::PathBuf;
use std::process::{self, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{BEGUN, Ending, Limits, PANICKED, Work};

/// The first argument of a program that is started as a worker. The second one is the name of the work.
const ARGUMENT: &str = "__worker";
/// Memory of a worker before its work begins.
const PROGRAM_BYTES: u64 = 64 << 20;
/// Time for a worker to come as far as its work: a scanner of viruses may read the program first.
const TIME_TO_BEGIN: Duration = Duration::from_secs(60);
/// Bytes that are received at once.
const PIECE: usize = 64 << 10;
/// Pieces that wait to be read. A worker that sends more waits.
const MAX_WAITING: usize = 16;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// From now on children are this program, which calls [`serve`] if [`requested`] names a work. Has no effect on Linux, and if the
/// system does not know where the program is.
pub fn use_worker() {
    if let Ok(program) = std::env::current_exe() {
        let _ = PROGRAM.set(program);
    }
}

/// The name of the work for which this process was started. `arguments` are those of the process, its name first.
pub fn requested(arguments: &[OsString]) -> Option<&str> {
    match arguments {
        [_, flag, name] if flag == ARGUMENT => name.to_str(),
        _ => None,
    }
}

/// Does a work of this kind, in a process that was started for it, and ends the process.
pub fn serve<W: Work + Send + 'static>() -> ! {
    panic::set_hook(Box::new(|_| process::exit(PANICKED)));
    let served = (|| {
        let (mut input, mut output) = (io::stdin().lock(), io::stdout());
        output.write_all(&[BEGUN])?;
        output.flush()?;
        let mut stack_bytes = [0; 8];
        input.read_exact(&mut stack_bytes)?;
        let stack_bytes = u64::from_le_bytes(stack_bytes) as usize;
        let work = W::read(&mut input)?;
        drop(input);
        let work = move || {
            #[cfg(unix)]
            open_nothing()?;
            work.run(&mut io::stdin().lock(), &mut output)
        };
        let worker = thread::Builder::new().stack_size(stack_bytes).spawn(work)?;
        worker.join().unwrap_or(Ok(()))
    })();
    // An error means that the parent is gone.
    process::exit(if served.is_ok() { 0 } else { 1 })
}

/// From now on this process opens no files and no sockets, starts no processes and leaves no dump of its memory. What is open
/// stays so.
#[cfg(unix)]
fn open_nothing() -> io::Result<()> {
    let nothing = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    for resource in [libc::RLIMIT_NOFILE, libc::RLIMIT_NPROC, libc::RLIMIT_CORE] {
        // SAFETY: the limit is read and not kept.
        if unsafe { libc::setrlimit(resource, &nothing) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A child that answers on a pipe. Dropping it ends it.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    /// What is sent to it.
    to: Sender<Vec<u8>>,
    from: Mutex<Received>,
    #[cfg(windows)]
    _job: win32::Job,
    ended: bool,
}

/// What a child has sent.
#[derive(Debug)]
struct Received {
    pieces: Receiver<Vec<u8>>,
    /// What was not read yet of the last piece.
    rest: VecDeque<u8>,
}

impl Child {
    /// Starts a child that does this work within these limits.
    ///
    /// # Errors
    /// [`use_worker`] was not called ([`io::ErrorKind::Unsupported`]), or the system refuses a thread, a process or the limits.
    pub fn start<W: Work>(limits: Limits, work: &W) -> io::Result<Child> {
        let no_worker = || io::Error::new(io::ErrorKind::Unsupported, "this program starts no workers");
        let program = PROGRAM.get().ok_or_else(no_worker)?;
        let mut request = (limits.stack_bytes as u64).to_le_bytes().to_vec();
        work.write(&mut request)?;
        // What is sent is in the child's memory too.
        let memory_bytes = limits
            .memory_bytes
            .saturating_add(limits.stack_bytes as u64)
            .saturating_add(request.len() as u64)
            .saturating_add(PROGRAM_BYTES);
        let mut command = Command::new(program);
        command.args([ARGUMENT, W::NAME]).env_remove("RUST_BACKTRACE");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        #[cfg(windows)]
        {
            /// The process has no console, so Ctrl-C does not reach it.
            const CREATE_NO_WINDOW: u32 = 0x0800_0000;
            std::os::windows::process::CommandExt::creation_flags(&mut command, CREATE_NO_WINDOW);
        }
        #[cfg(unix)]
        // A group of its own: Ctrl-C does not reach it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        #[cfg(windows)]
        let job = win32::Job::new(memory_bytes)?;
        #[cfg(not(windows))]
        let _ = memory_bytes;
        let mut process = command.spawn()?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let (to, to_send) = mpsc::channel();
        let (received, pieces) = mpsc::sync_channel(MAX_WAITING);
        let child = Child {
            process,
            to,
            from: Mutex::new(Received { pieces, rest: VecDeque::new() }),
            #[cfg(windows)]
            _job: job,
            ended: false,
        };
        #[cfg(windows)]
        child._job.add(&child.process)?;
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        thread::Builder::new().name("to worker".to_owned()).spawn(move || send(stdin, &to_send))?;
        thread::Builder::new().name("from worker".to_owned()).spawn(move || receive(stdout, &received))?;
        child.channel(Instant::now() + TIME_TO_BEGIN).read_exact(&mut [BEGUN])?;
        child.to.send(request).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(child)
    }

    /// The child, if it runs.
    pub fn if_running(mut self) -> Option<Child> {
        self.ended = !matches!(self.process.try_wait(), Ok(None));
        (!self.ended).then_some(self)
    }

    /// What is sent and received. Reading fails with [`io::ErrorKind::TimedOut`] after `deadline`, and writing does not wait.
    pub fn channel(&self, deadline: Instant) -> Channel<'_> {
        Channel { child: self, deadline }
    }

    /// Ends the child, unless it has ended already.
    pub fn end(mut self) -> Ending {
        // A child that has failed closes its pipes first.
        for _ in 0..50 {
            match self.process.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                _ => break,
            }
        }
        self.kill().map_or(Ending::Other, ending)
    }

    fn kill(&mut self) -> Option<ExitStatus> {
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        let _ = self.process.kill();
        self.process.wait().ok()
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

fn ending(status: ExitStatus) -> Ending {
    #[cfg(windows)]
    {
        /// STATUS_STACK_OVERFLOW.
        const STACK_OVERFLOW: i32 = 0xc000_00fd_u32.cast_signed();
        /// STATUS_STACK_BUFFER_OVERRUN: how Rust ends a process that is refused memory.
        const ABORTED: i32 = 0xc000_0409_u32.cast_signed();
        match status.code() {
            Some(PANICKED) => Ending::Panicked,
            Some(STACK_OVERFLOW) => Ending::StackOverflow,
            Some(ABORTED) => Ending::OutOfMemory,
            _ => Ending::Other,
        }
    }
    #[cfg(not(windows))]
    {
        use std::os::unix::process::ExitStatusExt as _;
        match status.signal() {
            None if status.code() == Some(PANICKED) => Ending::Panicked,
            // Memory is not limited; Rust ends a thread whose stack overflows so.
            Some(libc::SIGABRT | libc::SIGSEGV | libc::SIGBUS) => Ending::StackOverflow,
            Some(libc::SIGALRM) => Ending::OutOfTime,
            _ => Ending::Other,
        }
    }
}

/// Writes pieces until their sender is gone, or the child is.
fn send(mut to: ChildStdin, pieces: &Receiver<Vec<u8>>) {
    for piece in pieces {
        if to.write_all(&piece).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// Hands over pieces until there are no more or nobody wants them.
fn receive(mut from: ChildStdout, pieces: &SyncSender<Vec<u8>>) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if pieces.send(piece[..length].to_vec()).is_err() {
            return;
        }
    }
}

/// The pipes of a child, with a deadline.
pub struct Channel<'a> {
    child: &'a Child,
    deadline: Instant,
}

impl Read for Channel<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut from = self.child.from.lock().unwrap_or_else(PoisonError::into_inner);
        if from.rest.is_empty() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match from.pieces.recv_timeout(left) {
                Ok(piece) => from.rest = piece.into(),
                Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::TimedOut.into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        from.rest.read(out)
    }
}

impl Write for Channel<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.child.to.send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
