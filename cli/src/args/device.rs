//! Flags for devices: the CPU, or GPUs for some layers.

use anyhow::Result;
use clap::Args;
use longhand::DeviceKind;
use longhand::setup::{DeviceRequest, GpuLayers, HostExperts};
use terminal::console::visible;
use terminal::format;
use terminal::values;

use crate::failure::Failure;

/// Flags of commands that compute.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceArgs {
    /// Devices, also -dev. auto: those of --rpc and all CUDA GPUs; without CUDA, AMD's GPUs by HIP, a Mac's by Metal, or Vulkan's (by
    /// HIP and Vulkan those that are no part of the processor). Or cpu, cuda:N, hip:N, metal, vulkan:N, rpc:N, or several in the order
    /// of the layers: cuda:0,cuda:1. `longhand devices` lists them
    #[arg(long, value_name = "DEVICES", default_value = "auto", value_parser = device)]
    pub device: DeviceRequest,
    /// RPC servers whose devices compute too, separated by commas: HOST:PORT, or HOST for port 50052. `longhand rpc-server`
    /// starts one. Not encrypted: see docs/rpc.md
    #[cfg(feature = "rpc")]
    #[arg(long, value_name = "SERVERS", value_delimiter = ',')]
    pub rpc: Vec<String>,
    /// How the layers on several GPUs are shared, also -ts: 3,1 is three quarters and one [default: by their memory]
    #[arg(long, value_name = "SHARES", value_parser = shares, allow_hyphen_values = true)]
    pub tensor_split: Option<Shares>,
    /// Layers on GPUs, beginning with the last layer, also -ngl: a number, all, or auto (as many as fit). The last layers that share
    /// rows are there together or not at all
    #[arg(long, visible_alias = "gpu-layers", value_name = "N", default_value = "auto", value_parser = layers)]
    pub n_gpu_layers: GpuLayers,
    /// Layers whose experts stay on the CPU while GPUs compute the rest, beginning with the first layer, also -ncmoe:
    /// a number, all (also --cpu-moe), or auto (as few as possible)
    #[arg(long, value_name = "N", default_value = "auto", value_parser = host_experts)]
    pub n_cpu_moe: HostExperts,
    /// Limit on the memory of each GPU, the driver's part included, for example 20GiB, or a limit for each: 20GiB,8GiB.
    /// Without a GPU it limits main memory, for `plan` and for the policy auto [default: the memory that is free]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, value_delimiter = ',', allow_hyphen_values = true)]
    pub memory: Vec<usize>,
}

/// Shares of the layers, one for each GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares(pub Vec<f64>);

impl DeviceArgs {
    /// Connects to the servers of `--rpc`, so that their devices have numbers.
    ///
    /// # Errors
    /// Where one of them is no server, or does not answer; where other flags use none of their devices.
    pub fn add_servers(&self) -> Result<()> {
        #[cfg(feature = "rpc")]
        if !self.rpc.is_empty() {
            let uses_servers = match &self.device {
                DeviceRequest::Auto => true,
                DeviceRequest::Cpu => false,
                DeviceRequest::Devices(devices) => devices.iter().any(DeviceKind::is_remote),
            };
            if !uses_servers || self.n_gpu_layers == GpuLayers::Count(0) {
                let hint = "leave --rpc out, or use --device auto or rpc:0 and layers (-ngl) there";
                return Err(Failure::usage("--rpc has no effect with these devices".to_owned(), hint).into());
            }
            longhand::rpc::add_servers(&self.rpc)?;
        }
        Ok(())
    }

    /// The flags that were given, as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let device = match &self.device {
            DeviceRequest::Auto => None,
            DeviceRequest::Cpu => Some("cpu".to_owned()),
            DeviceRequest::Devices(devices) => list(devices.iter().map(DeviceKind::to_string)),
        };
        let number = |count: usize| if count == usize::MAX { "all".to_owned() } else { count.to_string() };
        let layers = match self.n_gpu_layers {
            GpuLayers::Auto => None,
            GpuLayers::Count(count) => Some(number(count)),
        };
        let host_experts = match self.n_cpu_moe {
            HostExperts::Auto => None,
            HostExperts::Count(count) => Some(number(count)),
        };
        let on_gpu = matches!(self.device, DeviceRequest::Devices(_));
        // Without a GPU, --memory is the machine's memory in `plan` only.
        let memory = list(self.memory.iter().map(|bytes| format::bytes_flag(*bytes))).filter(|_| on_gpu);
        let shares = self.tensor_split.iter().flat_map(|Shares(shares)| shares);
        let flags = [
            #[cfg(feature = "rpc")]
            ("--rpc", list(self.rpc.iter().cloned())),
            ("--device", device),
            ("--tensor-split", list(shares.map(f64::to_string))),
            ("-ngl", layers),
            ("--n-cpu-moe", host_experts),
            ("--memory", memory),
        ];
        let given = flags.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        given.flatten().collect()
    }
}

/// Values with commas; `None` without any.
fn list(values: impl Iterator<Item = String>) -> Option<String> {
    let values: Vec<String> = values.collect();
    Some(values.join(",")).filter(|list| !list.is_empty())
}

/// What a name in a list of devices stands for.
#[derive(Clone, Copy, PartialEq)]
enum Named {
    Auto,
    Cpu,
    Device(DeviceKind),
}

/// A list of devices.
pub fn device(text: &str) -> Result<DeviceRequest, Failure> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let named = names.iter().map(|name| named_device(name)).collect::<Result<Vec<Named>, Failure>>()?;
    let mut devices = Vec::new();
    for (number, (device, name)) in named.iter().zip(&names).enumerate() {
        if named[..number].contains(device) {
            return Err(Failure::usage(format!("{name} is there twice"), "name each device once"));
        }
        let is_last = named[number + 1..].iter().all(|other| other == device);
        match device {
            Named::Auto if named.len() > 1 => {
                return Err(Failure::usage("auto is no device of a list", "name the devices, or auto alone"));
            }
            Named::Auto => return Ok(DeviceRequest::Auto),
            Named::Cpu if !is_last => {
                return Err(Failure::usage(
                    format!("{name} is not the last device"),
                    "name it last or leave it out: the CPU has the layers that no GPU has",
                ));
            }
            Named::Cpu => {}
            Named::Device(device) => devices.push(*device),
        }
    }
    Ok(if devices.is_empty() { DeviceRequest::Cpu } else { DeviceRequest::Devices(devices) })
}

/// A device of a list.
fn named_device(name: &str) -> Result<Named, Failure> {
    /// The name of a kind of device, and the device of that kind with a number.
    type Numbered = (&'static str, fn(usize) -> DeviceKind);
    /// Devices with numbers: `cuda:0`, llama.cpp's `CUDA0`, and `cuda`, which is the first.
    const NUMBERED: &[Numbered] = &[
        ("cuda", DeviceKind::Cuda),
        ("hip", DeviceKind::Hip),
        // llama.cpp's name.
        ("rocm", DeviceKind::Hip),
        ("metal", DeviceKind::Metal),
        // llama.cpp's name.
        ("mtl", DeviceKind::Metal),
        ("vulkan", DeviceKind::Vulkan),
        #[cfg(feature = "rpc")]
        ("rpc", DeviceKind::Rpc),
    ];
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "auto" => return Ok(Named::Auto),
        // llama.cpp calls it none.
        "cpu" | "none" => return Ok(Named::Cpu),
        _ => {}
    }
    let device = NUMBERED.iter().find_map(|(kind_name, kind)| {
        let number = match lower.strip_prefix(kind_name)? {
            "" => Some(0),
            number => number.strip_prefix(':').unwrap_or(number).parse().ok(),
        };
        number.map(kind)
    });
    device.map(Named::Device).ok_or_else(|| {
        Failure::usage(
            format!("`{}` is not a device", visible(name)),
            "use auto, cpu, cuda, or cuda:1 for the second GPU; cuda:0,cuda:1 are both",
        )
    })
}

/// `3,1`, or `3/1` as in llama.cpp.
fn shares(text: &str) -> Result<Shares, Failure> {
    let share = |share: &str| {
        share.trim().parse::<f64>().map_err(|_| {
            let what = format!("`{}` is not a share", visible(share));
            Failure::usage(what, "give a number for each GPU, for example 3,1")
        })
    };
    text.split([',', '/']).map(share).collect::<Result<_, _>>().map(Shares)
}

fn layers(text: &str) -> Result<GpuLayers, Failure> {
    // In llama.cpp -1 means all.
    let text = if text.trim() == "-1" { "all" } else { text };
    Ok(number_of_layers(text)?.map_or(GpuLayers::Auto, GpuLayers::Count))
}

fn host_experts(text: &str) -> Result<HostExperts, Failure> {
    Ok(number_of_layers(text)?.map_or(HostExperts::Auto, HostExperts::Count))
}

/// `None` is auto.
fn number_of_layers(text: &str) -> Result<Option<usize>, Failure> {
    match text.trim() {
        "auto" => Ok(None),
        "all" => Ok(Some(usize::MAX)),
        number => match number.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Failure::usage("not a number of layers", "give a number, all or auto")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_are_parsed() {
        for (text, expected) in [
            ("auto", DeviceRequest::Auto),
            ("CPU", DeviceRequest::Cpu),
            ("none", DeviceRequest::Cpu),
            ("cuda", DeviceKind::Cuda(0).into()),
            ("cuda:1", DeviceKind::Cuda(1).into()),
            ("CUDA1", DeviceKind::Cuda(1).into()),
            ("hip:1", DeviceKind::Hip(1).into()),
            ("ROCm0", DeviceKind::Hip(0).into()),
            ("metal", DeviceKind::Metal(0).into()),
            ("MTL0", DeviceKind::Metal(0).into()),
            ("vulkan", DeviceKind::Vulkan(0).into()),
            ("Vulkan1", DeviceKind::Vulkan(1).into()),
            #[cfg(feature = "rpc")]
            ("RPC1", DeviceKind::Rpc(1).into()),
        ] {
            assert_eq!(device(text), Ok(expected), "{text}");
        }
        for text in
            ["", "gpu", "metals", "cuda:", "cuda:-1", "cuda:x", "cuda:99999999999999999999", "cuda:0,", ","]
        {
            assert!(device(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_of_devices_are_parsed() {
        let [one, two] = [DeviceKind::Cuda(0), DeviceKind::Cuda(1)];
        for text in ["cuda:0,cuda:1", "CUDA0, CUDA1", "cuda,cuda:1,cpu", "cuda:0,cuda:1,none"] {
            assert_eq!(device(text), Ok(DeviceRequest::Devices(vec![one, two])), "{text}");
        }
        assert_eq!(device("cuda:1,cuda:0"), Ok(DeviceRequest::Devices(vec![two, one])), "their order counts");
        assert_eq!(device("cuda:1,cpu"), Ok(DeviceKind::Cuda(1).into()));
        for (text, part) in [
            ("cuda:1,cuda:0,CUDA1", "CUDA1 is there twice"),
            ("cpu,cpu", "cpu is there twice"),
            ("cuda:0,cpu,none", "none is there twice"),
            ("cpu,cuda:0", "cpu is not the last device"),
            ("auto,cuda:0", "auto is no device of a list"),
            ("cuda:0,sycl0", "`sycl0` is not a device"),
        ] {
            let failure = device(text).expect_err(text);
            assert!(failure.to_string().contains(part), "{text}: {failure}");
        }
    }

    #[test]
    fn shares_are_parsed() {
        for text in ["3,1", "3/1", " 3 , 1.0"] {
            assert_eq!(shares(text), Ok(Shares(vec![3.0, 1.0])), "{text}");
        }
        for text in ["", "3,", "x", "3;1"] {
            assert!(shares(text).is_err(), "{text}");
        }
    }

    #[test]
    fn layer_counts_are_parsed() {
        assert_eq!(layers("auto"), Ok(GpuLayers::Auto));
        assert_eq!((layers("0"), layers("99")), (Ok(GpuLayers::Count(0)), Ok(GpuLayers::Count(99))));
        assert_eq!(
            (layers("all"), layers("-1")),
            (Ok(GpuLayers::Count(usize::MAX)), Ok(GpuLayers::Count(usize::MAX)))
        );
        assert!(layers("x").is_err() && layers("-2").is_err());
        assert_eq!(host_experts("auto"), Ok(HostExperts::Auto));
        assert_eq!(
            (host_experts("12"), host_experts("all")),
            (Ok(HostExperts::Count(12)), Ok(HostExperts::Count(usize::MAX)))
        );
        assert!(host_experts("-1").is_err(), "as in llama.cpp");
    }
}
