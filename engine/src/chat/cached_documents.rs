//! What a cache of documents holds, and how to remove it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::document_cache::{DocumentCache, UNFINISHED_EXTENSION};
use crate::EngineError;
use crate::files::codec::SnapshotError;
use crate::files::folders::Occupant;
use crate::session::snapshot::{self, Snapshot};

/// What is kept with documents that were read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    /// The names of the documents.
    pub names: Vec<String>,
}

impl Note {
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Documents of one conversation that were read, as a file of a [`DocumentCache`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CachedDocuments {
    /// The name of the file, without its extension.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// When the documents were read: when the file was written. Where the file system does not tell, when it was used
    /// last.
    pub read: SystemTime,
    /// When it was used last.
    pub used: SystemTime,
    /// What it says of itself, or why it is of no use.
    pub contents: Result<CachedContents, String>,
}

/// What a file says of the documents in it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CachedContents {
    /// The names of the documents; none where a server has read a text without documents.
    pub names: Vec<String>,
    /// The name of the model.
    pub model: String,
    /// The policy, with its parameters.
    pub policy: String,
    /// Types of keys and values.
    pub types: (ggml::Type, ggml::Type),
    /// Tokens of the documents and of what the chat template writes before them.
    pub tokens: usize,
    /// How much of them is read, from 0 to 1, if they were not read to their end.
    pub unfinished: Option<f64>,
}

impl DocumentCache {
    /// All documents that were read, the last one first.
    ///
    /// # Errors
    /// Where others may have put files in the folder. One that does not exist is empty.
    pub fn list(&self) -> Result<Vec<CachedDocuments>, EngineError> {
        let mut list: Vec<CachedDocuments> = self
            .all_contents()?
            .map(|(file, contents)| CachedDocuments {
                id: file.path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
                contents: contents.map_err(|error| error.to_string()),
                read: written(&file.path).unwrap_or(file.used),
                bytes: file.bytes,
                used: file.used,
                path: file.path,
            })
            .collect();
        list.sort_by(|a, b| b.read.cmp(&a.read).then_with(|| a.id.cmp(&b.id)));
        Ok(list)
    }
}

impl DocumentCache {
    /// All files, with what each says of itself.
    pub(super) fn all_contents(
        &self,
    ) -> Result<impl Iterator<Item = (Occupant, Result<CachedContents, EngineError>)>, EngineError> {
        Ok(self.trusted_files()?.into_iter().map(|file| {
            let contents = contents(&file.path);
            (file, contents)
        }))
    }
}

impl CachedDocuments {
    /// Removes the file. A process that is using it is not disturbed: it has what it needs. A reading that goes on will
    /// write its file again.
    ///
    /// # Errors
    /// Where the file cannot be removed. It is none if it is gone already.
    pub fn remove(&self) -> Result<(), EngineError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(snapshot::io_error(&self.path, error))
            }
            _ => Ok(()),
        }
    }
}

/// When a file was written: it is replaced as a whole each time.
fn written(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.created()).ok()
}

fn contents(path: &Path) -> Result<CachedContents, EngineError> {
    let file = Snapshot::open(path)?;
    let is_unfinished = path.extension().is_some_and(|extension| extension == UNFINISHED_EXTENSION);
    let unfinished = file.unfinished_share();
    if is_unfinished != unfinished.is_some() || !is_unfinished && !file.has_cache() {
        return Err(SnapshotError::new("it holds no documents that were read").into());
    }
    let Note { names } = serde_json::from_str(file.caller())
        .map_err(|_| SnapshotError::new("the names of its documents cannot be read"))?;
    Ok(CachedContents {
        names,
        model: file.model_name().to_owned(),
        policy: file.options().policy.to_string(),
        types: file.options().types,
        tokens: file.text_tokens(),
        unfinished,
    })
}
