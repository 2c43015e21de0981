//! `--prefill`: how the first text is read.

use clap::ValueEnum;
use longhand::reading::Prefill;

/// How the first text is read into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrefillArg {
    /// Every head sees the whole text; rows are evicted layer by layer
    Exact,
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
            PrefillArg::Sparse => Prefill::Sparse,
            PrefillArg::Streaming => Prefill::Streaming,
        }
    }

    /// The name in arguments and output.
    pub fn name(self) -> &'static str {
        match self {
            PrefillArg::Exact => "exact",
            PrefillArg::Sparse => "sparse",
            PrefillArg::Streaming => "streaming",
        }
    }
}

impl From<Prefill> for PrefillArg {
    fn from(prefill: Prefill) -> PrefillArg {
        match prefill {
            Prefill::Exact => PrefillArg::Exact,
            Prefill::Sparse => PrefillArg::Sparse,
            Prefill::Streaming => PrefillArg::Streaming,
        }
    }
}
