//! Compiles the device kernels in cuda/: with nvcc (feature `cuda`), and with the host's C++ compiler for the
//! emulator (feature `testing`). Without these features nothing is compiled. The headers row_types.h and
//! calls.h are generated from the lists that the Rust side uses, so that both sides always agree.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(any(feature = "cuda", feature = "testing"))]
    {
        for input in ["cuda", "src/quant/types.rs", "src/device/calls.rs"] {
            println!("cargo:rerun-if-changed={input}");
        }
        let headers = std::path::PathBuf::from(std::env::var("OUT_DIR").expect("set by Cargo"));
        for (name, text) in [("row_types.h", headers::row_types()), ("calls.h", headers::calls())] {
            std::fs::write(headers.join(name), text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        #[cfg(feature = "testing")]
        if !is_clippy() {
            emulated(&headers);
        }
        #[cfg(feature = "cuda")]
        cuda(&headers);
    }
}

#[cfg(any(feature = "cuda", feature = "testing"))]
const KERNELS: &[&str] = &[
    "cuda/accumulate.cu",
    "cuda/append.cu",
    "cuda/attend_decode.cu",
    "cuda/attend_prefill.cu",
    "cuda/evict.cu",
    "cuda/measure.cu",
    "cuda/predict.cu",
];

/// Whether Clippy runs this: it links nothing.
#[cfg(feature = "testing")]
fn is_clippy() -> bool {
    let wrapper = std::env::var_os("RUSTC_WORKSPACE_WRAPPER").unwrap_or_default();
    std::path::Path::new(&wrapper).file_stem().is_some_and(|name| name == "clippy-driver")
}

#[cfg(feature = "testing")]
fn emulated(headers: &std::path::Path) {
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .include(headers)
        .include("cuda")
        .flags(["-x", "c++"]) // the files end in .cu
        .flag("-ffp-contract=off") // no fused operations that the source does not have
        .flag("-fno-strict-aliasing") // shared memory is reused for other types
        .flag("-Wno-unknown-pragmas")
        .files(KERNELS)
        .files(["cuda/emulator.cpp", "cuda/emulator_check.cu"])
        .compile("longhand_emulated");
}

#[cfg(feature = "cuda")]
fn cuda(headers: &std::path::Path) {
    use std::path::PathBuf;
    use std::process::Command;

    // ggml's build script passes on its compiler and the flags for the GPU architectures.
    let variable =
        |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set by ggml's build"));
    let (nvcc, flags) = (variable("DEP_GGML_NVCC"), variable("DEP_GGML_NVCC_FLAGS"));
    let check = std::env::var_os("LONGHAND_CUDA_CHECK").is_some_and(|value| value == "1");
    println!("cargo:rerun-if-env-changed=LONGHAND_CUDA_CHECK");
    let compile = |source: &str| {
        let object = headers.join(source.replace('/', "-")).with_extension("o");
        let mut command = Command::new(&nvcc);
        command.args(flags.split_whitespace()).args(["-std=c++17", "-O3", "-Xcompiler=-fPIC", "-Icuda"]);
        command.arg("-I").arg(headers);
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

/// The C++ side of the lists that Rust and C++ share.
#[cfg(any(feature = "cuda", feature = "testing"))]
mod headers {
    /// `ROW_TYPES(X)`: X(name, elements of a block, bytes of a block) for every row type, and their numbers.
    macro_rules! row_types {
        ($($(#[$doc:meta])* $ty:ident: $name:literal, $elements:literal, $bytes:literal;)*) => {
            pub fn row_types() -> String {
                let types = [$((stringify!($ty), $elements, $bytes)),*];
                let entry = |(ty, elements, bytes): &(&str, usize, usize)| format!(" X({ty}, {elements}, {bytes})");
                let names: Vec<&str> = types.iter().map(|(name, ..)| *name).collect();
                format!(
                    "// Generated from src/quant/types.rs.\n#pragma once\n#include <cstdint>\n\n\
                     enum RowType : int32_t {{ {} }};\n#define ROW_TYPES(X){}\n",
                    names.join(", "),
                    types.iter().map(entry).collect::<String>()
                )
            }
        };
    }
    include!("src/quant/types.rs");

    macro_rules! device_calls {
        (
            constants { $($(#[$constant_doc:meta])* $constant:ident = $value:literal;)* }
            $($(#[$doc:meta])* struct $call:ident {
                $($(#[$field_doc:meta])* $field:ident: $ty:ty,)*
            })*
        ) => {
            pub fn calls() -> String {
                let mut text = "// Generated from src/device/calls.rs.\n#pragma once\n#include <cstdint>\n".to_owned();
                $(text += &format!("constexpr int {} = {};\n", stringify!($constant), $value);)*
                $(
                    text += &format!("\nstruct {} {{\n", stringify!($call));
                    $(text += &format!("    {};\n", declaration(stringify!($ty), stringify!($field)));)*
                    text += "};\n";
                )*
                text
            }
        };
    }
    include!("src/device/calls.rs");

    /// A C++ field of a Rust type.
    fn declaration(ty: &str, field: &str) -> String {
        if let Some(ty) = ty.strip_prefix("*const ") {
            format!("const {}* {field}", scalar(ty))
        } else if let Some(ty) = ty.strip_prefix("*mut ") {
            format!("{}* {field}", scalar(ty))
        } else if let Some((ty, length)) = ty.trim_matches(['[', ']']).split_once("; ") {
            format!("{} {field}[{length}]", scalar(ty))
        } else {
            format!("{} {field}", scalar(ty))
        }
    }

    fn scalar(ty: &str) -> &str {
        match ty {
            "f32" => "float",
            "i32" => "int32_t",
            "u64" => "uint64_t",
            "u8" => "uint8_t",
            call => call,
        }
    }
}
