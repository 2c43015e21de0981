//! Files of a folder of golden cases: they lie in it, or in its `cases.zip.br`, a ZIP file that is compressed as a whole.

use std::cell::RefCell;
use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;
use zip::ZipArchive;

use crate::npy::Array;
use crate::packed;

/// The files.
pub(crate) enum CaseFiles {
    /// They lie in this folder.
    Folder(PathBuf),
    /// They are packed.
    Zip(RefCell<ZipArchive<Cursor<Vec<u8>>>>),
}

impl CaseFiles {
    /// The files of a folder.
    pub fn open(folder: &Path) -> Result<CaseFiles> {
        let path = folder.join("cases.zip.br");
        if !path.exists() {
            return Ok(CaseFiles::Folder(folder.to_owned()));
        }
        let archive = ZipArchive::new(Cursor::new(packed::file(&path)?)).context("cases.zip.br")?;
        Ok(CaseFiles::Zip(RefCell::new(archive)))
    }

    /// A JSON file.
    pub fn json(&self, name: &str) -> Result<Value> {
        serde_json::from_slice(&self.read(name)?).with_context(|| format!("{name} is not JSON"))
    }

    /// An array in NumPy's format.
    pub fn array(&self, name: &str) -> Result<Array> {
        Array::parse(&self.read(name)?).with_context(|| format!("{name} is not a float32 .npy file"))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let bytes = match self {
            CaseFiles::Folder(folder) => fs::read(folder.join(name)).map_err(Into::into),
            CaseFiles::Zip(archive) => unpacked(&mut archive.borrow_mut(), name),
        };
        bytes.with_context(|| format!("cannot read {name}"))
    }
}

fn unpacked(archive: &mut ZipArchive<Cursor<Vec<u8>>>, name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    archive.by_name(name)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
