//! Devices of other machines, by ggml's RPC: a client, and a server of this machine's devices. llama.cpp's `rpc-server` serves
//! too.
//!
//! Servers are added by their address ([`add_servers`]), and their devices get numbers, as GPUs have. The protocol has no
//! authentication and no encryption: whoever reaches a server can use it, and read what others compute there. So both ends
//! belong on one machine, on a network without strangers, or behind ssh or a VPN.
//!
//! *A server that is lost* is an error that names it: [`Error::Rpc`]. What was computed there is gone, and each later use of
//! the connection fails with the same error. A new [`Backend`](crate::Backend) connects again. On Linux, connections ask for
//! a sign of life, so that a machine that is switched off is noticed; elsewhere the system decides.
//!
//! *What still ends the process:* ggml's client allocates what it sends, and has no error for refused memory. Pieces of tensors
//! are 4 MiB at most, and a graph some 300 bytes for each tensor.
//!
//! *A wrong server.* Answers are checked where ggml would abort the process, or read or write outside its memory. What a server
//! computes is not checked.

mod connection;
mod problem;
mod protocol;
mod repeated;
mod server;
mod sockets;

use std::collections::HashSet;
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ggml_sys as sys;

use self::connection::Connection;
use self::sockets::Socket;
use crate::Error;

pub use self::connection::DEFAULT_PORT;
pub use self::problem::RpcProblem;
pub(crate) use self::repeated::RepeatedGraph;
pub use self::server::{ClientEvent, Server, StartDevices, StopServer};

/// The most that is sent of a tensor at once: ggml copies it.
pub(crate) const MAX_WRITE: usize = 4 << 20;

/// A device of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcDevice {
    /// Its number among the devices of all servers.
    pub index: usize,
    /// Its server as it was given, such as `192.168.1.7:50052`.
    pub server: String,
    /// Its number on the server.
    pub number: u32,
}

/// A server that was added.
struct KnownServer {
    address: String,
    devices: u32,
    /// The connection, while somebody has it.
    client: Weak<Client>,
}

/// All servers that were added, in order.
static SERVERS: Mutex<Vec<KnownServer>> = Mutex::new(Vec::new());

fn servers() -> MutexGuard<'static, Vec<KnownServer>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that ggml uses.
pub(crate) struct Client {
    connection: Arc<Connection>,
    /// Of its socket.
    number: u64,
}

impl Client {
    fn connect(server: &str) -> Result<Client, RpcProblem> {
        let connection = Arc::new(Connection::open(server)?);
        connection.wait_for_ever()?;
        connection.enter();
        let number = sockets::add(Socket::Client(connection.clone()));
        Ok(Client { connection, number })
    }

    /// An error if the server is lost.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.connection.check()
    }

    /// Bytes that were sent and received.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        self.connection.traffic()
    }

    /// ggml's backend of a device of the server, which has answered.
    fn backend(&self, device: u32) -> Result<NonNull<sys::ggml_backend>, Error> {
        // ggml reads the numbers. The address makes the name that ggml gives the device, and its memory, one that people know.
        let endpoint = format!("{}:0 {}", self.number, self.connection.server.replace('\0', ""));
        let endpoint = CString::new(endpoint).map_err(|_| Error::Backend("RPC"))?;
        // SAFETY: the socket is there, and the server has the device.
        let raw = unsafe { sys::longhand_rpc_backend(endpoint.as_ptr(), device) };
        let raw = NonNull::new(raw).ok_or(Error::Backend("RPC"))?;
        // SAFETY: the backend was just made.
        if let Err(error) = unsafe { wait(raw) }.and_then(|()| self.check()) {
            // SAFETY: owned, and freed once.
            unsafe { sys::ggml_backend_free(raw.as_ptr()) };
            return Err(error);
        }
        Ok(raw)
    }

    /// Held while a graph is sent.
    pub(crate) fn lock_graphs(&self) -> MutexGuard<'_, ()> {
        self.connection.lock_graphs()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.leave();
    }
}

fn error(server: &str, problem: RpcProblem) -> Error {
    Error::Rpc { server: server.to_owned(), problem }
}

/// Adds servers by their addresses: `HOST:PORT`, or `HOST` with the port 50052. Each is connected to. Returns their devices,
/// whose numbers follow those of earlier servers. A server that was added before keeps its place.
///
/// # Errors
/// [`Error::Rpc`] for the first that is no server, or is there twice. Then none is added.
pub fn add_servers(addresses: &[impl AsRef<str>]) -> Result<Vec<RpcDevice>, Error> {
    let mut known = servers();
    let mut found = Vec::new();
    let mut peers = HashSet::new();
    for address in addresses.iter().map(|address| address.as_ref().trim()) {
        let connection = Connection::open(address).map_err(|problem| error(address, problem))?;
        if !peers.insert(connection.peer) {
            return Err(error(address, RpcProblem::Twice));
        }
        found.push((address, connection.devices));
    }
    let mut devices = Vec::new();
    for (address, count) in found {
        let place = known.iter().position(|server| server.address == address).unwrap_or_else(|| {
            known.push(KnownServer { address: address.to_owned(), devices: 0, client: Weak::new() });
            known.len() - 1
        });
        // It may have been started again with others.
        known[place].devices = count;
        devices.extend(devices_of(&known, place));
    }
    Ok(devices)
}

/// The devices of all servers, in the order of their numbers.
pub fn devices() -> Vec<RpcDevice> {
    let known = servers();
    (0..known.len()).flat_map(|place| devices_of(&known, place)).collect()
}

fn devices_of(known: &[KnownServer], place: usize) -> Vec<RpcDevice> {
    let first: u32 = known[..place].iter().map(|server| server.devices).sum();
    let KnownServer { address, devices, .. } = &known[place];
    let device = |number| RpcDevice { index: (first + number) as usize, server: address.clone(), number };
    (0..*devices).map(device).collect()
}

/// Bytes of a device's memory that are free, and all, by its number. Connects to the server.
///
/// # Errors
/// Where there is no such device, or its server does not answer.
pub fn memory(index: usize) -> Result<(u64, u64), Error> {
    let device = find(index)?;
    let of_problem = |problem| error(&device.server, problem);
    // A connection of its own: that of a backend belongs to ggml.
    let connection = Connection::open(&device.server).map_err(of_problem)?;
    connection.memory(device.number).map_err(of_problem)
}

fn find(index: usize) -> Result<RpcDevice, Error> {
    let mut devices = devices();
    match index < devices.len() {
        true => Ok(devices.swap_remove(index)),
        false => Err(Error::NoSuchRpcDevice { index, devices: devices.len() }),
    }
}

/// ggml's backend of a device, and the connection that it has. Backends of one server share it: llama.cpp's server has one
/// client at a time.
pub(crate) fn start(index: usize) -> Result<(NonNull<sys::ggml_backend>, Arc<Client>), Error> {
    let device = find(index)?;
    let mut known = servers();
    let server = known.iter_mut().find(|server| server.address == device.server);
    let Some(server) = server else { return Err(error(&device.server, RpcProblem::Address)) };
    if let Some(client) = server.client.upgrade()
        && let Ok(raw) = client.backend(device.number)
    {
        return Ok((raw, client));
    }
    let client = Arc::new(Client::connect(&device.server).map_err(|problem| error(&device.server, problem))?);
    if client.connection.devices <= device.number {
        let problem = format!("it has {} devices, and had more before", client.connection.devices);
        return Err(error(&device.server, RpcProblem::WrongAnswer(problem)));
    }
    let raw = client.backend(device.number)?;
    server.client = Arc::downgrade(&client);
    Ok((raw, client))
}

/// An error if this is memory of a server that is lost.
pub(crate) fn check_memory(ty: sys::ggml_backend_buffer_type_t) -> Result<(), Error> {
    // SAFETY: memory types are static.
    match unsafe { sys::longhand_rpc_connection(ty) } {
        0 => Ok(()),
        number => sockets::connection(number).map_or(Ok(()), |connection| connection.check()),
    }
}

/// Whether this is memory of a server.
pub(crate) fn is_remote(ty: sys::ggml_backend_buffer_type_t) -> bool {
    // SAFETY: memory types are static.
    unsafe { sys::longhand_rpc_connection(ty) != 0 }
}

/// Waits until a server has computed all that it was sent.
///
/// # Safety
/// A live backend of [`Client::backend`].
pub(crate) unsafe fn wait(backend: NonNull<sys::ggml_backend>) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    match unsafe { sys::longhand_rpc_wait(backend.as_ptr()) } {
        true => Ok(()),
        false => Err(Error::Backend("RPC")),
    }
}
