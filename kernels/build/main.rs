//! Compiles the device kernels in cuda/ with nvcc (feature `cuda`). Without the feature nothing is compiled.

#[cfg(feature = "cuda")]
mod sources;

fn main() {
    println!("cargo:rerun-if-changed=build");
    #[cfg(feature = "cuda")]
    cuda();
}

#[cfg(feature = "cuda")]
fn cuda() {
    use std::path::PathBuf;
    use std::process::Command;

    for input in ["cuda", "src/quant/types.rs", "src/device/calls.rs"] {
        println!("cargo:rerun-if-changed={input}");
    }
    let headers = PathBuf::from(std::env::var("OUT_DIR").expect("set by Cargo"));
    sources::write_headers(&headers);

    // ggml's build script passes on its compiler and the flags for the GPU architectures.
    let variable =
        |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set by ggml's build"));
    let (nvcc, flags) = (variable("DEP_GGML_NVCC"), variable("DEP_GGML_NVCC_FLAGS"));
    let check = std::env::var_os("LONGHAND_CUDA_CHECK").is_some_and(|value| value == "1");
    println!("cargo:rerun-if-env-changed=LONGHAND_CUDA_CHECK");
    let compile = |name: &str| {
        let (source, object) = (format!("cuda/{name}.cu"), headers.join(name).with_extension("o"));
        let mut command = Command::new(&nvcc);
        command.args(flags.split_whitespace()).args(["-std=c++17", "-O3", "-Xcompiler=-fPIC", "-Icuda"]);
        command.arg("-I").arg(&headers);
        if check {
            command.arg("-Werror=all-warnings");
        }
        let status = command.args(["-c", &source, "-o"]).arg(&object).status();
        let status = status.unwrap_or_else(|error| panic!("{nvcc} does not start: {error}"));
        assert!(status.success(), "{nvcc} cannot compile {source} (hint: CUDA 12.4 or later is needed)");
        object
    };
    let objects: Vec<PathBuf> = std::thread::scope(|scope| {
        let running: Vec<_> = sources::KERNELS.iter().map(|name| scope.spawn(|| compile(name))).collect();
        running.into_iter().map(|object| object.join().expect("compiled")).collect()
    });
    cc::Build::new().cpp(true).objects(objects).compile("longhand_cuda");
}
