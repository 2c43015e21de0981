//! RPC servers in this process, on free ports of the loopback, with the CPU as their device; and those that run already.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use ggml::Backend;
use longhand::DeviceKind;
use longhand::rpc::{Server, StopServer, add_servers};

/// A server, until it is dropped.
pub struct TestServer {
    /// Its address.
    pub address: String,
    /// Its device.
    pub device: DeviceKind,
    stop: StopServer,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Starts a server.
    ///
    /// # Panics
    /// Where the system has no port, or the server does not answer.
    pub fn start() -> TestServer {
        let server = Server::bind("127.0.0.1:0").expect("a free port");
        let (address, stop) = (server.address().to_string(), server.stop());
        let devices = || Ok((vec![Backend::cpu(1)?], None));
        let thread = thread::spawn(move || server.run(&devices, &|_| ()).expect("served"));
        let device = DeviceKind::Rpc(add_servers(&[&address]).expect("a server")[0].index);
        TestServer { address, device, stop, thread: Some(thread) }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The device of the server with this number, which is started the first time and ends with the process.
pub fn numbered(number: usize) -> DeviceKind {
    static SERVERS: Mutex<Vec<TestServer>> = Mutex::new(Vec::new());
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    while servers.len() <= number {
        servers.push(TestServer::start());
    }
    servers[number].device
}

/// The device of a server that runs already.
pub fn running(address: &str) -> DeviceKind {
    static SERVERS: Mutex<BTreeMap<String, DeviceKind>> = Mutex::new(BTreeMap::new());
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let connect = || DeviceKind::Rpc(add_servers(&[address]).expect("a server that answers")[0].index);
    *servers.entry(address.to_owned()).or_insert_with(connect)
}
