//! `longhand rpc-server`: this machine's devices for others, by ggml's RPC.

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use clap::Args;
use ggml::Backend;
use longhand::rpc::{ClientEvent, DEFAULT_PORT, Server};
use longhand::setup::{DeviceRequest, free_memory};
use longhand::{DeviceKind, EngineOptions};
use terminal::console::Console;
use terminal::{format, values};

use crate::app::App;
use crate::args::device::device;
use crate::failure::Failure;

/// Let other machines compute on the devices of this one.
///
/// Clients are longhand with --rpc HOST:PORT, or llama.cpp. Ctrl-C ends the server.
///
/// ggml's protocol has no password and no encryption. Whoever reaches the port can use this machine's memory and devices, read
/// what others compute there, and end the server. By default only programs of this machine reach it, which includes those of its
/// other users. Other machines connect through an ssh tunnel (docs/rpc.md).
#[derive(Debug, Args)]
pub struct RpcServerArgs {
    /// Address of this machine to listen on: 0.0.0.0 is all
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Devices, also -dev: auto (all NVIDIA GPUs that there are, else the CPU), cpu, cuda:N, or several with commas
    #[arg(long, value_name = "DEVICES", default_value = "auto", value_parser = device)]
    device: DeviceRequest,
    /// Threads of the CPU [default: one for each processor]
    #[arg(short, long, value_name = "N", value_parser = values::threads)]
    threads: Option<usize>,
    /// Memory that clients are told to be free on each device, for example 20GiB. It is not enforced [default: what is free]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, allow_hyphen_values = true)]
    memory: Option<usize>,
}

/// A device that is served.
#[derive(Clone, Copy)]
enum Served {
    Cpu { threads: usize },
    Gpu(usize),
}

/// Runs the command.
pub fn run(app: &App, args: &RpcServerArgs) -> Result<()> {
    let devices = served(args)?;
    let memory = args.memory;
    let start = move || {
        let backends = devices.iter().map(|device| match *device {
            Served::Cpu { threads } => Backend::cpu(threads),
            Served::Gpu(index) => Backend::cuda(index, None),
        });
        let has_cpu = devices.iter().any(|device| matches!(device, Served::Cpu { .. }));
        let free = free_memory().filter(|_| has_cpu).map(|free| free.bytes);
        Ok((backends.collect::<Result<Vec<Backend>, _>>()?, memory.into_iter().chain(free).min()))
    };
    // What is wrong with a device is said now, and not to the first client.
    let (backends, free) = start()?;
    drop(backends);
    let server = Server::bind((args.host, args.port)).map_err(|error| cannot_listen(args, &error))?;
    let address = server.address();
    if !address.ip().is_loopback() {
        app.console.note(&exposed(address));
    }
    app.interrupt.end_in_order();
    let offered = free.map_or(String::new(), |bytes| format!(", {} of memory", format::bytes(bytes)));
    app.console.print(&format!("listening on {address}{offered}\n"))?;
    let (stop, console) = (server.stop(), app.console);
    let ended = app.interrupt.until_pressed(move |_| server.run(&start, &|event| tell(&console, event)))?;
    stop.stop();
    Ok(ended.unwrap_or(Ok(()))?)
}

/// The devices to serve.
fn served(args: &RpcServerArgs) -> Result<Vec<Served>> {
    let cpu = || {
        let options = EngineOptions { threads: args.threads, ..EngineOptions::default() };
        vec![Served::Cpu { threads: options.threads() }]
    };
    match &args.device {
        DeviceRequest::Cpu => Ok(cpu()),
        DeviceRequest::Auto => {
            let gpus = ggml::devices().unwrap_or_default();
            let usable = gpus.iter().filter(|gpu| gpu.problem.is_none());
            let found: Vec<Served> = usable.map(|gpu| Served::Gpu(gpu.index)).collect();
            Ok(if found.is_empty() { cpu() } else { found })
        }
        DeviceRequest::Devices(devices) => {
            let serve = |device: &DeviceKind| match device {
                DeviceKind::Cuda(index) => Ok(Served::Gpu(*index)),
                other => Err(Failure::usage(
                    format!("{other} cannot be served"),
                    "serve cpu or the NVIDIA GPUs of this machine, such as cuda:0",
                )),
            };
            Ok(devices.iter().map(serve).collect::<Result<_, _>>()?)
        }
    }
}

fn cannot_listen(args: &RpcServerArgs, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot listen on {}: {error}", SocketAddr::new(args.host, args.port)),
        "give an address of this machine with --host, and a port that no other program has with --port",
    )
}

/// What is said where others than this machine can connect.
fn exposed(address: SocketAddr) -> String {
    format!(
        "warning: everybody who reaches {address} can use this machine's memory and devices, and read what others compute \
         here. There is no password and no encryption. Let only machines reach it that you trust, on a network without \
         strangers; or listen on 127.0.0.1 and connect by ssh or a VPN"
    )
}

fn tell(console: &Console, event: ClientEvent) {
    console.note(&match event {
        ClientEvent::Came(client) => format!("{client} is connected"),
        ClientEvent::Left(client) => format!("{client} has left"),
        ClientEvent::Refused(client, why) => format!("{client} was refused: {why}"),
    });
}
