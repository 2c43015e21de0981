//! Compiles the device kernels in ../cuda with the host's C++ compiler.

use std::env;
use std::path::PathBuf;

#[path = "../../ggml/sys/build/check.rs"]
mod check;
#[path = "../build/sources.rs"]
mod sources;

fn main() {
    for input in [".", "../build/sources.rs", "../cuda", "../src/device/calls.rs", "../src/quant/types.rs"] {
        println!("cargo:rerun-if-changed={input}");
    }
    if check::is_check() {
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
