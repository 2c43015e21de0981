//! A file with synthetic weights for a known shape, made once and kept.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Result;
use longhand::setup::{available_memory, cache_folder};
use models::gguf::GgufFile;
use models::gguf::write::TensorDecl;
use models::shapes::ModelShape;

use crate::app::App;
use crate::failure::Failure;
use crate::format;
use crate::progress::ProgressBar;

/// The file of a shape such as `llama-3.2-1b:q4_k_m`; written if it is not there or not whole.
pub fn model_file(app: &App, text: &str) -> Result<PathBuf> {
    let (shape, file_type) = ModelShape::parse(text).map_err(Failure::from)?;
    let folder = cache_folder().unwrap_or_else(|| std::env::temp_dir().join("longhand"));
    let folder = folder.join("shapes");
    let path = folder.join(format!("{}-{}.gguf", shape.name, file_type.name()));
    let tensors = shape.tensors(file_type);
    let is_whole = |file: &GgufFile| {
        let same = |expected: &TensorDecl| {
            file.tensor(&expected.name)
                .is_some_and(|tensor| tensor.dims == expected.dims && tensor.ty == expected.ty)
        };
        file.tensors().len() == tensors.len() && tensors.iter().all(same)
    };
    if GgufFile::open(&path).is_ok_and(|file| is_whole(&file)) {
        return Ok(path);
    }
    let bytes = shape.weight_bytes(file_type) as usize;
    let size = format::bytes(bytes);
    if let Some(free) = available_memory().filter(|free| *free < bytes) {
        return Err(Failure::new(
            format!("{text} has {size} of weights, but {} of memory are free", format::bytes(free)),
            "choose a smaller shape or type; `longhand plan --shape` needs no weights",
        )
        .into());
    }
    let fails = |error: std::io::Error| {
        Failure::new(
            format!("cannot write {}: {error}", path.display()),
            format!("free {size} there, or set XDG_CACHE_HOME to another folder"),
        )
    };
    fs::create_dir_all(&folder).map_err(fails)?;
    sweep(&folder);
    if let Some(free) = free_bytes(&folder).filter(|free| *free < bytes as u64) {
        return Err(Failure::new(
            format!(
                "{}: the weights need {size}, but {} are free there",
                folder.display(),
                format::bytes(free as usize)
            ),
            "free some space there, or set XDG_CACHE_HOME to another folder",
        )
        .into());
    }
    app.console.note(&format!("writing {size} of synthetic weights to {} (once)", path.display()));
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut bar = ProgressBar::new(&app.console, "writing");
    let written = File::create(&beside).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        shape.write_synthetic(file_type, &mut out, &mut |done, total| bar.bytes(done, total))?;
        out.into_inner()?;
        fs::rename(&beside, &path)
    });
    if written.is_err() {
        // The half-written file is of no use; that it cannot be removed either is not news.
        let _ = fs::remove_file(&beside);
    }
    written.map_err(fails)?;
    Ok(path)
}

/// Bytes that this user may still write on the file system of a folder; `None` where the system does not say.
#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(folder).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

/// Removes what an interrupted writing left behind.
fn sweep(folder: &Path) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "tmp")) {
        let _ = fs::remove_file(path); // that it cannot be removed is not news
    }
}
