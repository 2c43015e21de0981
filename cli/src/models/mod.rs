//! Model files: which one is meant, those that this computer has under their names, and the flags that name them.

pub mod args;
pub mod local_models;

use std::path::{Path, PathBuf};

use longhand::ModelSource;

use crate::failure::Failure;

/// A model file, or the embedded model if there is no path. What is no path may be the name of a model on
/// this machine: `folders` are looked at besides the caches of other programs.
///
/// # Errors
/// A name that several models have, or none.
pub fn source(path: Option<&Path>, folders: &[PathBuf]) -> Result<ModelSource, Failure> {
    let Some(path) = path else { return Ok(ModelSource::Embedded) };
    if path.exists() {
        return Ok(ModelSource::File(path.to_owned()));
    }
    if let Some(found) = path.to_str().map(|name| local_models::find(name, folders)).transpose()?.flatten() {
        return Ok(ModelSource::File(found));
    }
    let is_address = path.to_str().is_some_and(|text| hub::of_address(text).is_some());
    match !is_address && path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
        // Opening it says what is wrong with the path.
        true => Ok(ModelSource::File(path.to_owned())),
        false => Err(local_models::unknown(path, folders)),
    }
}
