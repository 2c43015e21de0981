//! Compiles ggml-cuda and our own CUDA glue (`ggml/sys/cuda`) with nvcc, for the feature `cuda`.
//!
//! ggml-cuda takes about half an hour of one CPU core for each architecture. So each object is kept under the
//! hash of all its inputs (source, headers, flags, compilers) and is never compiled twice, even where Cargo
//! runs the build script again. Progress is written to `build.log` beside the objects. Old objects are
//! removed only by deleting the folder.
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
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

/// Pairs of K and V types that ggml's attention has vector kernels for, ggml's own default.
const ATTENTION_PAIRS: &[&str] = &["q4_0-q4_0", "q8_0-q8_0", "f16-f16", "bf16-bf16"];
const ATTENTION_TYPES: &[&str] = &["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "bf16", "f16"];

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

/// One file to compile. Paths in `flags` are relative to ggml-cuda's folder, so that hashes do not depend on
/// this machine.
struct Unit {
    source: PathBuf,
    /// Flags for nvcc; part of the object's name.
    flags: Vec<String>,
    /// Hash of all headers it may include.
    headers: u128,
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
    let headers =
        digest_headers(&[&ggml.join("include"), &ggml.join("src"), &cuda, &cuda.join("vendors")], 0)?;
    if toolkit.release() >= Some((12, 8)) {
        generate.push("-compress-mode=size".to_owned());
    }
    let mut units = own_units(headers, &generate, check)?;
    if !check {
        units.extend(ggml_units(&cuda, headers, &generate)?);
    }
    let objects = Objects::open()?.compile(&toolkit, &cuda, &units)?;
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
        let in_path = || {
            env::split_paths(&env::var_os("PATH")?)
                .map(|folder| folder.join("nvcc"))
                .find(|file| file.is_file())
        };
        let hint = "hint: `export CUDA_HOME=$(scripts/cuda-toolkit.sh target/cuda-toolkit)` puts it into a folder, nothing \
                    is installed; or set NVCC or CUDA_HOME to one that is";
        let nvcc = named
            .or_else(in_path)
            .with_context(|| format!("feature cuda: nvcc, NVIDIA's compiler, was not found\n{hint}"))?;
        let nvcc = nvcc
            .canonicalize()
            .with_context(|| format!("feature cuda: {} is not there\n{hint}", nvcc.display()))?;
        let home = nvcc.ancestors().nth(2).context("nvcc lies in no folder")?.to_owned();
        // The C++ compiler that compiles the rest of ggml.
        let host =
            cc::Build::new().cpp(true).try_get_compiler().context("no C++ compiler")?.path().to_owned();
        let versions = version(&nvcc)? + &version(&host)?;
        Ok(Toolkit { nvcc, home, host, versions })
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

fn version(compiler: &Path) -> Result<String> {
    let output = Command::new(compiler)
        .arg("--version")
        .output()
        .with_context(|| format!("feature cuda: cannot start {}", compiler.display()))?;
    ensure!(output.status.success(), "feature cuda: `{} --version` failed", compiler.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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

/// ggml-cuda's files as its CMake files list them, except for pairs of types of attention that are not in
/// [`ATTENTION_PAIRS`].
fn ggml_units(cuda: &Path, headers: u128, generate: &[String]) -> Result<Vec<Unit>> {
    let mut sources = files(cuda, &["cu"])?;
    sources.extend(files(&cuda.join("template-instances"), &["cu"])?.into_iter().filter(|source| {
        stem(source).strip_prefix("fattn-vec-instance-").is_none_or(|pair| ATTENTION_PAIRS.contains(&pair))
    }));
    // Attention is computed by our own kernels (kernels/cuda). ggml's is compiled only to be linked, without
    // its device code, which would be a third of all device code.
    let attention = |source: &Path| stem(source).starts_with("fattn");
    sources.sort_by_key(|source| attention(source));

    let common: Vec<String> = GGML_FLAGS
        .iter()
        .chain(&["-I.", "-I..", "-I../../include"])
        .map(|&flag| flag.to_owned())
        .chain(generate.iter().cloned())
        .collect();
    let pairs = ATTENTION_TYPES.iter().flat_map(|k| ATTENTION_TYPES.iter().map(move |v| format!("{k}-{v}")));
    let attention_flags: Vec<String> = pairs
        .map(|pair| {
            let compiled = ATTENTION_PAIRS.contains(&pair.as_str()) as u8;
            format!("-DGGML_CUDA_FA_{}={compiled}", pair.replace('-', "_").to_uppercase())
        })
        .collect();
    let unit = |source: PathBuf| {
        let mut flags = common.clone();
        if attention(&source) {
            flags.extend(attention_flags.iter().cloned());
            flags.push("-DGGML_CUDA_NO_FA".to_owned());
        }
        Unit { source, flags, headers }
    };
    Ok(sources.into_iter().map(unit).collect())
}

/// The folder of objects.
struct Objects {
    folder: PathBuf,
    log: PathBuf,
}

impl Objects {
    fn open() -> Result<Objects> {
        let folder = match env::var_os("LONGHAND_CUDA_OBJECTS") {
            Some(folder) => PathBuf::from(folder),
            // OUT_DIR is <target>/<profile>/build/ggml-sys-<hash>/out.
            None => Path::new(&env::var("OUT_DIR")?)
                .ancestors()
                .nth(4)
                .context("OUT_DIR does not lie in a target folder")?
                .join("cuda-objects"),
        };
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // nvcc runs in another folder.
        let folder = folder.canonicalize()?;
        let log = folder.join("build.log");
        Ok(Objects { folder, log })
    }

    /// The objects of all units, in their order. Compiles the missing ones, as many at once as Cargo's `-j`.
    fn compile(&self, toolkit: &Toolkit, cuda: &Path, units: &[Unit]) -> Result<Vec<PathBuf>> {
        let objects = units.iter().map(|unit| self.object(toolkit, unit)).collect::<Result<Vec<_>>>()?;
        let missing: Vec<usize> = (0..units.len()).filter(|&i| !objects[i].is_file()).collect();
        if missing.is_empty() {
            return Ok(objects);
        }
        let log = File::options().create(true).append(true).open(&self.log);
        let log = Mutex::new(log.with_context(|| format!("cannot write {}", self.log.display()))?);
        let started = Instant::now();
        let queue = Mutex::new(missing.iter().enumerate());
        let failure = Mutex::new(None);
        let work = || {
            loop {
                let Some((number, &i)) = queue.lock().ok().and_then(|mut queue| queue.next()) else { return };
                if !matches!(failure.lock().as_deref(), Ok(None)) {
                    return;
                }
                let one = Instant::now();
                let result = self.compile_one(toolkit, cuda, &units[i], &objects[i]);
                let state = if result.is_ok() { "compiled" } else { "failed" };
                if let Ok(mut log) = log.lock() {
                    // An unwritable log does not stop the build.
                    let _ = writeln!(
                        log,
                        "{}/{} {state} {} in {:.1} s",
                        number + 1,
                        missing.len(),
                        units[i].source.file_name().unwrap_or_default().display(),
                        one.elapsed().as_secs_f32()
                    );
                }
                if let (Err(error), Ok(mut failure)) = (result, failure.lock()) {
                    failure.get_or_insert(error);
                }
            }
        };
        let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(work);
            }
        });
        if let Ok(Some(error)) = failure.into_inner() {
            return Err(error);
        }
        println!(
            "cargo:warning=CUDA: compiled {} files in {} s, {} were there already; they are kept in {}",
            missing.len(),
            started.elapsed().as_secs(),
            units.len() - missing.len(),
            self.folder.display()
        );
        Ok(objects)
    }

    /// Path of a unit's object: its name has the hash of all inputs.
    fn object(&self, toolkit: &Toolkit, unit: &Unit) -> Result<PathBuf> {
        let source =
            fs::read(&unit.source).with_context(|| format!("cannot read {}", unit.source.display()))?;
        let mut key = unit.headers;
        for part in unit.flags.iter().map(String::as_str).chain([toolkit.versions.as_str()]) {
            key = digest(part.as_bytes(), key);
        }
        Ok(self.folder.join(format!("{}-{:032x}.o", stem(&unit.source), digest(&source, key))))
    }

    fn compile_one(&self, toolkit: &Toolkit, cuda: &Path, unit: &Unit, object: &Path) -> Result<()> {
        // The object has its name only when it is complete.
        let unfinished = object.with_extension(format!("{}.tmp", std::process::id()));
        let output = Command::new(&toolkit.nvcc)
            .current_dir(cuda)
            .arg("-c")
            // Relative, so that no path of this machine gets into the object.
            .arg(unit.source.strip_prefix(cuda).unwrap_or(&unit.source))
            .arg("-o")
            .arg(&unfinished)
            .arg("-ccbin")
            .arg(&toolkit.host)
            .args(&unit.flags)
            .output()
            .with_context(|| format!("cannot start {}", toolkit.nvcc.display()))?;
        let messages = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let _ = fs::remove_file(&unfinished);
            bail!(
                "compiling {} failed ({}); the log is {}\n{messages}",
                unit.source.display(),
                output.status,
                self.log.display()
            );
        }
        for line in messages.lines() {
            println!("cargo:warning={line}");
        }
        fs::rename(&unfinished, object).with_context(|| format!("cannot write {}", object.display()))
    }
}

/// Files of a folder with one of the extensions, by name.
fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| extensions.iter().any(|&extension| e == extension)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Hash of the names and contents of all headers in some folders, starting from `key`.
fn digest_headers(folders: &[&Path], mut key: u128) -> Result<u128> {
    for folder in folders {
        for header in files(folder, &["h", "cuh"])? {
            key = digest(stem(&header).as_bytes(), key);
            key =
                digest(&fs::read(&header).with_context(|| format!("cannot read {}", header.display()))?, key);
        }
    }
    Ok(key)
}

/// 128-bit FNV-1a over the length and the bytes, starting from `key`. Unlike the standard library's hash it
/// is the same with every release of Rust.
fn digest(bytes: &[u8], key: u128) -> u128 {
    const BASIS: u128 = 0x6c62272e07bb014262b821756295c58d;
    const PRIME: u128 = 0x0000000001000000000000000000013b;
    let length = (bytes.len() as u64).to_le_bytes();
    length.iter().chain(bytes).fold(key ^ BASIS, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
