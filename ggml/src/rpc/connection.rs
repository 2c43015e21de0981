//! The connection to a server: a stream, and what is known of the server.
//!
//! ggml's client aborts the process where a server does not answer. So once a connection has failed, what ggml sends is dropped
//! and what it receives is a substitute ([`protocol`](super::protocol)). The problem is kept, and whoever reads a tensor or
//! computes a graph asks for it.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::problem::RpcProblem;
use super::protocol::{self, Awaited};
use crate::Error;

/// How long one address of a server may take to accept a connection, and the other side to say who it is.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The port of llama.cpp's server.
pub const DEFAULT_PORT: u16 = 50052;

/// Devices of one server that are used.
const MAX_DEVICES: u32 = 64;

/// Content of a command up to so many bytes is sent in one piece with what comes before it.
const SMALL: usize = 64 << 10;

/// A connection to a server.
pub(super) struct Connection {
    /// The server as it was given, such as `192.168.1.7:50052`.
    pub(super) server: String,
    pub(super) peer: SocketAddr,
    /// `None` when nobody uses the connection any more.
    stream: Mutex<Option<Arc<TcpStream>>>,
    /// The server's answer to the first command.
    hello: [u8; protocol::HELLO_ANSWER],
    pub(super) devices: u32,
    problem: OnceLock<RpcProblem>,
    /// Handles in Rust and sockets of ggml; the stream ends with the last.
    users: AtomicUsize,
    exchange: Mutex<Exchange>,
    bytes: [AtomicU64; 2],
    computing: Mutex<()>,
}

/// The command that ggml is sending, and the answer that it receives.
#[derive(Default)]
struct Exchange {
    header: Vec<u8>,
    awaited: Option<Awaited>,
    /// Whether the length of the answer was received.
    has_size: bool,
    /// The last graph that was sent to each device.
    graphs: HashMap<u32, SentGraph>,
    /// The alignment of each device's memory.
    alignments: HashMap<u32, u64>,
    /// The device of each buffer, by the server's number for it.
    buffers: HashMap<u64, u32>,
}

/// A graph as it was sent.
struct SentGraph {
    content: Vec<u8>,
    /// Whether the server still has it.
    is_kept: bool,
}

impl Exchange {
    /// Refuses an answer on which ggml would abort the process, and remembers what later answers are compared with.
    fn check(&mut self, awaited: &Awaited, content: &[u8], devices: u32) -> Result<(), RpcProblem> {
        let alignment = |buffer| self.buffers.get(&buffer).and_then(|device| self.alignments.get(device));
        awaited.check(content, devices, alignment(awaited.subject).copied())?;
        let first = protocol::number(content, 0);
        match awaited.command {
            protocol::GET_ALIGNMENT => drop(self.alignments.insert(awaited.subject as u32, first)),
            protocol::ALLOC_BUFFER => drop(self.buffers.insert(first, awaited.subject as u32)),
            _ => {}
        }
        Ok(())
    }

    /// Follows which graphs the server keeps: the last of each device, until memory is freed. ggml does not follow that, and
    /// would ask for a graph that is gone. Then this is the graph, which is sent again.
    fn forgotten_graph(&mut self, command: u8, content: &[u8]) -> Option<&[u8]> {
        let device = protocol::device(content);
        match command {
            protocol::FREE_BUFFER => {
                self.buffers.remove(&protocol::number(content, 0));
                self.graphs.values_mut().for_each(|graph| graph.is_kept = false);
            }
            protocol::GRAPH_COMPUTE => {
                self.graphs.insert(device, SentGraph { content: content.to_vec(), is_kept: true });
            }
            protocol::GRAPH_RECOMPUTE => {
                let graph = self.graphs.get_mut(&device).filter(|graph| !graph.is_kept)?;
                graph.is_kept = true;
                return Some(&graph.content);
            }
            _ => {}
        }
        None
    }
}

impl Connection {
    /// Connects to a server, and asks for its version and devices.
    pub(super) fn open(server: &str) -> Result<Connection, RpcProblem> {
        let (stream, peer) = connect(server)?;
        tune(&stream).map_err(|error| RpcProblem::Unreachable(error.to_string()))?;
        // Servers of other protocols close the connection.
        let unheard = |error| silent_or(&error, RpcProblem::NotRpc);
        let patience = |time| stream.set_read_timeout(time).and_then(|()| stream.set_write_timeout(time));
        patience(Some(PATIENCE)).map_err(unheard)?;
        let mut hello = [0; protocol::HELLO_ANSWER];
        ask(&stream, protocol::HELLO, &[0; protocol::CAPABILITIES], &mut hello).map_err(unheard)?;
        if hello[..3] != protocol::VERSION {
            let [found, needed] = [&hello[..3], &protocol::VERSION]
                .map(|version| version.iter().map(u8::to_string).collect::<Vec<_>>().join("."));
            return Err(RpcProblem::Version { found, needed });
        }
        let mut devices = [0; 4];
        ask(&stream, protocol::DEVICE_COUNT, &[], &mut devices).map_err(unheard)?;
        let devices = u32::from_ne_bytes(devices);
        if !(1..=MAX_DEVICES).contains(&devices) {
            return Err(RpcProblem::Devices(devices));
        }
        Ok(Connection {
            server: server.to_owned(),
            peer,
            stream: Mutex::new(Some(Arc::new(stream))),
            hello,
            devices,
            problem: OnceLock::new(),
            users: AtomicUsize::new(0),
            exchange: Mutex::default(),
            bytes: [const { AtomicU64::new(0) }; 2],
            computing: Mutex::default(),
        })
    }

    /// Waits for answers however long they take, as computations need.
    pub(super) fn wait_for_ever(&self) -> Result<(), RpcProblem> {
        let stream = self.stream().map_err(lost)?;
        stream.set_read_timeout(None).and_then(|()| stream.set_write_timeout(None)).map_err(lost)
    }

    fn stream(&self) -> io::Result<Arc<TcpStream>> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.clone().ok_or_else(|| ErrorKind::NotConnected.into())
    }

    /// An error if the connection has ended.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.end().map_err(|problem| super::error(&self.server, problem))
    }

    /// The problem that ended the connection.
    fn end(&self) -> Result<(), RpcProblem> {
        self.problem.get().map_or(Ok(()), |problem| Err(problem.clone()))
    }

    /// Bytes that were sent and received.
    pub(super) fn traffic(&self) -> (u64, u64) {
        let [sent, received] = &self.bytes;
        (sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed))
    }

    /// Held while a graph is sent: ggml compares it with the last one that was sent.
    pub(super) fn lock_graphs(&self) -> MutexGuard<'_, ()> {
        self.computing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a user.
    pub(super) fn enter(&self) {
        self.users.fetch_add(1, Ordering::SeqCst);
    }

    /// The end of a use. The last one ends the connection.
    pub(super) fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.fail(RpcProblem::Lost("it was closed".into()));
            *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = None;
            *self.exchange() = Exchange::default();
        }
    }

    fn fail(&self, problem: RpcProblem) {
        if self.problem.set(problem).is_ok()
            && let Ok(stream) = self.stream()
        {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Free bytes of a device's memory, and all. For connections that ggml does not use.
    pub(super) fn memory(&self, device: u32) -> Result<(u64, u64), RpcProblem> {
        let mut answer = [0; 16];
        let stream = self.stream().map_err(lost)?;
        ask(&stream, protocol::GET_DEVICE_MEMORY, &device.to_ne_bytes(), &mut answer)
            .map_err(|error| silent_or(&error, RpcProblem::Lost(error.to_string())))?;
        let (free, total) = (protocol::number(&answer, 0), protocol::number(&answer, 8));
        match free <= total && total <= protocol::MAX_BYTES {
            true => Ok((free, total)),
            false => Err(RpcProblem::WrongAnswer(format!("{free} of {total} bytes are free"))),
        }
    }

    fn exchange(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what ggml sends: the byte of a command, the length of its content, and the content.
    pub(super) fn send(&self, data: &[u8]) {
        let mut exchange = self.exchange();
        if exchange.header.len() < protocol::HEADER {
            exchange.header.extend_from_slice(data);
            return;
        }
        let command = std::mem::take(&mut exchange.header)[0];
        exchange.awaited = Awaited::of(command, data);
        exchange.has_size = false;
        // The server has said who it is.
        if command == protocol::HELLO || self.problem.get().is_some() {
            return;
        }
        let sent = match exchange.forgotten_graph(command, data) {
            Some(graph) => self.write(protocol::GRAPH_COMPUTE, graph),
            None => self.write(command, data),
        };
        if let Err(error) = sent {
            self.fail(lost(error));
        }
    }

    fn write(&self, command: u8, content: &[u8]) -> io::Result<()> {
        self.bytes[0].fetch_add((protocol::HEADER + content.len()) as u64, Ordering::Relaxed);
        write_command(&*self.stream()?, command, content)
    }

    /// Receives what ggml receives: the length of an answer, and the answer.
    pub(super) fn receive(&self, data: &mut [u8]) {
        let mut exchange = self.exchange();
        let Some(awaited) = exchange.awaited else {
            data.fill(0);
            return;
        };
        let is_content = std::mem::replace(&mut exchange.has_size, true);
        if awaited.is_hello() {
            match is_content {
                true => data.copy_from_slice(&self.hello),
                false => data.copy_from_slice(&awaited.size.to_ne_bytes()),
            }
            return;
        }
        let received = self.end().and_then(|()| {
            let read = self.stream().and_then(|stream| (&*stream).read_exact(data));
            read.map_err(lost)?;
            self.bytes[1].fetch_add(data.len() as u64, Ordering::Relaxed);
            match is_content {
                true => exchange.check(&awaited, data, self.devices),
                false if data == awaited.size.to_ne_bytes() => Ok(()),
                false => Err(RpcProblem::WrongAnswer("its length is not the one that was asked for".into())),
            }
        });
        if let Err(problem) = received {
            self.fail(problem);
            match is_content {
                true => awaited.substitute(data, self.devices),
                false => data.copy_from_slice(&awaited.size.to_ne_bytes()),
            }
        }
    }
}

fn lost(error: io::Error) -> RpcProblem {
    RpcProblem::Lost(error.to_string())
}

/// The problem of a server that was waited for; `other` where the error is another one.
fn silent_or(error: &io::Error, other: RpcProblem) -> RpcProblem {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => RpcProblem::Silent(PATIENCE.as_secs()),
        _ => other,
    }
}

/// Sends a command, in one piece if it is short.
fn write_command(mut stream: &TcpStream, command: u8, content: &[u8]) -> io::Result<()> {
    let mut message = vec![command];
    message.extend_from_slice(&(content.len() as u64).to_ne_bytes());
    if content.len() > SMALL {
        stream.write_all(&message)?;
        return stream.write_all(content);
    }
    message.extend_from_slice(content);
    stream.write_all(&message)
}

/// Sends a command and receives its answer.
fn ask(mut stream: &TcpStream, command: u8, content: &[u8], answer: &mut [u8]) -> io::Result<()> {
    write_command(stream, command, content)?;
    let mut size = [0; size_of::<u64>()];
    stream.read_exact(&mut size)?;
    if u64::from_ne_bytes(size) != answer.len() as u64 {
        return Err(ErrorKind::InvalidData.into());
    }
    stream.read_exact(answer)
}

/// Connects to `HOST:PORT`, `HOST`, or `[ADDRESS]:PORT` with an address of IPv6. Tries each address of the host.
fn connect(server: &str) -> Result<(TcpStream, SocketAddr), RpcProblem> {
    let (host, port) = host_and_port(server).ok_or(RpcProblem::Address)?;
    let unresolved = |error: io::Error| RpcProblem::Unresolved(error.to_string());
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(unresolved)?.collect();
    let mut problem = RpcProblem::Unresolved("it has no address".into());
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => problem = RpcProblem::Unreachable(error.to_string()),
        }
    }
    Err(problem)
}

/// The parts of an address.
fn host_and_port(server: &str) -> Option<(&str, u16)> {
    let (host, port) = match server.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        // More than one colon is an address of IPv6 without a port.
        None if server.matches(':').count() > 1 => (server, ""),
        None => server.split_at(server.find(':').unwrap_or(server.len())),
    };
    let is_host = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None if port.is_empty() => DEFAULT_PORT,
        None => return None,
    };
    is_host.then_some((host, port))
}

/// Sends at once, and finds out within a minute that the other machine is gone.
pub(super) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(unix)]
    {
        use rustix::net::sockopt;
        sockopt::set_socket_keepalive(stream, true)?;
        #[cfg(target_os = "linux")]
        {
            sockopt::set_tcp_keepidle(stream, Duration::from_secs(20))?;
            sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
            sockopt::set_tcp_keepcnt(stream, 3)?;
            sockopt::set_tcp_user_timeout(stream, 50_000)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (text, expected) in [
            ("gpu-box:5000", Some(("gpu-box", 5000))),
            ("192.168.1.7", Some(("192.168.1.7", DEFAULT_PORT))),
            ("[::1]:5000", Some(("::1", 5000))),
            ("[fe80::1]", Some(("fe80::1", DEFAULT_PORT))),
            ("::1", Some(("::1", DEFAULT_PORT))),
            ("", None),
            (":5000", None),
            ("host:", None),
            ("host:0", None),
            ("host:65536", None),
            ("host:http", None),
            ("http://host:5000", None),
            ("two words:5000", None),
            ("[::1", None),
            ("[::1]5000", None),
        ] {
            assert_eq!(host_and_port(text), expected, "{text}");
        }
    }
}
