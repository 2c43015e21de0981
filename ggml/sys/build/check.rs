//! For the build scripts of several crates: whether they compile C++.

use std::env;
use std::path::Path;

/// Whether nothing is linked: Clippy runs this, or `LONGHAND_CHECK=1` says so for `cargo check` in a target folder of its own.
/// Cargo keeps what build scripts do for Clippy apart from all else, so everything would be compiled for nothing.
pub fn is_check() -> bool {
    println!("cargo:rerun-if-env-changed=LONGHAND_CHECK");
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").unwrap_or_default();
    let is_clippy = Path::new(&wrapper).file_stem().is_some_and(|name| name == "clippy-driver");
    is_clippy || env::var_os("LONGHAND_CHECK").is_some_and(|value| value == "1")
}
