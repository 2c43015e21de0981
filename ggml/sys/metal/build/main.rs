//! Compiles ggml's Metal backend, for the feature `metal` and macOS. Without the feature nothing is compiled.
//!
//! It needs Apple's clang with the frameworks of macOS, as Xcode's command line tools bring them (`xcode-select --install`). The
//! compiler of shaders is not among them, and is not needed: as with ggml's `GGML_METAL_EMBED_LIBRARY`, the sources of the
//! kernels are in the program ([`kernels`]), and macOS compiles them when a GPU is first used.
//!
//! This is a crate of its own so that ggml itself is not compiled again with the feature.
//!
//! Variables of the environment, read at build time only:
//! - `SDKROOT`: the folder of the SDK; without it `xcrun` is asked for one.
//! - `LONGHAND_CHECK=1`: nothing is compiled, as for Clippy; then nothing can be linked, and any system will do.

#[cfg(feature = "metal")]
#[path = "../../build/check.rs"]
mod check;
#[cfg(feature = "metal")]
mod kernels;

#[cfg(not(feature = "metal"))]
fn main() {
    println!("cargo:rerun-if-changed=build");
}

#[cfg(feature = "metal")]
fn main() -> anyhow::Result<()> {
    backend::compile()
}

#[cfg(feature = "metal")]
mod backend {
    use std::env;
    use std::path::PathBuf;

    use anyhow::{Context, Result, ensure};

    const HINT: &str = "compiling ggml's Metal backend failed\nhint: it needs Apple's clang and the frameworks of macOS: \
                        `xcode-select --install` installs both";

    /// ggml-metal's files as its CMake file lists them, but for those that our own files include.
    const CPP: &[&str] =
        &["ggml-metal-common.cpp", "ggml-metal-fusion.cpp", "ggml-metal-ops.cpp", "ggml-metal-tuning.cpp"];
    const OBJECTIVE_C: &[&str] = &["device.m", "metal.m"];

    /// ggml needs the first three. Without the last, macOS shows a program that has no windows no GPU.
    const FRAMEWORKS: &[&str] = &["Foundation", "Metal", "MetalKit", "CoreGraphics"];

    pub fn compile() -> Result<()> {
        println!("cargo:rerun-if-env-changed=SDKROOT");
        for input in ["build", "../device", "device.m", "metal.cpp", "metal.h", "metal.m"] {
            println!("cargo:rerun-if-changed={input}");
        }
        if super::check::is_check() {
            return Ok(());
        }
        ensure!(
            env::var("CARGO_CFG_TARGET_OS")? == "macos",
            "feature metal: Metal is a part of macOS, and this program is compiled for {}\n\
             hint: leave the feature out; GPUs are used with the features `cuda` and `vulkan` on other systems",
            env::var("TARGET")?
        );
        let folder =
            |name: &str| env::var(name).with_context(|| format!("{name} is not set by ggml's build"));
        let (include, source) = (folder("DEP_GGML_INCLUDE")?, PathBuf::from(folder("DEP_GGML_SOURCE")?));
        let metal = source.join("ggml-metal");
        let assembly = super::kernels::embed(&metal, &PathBuf::from(env::var("OUT_DIR")?))?;

        let build = |is_cpp: bool| {
            let mut build = cc::Build::new();
            // Objective-C without automatic reference counting: ggml releases its objects.
            build.cpp(is_cpp).std(if is_cpp { "c++17" } else { "gnu11" });
            build.include(&include).include(&source).include(&metal);
            build.define("GGML_METAL_EMBED_LIBRARY", "1");
            build.define("NDEBUG", None).opt_level(2).debug(false).warnings(false);
            build
        };
        let mut cpp = build(true);
        cpp.file("metal.cpp").files(CPP.iter().map(|file| metal.join(file)));
        cpp.try_compile("ggml_metal_cpp").context(HINT)?;
        let mut objective_c = build(false);
        objective_c.files(OBJECTIVE_C).file(assembly);
        objective_c.try_compile("ggml_metal_objc").context(HINT)?;
        for framework in FRAMEWORKS {
            println!("cargo:rustc-link-lib=framework={framework}");
        }
        Ok(())
    }
}
