// The levels of CPUs for which a portable build has ggml's code, lowest first, for each architecture that has levels. Each:
// its name in C, its name for people, the compiler's flags, and the features that a CPU must have: all instructions that
// these flags let the compiler use. A level asks for the features of those before it too. build/levels.rs, src/lib.rs and
// the tests of the crate ggml read this list.
//
// x86-64-v2 is Intel's Nehalem of 2008 and AMD's Bulldozer, and what many virtual machines offer. v3 is Haswell of 2013 and
// Zen. AVX-512 alone is no level: few CPUs have it without VNNI, ggml's gain. Those from Cascade Lake to Rocket Lake lack
// the BF16 that Cooper Lake, Sapphire Rapids and Zen 4 have.
//
// ARMv8.0 is the Cortex-A72 of a Raspberry Pi 4. A Raspberry Pi 5 and most ARM servers have dot products, Neoverse V1, N2
// and later also products of integer matrices. Arithmetic of halves is in no level: ggml would add up in halves.
cpu_levels! {
    "x86_64" {
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
    "aarch64" {
        v8_0 "armv8.0"
            ["-march=armv8-a"]
            ["neon"];
        v8_2_dotprod "armv8.2 with dot products"
            ["-march=armv8.2-a+dotprod"]
            ["crc" "dotprod" "lse" "rdm"];
        v8_2_i8mm "armv8.2 with dot products and integer matrices"
            ["-march=armv8.2-a+dotprod+i8mm"]
            ["i8mm"];
    }
}
