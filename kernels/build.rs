//! Compiles the device kernels in cuda/: with nvcc (feature `cuda`), and with the host's C++ compiler and an emulator (feature
//! `testing`). Without either nothing is compiled.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(any(feature = "cuda", feature = "testing"))]
    println!("cargo:rerun-if-changed=cuda");
    #[cfg(feature = "testing")]
    emulated();
    #[cfg(feature = "cuda")]
    cuda();
}

#[cfg(any(feature = "cuda", feature = "testing"))]
const KERNELS: &[&str] = &[
    "cuda/append.cu",
    "cuda/attend_few.cu",
    "cuda/attend_many.cu",
    "cuda/depart.cu",
    "cuda/measure.cu",
    "cuda/received.cu",
];

#[cfg(feature = "testing")]
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
        .files(["cuda/emulator.cpp", "cuda/emulator_check.cu"])
        .compile("longhand_emulated");
}

#[cfg(feature = "cuda")]
fn cuda() {
    use std::path::PathBuf;
    use std::process::Command;

    // Said by ggml's build script: its compiler, and for which architectures.
    let said =
        |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set by ggml's build"));
    let (nvcc, flags) = (said("DEP_GGML_NVCC"), said("DEP_GGML_NVCC_FLAGS"));
    let check = std::env::var_os("LONGHAND_CUDA_CHECK").is_some_and(|value| value == "1");
    println!("cargo:rerun-if-env-changed=LONGHAND_CUDA_CHECK");
    let out = PathBuf::from(said("OUT_DIR"));
    let compile = |source: &str| {
        let object = out.join(source.replace('/', "-")).with_extension("o");
        let mut command = Command::new(&nvcc);
        command.args(flags.split_whitespace()).args(["-std=c++17", "-O3", "-Xcompiler=-fPIC"]);
        if check {
            command.arg("-Werror=all-warnings");
        }
        let status = command.args(["-c", source, "-o"]).arg(&object).status();
        let status = status.unwrap_or_else(|error| panic!("{nvcc} does not start: {error}"));
        assert!(status.success(), "{nvcc} cannot compile {source} (hint: CUDA 12.4 or later is needed)");
        object
    };
    let objects: Vec<PathBuf> = std::thread::scope(|scope| {
        let running: Vec<_> = KERNELS.iter().map(|source| scope.spawn(|| compile(source))).collect();
        running.into_iter().map(|object| object.join().expect("compiled")).collect()
    });
    cc::Build::new().cpp(true).objects(objects).compile("longhand_cuda");
}
