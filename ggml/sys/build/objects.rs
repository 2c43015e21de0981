//! For the build scripts of several crates: compiles files for GPUs with NVIDIA's or AMD's compiler, and keeps each object under the
//! hash of all its inputs (source, headers, flags, compilers).
//!
//! ggml-cuda takes about half an hour of one CPU core for each architecture. So no file is ever compiled twice, even where Cargo
//! runs the build script again. Progress is written to `build.log` beside the objects. Old objects are removed only by deleting
//! the folder.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

/// A compiler for GPUs.
pub struct Compiler {
    /// What is compiled: `CUDA` or `HIP`.
    pub language: &'static str,
    pub program: PathBuf,
    /// Arguments before all flags that say where things are on this machine; no part of an object's name.
    pub arguments: Vec<OsString>,
    /// What the compilers print for `--version`.
    pub versions: String,
}

/// One file to compile. Paths in `flags` are relative to ggml-cuda's folder, so that hashes do not depend on
/// this machine.
pub struct Unit {
    pub source: PathBuf,
    /// Flags for the compiler; part of the object's name.
    pub flags: Vec<String>,
    /// Hash of all headers it may include.
    pub headers: u128,
}

/// The folder of objects.
pub struct Objects {
    folder: PathBuf,
    log: PathBuf,
}

impl Objects {
    /// The folder that the environment `variable` names; without it the one of this name in the target folder.
    pub fn open(variable: &str, name: &str) -> Result<Objects> {
        let folder = match env::var_os(variable) {
            Some(folder) => PathBuf::from(folder),
            // OUT_DIR is <target>/<profile>/build/<package>-<hash>/out.
            None => Path::new(&env::var("OUT_DIR")?)
                .ancestors()
                .nth(4)
                .context("OUT_DIR does not lie in a target folder")?
                .join(name),
        };
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        // The compiler runs in another folder.
        let folder = folder.canonicalize()?;
        let log = folder.join("build.log");
        Ok(Objects { folder, log })
    }

    /// The objects of all units, in their order. Compiles the missing ones, as many at once as Cargo's `-j`.
    pub fn compile(&self, compiler: &Compiler, cuda: &Path, units: &[Unit]) -> Result<Vec<PathBuf>> {
        let objects = units.iter().map(|unit| self.object(compiler, unit)).collect::<Result<Vec<_>>>()?;
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
                let result = self.compile_one(compiler, cuda, &units[i], &objects[i]);
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
            "cargo:warning={}: compiled {} files in {} s, {} were there already; they are kept in {}",
            compiler.language,
            missing.len(),
            started.elapsed().as_secs(),
            units.len() - missing.len(),
            self.folder.display()
        );
        Ok(objects)
    }

    /// Path of a unit's object: its name has the hash of all inputs.
    fn object(&self, compiler: &Compiler, unit: &Unit) -> Result<PathBuf> {
        let source =
            fs::read(&unit.source).with_context(|| format!("cannot read {}", unit.source.display()))?;
        let mut key = unit.headers;
        for part in unit.flags.iter().map(String::as_str).chain([compiler.versions.as_str()]) {
            key = digest(part.as_bytes(), key);
        }
        Ok(self.folder.join(format!("{}-{:032x}.o", stem(&unit.source), digest(&source, key))))
    }

    fn compile_one(&self, compiler: &Compiler, cuda: &Path, unit: &Unit, object: &Path) -> Result<()> {
        // The object has its name only when it is complete.
        let unfinished = object.with_extension(format!("{}.tmp", std::process::id()));
        let output = Command::new(&compiler.program)
            .current_dir(cuda)
            .args(&compiler.arguments)
            .args(&unit.flags)
            .arg("-c")
            // Relative, so that no path of this machine gets into the object.
            .arg(unit.source.strip_prefix(cuda).unwrap_or(&unit.source))
            .arg("-o")
            .arg(&unfinished)
            .output()
            .with_context(|| format!("cannot start {}", compiler.program.display()))?;
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

/// A program in a folder of PATH.
pub fn in_path(name: impl AsRef<Path>) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(&name)).find(|file| file.is_file())
}

/// What a compiler prints for `--version`.
pub fn version(feature: &str, compiler: &Path) -> Result<String> {
    let output = Command::new(compiler)
        .arg("--version")
        .output()
        .with_context(|| format!("feature {feature}: cannot start {}", compiler.display()))?;
    ensure!(output.status.success(), "feature {feature}: `{} --version` failed", compiler.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Files of a folder with one of the extensions, by name.
pub fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
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

pub fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Hash of the names and contents of all headers in some folders, starting from `key`.
pub fn digest_headers(folders: &[&Path], mut key: u128) -> Result<u128> {
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
pub fn digest(bytes: &[u8], key: u128) -> u128 {
    const BASIS: u128 = 0x6c62272e07bb014262b821756295c58d;
    const PRIME: u128 = 0x0000000001000000000000000000013b;
    let length = (bytes.len() as u64).to_le_bytes();
    length.iter().chain(bytes).fold(key ^ BASIS, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
