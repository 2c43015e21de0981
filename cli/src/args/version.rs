//! What `longhand --version` prints beside the version.

use std::iter;
use std::sync::LazyLock;

use ggml::CpuLevel;
use kernels::Isa;

/// The version, then what the program was made of and for, and what this CPU has, each on a line. clap takes only texts that
/// live as long as the program.
pub fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    &TEXT
}

fn text() -> String {
    let compiled = [
        (cfg!(feature = "cuda"), "CUDA"),
        (cfg!(feature = "hip"), "HIP"),
        (cfg!(feature = "metal"), "Metal"),
        (cfg!(feature = "vulkan"), "Vulkan"),
        (cfg!(feature = "rpc"), "RPC"),
    ];
    let backends: Vec<&str> =
        iter::once("CPU").chain(compiled.iter().filter(|(is_in, _)| *is_in).map(|(_, name)| *name)).collect();
    // That of most GPUs of the system.
    let usual = if cfg!(target_os = "macos") { "Metal" } else { "CUDA" };
    let lacking = if backends.contains(&usual) { "" } else { &format!(" (compiled without {usual})") };
    let backends = backends.join(", ") + lacking;
    // Set by scripts/release.sh.
    let commit = option_env!("LONGHAND_COMMIT").unwrap_or("not recorded (built from sources)");
    let level = match ggml::cpu_level() {
        CpuLevel::Fixed if cfg!(feature = "portable") => "one for all CPUs".to_owned(),
        CpuLevel::Fixed => "that of the machine it was built on".to_owned(),
        CpuLevel::Chosen(level) => format!("{level}, the best of this file for this CPU"),
        CpuLevel::TooOld(lowest) => {
            format!("none; this CPU lacks instructions of {lowest}, the lowest of this file")
        }
    };
    format!(
        "{}\ncommit: {commit}\ntarget: {}\nggml: {}, from {}\nbackends: {backends}\nCPU level: {level}\n\
         CPU features: {}; attention uses {:?}\ncompiled for: {}",
        env!("CARGO_PKG_VERSION"),
        ggml::TARGET,
        ggml::version(),
        ggml::provider(),
        ggml::cpu_features().join(" "),
        Isa::best(),
        ggml::compiled_cpu_features().join(" "),
    )
}
