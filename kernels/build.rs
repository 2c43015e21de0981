//! Compiles the device kernels in cuda/: with nvcc (feature `cuda`), and with the host's C++ compiler and an emulator (feature
//! `emulated-device`). Without either nothing is compiled.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(any(feature = "cuda", feature = "emulated-device"))]
    println!("cargo:rerun-if-changed=cuda");
    #[cfg(feature = "emulated-device")]
    emulated();
    #[cfg(feature = "cuda")]
    cuda();
}

#[cfg(any(feature = "cuda", feature = "emulated-device"))]
const KERNELS: &[&str] = &[
    "cuda/append.cu",
    "cuda/attend_few.cu",
    "cuda/attend_many.cu",
    "cuda/depart.cu",
    "cuda/measure.cu",
    "cuda/received.cu",
];

#[cfg(feature = "emulated-device")]
fn emulated() {
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .flags(["-x", "c++"]) // whatever the files' endings say
        .flag("-ffp-contract=off") // every operation rounds, as written
        .flag("-fno-strict-aliasing") // shared memory is what each use says it is
        .flag("-Wno-unknown-pragmas")
        .files(KERNELS)
        .file("cuda/emulator.cpp")
        .compile("longhand_emulated");
}

#[cfg(feature = "cuda")]
fn cuda() {
    println!("cargo:rerun-if-env-changed=NVCC");
    println!("cargo:rerun-if-env-changed=LONGHAND_CUDA_ARCHS");
    let mut build = cc::Build::new();
    build.cuda(true).cudart("none").std("c++17").opt_level(3).files(KERNELS);
    match std::env::var("LONGHAND_CUDA_ARCHS") {
        Ok(archs) => {
            for arch in archs.split(',').map(str::trim).filter(|arch| !arch.is_empty()) {
                build.flag("-gencode").flag(format!("arch=compute_{arch},code=sm_{arch}"));
            }
        }
        Err(_) => {
            build.flag("-arch=native");
        }
    }
    build.compile("longhand_cuda");
}
