//! Compiles the device kernels in ../cuda with the host's C++ compiler.

use std::env;
use std::path::{Path, PathBuf};

#[path = "../build/sources.rs"]
mod sources;

fn main() {
    for input in [".", "../build/sources.rs", "../cuda", "../src/device/calls.rs", "../src/quant/types.rs"] {
        println!("cargo:rerun-if-changed={input}");
    }
    if is_check() {
        return;
    }
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by Cargo"));
    sources::write_headers(&out);
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .include(&out)
        .includes(["../cuda", "."])
        .flags(["-x", "c++"]) // the files end in .cu
        .flag("-ffp-contract=off") // no fused operations that the source does not have
        .flag("-fno-strict-aliasing") // shared memory is reused for other types
        .flag("-Wno-unknown-pragmas")
        .files(sources::KERNELS.map(|name| format!("../cuda/{name}.cu")))
        .files(["emulator.cpp", "check.cu"])
        .compile("longhand_emulated");
    println!("cargo:library={}", out.join("liblonghand_emulated.a").display());
}

/// Whether nothing is linked: Clippy runs this, or `LONGHAND_CHECK=1` says so (ggml/sys/build/main.rs).
fn is_check() -> bool {
    println!("cargo:rerun-if-env-changed=LONGHAND_CHECK");
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").unwrap_or_default();
    let is_clippy = Path::new(&wrapper).file_stem().is_some_and(|name| name == "clippy-driver");
    is_clippy || env::var_os("LONGHAND_CHECK").is_some_and(|value| value == "1")
}
