//! Which GPUs can compute, and why others cannot. Checked before ggml-cuda is used: it aborts the process
//! where it finds something unexpected.

use std::fmt;

/// An NVIDIA GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// CUDA's number for it.
    pub index: usize,
    /// Its name, such as `NVIDIA GeForce RTX 4090`.
    pub name: String,
    /// Its architecture.
    pub capability: Capability,
    /// Bytes of its memory.
    pub total: u64,
    /// Why it cannot compute.
    pub problem: Option<NoCuda>,
}

/// An architecture of NVIDIA's GPUs: major and minor number, 8.9 for the RTX 4090.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability(pub u32, pub u32);

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The oldest that the kernels can be compiled for.
const OLDEST: Capability = Capability(8, 0);

/// A version of CUDA as CUDA writes it: 1000 times the major and 10 times the minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudaVersion(pub i32);

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// Why CUDA cannot be used. Its text is one line that also says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCuda {
    /// The program was built without the feature `cuda`.
    #[error("this program was built without CUDA; for NVIDIA GPUs build it with `--features cuda`")]
    NotBuilt,
    /// No driver.
    #[error(
        "no NVIDIA driver was found; install one that knows CUDA {needed}{release} (in a container: start it with `--gpus all`)",
        release = release(*needed)
    )]
    NoDriver {
        /// The version that the program was built with.
        needed: CudaVersion,
    },
    /// The driver is older than what the program was built with.
    #[error(
        "the NVIDIA driver knows CUDA {driver} at most, this program needs {needed}; install a newer driver{release}",
        release = release(*needed)
    )]
    DriverTooOld {
        /// The newest version that the driver knows.
        driver: CudaVersion,
        /// The version that the program was built with.
        needed: CudaVersion,
    },
    /// The driver shows no GPU.
    #[error(
        "the NVIDIA driver shows no GPU; see whether `nvidia-smi` lists one and whether CUDA_VISIBLE_DEVICES hides it"
    )]
    NoGpu,
    /// No code for this GPU was compiled in.
    #[error(
        "this program has no code for {name}, architecture {found}, only for {}; {}",
        list(compiled), remedy(*found)
    )]
    Architecture {
        /// The GPU's name.
        name: String,
        /// Its architecture.
        found: Capability,
        /// Architectures that the program has code for.
        compiled: Vec<Capability>,
    },
    /// CUDA reported another error.
    #[error(
        "CUDA cannot be used: {text} (error {code}); see whether `nvidia-smi` works, and restart after a driver update"
    )]
    Failed {
        /// CUDA's error number.
        code: i32,
        /// CUDA's text.
        text: String,
    },
}

/// The release of the driver for Linux that supports a version of CUDA.
fn release(needed: CudaVersion) -> &'static str {
    match needed.0 / 1000 {
        12 => " (550 or later)",
        13 => " (580 or later)",
        _ => "",
    }
}

/// What to do about a GPU that there is no code for.
fn remedy(found: Capability) -> String {
    match found < OLDEST {
        true => format!("architectures before {OLDEST} are not supported"),
        false => format!("build it with LONGHAND_CUDA_ARCHS={}{}", found.0, found.1),
    }
}

fn list(capabilities: &[Capability]) -> String {
    capabilities.iter().map(Capability::to_string).collect::<Vec<_>>().join(", ")
}

/// All GPUs, in CUDA's order, at least one of them without a problem; otherwise the reason. Creates no
/// context on any GPU.
pub fn devices() -> Result<Vec<Gpu>, NoCuda> {
    #[cfg(not(feature = "cuda"))]
    return Err(NoCuda::NotBuilt);
    #[cfg(feature = "cuda")]
    usable_gpus(crate::cuda::probe())
}

/// Bytes of GPU number `index` that are free. Creates a CUDA context on it, which takes some hundred MiB
/// until the program ends.
pub fn free_memory(index: usize) -> Result<u64, NoCuda> {
    #[cfg(not(feature = "cuda"))]
    return {
        let _ = index;
        Err(NoCuda::NotBuilt)
    };
    #[cfg(feature = "cuda")]
    crate::cuda::free_memory(index)
}

/// Everything that CUDA reports.
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only called with CUDA"))]
pub(crate) struct Probe {
    /// Version of the linked CUDA runtime.
    pub runtime: CudaVersion,
    /// The newest version that the driver knows; 0 without a driver.
    pub driver: CudaVersion,
    /// The GPUs, or CUDA's error.
    pub gpus: Result<Vec<FoundGpu>, NoCuda>,
    /// Architectures that the program has code for.
    pub compiled: Vec<CompiledArch>,
}

/// A GPU as CUDA describes it.
pub(crate) struct FoundGpu {
    pub name: String,
    pub capability: Capability,
    pub total: u64,
}

/// An architecture that the program has code for.
#[derive(Clone, Copy)]
pub(crate) struct CompiledArch {
    pub capability: Capability,
    /// Whether later architectures of the same major number run it too.
    pub compatible: bool,
}

#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only called with CUDA"))]
impl CompiledArch {
    /// From nvcc's name: `89`, or `120a` for code that no other architecture runs.
    pub(crate) fn parse(name: &str) -> Option<CompiledArch> {
        let digits = name.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let number: u32 = digits.parse().ok()?;
        Some(CompiledArch { capability: Capability(number / 10, number % 10), compatible: digits == name })
    }

    fn runs_on(&self, gpu: Capability) -> bool {
        let CompiledArch { capability: Capability(major, minor), compatible } = *self;
        major == gpu.0 && if compatible { minor <= gpu.1 } else { minor == gpu.1 }
    }
}

/// CUDA's error number for a driver that is too old, or missing.
const INSUFFICIENT_DRIVER: i32 = 35;
/// CUDA's error number for a driver without a GPU.
const NO_DEVICE: i32 = 100;
/// Code that was built with this version or a later one is compressed (ggml/sys/build/cuda.rs).
const COMPRESSES: CudaVersion = CudaVersion(12080);
/// Drivers that know this version can read it.
const READS_COMPRESSED: CudaVersion = CudaVersion(12040);

#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only called with CUDA"))]
fn usable_gpus(probe: Probe) -> Result<Vec<Gpu>, NoCuda> {
    let Probe { runtime, driver, gpus, compiled } = probe;
    let gpus = gpus.map_err(|error| match error {
        NoCuda::Failed { .. } if driver.0 == 0 => NoCuda::NoDriver { needed: runtime },
        NoCuda::Failed { code: INSUFFICIENT_DRIVER, .. } => NoCuda::DriverTooOld { driver, needed: runtime },
        NoCuda::Failed { code: NO_DEVICE, .. } => NoCuda::NoGpu,
        other => other,
    })?;
    if runtime >= COMPRESSES && driver < READS_COMPRESSED {
        return Err(NoCuda::DriverTooOld { driver, needed: READS_COMPRESSED });
    }
    let gpus: Vec<Gpu> = (0..)
        .zip(gpus)
        .map(|(index, FoundGpu { name, capability, total })| {
            let problem = (!compiled.iter().any(|code| code.runs_on(capability))).then(|| {
                let compiled = compiled.iter().map(|code| code.capability).collect();
                NoCuda::Architecture { name: name.clone(), found: capability, compiled }
            });
            Gpu { index, name, capability, total, problem }
        })
        .collect();
    match gpus.first() {
        None => Err(NoCuda::NoGpu),
        Some(first) if gpus.iter().all(|gpu| gpu.problem.is_some()) => {
            Err(first.problem.clone().unwrap_or(NoCuda::NoGpu))
        }
        Some(_) => Ok(gpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn failed(code: i32) -> NoCuda {
        NoCuda::Failed { code, text: "text of CUDA".into() }
    }

    fn gpu(name: &str, major: u32, minor: u32) -> FoundGpu {
        FoundGpu { name: name.into(), capability: Capability(major, minor), total: 24 * GIB }
    }

    fn ask(driver: i32, gpus: Result<Vec<FoundGpu>, NoCuda>) -> Result<Vec<Gpu>, NoCuda> {
        let compiled = ["86", "90", "120a"].map(|name| CompiledArch::parse(name).unwrap()).to_vec();
        let probe = Probe { runtime: CudaVersion(13000), driver: CudaVersion(driver), gpus, compiled };
        usable_gpus(probe)
    }

    /// Checks that the message is one line with `part` in it.
    #[track_caller]
    fn check(result: Result<Vec<Gpu>, NoCuda>, part: &str) {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }

    #[test]
    fn messages_say_what_to_install() {
        check(ask(0, Err(failed(35))), "install one that knows CUDA 13.0 (580 or later)");
        check(ask(12080, Err(failed(35))), "knows CUDA 12.8 at most, this program needs 13.0");
        check(ask(13000, Err(failed(100))), "shows no GPU");
        check(ask(13000, Ok(vec![])), "shows no GPU");
        check(ask(13000, Err(failed(999))), "text of CUDA (error 999)");
        check(
            ask(13000, Ok(vec![gpu("B200", 10, 0)])),
            "no code for B200, architecture 10.0, only for 8.6, 9.0, 12.0; build it with LONGHAND_CUDA_ARCHS=100",
        );
        check(ask(13000, Ok(vec![gpu("T4", 7, 5)])), "; architectures before 8.0 are not supported");
        check(ask(12020, Ok(vec![gpu("A", 8, 9)])), "knows CUDA 12.2 at most, this program needs 12.4");
    }

    #[test]
    fn code_runs_on_later_gpus_of_its_major_number() {
        let usable = |major, minor| ask(13000, Ok(vec![gpu("G", major, minor)])).is_ok();
        assert!(usable(8, 6) && usable(8, 9) && usable(9, 0) && usable(12, 0));
        // 8.0 is older than 8.6, 10.0 another generation, and 120a runs on 12.0 alone.
        assert!(!usable(8, 0) && !usable(10, 0) && !usable(12, 1));
    }

    #[test]
    fn one_usable_gpu_is_enough() {
        let gpus = ask(13000, Ok(vec![gpu("T4", 7, 5), gpu("B", 10, 0), gpu("A", 8, 9)])).unwrap();
        let state: Vec<_> = gpus.iter().map(|gpu| (gpu.index, gpu.problem.is_none())).collect();
        assert_eq!(state, [(0, false), (1, false), (2, true)]);
    }

    #[test]
    #[cfg(not(feature = "cuda"))]
    fn without_the_feature_the_error_names_it() {
        check(devices(), "--features cuda");
    }
}
