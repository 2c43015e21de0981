//! A child process for work on untrusted data, with limits on memory and time that the work cannot change. If it crashes or is
//! ended, this process lives on. If this process ends, however it ends, so does the child.
//!
//! On Linux the child is a fork of this process (`forked`), without files, without a network, and with few system calls
//! (`confine`). Elsewhere it is this program, started once more (`worker`): Windows cannot fork, and on macOS a fork of a process
//! with threads may not use what the system's libraries use. The program says with [`use_worker`] that it can be started so, and
//! calls [`serve`] then. What the parent and its child send each other is the same.
//!
//! Everywhere a child is ended after its parent's deadline. The rest depends on the system:
//!
//! - Linux: it is ended with its parent, its memory is limited, and it has no files, no network and no other processes.
//! - Windows: it is ended with its parent, a job object limits its memory, and it has no other processes.
//! - Elsewhere: it has no files, no network and no other processes. It is ended with its parent only after the time of
//!   [`limit_time`], and its memory is not limited.
//!
#![cfg_attr(target_os = "linux", doc = "```")]
#![cfg_attr(not(target_os = "linux"), doc = "```ignore")]
//! use std::io::{Read, Write};
//! use std::time::{Duration, Instant};
//!
//! // The child has ten seconds.
//! let limits = child::Limits { stack_bytes: 1 << 20, memory_bytes: 64 << 20 };
//! let child = child::Child::fork(limits, |mut socket| {
//!     child::limit_time(Some(10));
//!     let _ = socket.write_all(b"done");
//! })?;
//! // So has its reply.
//! let mut reply = [0; 4];
//! child.channel(Instant::now() + Duration::from_secs(10)).read_exact(&mut reply)?;
//! assert_eq!(&reply, b"done");
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod forked;
pub mod worker;

use std::io::{self, Read, Write};

#[cfg(target_os = "linux")]
pub use self::forked::{Channel, Child};
#[cfg(not(target_os = "linux"))]
pub use self::worker::{Channel, Child};
pub use self::worker::{requested, serve, use_worker};

/// What a child may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Its stack.
    pub stack_bytes: usize,
    /// Its memory in addition to what it has at the start. Only Linux and Windows have this limit.
    pub memory_bytes: u64,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Its code panicked.
    Panicked,
    /// Memory could not be allocated.
    OutOfMemory,
    /// The stack overflowed.
    StackOverflow,
    /// It ran out of the time of [`limit_time`].
    OutOfTime,
    /// Something else, for example a signal of another process.
    Other,
}

/// Work for a child.
pub trait Work: Sync + Sized {
    /// The name by which a worker knows it.
    const NAME: &'static str;

    /// Writes what a worker needs to do it.
    ///
    /// # Errors
    /// Those of `to`.
    fn write(&self, to: &mut dyn Write) -> io::Result<()>;

    /// Reads what [`Work::write`] has written.
    ///
    /// # Errors
    /// Those of `from`, and where it has something else.
    fn read(from: &mut dyn Read) -> io::Result<Self>;

    /// Does it, in the child. `input` has what the parent sends, and `output` is what it receives. The child ends when this
    /// returns.
    ///
    /// # Errors
    /// The parent is gone.
    fn run(&self, input: &mut dyn Read, output: &mut dyn Write) -> io::Result<()>;
}

/// What a child sends when it has come as far as its work.
const BEGUN: u8 = 1;
/// Exit status of a child that panicked.
const PANICKED: i32 = 101;

/// In the child: the system ends it after this many seconds, from 1 on; `None` for no limit. On Windows only the parent keeps a
/// time.
pub fn limit_time(seconds: Option<u32>) {
    // SAFETY: `alarm` has no preconditions, and SIGALRM has its default action in the child.
    #[cfg(unix)]
    unsafe {
        libc::alarm(seconds.unwrap_or(0))
    };
    #[cfg(not(unix))]
    let _ = seconds;
}
