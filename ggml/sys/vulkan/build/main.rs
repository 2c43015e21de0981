//! Compiles ggml's Vulkan backend and its shaders, for the feature `vulkan`. Without the feature nothing is compiled.
//!
//! It needs the C++ headers of Vulkan (vulkan.hpp) and SPIR-V (spirv.hpp): Debian's `libvulkan-dev` and `spirv-headers`, or a
//! folder that `scripts/vulkan/fetch.sh` makes. Headers of 1.3.239 are enough; those of 1.4.309 know the matrix units of today's
//! GPUs. It needs neither libvulkan nor a GPU. The shaders are compiled by a `glslc` that knows all of ggml's extensions, where
//! there is one, otherwise by the crate `glslang`, with the feature of that name ([`shaders`]).
//!
//! This is a crate of its own so that ggml itself is not compiled again with the feature.
//!
//! Variables of the environment, read at build time only:
//! - `VULKAN_SDK`: a folder with `include`, and perhaps `bin/glslc`; without it the system's.
//! - `LONGHAND_VULKAN_SHADERS`: absolute path of the folder where compiled shaders are kept; without it `vulkan-shaders` in the
//!   target folder.
//! - `LONGHAND_CHECK=1`: nothing is compiled, as for Clippy; then nothing can be linked.

#[cfg(feature = "vulkan")]
#[path = "../../build/check.rs"]
mod check;
#[cfg(feature = "glslang")]
mod glslc;
#[cfg(feature = "vulkan")]
mod shaders;

#[cfg(not(feature = "vulkan"))]
fn main() {
    println!("cargo:rerun-if-changed=build");
}

#[cfg(feature = "vulkan")]
fn main() -> anyhow::Result<()> {
    // ggml's generator of shaders starts this program once more, in the place of `glslc`.
    #[cfg(feature = "glslang")]
    if std::env::args().len() > 1 {
        return glslc::run(std::env::args().skip(1));
    }
    backend::compile()
}

#[cfg(feature = "vulkan")]
mod backend {
    use std::env;
    use std::fs;
    use std::path::{Path, PathBuf};

    use anyhow::{Context, Result};

    use super::shaders::{self, Shaders};

    const HINT: &str = "compiling ggml's Vulkan backend failed\nhint: it needs a C++17 compiler, vulkan.hpp and spirv.hpp: \
                        install Debian's libvulkan-dev and spirv-headers, or `export VULKAN_SDK=$(scripts/vulkan/fetch.sh)` \
                        puts them into a folder, nothing is installed";

    pub fn compile() -> Result<()> {
        for name in ["VULKAN_SDK", "LONGHAND_VULKAN_SHADERS"] {
            println!("cargo:rerun-if-env-changed={name}");
        }
        for input in ["build", "../device", "vulkan.cpp", "loader.c", "old_headers.h"] {
            println!("cargo:rerun-if-changed={input}");
        }
        let out = PathBuf::from(env::var("OUT_DIR")?);
        let blob = out.join("shaders.br");
        if super::check::is_check() {
            return fs::write(&blob, []).with_context(|| format!("cannot write {}", blob.display()));
        }
        let folder =
            |name: &str| env::var(name).with_context(|| format!("{name} is not set by ggml's build"));
        let (include, source) = (folder("DEP_GGML_INCLUDE")?, PathBuf::from(folder("DEP_GGML_SOURCE")?));
        let vulkan = source.join("ggml-vulkan");
        let sdk = env::var_os("VULKAN_SDK").map(PathBuf::from);

        let Shaders { flags, header, compressed } =
            shaders::compile(&vulkan.join("vulkan-shaders"), sdk.as_deref())?;
        write(&out.join("ggml-vulkan-shaders.hpp"), header.as_bytes())?;
        write(&blob, &compressed)?;

        let build = |is_cpp: bool| {
            let mut build = cc::Build::new();
            build.cpp(is_cpp).std(if is_cpp { "c++17" } else { "c11" });
            build.includes(sdk.iter().map(|sdk| sdk.join("include")));
            build.include(&include).include(&source).include(&vulkan).include(&out);
            build.define("NDEBUG", None).opt_level(2).debug(false).warnings(false);
            build
        };
        let mut cpp = build(true);
        flags.iter().for_each(|flag| {
            cpp.define(flag, None);
        });
        cpp.file("vulkan.cpp").try_compile("ggml_vulkan").context(HINT)?;
        build(false).file("loader.c").try_compile("ggml_vulkan_loader").context(HINT)?;
        if env::var("CARGO_CFG_TARGET_OS")? == "linux" {
            println!("cargo:rustc-link-lib=dl");
        }
        Ok(())
    }

    fn write(path: &Path, bytes: &[u8]) -> Result<()> {
        fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}
