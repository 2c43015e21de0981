//! The levels of CPUs that a portable build has (sys/cpu/levels.rs).

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

struct Level {
    name: &'static str,
    flags: &'static [&'static str],
    features: &'static [&'static str],
}

macro_rules! cpu_levels {
    ($($arch:literal { $($name:ident $title:literal [$($flag:literal)*] [$($feature:literal)*];)* })*) => {
        const LEVELS: &[(&str, &[Level])] = &[$(($arch, &[
            $(Level { name: stringify!($name), flags: &[$($flag),*], features: &[$($feature),*] }),*
        ])),*];
    };
}
include!("../../sys/cpu/levels.rs");

/// The compiler's flag for CPUs that have no feature that a level could ask for.
const NO_FEATURES: &str =
    if cfg!(target_arch = "aarch64") { "-march=armv8-a+nofp+nosimd" } else { "-march=x86-64" };

/// The compiler defines a macro for each kind of instructions that it may use. A level that did not ask for one of them
/// would be chosen on a CPU that lacks it.
#[test]
fn a_level_asks_for_all_that_the_compiler_may_use() {
    let (_, levels) = LEVELS.iter().find(|(arch, _)| *arch == env::consts::ARCH).expect("there are levels");
    let mut below = macros(&[NO_FEATURES]);
    for level in *levels {
        let defined = macros(level.flags);
        assert!(below.is_subset(&defined), "{} lacks what the level before it has", level.name);
        let used: BTreeSet<String> = defined.difference(&below).filter_map(|name| feature(name)).collect();
        let asked: BTreeSet<String> = level.features.iter().map(|&feature| feature.to_owned()).collect();
        assert_eq!(used, asked, "{}", level.name);
        below = defined;
    }
}

/// The macros that the C compiler defines by itself with these flags. The compiler is that of the build.
fn macros(flags: &[&str]) -> BTreeSet<String> {
    let compiler = env::var(format!("CC_{}", ggml::TARGET.replace('-', "_")));
    let mut command = Command::new(compiler.as_deref().unwrap_or("cc"));
    let output = command.args(flags).args(["-dM", "-E", "-x", "c", "/dev/null"]).output();
    let output = output.expect("a C compiler, as for the build");
    assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned).collect()
}

/// Rust's name of the feature of CPUs that a macro stands for.
#[cfg(target_arch = "x86_64")]
fn feature(name: &str) -> Option<String> {
    match name {
        // Of SSE 4.2; and in all CPUs of 64 bits that have SSE 3.
        "__CRC32__" | "__LAHF_SAHF__" => None,
        // Says that a fused product is fast.
        name if name.starts_with("__FP_FAST_FMA") => None,
        "__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16" => Some("cmpxchg16b".to_owned()),
        "__BMI__" => Some("bmi1".to_owned()),
        "__SSE4_1__" => Some("sse4.1".to_owned()),
        "__SSE4_2__" => Some("sse4.2".to_owned()),
        name => Some(name.trim_matches('_').to_lowercase()),
    }
}

/// Rust's name of the feature of CPUs that a macro stands for.
#[cfg(target_arch = "aarch64")]
fn feature(name: &str) -> Option<String> {
    match name {
        "__ARM_NEON" => Some("neon".to_owned()),
        // What comes with floats in registers, which have NEON's instructions.
        "__ARM_FEATURE_FMA" | "__ARM_FEATURE_NUMERIC_MAXMIN" => None,
        "__ARM_FEATURE_ATOMICS" => Some("lse".to_owned()),
        "__ARM_FEATURE_CRC32" => Some("crc".to_owned()),
        "__ARM_FEATURE_MATMUL_INT8" => Some("i8mm".to_owned()),
        "__ARM_FEATURE_QRDMX" => Some("rdm".to_owned()),
        name => name.strip_prefix("__ARM_FEATURE_").map(str::to_lowercase),
    }
}
