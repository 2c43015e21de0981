//! `longhand devices`: lists the CPU, the GPUs and the devices of servers, and says why a GPU cannot be used.

use anyhow::Result;
use clap::Args;
use ggml::{Gpu, NoCuda, PortableGpu};
use longhand::DeviceKind;
use longhand::setup::free_memory;
use serde_json::{Value, json};
use terminal::format;
use terminal::table::Table;

use crate::app::App;

/// List the CPU, the GPUs that can be used, and the devices of servers.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// List the devices of these servers too, with commas: HOST:PORT
    #[cfg(feature = "rpc")]
    #[arg(long, value_name = "SERVERS", value_delimiter = ',')]
    rpc: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(app: &App, args: &DevicesArgs) -> Result<()> {
    let threads = longhand::EngineOptions::default().threads();
    let gpus = ggml::devices();
    let (by_hip, by_metal, by_vulkan) =
        (ggml::hip::devices(), ggml::metal::devices(), ggml::vulkan::devices());
    let remote = remote_devices(args)?;
    let free_memory = free_memory();
    if args.json {
        let gpu_object = |gpu: &Gpu| {
            json!({
                "device": DeviceKind::Cuda(gpu.index).to_string(),
                "name": gpu.name,
                "capability": gpu.capability.to_string(),
                "memory": gpu.total,
                "free": free(gpu).ok(),
                "problem": free(gpu).err().map(|problem| problem.to_string()),
            })
        };
        let object = json!({
            "cpu": {
                "threads": threads,
                "free": free_memory.map(|free| free.bytes),
                "limit": free_memory.and_then(|free| free.bound.name()),
            },
            "gpus": gpus.iter().flatten().map(gpu_object).collect::<Vec<Value>>(),
            "hip": portable_objects(by_hip.iter().flatten(), DeviceKind::Hip),
            "metal": portable_objects(by_metal.iter().flatten(), DeviceKind::Metal),
            "vulkan": portable_objects(by_vulkan.iter().flatten(), DeviceKind::Vulkan),
            "rpc": remote.iter().map(RemoteDevice::object).collect::<Vec<Value>>(),
            "problem": gpus.as_ref().err().map(ToString::to_string),
            "hip_problem": by_hip.as_ref().err().map(ToString::to_string),
            "metal_problem": by_metal.as_ref().err().map(ToString::to_string),
            "vulkan_problem": by_vulkan.as_ref().err().map(ToString::to_string),
        });
        return app.console.print_json(&object);
    }
    let lacking = Some(ggml::missing_cpu_features().join(", ")).filter(|missing| !missing.is_empty());
    let memory = free_memory.map_or("?".into(), |free| format::bytes(free.bytes));
    let mut table = Table::new(["--device", "name", ">memory", ">free", "can compute"]);
    table.row([
        "cpu".into(),
        format!("{threads} thread{}", if threads == 1 { "" } else { "s" }),
        String::new(),
        memory,
        lacking.as_ref().map_or("yes".into(), |lacking| format!("no: it lacks {lacking}")),
    ]);
    for gpu in gpus.iter().flatten() {
        table.row([
            DeviceKind::Cuda(gpu.index).to_string(),
            gpu.name.clone(),
            format::bytes(gpu.total as usize),
            free(gpu).map_or("?".into(), |bytes| format::bytes(bytes as usize)),
            free(gpu).err().map_or("yes".into(), |problem| format!("no: {problem}")),
        ]);
    }
    let of_hip = by_hip.iter().flatten().map(|gpu| (DeviceKind::Hip(gpu.index), gpu));
    let of_metal = by_metal.iter().flatten().map(|gpu| (DeviceKind::Metal(gpu.index), gpu));
    let of_vulkan = by_vulkan.iter().flatten().map(|gpu| (DeviceKind::Vulkan(gpu.index), gpu));
    for (device, gpu) in of_hip.chain(of_metal).chain(of_vulkan) {
        table.row([
            device.to_string(),
            gpu.name.clone(),
            format::bytes(gpu.total as usize),
            format::bytes(gpu.free as usize),
            gpu.problem.as_ref().map_or("yes".into(), |problem| format!("no: {problem}")),
        ]);
    }
    for device in &remote {
        table.row([
            device.device.clone(),
            device.server.clone(),
            format::bytes(device.memory),
            format::bytes(device.free),
            "yes".into(),
        ]);
    }
    let width = app.console.width();
    let limit = match free_memory {
        Some(free) if free.bound.name().is_some() => format!("\nmain memory: free{}\n", free.bound),
        _ => String::new(),
    };
    let reasons = [
        ("CUDA", gpus.err().map(|reason| reason.to_string())),
        ("HIP", by_hip.err().map(|reason| reason.to_string())),
        ("Metal", by_metal.err().map(|reason| reason.to_string())),
        ("Vulkan", by_vulkan.err().map(|reason| reason.to_string())),
    ];
    // What a system does not have is no news there.
    let is_expected = |backend: &str| match backend {
        "HIP" => cfg!(target_os = "linux"),
        "Metal" => cfg!(target_os = "macos"),
        _ => !cfg!(target_os = "macos"),
    };
    let paragraph = |(backend, reason): (&str, Option<String>)| {
        let text = format!("no GPU by {backend}: {}", reason.filter(|_| is_expected(backend))?);
        Some(format!("\n{}\n", format::wrapped(&text, width)))
    };
    let no_gpu: String = reasons.into_iter().filter_map(paragraph).collect();
    Ok(app.console.print_report(&(table.fitted(width) + &limit + &no_gpu))?)
}

fn portable_objects<'a>(
    gpus: impl Iterator<Item = &'a PortableGpu>,
    kind: fn(usize) -> DeviceKind,
) -> Vec<Value> {
    let object = |gpu: &PortableGpu| {
        json!({
            "device": kind(gpu.index).to_string(),
            "name": gpu.name,
            "memory": gpu.total,
            "free": gpu.free,
            "integrated": gpu.is_integrated,
            "problem": gpu.problem,
        })
    };
    gpus.map(object).collect()
}

/// A device of a server.
struct RemoteDevice {
    /// As `--device` takes it.
    device: String,
    server: String,
    /// Bytes.
    memory: usize,
    free: usize,
}

impl RemoteDevice {
    fn object(&self) -> Value {
        let RemoteDevice { device, server, memory, free } = self;
        json!({ "device": device, "server": server, "memory": memory, "free": free })
    }
}

/// The devices of the servers that were asked for.
#[cfg(feature = "rpc")]
fn remote_devices(args: &DevicesArgs) -> Result<Vec<RemoteDevice>> {
    let describe = |device: longhand::rpc::RpcDevice| {
        let (free, memory) = longhand::rpc::memory(device.index)?;
        let kind = DeviceKind::Rpc(device.index);
        Ok(RemoteDevice {
            device: kind.to_string(),
            server: device.server,
            memory: memory as usize,
            free: free as usize,
        })
    };
    longhand::rpc::add_servers(&args.rpc)?.into_iter().map(describe).collect()
}

#[cfg(not(feature = "rpc"))]
fn remote_devices(_: &DevicesArgs) -> Result<Vec<RemoteDevice>> {
    Ok(Vec::new())
}

/// Free bytes on a GPU, or why it cannot be used.
fn free(gpu: &Gpu) -> Result<u64, NoCuda> {
    match &gpu.problem {
        Some(problem) => Err(problem.clone()),
        None => ggml::free_memory(gpu.index),
    }
}
