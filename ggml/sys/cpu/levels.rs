// The levels of x86-64 for which a portable build has ggml's code, lowest first. Each: its name in C, its name for people,
// the compiler's flags, and the features that a CPU must have: all instructions that these flags let the compiler use. A
// level asks for the features of those before it too. build/levels.rs, src/lib.rs and the tests of the crate ggml read
// this list.
//
// v2 is Intel's Nehalem of 2008 and AMD's Bulldozer, and what many virtual machines offer. v3 is Haswell of 2013 and
// Zen. AVX-512 alone is no level: few CPUs have it without VNNI, ggml's gain. Those from Cascade Lake to Rocket Lake lack
// the BF16 that Cooper Lake, Sapphire Rapids and Zen 4 have.
cpu_levels! {
    v2 "x86-64-v2"
        ["-march=x86-64-v2"]
        ["cmpxchg16b" "popcnt" "sse3" "sse4.1" "sse4.2" "ssse3"];
    v3 "x86-64-v3"
        ["-march=x86-64-v3"]
        ["avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe" "xsave"];
    v4_vnni "x86-64-v4 with VNNI"
        ["-march=x86-64-v4" "-mavx512vnni"]
        ["avx512bw" "avx512cd" "avx512dq" "avx512f" "avx512vl" "avx512vnni"];
    v4_bf16 "x86-64-v4 with VNNI, VBMI and BF16"
        ["-march=x86-64-v4" "-mavx512vnni" "-mavx512vbmi" "-mavx512bf16"]
        ["avx512bf16" "avx512vbmi"];
}
