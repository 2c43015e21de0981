//! What the integration tests and the golden runner share: golden cases, arrays in NumPy's format and where the data lie.

pub mod golden;
pub mod npy;

use std::path::PathBuf;

/// A file or folder of this crate.
pub fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}
