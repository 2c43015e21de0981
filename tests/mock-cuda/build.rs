//! Compiles the mock into `libmock_cuda.a` and writes `link.args` beside it: the arguments for the linker
//! that replace CUDA's runtime library by the mock, and the functions that the mock emulates by its own
//! (`--wrap`).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "external-cudart")]
    mock::compile();
}

#[cfg(feature = "external-cudart")]
mod mock {
    use std::env;
    use std::fs;
    use std::path::PathBuf;

    /// Names the launchers of our kernels: `longhand_cuda_NAME, longhand_emulated_NAME`.
    const LAUNCHERS: &str = "../../kernels/src/device/mod.rs";

    fn variable(name: &str) -> String {
        env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
    }

    pub fn compile() {
        println!("cargo:rerun-if-changed=.");
        println!("cargo:rerun-if-changed={LAUNCHERS}");
        println!("cargo:rerun-if-env-changed=LONGHAND_CUDA_CHECK");
        let out = PathBuf::from(variable("OUT_DIR"));
        let launchers = fs::read_to_string(LAUNCHERS).unwrap_or_else(|error| panic!("{LAUNCHERS}: {error}"));
        let launchers: Vec<&str> = launchers
            .lines()
            .filter_map(|line| line.split_once("longhand_cuda_")?.1.split_once(", longhand_emulated_"))
            .map(|(name, _)| name)
            .collect();
        assert!(!launchers.is_empty(), "{LAUNCHERS} names no launchers");

        let list: String = launchers.iter().map(|name| format!("LAUNCHER({name})\n")).collect();
        fs::write(out.join("launchers.h"), list).expect("OUT_DIR can be written");
        let mut args = String::from("-Wl,--wrap=longhand_compute_segment\n");
        for name in &launchers {
            args += &format!("-Wl,--wrap=longhand_cuda_{name}\n");
        }
        args += &format!("{}\n", out.join("libmock_cuda.a").display());
        // Clippy does not compile the emulator.
        args += &env::var("DEP_LONGHAND_EMULATED_LIBRARY").unwrap_or_default();
        args += "\n-lstdc++\n";
        fs::write(out.join("link.args"), args).expect("OUT_DIR can be written");

        let archs = variable("DEP_GGML_CUDA_ARCHITECTURES");
        let arch = archs.split(',').next().unwrap_or_default().trim_end_matches(char::is_alphabetic);
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++17")
            .opt_level(1)
            .extra_warnings(true)
            .warnings_into_errors(env::var_os("LONGHAND_CUDA_CHECK").is_some_and(|value| value == "1"))
            .define("LONGHAND_MOCK_ARCHITECTURE", arch)
            .include(&out)
            .files(["machine.cpp", "runtime.cpp", "launches.cpp"]);
        for folder in ["DEP_GGML_INCLUDE", "DEP_GGML_SOURCE", "DEP_GGML_CUDA_INCLUDE"] {
            build.flag("-isystem").flag(variable(folder));
        }
        build.cargo_metadata(false).compile("mock_cuda");
    }
}
