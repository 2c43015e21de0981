//! Compiles ggml-cuda and our own CUDA glue (`ggml/sys/cuda`) with nvcc, for the feature `cuda`.
//!
//! Variables of the environment, read at build time only:
//! - `LONGHAND_CUDA_ARCHS`: architectures such as `86,89,90,120`; without it the GPUs of this machine.
//! - `NVCC`, or `CUDA_HOME` (or `CUDA_PATH`): where the compiler is; without them `nvcc` from PATH.
//! - `LONGHAND_CUDA_OBJECTS`: absolute path of the folder of objects; without it `cuda-objects` in the target
//!   folder.
//! - `LONGHAND_CUDA_CHECK=1`: only our own CUDA files are compiled, with warnings as errors, and nothing can
//!   be linked: for `cargo clippy`.
//!
//! Other crates' build scripts find the same compiler and architectures in `DEP_GGML_NVCC`,
//! `DEP_GGML_NVCC_FLAGS` (separated by spaces), `DEP_GGML_CUDA_INCLUDE` and `DEP_GGML_CUDA_ARCHITECTURES`
//! (separated by commas).

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::ggml_cuda;
use crate::objects::{Compiler, Objects, Unit, digest_headers, files, in_path, version};

/// Pairs of K and V types that ggml's attention has vector kernels for, ggml's own default.
const ATTENTION_PAIRS: &[&str] = &["q4_0-q4_0", "q8_0-q8_0", "f16-f16", "bf16-bf16"];

/// As ggml's CMake files set them for a release build. No VMM: it would link libcuda, and the program must
/// start without a driver. MMQ: quantised products then never need cuBLAS.
const GGML_FLAGS: &[&str] = &[
    "-std=c++17",
    "-O3",
    "-use_fast_math",
    "-extended-lambda",
    "-DNDEBUG",
    "-D_GNU_SOURCE",
    "-DGGML_SCHED_MAX_COPIES=4",
    "-DGGML_USE_CUDA",
    "-DGGML_CUDA_NO_VMM",
    "-DGGML_CUDA_FORCE_MMQ",
    "-Xcompiler=-fPIC,-w",
    "-w",
];

/// Flags for device code that never runs: it is not optimised and, with `code=compute_..`, not assembled.
const NOTHING_RUNS: &[&str] = &["-Xcicc=-O0", "-Xcompiler=-O0"];

/// A CUDA toolkit.
struct Toolkit {
    nvcc: PathBuf,
    /// The folder of the toolkit.
    home: PathBuf,
    /// The C++ compiler that nvcc calls.
    host: PathBuf,
    /// What both compilers print for `--version`.
    versions: String,
}

/// Result of [`compile`].
#[derive(PartialEq)]
pub enum Made {
    /// The archive `ggml_cuda`.
    Archive,
    /// `LONGHAND_CUDA_CHECK` is set.
    NothingToLink,
}

/// Compiles everything into the archive `ggml_cuda` and tells Cargo what to link.
pub fn compile(ggml: &Path) -> Result<Made> {
    for name in [
        "LONGHAND_CUDA_ARCHS",
        "LONGHAND_CUDA_OBJECTS",
        "LONGHAND_CUDA_CHECK",
        "NVCC",
        "CUDA_HOME",
        "CUDA_PATH",
    ] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=cuda");
    let check = env::var_os("LONGHAND_CUDA_CHECK").is_some_and(|value| value == "1");
    let toolkit = Toolkit::find()?;
    let architectures = architectures()?;
    let cuda = ggml.join("src/ggml-cuda");

    // With `external-cudart` a mock takes the place of CUDA's runtime library, and no device code runs. Nor does it in a check,
    // whose warnings come before the code is optimised.
    let external_cudart = cfg!(feature = "external-cudart");
    let runs = !check && !external_cudart;
    let mut generate: Vec<String> = architectures
        .iter()
        .map(|name| {
            format!("-gencode=arch=compute_{name},code={}_{name}", if runs { "sm" } else { "compute" })
        })
        .collect();
    if !runs {
        generate.extend(NOTHING_RUNS.iter().map(|&flag| flag.to_owned()));
    }
    let headers = ggml_cuda::headers(ggml)?;
    if toolkit.release() >= Some((12, 8)) {
        generate.push("-compress-mode=size".to_owned());
    }
    let mut units = own_units(headers, &generate, check)?;
    if !check {
        units.extend(ggml_units(&cuda, headers, &generate)?);
    }
    let objects = Objects::open("LONGHAND_CUDA_OBJECTS", "cuda-objects")?;
    let objects = objects.compile(&toolkit.compiler(), &cuda, &units)?;
    println!("cargo:rustc-env=GGML_CUDA_ARCHITECTURES={}", architectures.join(","));
    println!("cargo:nvcc={}", toolkit.nvcc.display());
    println!("cargo:nvcc_flags=-ccbin={} {}", toolkit.host.display(), generate.join(" "));
    println!("cargo:cuda_include={}", toolkit.home.join("include").display());
    println!("cargo:cuda_architectures={}", architectures.join(","));
    if check {
        return Ok(Made::NothingToLink);
    }

    let mut archive = cc::Build::new();
    archive.cpp(true).objects(objects).try_compile("ggml_cuda").context("archiving ggml-cuda failed")?;
    let mut libraries = vec!["dl", "rt", "pthread"];
    if !external_cudart {
        println!("cargo:rustc-link-search=native={}", toolkit.libraries()?.display());
        libraries.insert(0, "static=cudart_static");
    }
    for library in libraries {
        println!("cargo:rustc-link-lib={library}");
    }
    Ok(Made::Archive)
}

/// Architectures as nvcc names them, in ascending order.
///
/// Code for 12x is compiled as 12xa, as ggml does: its FP4 instructions exist in no other architecture.
fn architectures() -> Result<Vec<String>> {
    let hint = "hint: set LONGHAND_CUDA_ARCHS to the architectures to compile for, separated by commas: \
                86 (RTX 30), 89 (RTX 40), 90 (H100, H200), 120 (RTX 50); 80 is the oldest";
    let (listed, asked_for) = match env::var("LONGHAND_CUDA_ARCHS") {
        Ok(listed) => (listed, true),
        Err(_) => {
            let smi = Command::new("nvidia-smi")
                .args(["--query-gpu=compute_cap", "--format=csv,noheader"])
                .output();
            match smi {
                Ok(output) if output.status.success() => {
                    (String::from_utf8_lossy(&output.stdout).replace('\n', ","), false)
                }
                _ => bail!("feature cuda: no NVIDIA GPU was found on this machine to compile for\n{hint}"),
            }
        }
    };
    let mut numbers = BTreeSet::new();
    for name in listed.split([',', ' ', ';']).map(str::trim).filter(|name| !name.is_empty()) {
        // nvidia-smi writes 8.9.
        let number: Option<u32> = name.replacen('.', "", 1).parse().ok();
        if !asked_for && number.is_some_and(|number| number < 80) {
            println!("cargo:warning=CUDA: a GPU of architecture {name} is left out, it is too old");
            continue;
        }
        // Our kernels copy asynchronously, which GPUs before 80 cannot.
        let number = number.filter(|number| (80..1000).contains(number)).with_context(|| {
            format!(
                "feature cuda: `{name}` is not an architecture that the kernels can be compiled for\n{hint}"
            )
        })?;
        numbers.insert(number);
    }
    ensure!(!numbers.is_empty(), "feature cuda: no architecture to compile for\n{hint}");
    Ok(numbers.iter().map(|&n| if n / 10 == 12 { format!("{n}a") } else { n.to_string() }).collect())
}

impl Toolkit {
    fn find() -> Result<Toolkit> {
        let named = env::var_os("NVCC").map(PathBuf::from).or_else(|| {
            let home = env::var_os("CUDA_HOME").or_else(|| env::var_os("CUDA_PATH"))?;
            Some(Path::new(&home).join("bin/nvcc"))
        });
        let hint = "hint: `export CUDA_HOME=$(scripts/cuda-toolkit.sh target/cuda-toolkit)` puts it into a folder, nothing \
                    is installed; or set NVCC or CUDA_HOME to one that is";
        let nvcc = named
            .or_else(|| in_path("nvcc"))
            .with_context(|| format!("feature cuda: nvcc, NVIDIA's compiler, was not found\n{hint}"))?;
        let nvcc = nvcc
            .canonicalize()
            .with_context(|| format!("feature cuda: {} is not there\n{hint}", nvcc.display()))?;
        let home = nvcc.ancestors().nth(2).context("nvcc lies in no folder")?.to_owned();
        // The C++ compiler that compiles the rest of ggml.
        let host =
            cc::Build::new().cpp(true).try_get_compiler().context("no C++ compiler")?.path().to_owned();
        let versions = version("cuda", &nvcc)? + &version("cuda", &host)?;
        Ok(Toolkit { nvcc, home, host, versions })
    }

    fn compiler(&self) -> Compiler {
        Compiler {
            language: "CUDA",
            program: self.nvcc.clone(),
            arguments: vec!["-ccbin".into(), self.host.clone().into()],
            versions: self.versions.clone(),
        }
    }

    /// Major and minor number of its version, which nvcc prints as `release 13.0,`.
    fn release(&self) -> Option<(u32, u32)> {
        let (_, release) = self.versions.split_once("release ")?;
        let (major, minor) = release.split(',').next()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    /// The folder with the static runtime library.
    fn libraries(&self) -> Result<PathBuf> {
        ["lib64", "lib", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu"]
            .iter()
            .map(|folder| self.home.join(folder))
            .find(|folder| folder.join("libcudart_static.a").is_file())
            .with_context(|| format!("feature cuda: no libcudart_static.a in {}/lib64", self.home.display()))
    }
}

/// Our own files: all sources in `ggml/sys/cuda`. Their warnings are shown; in a check they are errors.
fn own_units(headers: u128, generate: &[String], check: bool) -> Result<Vec<Unit>> {
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("cuda");
    let headers = digest_headers(&[&folder], headers)?;
    let mut flags = vec![
        "-std=c++17",
        "-O3",
        "-DNDEBUG",
        "-DGGML_CUDA_NO_VMM",
        "-isystem=.",
        "-isystem=..",
        "-isystem=../../include",
    ];
    // Hidden: libcublas must never find our forwarders in place of its own functions.
    flags.push("-Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra");
    if check {
        flags.extend(["-Werror=all-warnings", "-Xcompiler=-Werror"]);
    }
    let flags: Vec<String> = flags.into_iter().map(str::to_owned).chain(generate.iter().cloned()).collect();
    let sources = files(&folder, &["cu", "cpp"])?;
    Ok(sources.into_iter().map(|source| Unit { source, flags: flags.clone(), headers }).collect())
}

/// ggml-cuda's files.
fn ggml_units(cuda: &Path, headers: u128, generate: &[String]) -> Result<Vec<Unit>> {
    let common: Vec<String> = GGML_FLAGS
        .iter()
        .chain(&["-I.", "-I..", "-I../../include"])
        .map(|&flag| flag.to_owned())
        .chain(generate.iter().cloned())
        .collect();
    let unit = |source: PathBuf| {
        let mut flags = common.clone();
        // Attention is computed by our own kernels (kernels/cuda). ggml's is compiled only to be linked, without
        // its device code, which would be a third of all device code.
        if ggml_cuda::is_attention(&source) {
            flags.extend(ggml_cuda::attention_flags(ATTENTION_PAIRS));
            flags.push("-DGGML_CUDA_NO_FA".to_owned());
        }
        Unit { source, flags, headers }
    };
    Ok(ggml_cuda::sources(cuda, ATTENTION_PAIRS)?.into_iter().map(unit).collect())
}
