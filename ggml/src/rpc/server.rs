//! A server of this machine's devices.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ggml_sys as sys;

use super::connection::tune;
use super::sockets::{self, Socket};
use crate::{Backend, Error};

/// A server that listens. Each client has its own backends and memory, which are freed when it leaves.
///
/// A client can end the process: ggml asserts what it is sent. It can also read and write what other clients have there. Custom
/// operations, which are addresses of code, are refused.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// Stops a [`Server`] from another thread.
#[derive(Clone)]
pub struct StopServer(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    is_stopped: AtomicBool,
    clients: Mutex<HashMap<SocketAddr, TcpStream>>,
}

/// What a server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// A client came.
    Came(SocketAddr),
    /// A client left.
    Left(SocketAddr),
    /// A client was sent away, for this reason.
    Refused(SocketAddr, String),
}

impl Server {
    /// A server at an address; the port 0 is any that is free.
    ///
    /// # Errors
    /// The system's, where it cannot listen there.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Shared { address, is_stopped: AtomicBool::new(false), clients: Mutex::default() };
        Ok(Server { listener, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// What stops it.
    pub fn stop(&self) -> StopServer {
        StopServer(self.shared.clone())
    }

    /// Serves clients, each on a thread of its own, until it is stopped. `devices` starts what a client computes on, and says
    /// how many bytes of memory are offered; `None` is what the devices report. `report` is told of clients.
    ///
    /// # Errors
    /// The system's, where it accepts no more clients.
    pub fn run(
        &self,
        devices: &(dyn Fn() -> Result<(Vec<Backend>, Option<usize>), Error> + Sync),
        report: &(dyn Fn(ClientEvent) + Sync),
    ) -> io::Result<()> {
        thread::scope(|scope| {
            loop {
                let accepted = self.listener.accept();
                if self.shared.is_stopped.load(Ordering::SeqCst) {
                    return Ok(());
                }
                let (stream, client) = match accepted {
                    Ok(accepted) => accepted,
                    // The client has left already, or too many files are open.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                    Err(error) => {
                        StopServer(self.shared.clone()).stop();
                        return Err(error);
                    }
                };
                scope.spawn(move || report(self.serve(stream, client, devices, report)));
            }
        })
    }

    /// Serves one client. Returns how that ended.
    fn serve(
        &self,
        stream: TcpStream,
        client: SocketAddr,
        devices: &(dyn Fn() -> Result<(Vec<Backend>, Option<usize>), Error> + Sync),
        report: &(dyn Fn(ClientEvent) + Sync),
    ) -> ClientEvent {
        report(ClientEvent::Came(client));
        let refused = |why: String| ClientEvent::Refused(client, why);
        match tune(&stream).and_then(|()| stream.try_clone()) {
            Ok(copy) => {
                self.shared.clients().insert(client, copy);
            }
            Err(error) => return refused(error.to_string()),
        }
        // A stop that came before the client was there.
        if self.shared.is_stopped.load(Ordering::SeqCst) {
            self.shared.clients().remove(&client);
            return ClientEvent::Left(client);
        }
        let ended = match devices() {
            Ok((backends, memory)) => {
                self::serve(stream, &backends, memory).map_or_else(refused, |()| ClientEvent::Left(client))
            }
            Err(error) => refused(error.to_string()),
        };
        self.shared.clients().remove(&client);
        ended
    }
}

fn serve(stream: TcpStream, backends: &[Backend], memory: Option<usize>) -> Result<(), String> {
    let raw: Vec<sys::ggml_backend_t> = backends.iter().map(Backend::raw).collect();
    let number = sockets::add(Socket::Server(Arc::new((stream, Mutex::default()))));
    let mut why = [0 as c_char; 256];
    // SAFETY: live backends, which nobody else computes with, and room for the text.
    let is_served = unsafe {
        sys::longhand_rpc_serve(
            number,
            raw.as_ptr(),
            raw.len(),
            memory.unwrap_or(0),
            why.as_mut_ptr(),
            why.len(),
        )
    };
    sockets::remove(number);
    // SAFETY: the function ends its text with NUL, and nothing was written to the zeros otherwise.
    let why = unsafe { CStr::from_ptr(why.as_ptr()) };
    if is_served { Ok(()) } else { Err(why.to_string_lossy().into_owned()) }
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<SocketAddr, TcpStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StopServer {
    /// Ends all connections, and [`Server::run`].
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::SeqCst);
        for stream in self.0.clients().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The server waits for a client.
        let mut address = self.0.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let _ = TcpStream::connect(address);
    }
}
