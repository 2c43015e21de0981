//! What `longhand --version` prints beside the version.

use std::sync::LazyLock;

use kernels::Isa;

/// The version, then ggml's, the backends that are compiled in, the features of this CPU and those that the program needs, each on
/// a line.
/// clap takes only texts that live as long as the program.
pub fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    &TEXT
}

fn text() -> String {
    let backends = if cfg!(feature = "cuda") { "CPU, CUDA" } else { "CPU (compiled without CUDA)" };
    format!(
        "{}\nggml: {}, from {}\nbackends: {backends}\nCPU features: {}; attention uses {:?}\n\
         compiled for: {}",
        env!("CARGO_PKG_VERSION"),
        ggml::version(),
        ggml::provider(),
        ggml::cpu_features().join(" "),
        Isa::best(),
        ggml::compiled_cpu_features().join(" "),
    )
}
