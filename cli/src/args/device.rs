//! Flags for the device: the CPU, or a GPU for some layers.

use clap::Args;
use longhand::DeviceKind;
use longhand::setup::{DeviceRequest, GpuLayers, HostExperts};
use terminal::format;
use terminal::values;

use crate::failure::Failure;

/// Flags of commands that compute.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceArgs {
    /// Device, also -dev: auto (a GPU if there is one), cpu, cuda or cuda:N (see `longhand devices`)
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    pub device: DeviceRequest,
    /// Layers on the GPU, beginning with the last layer, also -ngl: a number, all, or auto (as many as fit)
    #[arg(long, visible_alias = "gpu-layers", value_name = "N", default_value = "auto", value_parser = layers)]
    pub n_gpu_layers: GpuLayers,
    /// Layers whose experts stay on the CPU while the GPU computes the rest, beginning with the first layer, also -ncmoe:
    /// a number, all (also --cpu-moe), or auto (as few as possible)
    #[arg(long, value_name = "N", default_value = "auto", value_parser = host_experts)]
    pub n_cpu_moe: HostExperts,
    /// Limit on GPU memory, the driver's part included, for example 20GiB. Without a GPU it limits main memory, for `plan`
    /// and for the policy auto [default: the memory that is free]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, allow_hyphen_values = true)]
    pub memory: Option<usize>,
}

impl DeviceArgs {
    /// The flags that were given, as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let device = match &self.device {
            DeviceRequest::Auto => None,
            DeviceRequest::Cpu => Some("cpu".to_owned()),
            DeviceRequest::Devices(devices) => {
                let names: Vec<String> = devices.iter().map(DeviceKind::to_string).collect();
                Some(names.join(","))
            }
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
        let memory = self.memory.filter(|_| on_gpu).map(format::bytes_flag);
        let flags =
            [("--device", device), ("-ngl", layers), ("--n-cpu-moe", host_experts), ("--memory", memory)];
        let given = flags.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        given.flatten().collect()
    }
}

fn device(text: &str) -> Result<DeviceRequest, Failure> {
    let lower = text.trim().to_ascii_lowercase();
    match lower.as_str() {
        "auto" => return Ok(DeviceRequest::Auto),
        // llama.cpp calls it none.
        "cpu" | "none" => return Ok(DeviceRequest::Cpu),
        "cuda" => return Ok(DeviceKind::Cuda(0).into()),
        #[cfg(feature = "testing")]
        "emulated" => return Ok(DeviceKind::Emulated(0).into()),
        #[cfg(feature = "testing")]
        "portable" => return Ok(DeviceKind::Portable(0).into()),
        _ => {}
    }
    // `cuda:0`, and llama.cpp's `CUDA0`.
    let number = lower.strip_prefix("cuda").map(|rest| rest.strip_prefix(':').unwrap_or(rest));
    match number.and_then(|number| number.parse().ok()) {
        Some(number) => Ok(DeviceKind::Cuda(number).into()),
        None => Err(Failure::usage("not a device", "use auto, cpu, cuda, or cuda:1 for the second GPU")),
    }
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
        ] {
            assert_eq!(device(text), Ok(expected), "{text}");
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:99999999999999999999"] {
            assert!(device(text).is_err(), "{text}");
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
