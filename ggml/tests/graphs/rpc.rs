//! Devices of a server, on the loopback: what they compute, what is sent, and what is an error where ggml would abort the
//! process.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use ggml::rpc::{self, ClientEvent, RpcProblem, Server, StopServer};
use ggml::{Backend, Context, Error, GraphAllocator, InterruptFlag, Operand, ReadyGraph, Tensor, Type};

/// A server with the CPU of this machine, until it is dropped.
struct TestServer {
    address: String,
    stop: StopServer,
    events: Receiver<ClientEvent>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    fn start() -> TestServer {
        TestServer::at("127.0.0.1:0")
    }

    fn at(address: &str) -> TestServer {
        let server = Server::bind(address).expect("a free port");
        let (address, stop) = (server.address().to_string(), server.stop());
        let (report, events) = channel();
        let devices = || Ok((vec![Backend::cpu(1)?], Some(1 << 30)));
        let serve = move || {
            let report = std::sync::Mutex::new(report);
            let report = move |event| _ = report.lock().expect("the lock").send(event);
            server.run(&devices, &report).expect("served");
        };
        TestServer { address, stop, events, thread: Some(thread::spawn(serve)) }
    }

    /// Its device.
    fn backend(&self) -> Backend {
        let devices = rpc::add_servers(&[&self.address]).expect("a server");
        Backend::rpc(devices[0].index, None).expect("a device")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().expect("one thread").join().expect("it ends");
    }
}

/// A graph with the input `x` that doubles and adds, some times.
fn graph(backend: &Backend, operations: usize) -> (Tensor, Tensor, ReadyGraph, GraphAllocator) {
    let ctx = Context::new(2 * operations + 8);
    let x = ctx.input("x", Type::F32, [4]);
    let mut y = x.clone();
    for _ in 0..operations {
        y = ctx.add(&y, &x);
    }
    let y = y.output();
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let ready = allocator.prepare(ctx.graph(&[&y]).expect("a graph")).expect("memory");
    (x, y, ready, allocator)
}

fn sent(backend: &Backend) -> u64 {
    backend.traffic().expect("a server").0
}

#[test]
fn a_graph_is_sent_once_and_computed_again_by_its_number() {
    let server = TestServer::start();
    let backend = server.backend();
    let (x, y, ready, _memory) = graph(&backend, 100);
    let (flag, mut bytes) = (InterruptFlag::new(), Vec::new());
    let mut compute = |other_work: &dyn Fn()| {
        let before = sent(&backend);
        x.write(0, &[1f32, 2.0, 3.0, 4.0]).expect("written");
        backend.compute_until(&ready, &flag).expect("computed");
        assert_eq!(y.to_vec::<f32>().expect("read"), [101.0, 202.0, 303.0, 404.0]);
        bytes.push(sent(&backend) - before);
        other_work();
    };
    for _ in 0..3 {
        compute(&|| ());
    }
    // Another graph takes its place on the server, and memory that is freed makes the server forget.
    compute(&|| {
        let (x, _, other, _memory) = graph(&backend, 3);
        x.write(0, &[0f32; 4]).expect("written");
        backend.compute(&other).expect("computed");
    });
    compute(&|| ());
    compute(&|| ());
    // One in segments, one whole with its number, then the number alone.
    let [first, second, third, fourth, fifth, sixth] = bytes[..] else { panic!("{bytes:?}") };
    assert!(first > 25_000 && second > 25_000, "{bytes:?}");
    assert!(third < 1_500 && fourth == third && fifth > 25_000 && sixth == third, "{bytes:?}");
}

#[test]
fn a_long_computation_is_interrupted_between_its_parts() {
    let server = TestServer::start();
    let backend = server.backend();
    let (x, y, ready, _memory) = graph(&backend, 300);
    x.write(0, &[1f32; 4]).expect("written");
    let flag = InterruptFlag::new();
    backend.interrupt_after(100);
    assert!(matches!(backend.compute_until(&ready, &flag), Err(Error::Interrupted)));
    flag.clear();
    backend.compute_until(&ready, &flag).expect("computed");
    assert_eq!(y.to_vec::<f32>().expect("read"), [301.0; 4]);
}

#[test]
fn large_tensors_come_back_as_they_were_sent() {
    let server = TestServer::start();
    let backend = server.backend();
    let memory = Context::new(2);
    let (tensor, copy) = (memory.tensor(Type::I32, [3 << 20]), memory.tensor(Type::I32, [3 << 20]));
    memory.allocate(&backend.buffer_type()).expect("memory");
    let numbers: Vec<i32> = (0..3 << 20).collect();
    tensor.write(0, &numbers).expect("written");
    copy.copy_from(0, &tensor, 0, tensor.bytes()).expect("copied");
    copy.clear_bytes(0..8).expect("cleared");
    let read = copy.to_vec::<i32>().expect("read");
    assert!(read[..2] == [0, 0] && read[2..] == numbers[2..]);
}

/// A server would jump to the address of the operation's code.
#[test]
fn operations_of_our_own_are_not_sent() {
    let server = TestServer::start();
    let backend = server.backend();
    let ctx = Context::new(8);
    let x = ctx.input("x", Type::F32, [4]);
    let y = ctx.custom(Type::F32, [4], &[Operand::Read(&x)], |_| ()).output();
    let built = ctx.graph(&[&y]).expect("a graph");
    assert!(matches!(backend.check_operations(&built), Err(Error::Unsupported { .. })));
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let ready = allocator.prepare(built).expect("memory");
    x.write(0, &[1f32; 4]).expect("written");
    let before = sent(&backend);
    let error = backend.compute(&ready).expect_err("an operation of our own");
    assert!(matches!(&error, Error::Unsupported { op, .. } if op == "CUSTOM"), "{error}");
    assert_eq!(sent(&backend), before, "nothing of the graph");
    assert_eq!(x.to_vec::<f32>().expect("the server is still there"), [1.0; 4]);
}

#[test]
fn a_lost_server_is_an_error_that_names_it() {
    let server = TestServer::start();
    let address = server.address.clone();
    let backend = server.backend();
    let (x, y, ready, mut allocator) = graph(&backend, 3);
    x.write(0, &[1f32; 4]).expect("written");
    backend.compute(&ready).expect("computed");
    let device = rpc::devices().into_iter().find(|device| device.server == address).expect("the device");
    drop(server);
    let check = |result: Result<(), Error>| {
        let error = result.expect_err("the server is lost");
        let Error::Rpc { server, problem } = &error else { panic!("{error}") };
        assert!(
            *server == address && matches!(problem, RpcProblem::Lost(_) | RpcProblem::WrongAnswer(_)),
            "{error}"
        );
    };
    check(y.to_vec::<f32>().map(|_| ()));
    check(x.write(0, &[1f32; 4]));
    check(x.clear());
    check(backend.compute(&ready));
    check(backend.compute_until(&ready, &InterruptFlag::new()));
    let ctx = Context::new(4);
    let other = ctx.tensor(Type::F32, [1 << 20]);
    check(ctx.allocate(&backend.buffer_type()).map(|_| ()));
    assert!(!other.is_allocated());
    let wide = Context::new(4);
    let z = wide.scale(&wide.input("x", Type::F32, [1 << 20]), 2.0).output();
    check(allocator.prepare(wide.graph(&[&z]).expect("a graph")).map(|_| ()));
    // Nobody listens there, or what another test has started since: it may have been given the same port.
    let error = Backend::rpc(device.index, None).err().expect("no server");
    assert!(
        matches!(error, Error::Rpc { problem: RpcProblem::Unreachable(_) | RpcProblem::NotRpc, .. }),
        "{error}"
    );
}

#[test]
fn a_new_backend_connects_again() {
    let server = TestServer::start();
    // It has not noticed yet that its server was away.
    let _first = server.backend();
    let address = server.address.clone();
    drop(server);
    let server = TestServer::at(&address);
    let backend = server.backend();
    let (x, y, ready, _memory) = graph(&backend, 1);
    x.write(0, &[1f32; 4]).expect("written");
    backend.compute(&ready).expect("computed");
    assert_eq!(y.to_vec::<f32>().expect("read"), [2.0; 4]);
}

#[test]
fn memory_and_devices_of_servers_are_listed() {
    let servers = [TestServer::start(), TestServer::start()];
    let devices = rpc::add_servers(&servers.each_ref().map(|server| &server.address)).expect("servers");
    assert_eq!(devices.len(), 2);
    assert!(devices[0].index < devices[1].index && devices.iter().all(|device| device.number == 0));
    let (free, total) = rpc::memory(devices[1].index).expect("memory");
    assert!(free <= 1 << 30 && free <= total, "{free} of {total}");
    let last = rpc::devices().len();
    assert!(matches!(rpc::memory(last + 99), Err(Error::NoSuchRpcDevice { .. })));
    let same = rpc::add_servers(&[&servers[0].address]).expect("again");
    assert_eq!(same[0], devices[0], "it keeps its number");
}

/// The problem of a server.
#[track_caller]
fn problem(servers: &[String]) -> RpcProblem {
    match rpc::add_servers(servers) {
        Err(Error::Rpc { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

/// Something that sends `answer` to whoever has sent a first command.
fn pretender(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut command = [0; 33];
        stream.read_exact(&mut command).expect("a command");
        stream.write_all(answer).expect("sent");
    });
    address
}

#[test]
fn what_is_no_server_is_an_error_by_name() {
    // A port where nobody may listen but the system.
    assert!(matches!(problem(&["127.0.0.1:1".to_owned()]), RpcProblem::Unreachable(_)));
    for address in ["", "host:", "http://host:5000", "host:99999"] {
        assert_eq!(problem(&[address.to_owned()]), RpcProblem::Address, "{address}");
    }
    // Longer than a name may be: nobody is asked.
    assert!(matches!(problem(&["a".repeat(64)]), RpcProblem::Unresolved(_)));
    for other in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"", b"\x1c\0\0\0\0\0\0\0"] {
        assert_eq!(problem(&[pretender(other).to_string()]), RpcProblem::NotRpc);
    }
    const OLD: &[u8] = &{
        let mut answer = [0; 36];
        answer[0] = 28;
        answer[8] = 6;
        answer[9] = 1;
        answer
    };
    let version = problem(&[pretender(OLD).to_string()]);
    assert!(matches!(&version, RpcProblem::Version { found, .. } if found == "6.1.0"), "{version}");
    let server = TestServer::start();
    let other_name = server.address.replace("127.0.0.1", "localhost");
    assert_eq!(problem(&[server.address.clone(), other_name]), RpcProblem::Twice);
}

/// A server whose answer is none of the protocol, after it has said who it is.
#[test]
fn a_wrong_answer_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut answer = |command: usize, content: &[u8]| {
                let mut bytes = vec![0; 9 + command];
                if stream.read_exact(&mut bytes).is_ok() {
                    let size = (content.len() as u64).to_ne_bytes();
                    let _ = stream.write_all(&[&size, content].concat());
                }
            };
            let mut hello = [0; 28];
            hello[0] = 7;
            answer(24, &hello);
            answer(0, &1u32.to_ne_bytes());
            answer(4, &48u64.to_ne_bytes()); // an alignment that is no power of two
        }
    });
    let device = rpc::add_servers(&[&address]).expect("a server")[0].index;
    let error = Backend::rpc(device, None).err().expect("a wrong alignment");
    assert!(matches!(&error, Error::Rpc { problem: RpcProblem::WrongAnswer(_), .. }), "{error}");
}

/// A client that is not ours sends a node that is an address.
#[test]
fn the_server_refuses_addresses_of_code() {
    let server = TestServer::start();
    let mut stream = TcpStream::connect(&server.address).expect("connected");
    let mut send = |command: u8, content: &[u8]| {
        let size = (content.len() as u64).to_ne_bytes();
        stream.write_all(&[&[command], &size[..], content].concat()).expect("sent");
    };
    send(14, &[0; 24]);
    let mut tensor = [0; 296];
    tensor[..8].copy_from_slice(&1u64.to_ne_bytes());
    tensor[20..36].copy_from_slice(&[1u32.to_ne_bytes(); 4].concat());
    tensor[36..52].copy_from_slice(&[4u32.to_ne_bytes(); 4].concat());
    tensor[52..56].copy_from_slice(&Backend::CUSTOM_OPERATION.to_ne_bytes());
    let one = 1u32.to_ne_bytes();
    send(10, &[&0u32.to_ne_bytes(), &one, &1u64.to_ne_bytes()[..], &one, &tensor].concat());
    let refused = server.events.iter().find_map(|event| match event {
        ClientEvent::Refused(_, why) => Some(why),
        ClientEvent::Left(_) => panic!("it computed"),
        ClientEvent::Came(_) => None,
    });
    assert!(refused.expect("an event").contains("custom operation"));
    assert!(rpc::add_servers(&[&server.address]).is_ok(), "it serves others");
}
