//! Compiles ggml with the `cc` crate from the sources that Cargo downloaded with the package
//! `llama-cpp-sys-2`. With the feature `generate-bindings` it writes src/bindings.rs instead.
//!
//! Nothing but Rust and a C/C++ compiler is needed. The list of files is explicit: a new ggml version that
//! adds a file fails to link instead of silently changing the build. With the feature `cuda`, cuda.rs
//! compiles ggml-cuda as well. With the feature `rpc`, rpc/rpc.cpp includes ggml's RPC backend.
//!
//! Other crates' build scripts find ggml's headers in `DEP_GGML_INCLUDE` and `DEP_GGML_SOURCE`.

#[cfg(not(feature = "generate-bindings"))]
mod check;
#[cfg(all(feature = "cuda", not(feature = "generate-bindings")))]
mod cuda;
#[cfg(all(feature = "cuda", not(feature = "generate-bindings")))]
mod ggml_cuda;
#[cfg(all(feature = "portable", not(feature = "generate-bindings")))]
mod levels;
#[cfg(all(feature = "cuda", not(feature = "generate-bindings")))]
mod objects;

use std::env;
#[cfg(not(feature = "generate-bindings"))]
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

const PROVIDER: &str = "llama-cpp-sys-2";
#[cfg(not(feature = "generate-bindings"))]
const GGML_VERSION: &str = "0.26.0";

#[cfg(not(feature = "generate-bindings"))]
const COMPILER_HINT: &str =
    "compiling ggml failed\nhint: a C11 and C++17 compiler is needed (gcc 9 or clang 10 and later)";

#[cfg(not(feature = "generate-bindings"))]
const BASE: &[&str] = &[
    "ggml.c",
    "ggml.cpp",
    "ggml-alloc.c",
    "ggml-backend.cpp",
    "ggml-backend-meta.cpp",
    "ggml-backend-reg.cpp",
    "ggml-backend-dl.cpp",
    "ggml-threading.cpp",
    "ggml-quants.c",
];

#[cfg(not(feature = "generate-bindings"))]
const CPU: &[&str] = &[
    "ggml-cpu.c",
    "ggml-cpu.cpp",
    "binary-ops.cpp",
    "hbm.cpp",
    "ops.cpp",
    "quants.c",
    "repack.cpp",
    "traits.cpp",
    "unary-ops.cpp",
    "vec.cpp",
    "amx/amx.cpp",
    "amx/mmq.cpp",
    "llamafile/sgemm.cpp",
    "tiled/tiled.cpp",
    "tiled/tiled-kernel.cpp",
];

fn main() -> Result<()> {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=wrapper.h");
    println!("cargo:rustc-env=GGML_TARGET={}", env::var("TARGET")?);
    println!("cargo:rustc-check-cfg=cfg(cpu_levels)");

    let ggml = sources()?;
    println!("cargo:include={}", ggml.join("include").display());
    println!("cargo:source={}", ggml.join("src").display());
    // Regenerating bindings is for `cargo check`: it compiles nothing.
    #[cfg(feature = "generate-bindings")]
    return generate_bindings(&ggml.join("include"));
    #[cfg(not(feature = "generate-bindings"))]
    compile(&ggml)
}

/// The folder `ggml` of the package with the sources, on this machine.
fn sources() -> Result<PathBuf> {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
    let output = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(&manifest)
        .output()
        .context("cannot start `cargo metadata` to find ggml's sources")?;
    if !output.status.success() {
        bail!(
            "`cargo metadata` failed, so ggml's sources cannot be found.\n{}\n\
             hint: they come with the package {PROVIDER} from the Cargo registry; \
             run `cargo fetch` once with a network connection, then build again",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)
        .context("`cargo metadata` did not print the JSON it promises")?;
    let package = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == PROVIDER)
        .with_context(|| format!("{PROVIDER} is not in Cargo's dependency graph; is Cargo.lock intact?"))?;
    let root = package["manifest_path"]
        .as_str()
        .and_then(|path| Path::new(path).parent())
        .context("`cargo metadata` names no manifest for the ggml sources")?;
    let ggml = root.join("llama.cpp/ggml");
    if !ggml.join("include/ggml.h").is_file() {
        bail!("{} holds no ggml sources", ggml.display());
    }
    Ok(ggml)
}

#[cfg(not(feature = "generate-bindings"))]
fn compile(ggml: &Path) -> Result<()> {
    #[cfg(feature = "cuda")]
    if cuda::compile(ggml)? == cuda::Made::NothingToLink {
        return Ok(());
    }
    if check::is_check() {
        return Ok(());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let src = ggml.join("src");
    let cpu = src.join("ggml-cpu");
    fs::write(
        out.join("ggml-version.h"),
        format!("#define GGML_VERSION \"{GGML_VERSION}\"\n#define GGML_COMMIT \"{PROVIDER}\"\n"),
    )?;

    let arch = match env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => Some("x86"),
        "aarch64" => Some("arm"),
        _ => None,
    };
    let mut base: Vec<PathBuf> = BASE.iter().map(|file| src.join(file)).collect();
    let mut for_cpu: Vec<PathBuf> = CPU.iter().map(|file| cpu.join(file)).collect();
    let own = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    println!("cargo:rerun-if-changed=device");
    base.push(own.join("device/segment.cpp"));
    #[cfg(feature = "rpc")]
    {
        println!("cargo:rerun-if-changed=rpc");
        base.push(own.join("rpc/rpc.cpp"));
    }
    println!("cargo:rerun-if-changed=cpu");
    base.push(own.join("cpu/relax.c"));
    check_relax(&cpu.join("ggml-cpu.c"))?;
    if let Some(arch) = arch {
        for_cpu.push(cpu.join("arch").join(arch).join("quants.c"));
        for_cpu.push(cpu.join("arch").join(arch).join("repack.cpp"));
    }

    let target_os = env::var("CARGO_CFG_TARGET_OS")?;
    let is_windows = target_os == "windows";
    if is_windows && env::var("CARGO_CFG_TARGET_ENV")? != "gnu" {
        bail!("on Windows only the target x86_64-pc-windows-gnu is supported: its tools are GNU's");
    }
    let build = |is_cpp: bool| {
        let mut build = cc::Build::new();
        build
            .include(ggml.join("include"))
            .include(&src)
            .include(&cpu)
            .include(&out)
            .define("_GNU_SOURCE", None)
            .define("NDEBUG", None)
            .define("GGML_USE_CPU", None)
            .define("GGML_USE_CPU_REPACK", None)
            .define("GGML_USE_LLAMAFILE", None)
            .define("GGML_SCHED_MAX_COPIES", "4")
            .opt_level(3)
            .debug(false)
            .warnings(false);
        if cfg!(feature = "cuda") {
            build.define("GGML_USE_CUDA", None);
        }
        if arch.is_none() {
            build.define("GGML_CPU_GENERIC", None);
        }
        if is_cpp {
            build.cpp(true).std("c++17");
        } else {
            build.std("c11").flag("-include").flag(own.join("cpu/relax.h"));
        }
        if is_windows {
            // GCC keeps vectors of 32 bytes on a stack that Windows aligns to 16 bytes only (its bug 54412). So the assembler
            // makes moves of them that need no alignment.
            build.flag("-Wa,-muse-unaligned-vector-move");
            if !is_cpp {
                build.flag("-include").flag(own.join("cpu/mingw.h"));
            }
        }
        build
    };
    let has_levels = has_levels();
    if has_levels {
        #[cfg(feature = "portable")]
        levels::compile(&for_cpu, &build, &own, &out).context(COMPILER_HINT)?;
        println!("cargo:rustc-cfg=cpu_levels");
    } else {
        base.append(&mut for_cpu);
    }
    for is_cpp in [false, true] {
        let mut build = build(is_cpp);
        build.files(base.iter().filter(|file| is_cpp == file.extension().is_some_and(|e| e == "cpp")));
        // Where there are levels, all else runs on every CPU: it has to look at the CPU and say what is missing.
        if !has_levels {
            cpu_level(&mut build);
        }
        build.try_compile(if is_cpp { "ggml_cpp" } else { "ggml_c" }).context(COMPILER_HINT)?;
    }
    if has_levels {
        // The three refer to each other, and linkers search them in this order, each once.
        println!("cargo:rustc-link-lib=static=ggml_levels");
        println!("cargo:rustc-link-lib=static=ggml_c");
        println!("cargo:rustc-link-lib=static=ggml_cpp");
    }
    if target_os == "linux" {
        println!("cargo:rustc-link-lib=m");
        println!("cargo:rustc-link-lib=pthread");
    }
    // On Windows always: the library's DLL would have threads of its own kind beside those of Rust's static library, and
    // `std::call_once` calls a null pointer there.
    if is_windows || target_os == "linux" && cfg!(feature = "portable") {
        static_cpp_library(&out)?;
    }
    Ok(())
}

/// Fails unless the loops in which ggml's threads wait are those that cpu/relax.h changes: one in the barrier,
/// one of workers without a graph.
#[cfg(not(feature = "generate-bindings"))]
fn check_relax(source: &Path) -> Result<()> {
    let text = fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
    let calls = text.matches("ggml_thread_cpu_relax();").count();
    let others = text.matches("ggml_thread_cpu_relax").count() - calls;
    let definitions = text.matches("static inline void ggml_thread_cpu_relax(void) {").count();
    if calls != 2 || definitions == 0 || others != definitions {
        bail!(
            "{}: ggml's threads wait in another way than cpu/relax.h knows ({calls} calls of \
             ggml_thread_cpu_relax instead of 2); adapt it and this check",
            source.display()
        );
    }
    Ok(())
}

/// Links the C++ library statically, where the compiler has a static one: the library of another machine may
/// be older. For this, a folder that the linker searches first holds nothing but the static library.
#[cfg(not(feature = "generate-bindings"))]
fn static_cpp_library(out: &Path) -> Result<()> {
    let name = "libstdc++.a";
    let compiler = cc::Build::new().cpp(true).try_get_compiler()?;
    let output = compiler.to_command().arg(format!("-print-file-name={name}")).output()?;
    let library = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if library.is_absolute() {
        let folder = out.join("static-cpp-library");
        fs::create_dir_all(&folder)?;
        fs::copy(&library, folder.join(name))
            .with_context(|| format!("cannot copy {}", library.display()))?;
        println!("cargo:rustc-link-search=native={}", folder.display());
    }
    Ok(())
}

/// Whether ggml's code for CPUs is compiled for several levels: in `portable` builds for Linux, on architectures that have
/// levels. The tools that join a level's code work otherwise on other systems.
#[cfg(not(feature = "generate-bindings"))]
fn has_levels() -> bool {
    #[cfg(feature = "portable")]
    {
        env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux")
            && env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| levels::has_levels(&arch))
    }
    #[cfg(not(feature = "portable"))]
    false
}

/// For builds without levels. Local builds use all instructions of the build machine. Others run on any x86-64-v3 CPU, and on
/// ARM CPUs with dot products.
///
/// AMX stays off: ggml's AMX matrix product crashed with Q8_0 weights when compiled by gcc 12.
#[cfg(not(feature = "generate-bindings"))]
fn cpu_level(build: &mut cc::Build) {
    let portable = env::var_os("CARGO_FEATURE_PORTABLE").is_some();
    let cross = env::var("HOST").ok() != env::var("TARGET").ok();
    match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") if portable || cross => {
            build.flag("-march=x86-64-v3");
        }
        Ok("x86_64") => {
            build.flag("-march=native");
            for flag in ["-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16"] {
                build.flag_if_supported(flag);
            }
        }
        Ok("aarch64") if portable || cross => {
            build.flag("-march=armv8.2-a+dotprod");
        }
        Ok("aarch64") => {
            build.flag("-mcpu=native");
        }
        _ => {}
    }
}

#[cfg(feature = "generate-bindings")]
fn generate_bindings(include: &Path) -> Result<()> {
    // libclang from a package manager may lack the compiler's own headers (stddef.h, stdbool.h);
    // the C compiler that builds ggml knows where they lie.
    let builtin = Command::new("cc")
        .arg("-print-file-name=include")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_default();
    let bindings = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_arg(format!("-I{}", include.display()))
        .clang_arg(format!("-isystem{}", builtin.trim()))
        .allowlist_function("ggml_.*")
        .allowlist_var("GGML_.*")
        .blocklist_function("ggml_.*_v?printf")
        .blocklist_type("_IO_.*|FILE")
        .opaque_type("_IO_FILE")
        .blocklist_function("ggml_graph_dump_dot|ggml_fopen")
        .prepend_enum_name(false)
        .layout_tests(false)
        .generate_comments(false)
        .merge_extern_blocks(true)
        .use_core()
        .rust_edition(bindgen::RustEdition::Edition2024)
        .rust_target(bindgen::RustTarget::stable(85, 0).map_err(|e| anyhow::anyhow!("{e}"))?)
        .formatter(bindgen::Formatter::Rustfmt)
        .generate()
        .context("bindgen failed\nhint: it needs libclang; set LIBCLANG_PATH to its folder")?;
    let path = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("src/bindings.rs");
    bindings.write_to_file(&path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}
