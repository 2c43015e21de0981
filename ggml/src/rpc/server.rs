//! A server of this machine's devices.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ggml_sys as sys;

use super::connection::{PATIENCE, tune};
use super::sockets::{self, Socket};
use crate::{Backend, Error};

/// Clients that are served at a time.
const MAX_CLIENTS: usize = 16;
/// How long the server waits where the system accepts no client, for example because too many files are open, and how often.
const PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSES: usize = 600;

/// How long a server waits for a client at a time. On Windows a stop is seen only between two waits.
const WAIT: Duration = Duration::from_millis(500);

/// Starts what a client computes on, and says how many bytes of memory are reported; `None` is what the devices report.
pub type StartDevices<'a> = &'a (dyn Fn() -> Result<(Vec<Backend>, Option<usize>), Error> + Sync);

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
    /// By the number of the client.
    clients: Mutex<HashMap<u64, TcpStream>>,
}

/// What a server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// A client came.
    Came(SocketAddr),
    /// A client left.
    Left(SocketAddr),
    /// A client was refused, for this reason.
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

    /// Serves clients, each on a thread of its own, until it is stopped. `report` is told of clients.
    ///
    /// # Errors
    /// The system's, where it accepts no more clients for a minute.
    pub fn run(&self, devices: StartDevices, report: &(dyn Fn(ClientEvent) + Sync)) -> io::Result<()> {
        thread::scope(|scope| {
            let mut pauses = 0;
            for number in 0.. {
                let accepted = self.listener.accept();
                if self.shared.is_stopped.load(Ordering::SeqCst) {
                    break;
                }
                let (stream, client) = match accepted {
                    Ok(accepted) => accepted,
                    Err(_) if pauses < MAX_PAUSES => {
                        pauses += 1;
                        thread::sleep(PAUSE);
                        continue;
                    }
                    Err(error) => {
                        self.stop().stop();
                        return Err(error);
                    }
                };
                pauses = 0;
                let serve = move || report(self.serve(stream, (number, client), devices, report));
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, serve) {
                    report(ClientEvent::Refused(client, error.to_string()));
                }
            }
            Ok(())
        })
    }

    /// Serves one client. Returns how that ended.
    fn serve(
        &self,
        stream: TcpStream,
        (number, client): (u64, SocketAddr),
        devices: StartDevices,
        report: &(dyn Fn(ClientEvent) + Sync),
    ) -> ClientEvent {
        report(ClientEvent::Came(client));
        let served = self.enter(&stream, number).map_err(|error| error.to_string()).and_then(|()| {
            // A stop that came before the client was there.
            if self.shared.is_stopped.load(Ordering::SeqCst) {
                return Ok(());
            }
            let (backends, memory) = devices().map_err(|error| error.to_string())?;
            serve_stream(stream, &backends, memory)
        });
        self.shared.clients().remove(&number);
        match served {
            Ok(()) => ClientEvent::Left(client),
            Err(why) => ClientEvent::Refused(client, why),
        }
    }

    /// Takes a client in when it has begun to speak: before that it costs a thread, and no devices.
    fn enter(&self, stream: &TcpStream, number: u64) -> io::Result<()> {
        tune(stream)?;
        let mut clients = self.shared.clients();
        if clients.len() >= MAX_CLIENTS {
            return Err(io::Error::other(format!("{MAX_CLIENTS} clients are connected")));
        }
        clients.insert(number, stream.try_clone()?);
        drop(clients);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.peek(&mut [0])?;
        stream.set_read_timeout(Some(WAIT))
    }
}

fn serve_stream(stream: TcpStream, backends: &[Backend], memory: Option<usize>) -> Result<(), String> {
    let raw: Vec<sys::ggml_backend_t> = backends.iter().map(Backend::raw).collect();
    let number = sockets::add(Socket::Server(Arc::new((stream, Mutex::default()))));
    let mut why = [0 as c_char; 256];
    // SAFETY: live backends, which nobody else computes with, and room for the text.
    let is_served = unsafe {
        sys::longhand_rpc_serve(
            number,
            raw.as_ptr(),
            raw.len(),
            memory.unwrap_or(usize::MAX),
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
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
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
        let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
    }
}
