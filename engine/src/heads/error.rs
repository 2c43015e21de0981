//! What can be wrong with a head profile, and what to do about it.

use std::path::{Path, PathBuf};

use super::profile::{HeadShape, MAX_QUERY_HEADS};

/// A head profile that cannot be read, imported, made or used.
#[derive(Debug, thiserror::Error)]
pub enum HeadsError {
    /// The file cannot be read or written.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// "read" or "write".
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// One of the other variants, found in this file.
    #[error("{path}: {error}", path = path.display())]
    In {
        /// Which file.
        path: PathBuf,
        /// The fault in it.
        error: Box<HeadsError>,
    },
    /// The file is larger than any head map.
    #[error("{path} is larger than {limit} bytes, which no head map is\n  hint: name the map itself, not the model", path = path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// The text is not what its format demands.
    #[error("not a {format}: {what}\n  hint: {hint}")]
    Malformed {
        /// Which format was expected.
        format: &'static str,
        /// What is wrong, and where.
        what: String,
        /// What to do.
        hint: &'static str,
    },
    /// A profile in a newer format than this program knows.
    #[error(
        "head profile of version {found}, but this program reads version {known}\n  hint: calibrate the model again, or use a newer longhand"
    )]
    Version {
        /// The version in the file.
        found: u64,
        /// The version read and written here.
        known: u64,
    },
    /// Heads that are not those of the model.
    #[error(
        "the heads are those of another model: {what} has {found}, the model {model}\n  hint: use the map of this model, or calibrate it with `longhand heads calibrate`"
    )]
    Shape {
        /// What was being matched against the model.
        what: &'static str,
        /// The shape found, in words.
        found: String,
        /// The model's shape.
        model: HeadShape,
    },
    /// The shape is right but the weights are not those the profile was made with.
    #[error(
        "the head profile was made for the model with fingerprint {found}, but this one has {model}\n  hint: calibrate this model with `longhand heads calibrate`, or import its own map"
    )]
    Fingerprint {
        /// The fingerprint in the profile.
        found: String,
        /// The model's fingerprint.
        model: String,
    },
    /// A number of layers or heads that no model has.
    #[error(
        "{layers} layers with {heads} query heads and {kv_heads} KV heads are no model's\n  hint: query heads must be a multiple of the KV heads, all three at least 1, and the query heads of all layers at most {MAX_QUERY_HEADS}"
    )]
    NoModel {
        /// Layers.
        layers: usize,
        /// Query heads of a layer.
        heads: usize,
        /// KV heads of a layer.
        kv_heads: usize,
    },
    /// A list of scores or flags whose length does not fit the shape.
    #[error(
        "{what}: {found} values, but the shape needs {needed}\n  hint: the map needs a value for every head of the model; make it again with `longhand heads calibrate` or `longhand heads import`"
    )]
    Length {
        /// Which list.
        what: String,
        /// Values given.
        found: usize,
        /// Values needed.
        needed: usize,
    },
    /// A score that is not a number.
    #[error(
        "{what}: layer {layer}, head {head} is not a finite number\n  hint: the scores were not computed properly; make them again"
    )]
    NotFinite {
        /// Which scores.
        what: String,
        /// Layer, from 0.
        layer: usize,
        /// Head, from 0.
        head: usize,
    },
    /// A share or threshold outside its range.
    #[error(
        "{what} is {value}, but must be between 0 and 1\n  hint: give a part of all heads, for example 0.15"
    )]
    Share {
        /// Which parameter.
        what: &'static str,
        /// Its value.
        value: f64,
    },
}

impl HeadsError {
    /// The same fault with the name of the file it was found in.
    pub(super) fn in_file(self, path: &Path) -> HeadsError {
        match self {
            named @ (HeadsError::Io { .. } | HeadsError::TooLarge { .. } | HeadsError::In { .. }) => named,
            error => HeadsError::In { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// The fault itself, without the file it was found in.
    pub fn kind(&self) -> &HeadsError {
        match self {
            HeadsError::In { error, .. } => error.kind(),
            other => other,
        }
    }
}
