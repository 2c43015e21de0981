//! The JSON file of a head profile.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use models::regular_file;
use serde::{Deserialize, Serialize};

use super::{HeadProfile, Provenance};
use crate::Hint;
use crate::files::atomic_file::{self, Access};
use crate::files::folders;
use crate::heads::error::{HeadsError, shorten};
use crate::heads::row_shares::RowShares;
use crate::heads::scores::{ScoreMap, ScoresPer};
use crate::heads::shape::HeadShape;

/// The value of `format` in the file.
const FORMAT: &str = "longhand-heads";
/// The version that is written and read.
const VERSION: u64 = 1;
/// Maximum bytes of a file. 65536 heads with two scores each are about 3 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;

impl HeadProfile {
    /// The text of the profile file. Retrieval heads are written as a list of KV head numbers for each layer.
    pub fn to_json(&self) -> String {
        let scores = self
            .maps()
            .map(|map| FileScores {
                name: map.name.clone(),
                per: map.per,
                values: rows(&map.values, self.shape.columns(map.per)),
            })
            .collect();
        let retrieval = self
            .retrieval
            .chunks_exact(self.shape.kv_heads())
            .map(|layer| (0..layer.len()).filter(|&kv_head| layer[kv_head]).collect())
            .collect();
        let file = FileProfile {
            format: FORMAT.to_owned(),
            version: VERSION,
            layers: self.shape.layers(),
            heads: self.shape.heads(),
            kv_heads: self.shape.kv_heads(),
            retrieval,
            scores,
            row_predictors: self.row_predictors.as_ref().map(|all| all.maps().to_vec()),
            provenance: self.provenance.clone(),
        };
        // `to_string` fails only on maps whose keys are not strings, and there are none.
        serde_json::to_string(&file).unwrap_or_default() + "\n"
    }

    /// Reads [`to_json`](Self::to_json)'s text.
    ///
    /// # Errors
    /// [`HeadsError::Malformed`], [`HeadsError::Version`], and those of [`new`](Self::new).
    pub fn from_json(text: &str) -> Result<Self, HeadsError> {
        let malformed = |what: String| HeadsError::Malformed {
            format: "head profile",
            what,
            hint: Hint::MakeHeadProfile,
        };
        // Format and version are checked first, so that a newer file is reported as newer and not as
        // malformed.
        let head: FileHead = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        if head.format != FORMAT {
            return Err(malformed(format!("\"format\" is {:?}, not {FORMAT:?}", shorten(&head.format))));
        }
        if head.version != VERSION {
            return Err(HeadsError::Version { found: head.version, known: VERSION });
        }
        let file: FileProfile = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let shape = HeadShape::new(file.layers, file.heads, file.kv_heads)?;
        if file.retrieval.len() != shape.layers() {
            return Err(malformed(format!(
                "\"retrieval\" has {} layers, the profile {}",
                file.retrieval.len(),
                shape.layers()
            )));
        }
        let mut retrieval = vec![false; shape.all_kv_heads()];
        for (layer, heads) in file.retrieval.iter().enumerate() {
            for &kv_head in heads {
                if kv_head >= shape.kv_heads() {
                    return Err(malformed(format!(
                        "layer {layer} names KV head {kv_head}, but there are {}",
                        shape.kv_heads()
                    )));
                }
                retrieval[layer * shape.kv_heads() + kv_head] = true;
            }
        }
        let mut scores = Vec::with_capacity(file.scores.len());
        for map in file.scores {
            let columns = shape.columns(map.per);
            if let Some(layer) = map.values.iter().position(|row| row.len() != columns) {
                return Err(malformed(format!(
                    "{:?}: layer {layer} has {} values, not {columns}",
                    shorten(&map.name),
                    map.values[layer].len()
                )));
            }
            scores.push(ScoreMap { name: map.name, per: map.per, values: map.values.concat() });
        }
        let row_shares = RowShares::take_from(&mut scores);
        let profile = Self { row_shares, ..Self::new(shape, retrieval, scores, file.provenance)? };
        match file.row_predictors {
            Some(maps) => profile.with_row_predictors(maps),
            None => Ok(profile),
        }
    }

    /// Reads a profile file. [`check`](Self::check) it against the model before use.
    ///
    /// # Errors
    /// The file cannot be read, or [`from_json`](Self::from_json) refuses it.
    pub fn load(path: &Path) -> Result<Self, HeadsError> {
        let read = || Self::from_json(&read_text(path, "head profile")?);
        read().map_err(|fault| fault.in_file(path))
    }

    /// Reads the profile file of a model.
    ///
    /// # Errors
    /// Those of [`load`](Self::load) and [`check`](Self::check), with the file's name.
    pub(crate) fn load_for(
        path: &Path,
        model: HeadShape,
        fingerprint: Option<&str>,
    ) -> Result<Self, HeadsError> {
        let profile = Self::load(path)?;
        profile.check(model, fingerprint).map_err(|fault| fault.in_file(path))?;
        Ok(profile)
    }

    /// Writes a profile file, and creates its folder if it is missing. The file is written completely or not
    /// at all.
    ///
    /// # Errors
    /// [`HeadsError::Io`].
    pub fn save(&self, path: &Path) -> Result<(), HeadsError> {
        let fails = |source| HeadsError::Io { action: "write", path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(fails)?;
        }
        atomic_file::write(path, Access::Everyone, |file| file.write_all(self.to_json().as_bytes()))
            .map_err(fails)
    }

    /// Writes the file of a profile into one of the program's own folders, which is made if it is missing.
    ///
    /// # Errors
    /// [`HeadsError::Io`], also where others may write to the folder.
    pub(crate) fn save_own(&self, path: &Path) -> Result<(), HeadsError> {
        let fails = |source| HeadsError::Io { action: "write", path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            folders::make_private(folder).map_err(fails)?;
            // What killed processes have left: of the profiles of all models, which are JSON objects.
            atomic_file::remove_leftovers(folder, None, b"{");
        }
        atomic_file::write_own(path, Access::Owner, |file| file.write_all(self.to_json().as_bytes()))
            .map_err(fails)
    }
}

/// Reads a text file of at most [`MAX_FILE_BYTES`].
pub(in crate::heads) fn read_text(path: &Path, format: &'static str) -> Result<String, HeadsError> {
    let bytes = regular_file::read(path, MAX_FILE_BYTES).map_err(|source| match source.kind() {
        io::ErrorKind::InvalidData => HeadsError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES },
        _ => HeadsError::Io { action: "read", path: path.to_owned(), source },
    })?;
    String::from_utf8(bytes).map_err(|error| HeadsError::Malformed {
        format,
        what: format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()),
        hint: Hint::advice("give the file of the head map, not the model"),
    })
}

fn rows(values: &[f32], columns: usize) -> Vec<Vec<f32>> {
    values.chunks_exact(columns).map(<[f32]>::to_vec).collect()
}

#[derive(Deserialize)]
struct FileHead {
    format: String,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileProfile {
    format: String,
    version: u64,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    retrieval: Vec<Vec<usize>>,
    #[serde(default)]
    scores: Vec<FileScores>,
    /// The numbers of each KV head's map, layer by layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row_predictors: Option<Vec<Vec<f32>>>,
    provenance: Provenance,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileScores {
    name: String,
    per: ScoresPer,
    values: Vec<Vec<f32>>,
}
