//! The engine's inside, for tests that check it part by part. Not part of the library: compiled with the
//! feature `testing` only.

/// As `crate::alibi`.
pub mod alibi {
    pub use crate::alibi::*;
}

/// As `crate::backends`.
pub mod backends {
    pub use crate::backends::*;
}

/// As `crate::calibrate`.
pub mod calibrate {
    pub use crate::calibrate::*;
}

/// As `crate::forward`.
pub mod forward {
    pub use crate::forward::*;
}

/// As `crate::kv`.
pub mod kv {
    pub use crate::kv::*;
}

/// As `crate::outline`.
pub mod outline {
    pub use crate::outline::*;
}

/// As `crate::placement`.
pub mod placement {
    pub use crate::placement::*;
}

/// As `crate::scratch`.
pub mod scratch {
    pub use crate::scratch::*;
}

/// As `crate::snapshot`.
pub mod snapshot {
    pub use crate::snapshot::*;
}

/// As `crate::workspace`.
pub mod workspace {
    pub use crate::workspace::*;
}

pub use crate::weights::Weights;
