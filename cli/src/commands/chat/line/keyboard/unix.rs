//! Keys as the bytes of a terminal of Unix.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use signal_hook::consts::SIGQUIT;
use signal_hook::low_level;
use terminal::tty;

use super::Input;
use super::decoder::Decoder;

/// Time in which the rest of a key's bytes arrives; without them, Esc was pressed. Over a slow line they may be late.
const ESC_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// The keys of stdin, for the thread that waits for them.
pub struct Keys {
    woken: UnixStream,
    decoder: Decoder,
    bytes: Vec<u8>,
}

/// Wakes the thread; ends it when it is dropped.
pub struct Wake(UnixStream);

/// Begins to read.
pub fn open() -> io::Result<(Keys, Wake)> {
    let (woken, wake) = UnixStream::pair()?;
    Ok((Keys { woken, decoder: Decoder::default(), bytes: vec![0; PIECE] }, Wake(wake)))
}

/// Ends the program.
pub fn quit() {
    let _ = low_level::raise(SIGQUIT);
}

impl Wake {
    pub fn wake(&self) {
        let _ = (&self.0).write(&[0]);
    }
}

impl Keys {
    /// Waits for keys, or until it is woken or a signal comes.
    pub fn next(&mut self) -> Input {
        let Keys { woken, decoder, bytes } = self;
        let mut wait =
            [PollFd::from_borrowed_fd(stdin(), PollFlags::IN), PollFd::new(&*woken, PollFlags::IN)];
        match poll(&mut wait, decoder.is_ambiguous().then_some(&ESC_TIME)) {
            Ok(0) => return Input::Keys(decoder.finish()),
            Err(Errno::INTR) => return Input::Keys(Vec::new()),
            // Other errors are met again by whoever reads.
            Ok(_) | Err(_) => {}
        }
        if !wait[1].revents().is_empty() {
            return match (&*woken).read(&mut [0; 16]) {
                Ok(0) => Input::Unwanted,
                _ => Input::Keys(Vec::new()),
            };
        }
        match rustix::io::read(stdin(), &mut *bytes) {
            Err(Errno::INTR | Errno::AGAIN) => Input::Keys(Vec::new()),
            Ok(0) | Err(_) => Input::Gone,
            Ok(count) => {
                let before = tty::take_typed_before(count);
                bytes[..before].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
                Input::Keys(decoder.feed(&bytes[..count]))
            }
        }
    }
}
