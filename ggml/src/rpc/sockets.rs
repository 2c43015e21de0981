//! What ggml's client and server send and receive with: functions that rpc/rpc.cpp of ggml-sys calls with the number of a
//! socket.

use std::collections::HashMap;
use std::ffi::c_void;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError};

use ggml_sys as sys;

use super::connection::Connection;

/// One end of a stream.
#[derive(Clone)]
pub(super) enum Socket {
    /// Of a client.
    Client(Arc<Connection>),
    /// Of a server, for one client. What is sent is collected until the end of a message.
    Server(Arc<(TcpStream, Mutex<Vec<u8>>)>),
}

/// The sockets by their numbers. Those of clients stay: memory types of ggml name them as long as the process lives.
static SOCKETS: LazyLock<Mutex<HashMap<u64, Socket>>> = LazyLock::new(Mutex::default);

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// Bytes that a server collects before it sends them.
const COLLECTED: usize = 64 << 10;

/// Adds a socket. Returns its number, which is not 0.
pub(super) fn add(socket: Socket) -> u64 {
    static ONCE: Once = Once::new();
    // SAFETY: the functions have the right signatures, and nothing of the C++ side was called before.
    ONCE.call_once(|| unsafe {
        sys::longhand_rpc_use(&sys::longhand_rpc_sockets { open, send, flush, receive, close });
    });
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    sockets().insert(number, socket);
    number
}

/// Forgets the socket of a server.
pub(super) fn remove(number: u64) {
    sockets().remove(&number);
}

fn find(number: u64) -> Option<Socket> {
    sockets().get(&number).cloned()
}

fn sockets() -> MutexGuard<'static, HashMap<u64, Socket>> {
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connection of a client with this number.
pub(super) fn connection(number: u64) -> Option<Arc<Connection>> {
    match find(number)? {
        Socket::Client(connection) => Some(connection),
        Socket::Server(_) => None,
    }
}

unsafe extern "C" fn open(number: u64) {
    if let Some(Socket::Client(connection)) = find(number) {
        connection.enter();
    }
}

unsafe extern "C" fn close(number: u64) {
    if let Some(Socket::Client(connection)) = find(number) {
        connection.leave();
    }
}

unsafe extern "C" fn send(number: u64, data: *const c_void, size: usize) -> bool {
    let data: &[u8] = match size {
        0 => &[],
        // SAFETY: ggml sends as many bytes from there.
        _ => unsafe { std::slice::from_raw_parts(data.cast(), size) },
    };
    match find(number) {
        Some(Socket::Client(connection)) => {
            connection.send(data);
            true
        }
        Some(Socket::Server(client)) => {
            let (stream, collected) = &*client;
            let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
            if collected.len() + data.len() <= COLLECTED {
                collected.extend_from_slice(data);
                return true;
            }
            send_collected(stream, &mut collected) && { stream }.write_all(data).is_ok()
        }
        None => false,
    }
}

unsafe extern "C" fn flush(number: u64) -> bool {
    match find(number) {
        Some(Socket::Server(client)) => {
            let (stream, collected) = &*client;
            send_collected(stream, &mut collected.lock().unwrap_or_else(PoisonError::into_inner))
        }
        found => found.is_some(),
    }
}

fn send_collected(mut stream: &TcpStream, collected: &mut Vec<u8>) -> bool {
    let sent = stream.write_all(collected).is_ok();
    collected.clear();
    sent
}

unsafe extern "C" fn receive(number: u64, data: *mut c_void, size: usize) -> bool {
    let data: &mut [u8] = match size {
        0 => &mut [],
        // SAFETY: ggml has as many bytes there, which need not be initialised: they are written only.
        _ => unsafe { std::slice::from_raw_parts_mut(data.cast(), size) },
    };
    match find(number) {
        Some(Socket::Client(connection)) => {
            connection.receive(data);
            true
        }
        Some(Socket::Server(client)) => receive_all(&client.0, data),
        None => false,
    }
}

/// Receives as many bytes, from a stream with a time limit. When that has passed, it waits again: on Windows the shutdown of a stream
/// is seen only by the next wait. It waits for a byte without taking it, because there a read that takes too long may lose some.
fn receive_all(mut stream: &TcpStream, mut data: &mut [u8]) -> bool {
    while !data.is_empty() {
        match stream.peek(&mut [0]).and_then(|_| stream.read(data)) {
            Ok(0) => return false,
            Ok(n) => data = &mut data[n..],
            Err(error) if goes_on(error.kind()) => {}
            Err(_) => return false,
        }
    }
    true
}

fn goes_on(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
