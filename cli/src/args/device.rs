//! What computes: the CPU, or a GPU for the last layers.

use clap::Args;
use engine::DeviceKind;

use super::values;

/// Flags of commands that compute.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceArgs {
    /// What computes (-dev): auto (a GPU if there is one), cpu, cuda or cuda:N (see `longhand devices`)
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    pub device: Device,
    /// How many of the last layers the GPU computes (-ngl): a number, all, or auto (as many as fit)
    #[arg(long, visible_alias = "gpu-layers", value_name = "N", default_value = "auto", value_parser = layers)]
    pub n_gpu_layers: Layers,
    /// Most memory that is taken on the GPU, the driver's part included, for example 20GiB; what is free there unless given
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub memory: Option<usize>,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A GPU if there is one that can compute.
    Auto,
    /// The CPU.
    Cpu,
    /// This one.
    Kind(DeviceKind),
}

/// How many of the last layers are on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layers {
    /// As many as fit.
    Auto,
    /// So many; more than there are is all.
    Count(usize),
}

fn device(text: &str) -> Result<Device, String> {
    let lower = text.trim().to_ascii_lowercase();
    match lower.as_str() {
        "auto" => return Ok(Device::Auto),
        // llama.cpp's word for no device.
        "cpu" | "none" => return Ok(Device::Cpu),
        "cuda" => return Ok(Device::Kind(DeviceKind::Cuda(0))),
        #[cfg(feature = "testing")]
        "emulated" => return Ok(Device::Kind(DeviceKind::Emulated)),
        _ => {}
    }
    // `cuda:0`, and llama.cpp's `CUDA0`.
    let number = lower.strip_prefix("cuda").map(|rest| rest.strip_prefix(':').unwrap_or(rest));
    match number.and_then(|number| number.parse().ok()) {
        Some(number) => Ok(Device::Kind(DeviceKind::Cuda(number))),
        None => Err("not a device\nhint: auto, cpu, cuda, or cuda:1 for the second GPU".into()),
    }
}

fn layers(text: &str) -> Result<Layers, String> {
    match text.trim() {
        "auto" => Ok(Layers::Auto),
        // llama.cpp's -1 means all too.
        "all" | "-1" => Ok(Layers::Count(usize::MAX)),
        number => match number.parse() {
            Ok(number) => Ok(Layers::Count(number)),
            Err(_) => Err("not a number of layers\nhint: for example 20, all or auto".into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        for (text, wanted) in [
            ("auto", Device::Auto),
            ("CPU", Device::Cpu),
            ("none", Device::Cpu),
            ("cuda", Device::Kind(DeviceKind::Cuda(0))),
            ("cuda:1", Device::Kind(DeviceKind::Cuda(1))),
            ("CUDA1", Device::Kind(DeviceKind::Cuda(1))),
        ] {
            assert_eq!(device(text), Ok(wanted), "{text}");
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:99999999999999999999"] {
            assert!(device(text).is_err(), "{text}");
        }
    }

    #[test]
    fn layers_are_counted() {
        assert_eq!(layers("auto"), Ok(Layers::Auto));
        assert_eq!((layers("0"), layers("99")), (Ok(Layers::Count(0)), Ok(Layers::Count(99))));
        assert_eq!(
            (layers("all"), layers("-1")),
            (Ok(Layers::Count(usize::MAX)), Ok(Layers::Count(usize::MAX)))
        );
        assert!(layers("x").is_err() && layers("-2").is_err());
    }
}
