//! Compiles ggml-cuda as HIP, with our own functions around it, for the feature `hip` and AMD's GPUs. Without the feature nothing is
//! compiled.
//!
//! It needs AMD's clang with the headers of HIP and hipBLAS, as ROCm brings them, for Linux on x86-64. It needs no GPU, and links none
//! of ROCm's libraries: `loader.cpp` opens them. Objects are kept ([`objects`]).
//!
//! Variables of the environment, read at build time only:
//! - `LONGHAND_HIP_ARCHS`: architectures such as `gfx1100,gfx1201`; without it the GPUs of this machine.
//! - `HIPCXX`: the compiler, `hipcc` or AMD's `clang++`; or `ROCM_PATH`: the folder of ROCm. Without them `hipcc` from PATH, or that of
//!   /opt/rocm.
//! - `LONGHAND_HIP_OBJECTS`: absolute path of the folder of objects; without it `hip-objects` in the target folder.
//! - `LONGHAND_HIP_CHECK=1`: only our own files are compiled, with warnings as errors, and nothing can be linked.
//! - `LONGHAND_CHECK=1`: nothing is compiled, as for Clippy; then nothing can be linked, and any system will do.

#[cfg(feature = "hip")]
#[path = "../../build/check.rs"]
mod check;
#[cfg(feature = "hip")]
#[path = "../../build/ggml_cuda.rs"]
mod ggml_cuda;
#[cfg(feature = "hip")]
#[path = "../../build/objects.rs"]
mod objects;

#[cfg(not(feature = "hip"))]
fn main() {
    println!("cargo:rerun-if-changed=build");
}

#[cfg(feature = "hip")]
fn main() -> anyhow::Result<()> {
    backend::compile()
}

#[cfg(feature = "hip")]
mod backend {
    use std::collections::BTreeSet;
    use std::env;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use anyhow::{Context, Result, ensure};

    use crate::ggml_cuda;
    use crate::objects::{Compiler, Objects, Unit, digest, digest_headers, files, in_path, stem, version};

    /// Pairs of K and V types that ggml's attention has vector kernels for. Others are refused (`engine/src/devices/attention.rs`).
    const ATTENTION_PAIRS: &[&str] = &["f16-f16"];

    const FLAGS: &[&str] =
        &["-x", "hip", "-std=c++17", "-O3", "-fPIC", "-DNDEBUG", "-D_GNU_SOURCE", "-D__HIP_PLATFORM_AMD__"];

    /// As ggml's CMake files set them for a release build. MMQ: quantised products then never need hipBLAS.
    const GGML_FLAGS: &[&str] =
        &["-DGGML_SCHED_MAX_COPIES=4", "-DGGML_USE_HIP", "-DGGML_CUDA_FORCE_MMQ", "-DGGML_HIP_NO_VMM"];

    /// ggml-cuda's file that our `hip.cu` includes.
    const INCLUDED: &str = "ggml-cuda";

    pub fn compile() -> Result<()> {
        for name in
            ["LONGHAND_HIP_ARCHS", "LONGHAND_HIP_OBJECTS", "LONGHAND_HIP_CHECK", "HIPCXX", "ROCM_PATH"]
        {
            println!("cargo:rerun-if-env-changed={name}");
        }
        for input in ["build", "../build", "../device", "hip.cu", "loader.cpp"] {
            println!("cargo:rerun-if-changed={input}");
        }
        let is_own_check = env::var_os("LONGHAND_HIP_CHECK").is_some_and(|value| value == "1");
        if crate::check::is_check() && !is_own_check {
            println!("cargo:rustc-env=GGML_HIP_ARCHITECTURES=");
            return Ok(());
        }
        ensure!(
            env::var("CARGO_CFG_TARGET_OS")? == "linux" && env::var("CARGO_CFG_TARGET_ARCH")? == "x86_64",
            "feature hip: ROCm's libraries are opened on Linux on x86-64 only, and this program is compiled for {}\n\
             hint: leave the feature out; the feature `vulkan` uses AMD's GPUs on other systems",
            env::var("TARGET")?
        );
        ensure!(
            env::var_os("DEP_GGML_NVCC").is_none(),
            "features cuda and hip: both are ggml-cuda, compiled once for NVIDIA's GPUs and once for AMD's, and a program holds it \
             once\nhint: leave one of them out; the feature `vulkan` uses GPUs of any maker"
        );
        let compiler = find_compiler()?;
        let architectures = architectures(&compiler.program)?;
        let folder =
            |name: &str| env::var(name).with_context(|| format!("{name} is not set by ggml's build"));
        let source = PathBuf::from(folder("DEP_GGML_SOURCE")?);
        let ggml = source.parent().context("ggml's sources lie in no folder")?;
        let cuda = source.join("ggml-cuda");
        let headers = ggml_cuda::headers(ggml)?;

        let mut units = own_units(&cuda, headers, &architectures, is_own_check)?;
        if !is_own_check {
            units.extend(ggml_units(&cuda, headers, &architectures)?);
        }
        let objects = Objects::open("LONGHAND_HIP_OBJECTS", "hip-objects")?;
        let objects = objects.compile(&compiler, &cuda, &units)?;
        println!("cargo:rustc-env=GGML_HIP_ARCHITECTURES={}", architectures.join(","));
        if is_own_check {
            return Ok(());
        }
        let mut archive = cc::Build::new();
        archive.cpp(true).objects(objects).try_compile("ggml_hip").context("archiving ggml-cuda failed")?;
        println!("cargo:rustc-link-lib=dl");
        Ok(())
    }

    fn find_compiler() -> Result<Compiler> {
        let installed = Path::new("/opt/rocm/bin/hipcc");
        let hint = "hint: install AMD's ROCm with its development files, or set HIPCXX to hipcc or AMD's clang++, or ROCM_PATH to \
                    the folder of ROCm";
        let program = env::var_os("HIPCXX")
            .map(PathBuf::from)
            .or_else(|| env::var_os("ROCM_PATH").map(|folder| Path::new(&folder).join("bin/hipcc")))
            .or_else(|| in_path("hipcc"))
            .or_else(|| installed.is_file().then(|| installed.to_owned()))
            .with_context(|| format!("feature hip: hipcc, AMD's compiler, was not found\n{hint}"))?;
        // A name without a folder is one in PATH. Links stay: clang compiles C++ by the name `clang++`.
        let found = if program.components().count() == 1 { in_path(&program) } else { None };
        let program = std::path::absolute(found.unwrap_or(program))?;
        ensure!(program.is_file(), "feature hip: {} is not there\n{hint}", program.display());
        let versions = version("hip", &program)?;
        Ok(Compiler { language: "HIP", program, arguments: Vec::new(), versions })
    }

    /// Architectures as clang names them, in ascending order.
    fn architectures(compiler: &Path) -> Result<Vec<String>> {
        let hint = "hint: set LONGHAND_HIP_ARCHS to the architectures to compile for, separated by commas: gfx1030 (RX 6800, \
                    6900), gfx1100 (RX 7900), gfx1201 (RX 9070), gfx90a (MI200), gfx942 (MI300)";
        let listed = match env::var("LONGHAND_HIP_ARCHS") {
            Ok(listed) => listed,
            Err(_) => {
                const ENUMERATOR: &str = "rocm_agent_enumerator";
                let beside = compiler.with_file_name(ENUMERATOR);
                let program = if beside.is_file() { beside } else { ENUMERATOR.into() };
                let output = Command::new(program).output().ok().filter(|output| output.status.success());
                output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
            }
        };
        let names = listed.split([',', ' ', ';', '\n']).map(str::trim);
        // The enumerator calls a processor gfx000.
        let names: BTreeSet<&str> = names.filter(|name| !name.is_empty() && *name != "gfx000").collect();
        ensure!(
            !names.is_empty(),
            "feature hip: no GPU of AMD was found on this machine to compile for\n{hint}"
        );
        for name in &names {
            let number = name.strip_prefix("gfx").unwrap_or_default();
            ensure!(
                number.len() >= 3 && number.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "feature hip: `{name}` is not an architecture that ggml can be compiled for\n{hint}"
            );
        }
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    /// The flags of all files: `include` says how ggml's headers are included.
    fn flags(architectures: &[String], include: &str) -> Vec<String> {
        let folders = [".", "..", "../../include"].map(|folder| format!("{include}{folder}"));
        let fixed = FLAGS.iter().chain(GGML_FLAGS).map(|&flag| flag.to_owned());
        let architectures = architectures.iter().map(|name| format!("--offload-arch={name}"));
        fixed.chain(folders).chain(architectures).collect()
    }

    /// Our own files. Their warnings are shown; in a check they are errors.
    fn own_units(cuda: &Path, headers: u128, architectures: &[String], is_check: bool) -> Result<Vec<Unit>> {
        let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
        let included = fs::read(cuda.join(INCLUDED).with_extension("cu")).context("ggml-cuda.cu")?;
        let headers = digest(&included, digest_headers(&[&folder.join("../device")], headers)?);
        let mut flags = flags(architectures, "-isystem");
        // Hidden: ROCm's libraries must never find the functions of the loader in place of their own.
        flags.extend(["-fvisibility=hidden", "-Wall", "-Wextra"].map(str::to_owned));
        flags.extend(ggml_cuda::attention_flags(ATTENTION_PAIRS));
        if is_check {
            flags.extend(["-Werror", "-O0"].map(str::to_owned));
        }
        let sources = files(&folder, &["cu", "cpp"])?;
        Ok(sources.into_iter().map(|source| Unit { source, flags: flags.clone(), headers }).collect())
    }

    /// ggml-cuda's files, but for the one that our own includes.
    fn ggml_units(cuda: &Path, headers: u128, architectures: &[String]) -> Result<Vec<Unit>> {
        let mut flags = flags(architectures, "-I");
        flags.push("-w".to_owned());
        flags.extend(ggml_cuda::attention_flags(ATTENTION_PAIRS));
        let sources = ggml_cuda::sources(cuda, ATTENTION_PAIRS)?.into_iter();
        let sources = sources.filter(|source| stem(source) != INCLUDED);
        Ok(sources.map(|source| Unit { source, flags: flags.clone(), headers }).collect())
    }
}
