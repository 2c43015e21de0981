//! From what was asked for to what computes: which device, and how many of the last layers fit its memory. Decided from the file's
//! outline, before any weight is read.

use anyhow::Result;
use engine::heads::{HeadProfile, HeadShape};
use engine::kv::{Layout, PolicyChoice, StoreOptions};
use engine::outline::{TensorOutline, tensor_outlines};
use engine::plan::{ASSUMED_DEVICE_BLOCKS, DRIVER_BYTES, Plan, PlanOptions, device_overhead};
use engine::{DeviceKind, DeviceOptions, EngineOptions, ModelSource, Prefill, SessionOptions};
use ggml::NoCuda;
use models::spec::ModelSpec;

use crate::args::App;
use crate::args::device::{Device, DeviceArgs, Layers};
use crate::args::model::ModelArgs;
use crate::args::session::SessionSettings;
use crate::failure::Failure;
use crate::{format, profiles};

/// Tokens that are planned for where a command does not say how many there will be.
const TOKENS: usize = 8192;

/// How to open a model: with the device that was asked for, and as many layers on it as were asked for or as fit beside `session`.
pub fn engine_options(
    app: &App,
    args: &ModelArgs,
    source: &ModelSource,
    session: Option<&SessionOptions>,
) -> Result<EngineOptions> {
    let options = args.options(app);
    let Some((kind, free)) = choose(app, &args.device)? else { return Ok(options) };
    let file = engine::open_file(source)?;
    let spec = ModelSpec::from_gguf(&file)?;
    let fit = Fit {
        profile: profiles::guess(
            HeadShape::new(spec.n_layers, spec.n_heads, spec.n_kv_heads)?,
            &file.fingerprint(),
        )?,
        tensors: tensor_outlines(&file),
        options: &options,
        session: session.cloned().unwrap_or_else(|| SessionOptions {
            context: TOKENS.min(spec.n_ctx_train.max(1)),
            ..SessionOptions::default()
        }),
        spec,
    };
    let limit = limit(args.device.memory, free);
    let most = fit.spec.n_layers;
    let layers = match (args.device.n_gpu_layers, limit) {
        (Layers::Count(count), _) => count.min(most),
        (Layers::Auto, None) => most,
        (Layers::Auto, Some(limit)) => {
            self::most(most, |layers| fit.plan(layers).is_ok_and(|plan| plan.device_total() <= limit))
        }
    };
    if layers == 0 {
        if args.device.n_gpu_layers == Layers::Auto {
            app.console.note(&format!(
                "note: not even one layer fits the {} of the GPU that the driver leaves: everything is computed on the CPU",
                format::bytes(limit.unwrap_or(0))
            ));
        }
        return Ok(options);
    }
    if layers < most {
        app.console.note(&format!("note: {layers} of {most} layers are on the GPU, the others on the CPU"));
    }
    let overhead = device_overhead(&fit.spec, fit.session.chunk.min(fit.session.context));
    let device =
        Some(DeviceOptions { kind, layers, memory: limit.map(|limit| limit.saturating_sub(overhead)) });
    Ok(EngineOptions { device, ..options })
}

/// The context that settings will come to, before documents of so many bytes are tokens.
pub fn expected_context(settings: &SessionSettings, bytes: usize) -> usize {
    /// Most languages and vocabularies have more bytes a token.
    const BYTES: usize = 3;
    settings.context.filter(|context| *context > 0).unwrap_or(bytes / BYTES + TOKENS)
}

/// The device to use and the bytes that are free there, if known; `None` for the CPU.
fn choose(app: &App, args: &DeviceArgs) -> Result<Option<(DeviceKind, Option<usize>)>, Failure> {
    if args.n_gpu_layers == Layers::Count(0) {
        return Ok(None);
    }
    match args.device {
        Device::Cpu => Ok(None),
        Device::Kind(DeviceKind::Cuda(index)) => {
            found(Some(index)).map(Some).map_err(|error| Failure::typed(&error))
        }
        Device::Kind(kind) => Ok(Some((kind, None))),
        Device::Auto => match found(None) {
            Ok(found) => Ok(Some(found)),
            Err(ggml::Error::NoCuda(why)) => {
                let asked_for = matches!(args.n_gpu_layers, Layers::Count(_)) || args.memory.is_some();
                let silent = match why {
                    NoCuda::NotBuilt => !asked_for,
                    NoCuda::NoDriver { .. } => !asked_for && !has_gpu(),
                    _ => false,
                };
                if !silent {
                    app.console.note(&format!("note: everything is computed on the CPU: {why}"));
                }
                Ok(None)
            }
            Err(error) => Err(Failure::typed(&error)),
        },
    }
}

/// The GPU of this number, or the first that can compute, and the bytes that are free there.
pub fn found(index: Option<usize>) -> Result<(DeviceKind, Option<usize>), ggml::Error> {
    let gpus = ggml::devices()?;
    let index = index.or(gpus.iter().position(|gpu| gpu.problem.is_none())).unwrap_or(0);
    let gpu = gpus.get(index).ok_or(ggml::Error::NoSuchGpu { index, gpus: gpus.len() })?;
    match &gpu.problem {
        Some(problem) => Err(problem.clone().into()),
        None => Ok((DeviceKind::Cuda(index), Some(ggml::free_memory(index)? as usize))),
    }
}

/// What a plan for a GPU may come to: the driver's part is in what a user allows, and no longer in what is free once the GPU is in use.
fn limit(memory: Option<usize>, free: Option<usize>) -> Option<usize> {
    [memory.map(|most| most.saturating_sub(DRIVER_BYTES)), free].into_iter().flatten().min()
}

/// The most of `all` layers for which `fits` holds; what holds for some holds for fewer.
pub fn most(all: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut good, mut bad) = (0, all + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) { good = middle } else { bad = middle }
    }
    good
}

/// Whether the machine has an NVIDIA GPU, as far as Linux tells, whatever drivers there are.
fn has_gpu() -> bool {
    const NVIDIA: &str = "0x10de";
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    devices
        .map(|device| device.path().join("vendor"))
        .any(|vendor| std::fs::read_to_string(vendor).is_ok_and(|vendor| vendor.trim() == NVIDIA))
}

/// What has to fit.
struct Fit<'a> {
    spec: ModelSpec,
    tensors: Vec<TensorOutline>,
    profile: HeadProfile,
    options: &'a EngineOptions,
    session: SessionOptions,
}

impl Fit<'_> {
    fn plan(&self, on_device: usize) -> Result<Plan> {
        let SessionOptions { context, types, .. } = self.session;
        let room = StoreOptions { context, types, reserve: None };
        // Windows that follow from weights are not known yet; a store that keeps everything is larger.
        let policy = match self.session.policy.scope_options(&self.spec) {
            Some(_) => PolicyChoice::default(),
            None => self.session.policy.clone(),
        };
        let layout = Layout::new(&self.spec, &policy, Some(&self.profile), room)?;
        let options = PlanOptions {
            repack: self.options.repack,
            prompt: context,
            chunk: self.session.chunk,
            exact: self.session.prefill == Prefill::Exact,
            threads: self.options.threads(),
            on_device,
            blocks: ASSUMED_DEVICE_BLOCKS,
        };
        Ok(Plan::new(&self.spec, &self.tensors, &layout, &options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_part_is_counted_once() {
        const GIB: usize = 1 << 30;
        assert_eq!(limit(Some(24 * GIB), None), Some(24 * GIB - DRIVER_BYTES));
        assert_eq!(limit(None, Some(23 * GIB)), Some(23 * GIB));
        // The bound counts from nothing, what is free only as far as it goes.
        assert_eq!(limit(Some(24 * GIB), Some(10 * GIB)), Some(10 * GIB));
        assert_eq!(limit(Some(8 * GIB), Some(10 * GIB)), Some(8 * GIB - DRIVER_BYTES));
        assert_eq!(limit(Some(1), None), Some(0));
        assert_eq!(limit(None, None), None);
    }
}
