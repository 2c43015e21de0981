//! Errors of head profiles.

use std::io;
use std::path::{Path, PathBuf};

use super::published::PUBLISHED_MAPS;
use super::shape::{HeadShape, MAX_QUERY_HEADS};
use crate::Hint;

/// A head profile or head map cannot be read, imported, made or used.
#[derive(Debug, thiserror::Error)]
pub enum HeadsError {
    /// The file cannot be read or written.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// One of the other variants, found in this file.
    #[error("{path}: {error}", path = path.display())]
    In {
        /// The file.
        path: PathBuf,
        /// The error in it.
        error: Box<HeadsError>,
    },
    /// The file is larger than any head map.
    #[error("{path} is larger than {limit} bytes; no head map is that large", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// No published map has this name.
    #[error("there is no head map {name}")]
    UnknownMap {
        /// The name.
        name: String,
    },
    /// The text is not in the expected format.
    #[error("not a {format}: {what}")]
    Malformed {
        /// The expected format.
        format: &'static str,
        /// What is wrong, and where.
        what: String,
        /// What to do.
        hint: Hint,
    },
    /// The profile has a format version that this program does not know.
    #[error("head profile of version {found}, but this program reads version {known}")]
    Version {
        /// The version in the file.
        found: u64,
        /// The version read and written here.
        known: u64,
    },
    /// The head counts are not those of the model.
    #[error("the heads are those of another model: {what} has {found}, the model {model}")]
    Shape {
        /// What was compared with the model.
        what: &'static str,
        /// Its shape, in words.
        found: String,
        /// The model's shape.
        model: HeadShape,
    },
    /// The head counts are right, but the profile was made with other weights.
    #[error("the head profile was made for the model with fingerprint {found}, but this model has {model}")]
    Fingerprint {
        /// The fingerprint in the profile.
        found: String,
        /// The model's fingerprint.
        model: String,
    },
    /// No model has these numbers of layers and heads.
    #[error("no model has {layers} layers with {heads} query heads and {kv_heads} KV heads")]
    NoModel {
        /// Layers.
        layers: usize,
        /// Query heads of a layer.
        heads: usize,
        /// KV heads of a layer.
        kv_heads: usize,
    },
    /// A list of scores or flags has the wrong length.
    #[error("{what}: {found} values, but the shape needs {needed}")]
    Length {
        /// The list.
        what: String,
        /// Values given.
        found: usize,
        /// Values needed.
        needed: usize,
    },
    /// A score is not a finite number.
    #[error("{what}: layer {layer}, head {head} is not a finite number")]
    NotFinite {
        /// Name of the scores.
        what: String,
        /// Layer, from 0.
        layer: usize,
        /// Head, from 0.
        head: usize,
    },
    /// A share or threshold is outside its range.
    #[error("{what} is {value}, but must be between 0 and 1")]
    Share {
        /// Name of the parameter.
        what: &'static str,
        /// Its value.
        value: f64,
    },
}

impl HeadsError {
    /// What the caller can do about the error.
    pub fn hint(&self) -> Hint {
        match self {
            HeadsError::In { error, .. } => error.hint(),
            HeadsError::Io { source, .. } => Hint::for_io(source),
            HeadsError::TooLarge { .. } => Hint::advice("give the file of the head map, not the model"),
            HeadsError::UnknownMap { .. } => {
                Hint::advice(format!("use one of {}", PUBLISHED_MAPS.map(|map| map.name).join(", ")))
            }
            HeadsError::Malformed { hint, .. } => hint.clone(),
            HeadsError::Version { .. } => {
                Hint::advice("calibrate the model again, or use a newer version of the program")
            }
            HeadsError::Shape { .. } | HeadsError::Fingerprint { .. } | HeadsError::Length { .. } => {
                Hint::MakeHeadProfile
            }
            HeadsError::NoModel { .. } => Hint::advice(format!(
                "the query heads must be a multiple of the KV heads, each number at least 1, and the query heads of \
                 all layers together at most {MAX_QUERY_HEADS}"
            )),
            HeadsError::NotFinite { .. } => Hint::advice("compute the scores again"),
            HeadsError::Share { .. } => Hint::advice("give a share between 0 and 1, for example 0.15"),
        }
    }

    /// The same error with the name of the file it was found in.
    pub(crate) fn in_file(self, path: &Path) -> HeadsError {
        match self {
            named @ (HeadsError::Io { .. } | HeadsError::TooLarge { .. } | HeadsError::In { .. }) => named,
            error => HeadsError::In { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// The error without the file it was found in.
    pub fn kind(&self) -> &HeadsError {
        match self {
            HeadsError::In { error, .. } => error.kind(),
            other => other,
        }
    }
}

/// The beginning of a name from a file, short enough for an error message.
pub(super) fn shorten(text: &str) -> String {
    if text.chars().count() <= 40 {
        return text.to_owned();
    }
    text.chars().take(40).chain(['…']).collect()
}
