//! The engine's inside, for tests that check it part by part. Not part of the library: compiled with the
//! feature `testing` only.

/// As `crate::kv::alibi`.
pub mod alibi {
    pub use crate::kv::alibi::*;
}

/// As `crate::devices::backends`.
pub mod backends {
    pub use crate::devices::backends::*;
}

/// As `crate::setup::calibrate`.
pub mod calibrate {
    pub use crate::setup::calibrate::*;
}

/// As `crate::compute::forward`.
pub mod forward {
    pub use crate::compute::forward::*;
}

/// As `crate::kv`.
pub mod kv {
    pub use crate::kv::*;
}

/// As `crate::model::outline`.
pub mod outline {
    pub use crate::model::outline::*;
}

/// As `crate::devices::placement`.
pub mod placement {
    pub use crate::devices::placement::*;
}

/// As `crate::compute::scratch`.
pub mod scratch {
    pub use crate::compute::scratch::*;
}

/// Of `crate::setup`.
pub mod setup {
    pub use crate::setup::planner::plannings;
    pub use crate::setup::profiles::{assumed_share, smallest, spread};
}

/// As `crate::session::snapshot`.
pub mod snapshot {
    pub use crate::session::snapshot::*;
}

/// As `crate::devices::workspace`.
pub mod workspace {
    pub use crate::devices::workspace::*;
}

pub use crate::compute::weights::Weights;
