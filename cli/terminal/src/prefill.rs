//! `--prefill`: how the first text is read.

use clap::ValueEnum;
use longhand::Prefill;

/// How the first text is read into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrefillArg {
    /// Every head sees the whole text; rows are evicted layer by layer
    Exact,
    /// As exact, but attention multiplies old rows in integers of 8 bits, on processors that are fast at that (AVX-512 VNNI,
    /// AVX-VNNI). Faster for long texts, and a little less exact
    Int8,
    /// As exact, but old rows are read in groups of 16, and one by one only where a token looks there. Faster for long
    /// texts on a CPU, and less exact
    Sparse,
    /// Chunk by chunk through all layers; a head sees only the rows it has kept. Less exact. It needs less memory on a
    /// GPU. On a CPU it may need more: compare with `longhand plan --prefill streaming`
    Streaming,
}

impl PrefillArg {
    /// The library's value.
    pub fn prefill(self) -> Prefill {
        match self {
            PrefillArg::Exact => Prefill::Exact,
            PrefillArg::Int8 => Prefill::Int8,
            PrefillArg::Sparse => Prefill::Sparse,
            PrefillArg::Streaming => Prefill::Streaming,
        }
    }

    /// The name in arguments and output.
    pub fn name(self) -> &'static str {
        match self {
            PrefillArg::Exact => "exact",
            PrefillArg::Int8 => "int8",
            PrefillArg::Sparse => "sparse",
            PrefillArg::Streaming => "streaming",
        }
    }
}

impl From<Prefill> for PrefillArg {
    fn from(prefill: Prefill) -> PrefillArg {
        match prefill {
            Prefill::Exact => PrefillArg::Exact,
            Prefill::Int8 => PrefillArg::Int8,
            Prefill::Sparse => PrefillArg::Sparse,
            Prefill::Streaming => PrefillArg::Streaming,
        }
    }
}
