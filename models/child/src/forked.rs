//! A child that is a fork of this process. A library does not know which program it is part of, and needs not: nothing is
//! executed.
//!
//! In a child of a process with threads, only the forking thread exists, and locks that other threads held stay
//! locked. The C library frees its allocator's locks. All else is avoided: the child opens no standard
//! streams, reads no environment variables and starts no threads. If it still meets such a lock, the parent's
//! deadline ends it.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::net::SendFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};

use crate::{BEGUN, Ending, Limits, PANICKED, Work, confine};

/// A child that answers on a socket. Dropping it ends it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    stream: UnixStream,
    /// The child ends when this is closed, which the system does when the parent ends.
    _alive: PipeWriter,
    /// The process that started the child. A fork of that process has a copy of this handle and must not use
    /// it.
    parent: u32,
    ended: bool,
}

/// Time for a child to come that far. It takes a millisecond, but for ever if another thread held a lock that the
/// child needs, such as the one of the panic hook while that thread panicked. Such moments are short: the next
/// child is lucky.
const TIME_TO_BEGIN: Duration = Duration::from_secs(3);
/// Children that are tried.
const ATTEMPTS: usize = 3;

/// The descriptor of the child's end of the socket pair.
const SOCKET: RawFd = 3;
/// The descriptor of the child's end of the pipe that its parent holds open. It has no others except the standard streams.
const ALIVE: RawFd = 4;

impl Child {
    /// Starts a child that does this work within these limits.
    ///
    /// # Errors
    /// Those of [`Child::fork`].
    pub fn start(limits: Limits, work: &impl Work) -> io::Result<Child> {
        Child::fork(limits, |socket| {
            // An error means that the parent is gone.
            let _ = work.run(&mut &socket, &mut &socket);
        })
    }

    /// Forks a child that runs `work` with its end of the socket pair, within these limits, and ends when `work`
    /// returns. `work` can open no files and make no sockets. The child is in a session of its own, so Ctrl-C on a
    /// terminal does not reach it; it ends with its parent.
    ///
    /// # Errors
    /// The system refuses a thread, a socket, a pipe, a process or the limits.
    pub fn fork(limits: Limits, work: impl Fn(UnixStream) + Sync) -> io::Result<Child> {
        for _ in 1..ATTEMPTS {
            match Child::start_once(limits, &work) {
                Err(e) if e.kind() == io::ErrorKind::TimedOut => {}
                started => return started,
            }
        }
        Child::start_once(limits, &work)
    }

    /// Starts a child; [`io::ErrorKind::TimedOut`] if it does not come as far as `work`.
    fn start_once(limits: Limits, work: &(impl Fn(UnixStream) + Sync)) -> io::Result<Child> {
        let (stream, theirs) = UnixStream::pair()?;
        let (their_alive, alive) = io::pipe()?;
        // The forking thread is the child's only thread, so its stack is the child's.
        let forked = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(limits.stack_bytes);
            let child = || {
                let mut socket = isolate(&theirs, &their_alive, limits.memory_bytes);
                // An error means that the parent is gone.
                let _ = socket.write_all(&[BEGUN]);
                work(socket);
            };
            let thread = thread.spawn_scoped(scope, move || fork(child))?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the forking thread panicked")))
        });
        let child = Child { pid: forked?, stream, _alive: alive, parent: std::process::id(), ended: false };
        drop((theirs, their_alive));
        match child.channel(Instant::now() + TIME_TO_BEGIN).read_exact(&mut [BEGUN]) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(io::Error::other("it ended at once, or its limits cannot be set"))
            }
            begun => begun.map(|()| child),
        }
    }

    /// The child, if it runs and this process has started it.
    pub fn if_running(mut self) -> Option<Child> {
        if self.parent != std::process::id() {
            return None;
        }
        self.ended = !matches!(retry_on_intr(|| wait(self.pid, WaitOptions::NOHANG)), Ok(None));
        (!self.ended).then_some(self)
    }

    /// The socket, on which reading and writing fail with [`io::ErrorKind::TimedOut`] after `deadline`.
    pub fn channel(&self, deadline: Instant) -> Channel<'_> {
        Channel { stream: &self.stream, deadline }
    }

    /// Ends the child, unless it has ended already.
    pub fn end(mut self) -> Ending {
        self.kill().map_or(Ending::Other, |status| match status.terminating_signal() {
            None if status.exit_status() == Some(PANICKED) => Ending::Panicked,
            Some(libc::SIGABRT) => Ending::OutOfMemory,
            Some(libc::SIGSEGV | libc::SIGBUS) => Ending::StackOverflow,
            Some(libc::SIGALRM) => Ending::OutOfTime,
            _ => Ending::Other,
        })
    }

    /// Ends the child and waits for it, so that nothing of it is left. `None` if another part of the program
    /// has waited for it: then its number may be that of another process by now, which must not be killed.
    fn kill(&mut self) -> Option<WaitStatus> {
        if self.ended || self.parent != std::process::id() {
            return None;
        }
        self.ended = true;
        match retry_on_intr(|| wait(self.pid, WaitOptions::NOHANG)) {
            Ok(None) => {
                let _ = rustix::process::kill_process(self.pid, Signal::KILL);
                retry_on_intr(|| wait(self.pid, WaitOptions::empty())).ok()?
            }
            other => other.ok()?,
        }
    }

    /// Its process number.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait(pid: Pid, options: WaitOptions) -> rustix::io::Result<Option<WaitStatus>> {
    Ok(rustix::process::waitpid(Some(pid), options)?.map(|(_, status)| status))
}

/// A socket with a deadline.
pub struct Channel<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Channel<'_> {
    fn remaining(&self) -> io::Result<Option<Duration>> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(remaining)) }
    }
}

impl Read for Channel<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(self.remaining()?)?;
            match self.stream.read(out) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}

impl Write for Channel<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.stream.set_write_timeout(self.remaining()?)?;
            // Without this flag, writing to a child that has ended ends programs that do not ignore SIGPIPE.
            match rustix::net::send(self.stream, bytes, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::AGAIN) => {}
                other => return Ok(other?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends the process without running destructors and exit handlers, which are the parent's.
fn exit(status: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(status) }
}

/// Forks the process. The child runs `work` and ends. All signals stay blocked for the calling thread.
fn fork(work: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: the set is initialised by `sigfillset` before it is used. No signal is delivered from here on,
    // so no handler of the parent runs in the child. The child runs code that the head of this file says to be
    // safe, and does not return from here.
    let pid = unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        libc::fork()
    };
    match pid {
        0 => {
            work();
            exit(0)
        }
        pid => (pid > 0).then(|| Pid::from_raw(pid)).flatten().ok_or_else(io::Error::last_os_error),
    }
}

/// Cuts the child off from what belongs to its parent: signal handlers, terminal, open files, panic hook. Then limits
/// what it may take and do. Returns the child's only link to the parent, the socket.
fn isolate(socket: &UnixStream, alive: &PipeReader, memory_bytes: u64) -> UnixStream {
    let isolated = || -> io::Result<UnixStream> {
        // SAFETY: there are no other threads. `signal` sets default actions only; for some numbers it is
        // refused. `empty` is initialised by `sigemptyset`. `unsetenv` keeps a failed allocation from
        // collecting a backtrace, which allocates. The descriptors from `SOCKET` on belong to values of the
        // parent, which the child neither uses nor drops, so `SOCKET` has one owner, which is returned, and
        // `ALIVE` has none.
        let socket = unsafe {
            for signal in 1..=64 {
                libc::signal(signal, libc::SIG_DFL);
            }
            let mut empty = std::mem::zeroed();
            libc::sigemptyset(&mut empty);
            libc::pthread_sigmask(libc::SIG_SETMASK, &empty, std::ptr::null_mut());
            libc::unsetenv(c"RUST_BACKTRACE".as_ptr());
            // Each may have the other's number.
            let copy = |of: RawFd| libc::fcntl(of, libc::F_DUPFD, ALIVE + 1);
            let (socket, alive) = (copy(socket.as_raw_fd()), copy(alive.as_raw_fd()));
            if libc::dup2(socket, SOCKET) != SOCKET || libc::dup2(alive, ALIVE) != ALIVE {
                return Err(io::Error::last_os_error());
            }
            // Before the child's own copy of the other end is closed: if the parent has ended already, that is the last.
            end_with_parent();
            close_from(ALIVE + 1);
            UnixStream::from_raw_fd(SOCKET)
        };
        let null = ManuallyDrop::new(nothing()?);
        rustix::stdio::dup2_stdin(&*null)?;
        rustix::stdio::dup2_stdout(&*null)?;
        rustix::stdio::dup2_stderr(&*null)?;
        rustix::process::setsid()?;
        // This also keeps programs that collect crash reports from collecting this process.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
        std::panic::set_hook(Box::new(|_| exit(PANICKED)));
        limit_memory(memory_bytes)?;
        // No descriptor beyond those that are open, no process, no written file.
        for resource in [Resource::Core, Resource::Nofile, Resource::Nproc, Resource::Fsize] {
            rustix::process::setrlimit(resource, Rlimit { current: Some(0), maximum: Some(0) })?;
        }
        confine::confine();
        Ok(socket)
    };
    isolated().unwrap_or_else(|_| exit(1))
}

/// What has nothing to read: /dev/null or, in a root folder without it, a socket whose other end is closed.
fn nothing() -> io::Result<OwnedFd> {
    match File::options().read(true).write(true).open("/dev/null") {
        Ok(null) => Ok(null.into()),
        Err(_) => UnixStream::pair().map(|(socket, _)| socket.into()),
    }
}

/// The system kills the child when the last writing end of the pipe [`ALIVE`] is closed. `PR_SET_PDEATHSIG` would kill
/// it with the thread that has forked it, which ends at once. Has no effect where the system refuses it: then the limit
/// on time ends the child.
fn end_with_parent() {
    /// Of Linux' `asm-generic/fcntl.h`.
    const F_SETSIG: libc::c_int = 10;
    let kill = [(F_SETSIG, libc::SIGKILL), (libc::F_SETFL, libc::O_ASYNC)];
    // SAFETY: these calls change a descriptor only, and take no pointers.
    unsafe {
        if libc::fcntl(ALIVE, libc::F_SETOWN, libc::getpid()) == 0 {
            kill.iter().all(|(command, value)| libc::fcntl(ALIVE, *command, *value) == 0);
        }
    }
}

/// Closes all descriptors from `first` on.
///
/// # Safety
/// No value that owns one of them may be used or dropped afterwards.
unsafe fn close_from(first: RawFd) {
    // SAFETY: as the caller promises. Kernels before 5.9 refuse the call.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } == 0 {
        return;
    }
    let open = rustix::process::getrlimit(Resource::Nofile).current.map_or(RawFd::MAX, |n| n as RawFd);
    for descriptor in first..open.min(1 << 16) {
        // SAFETY: as the caller promises.
        unsafe { libc::close(descriptor) };
    }
}

/// Limits the memory of this process to so many bytes more than it has now. It cannot raise the limit again.
fn limit_memory(bytes: u64) -> io::Result<()> {
    let inherited = rustix::process::getrlimit(Resource::As);
    let total = address_space(inherited.maximum)?.saturating_add(bytes);
    let limit = Some(inherited.current.map_or(total, |inherited| inherited.min(total)));
    Ok(rustix::process::setrlimit(Resource::As, Rlimit { current: limit, maximum: limit })?)
}

/// Bytes of the address space of this process, to a page or two: with fewer allowed, the system refuses another page.
/// /proc says the same, but not every container has it.
fn address_space(maximum: Option<u64>) -> io::Result<u64> {
    let page = rustix::param::page_size();
    let has_room = |limit: u64| -> io::Result<bool> {
        rustix::process::setrlimit(Resource::As, Rlimit { current: Some(limit), maximum })?;
        // SAFETY: a new page is mapped, which nothing uses, and unmapped again.
        Ok(unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                page,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            at != libc::MAP_FAILED && libc::munmap(at, page) == 0
        })
    };
    // No address space is larger than 2^57 bytes.
    let (mut refused, mut enough) = (0, maximum.unwrap_or(u64::MAX).min(1 << 57));
    if !has_room(enough)? {
        return Ok(enough);
    }
    while enough - refused > page as u64 {
        let middle = refused + (enough - refused) / 2;
        if has_room(middle)? {
            enough = middle;
        } else {
            refused = middle;
        }
    }
    Ok(enough)
}
