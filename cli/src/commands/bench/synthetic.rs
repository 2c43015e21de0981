//! Model files with synthetic weights for well-known shapes. A file is written once and reused.

use std::path::PathBuf;

use anyhow::Result;
use longhand::files::atomic_file::{self, Access};
use longhand::files::folders;
use longhand::setup::available_memory;
use models::gguf::GgufFile;
use models::gguf::write::TensorDecl;
use models::regular_file;
use models::shapes::ModelShape;
use terminal::format;
use terminal::progress::ProgressBar;

use crate::app::App;
use crate::failure::{Failure, Hinted};

/// The file of a shape such as `llama-3.2-1b:q4_k_m`. It is written if it does not exist or is incomplete.
pub fn model_file(app: &App, text: &str) -> Result<PathBuf> {
    let (shape, file_type) = ModelShape::parse(text).map_err(Hinted::into_failure)?;
    let folder = folders::cache().unwrap_or_else(|| std::env::temp_dir().join("longhand"));
    let folder = folder.join("shapes");
    let path = folder.join(format!("{shape}-{}.gguf", file_type.name()));
    let tensors = shape.tensors(file_type);
    let is_complete = |file: &GgufFile| {
        let same = |expected: &TensorDecl| {
            file.tensor(&expected.name)
                .is_some_and(|tensor| tensor.dims == expected.dims && tensor.ty == expected.ty)
        };
        file.tensors().len() == tensors.len() && tensors.iter().all(same)
    };
    let is_ours = folders::check_trusted(&folder).is_ok() && regular_file::is_own(&path);
    if is_ours && GgufFile::open(&path).is_ok_and(|file| is_complete(&file)) {
        return Ok(path);
    }
    let bytes = shape.weight_bytes(file_type) as usize;
    let size = format::bytes(bytes);
    if let Some(free) = available_memory().filter(|free| *free < bytes) {
        return Err(Failure::new(
            format!("{text} has {size} of weights, but only {} of memory are free", format::bytes(free)),
            "use a smaller shape or type; `longhand plan --shape` needs no weights",
        )
        .into());
    }
    let failure = |error: std::io::Error| {
        Failure::new(
            format!("cannot write {}: {error}", path.display()),
            format!("free {size} there, or set XDG_CACHE_HOME to another folder"),
        )
    };
    folders::make_private(&folder).map_err(failure)?;
    atomic_file::remove_leftovers(&folder, None, b"GGUF");
    if let Some(free) = folders::free_bytes(&folder).filter(|free| *free < bytes as u64) {
        return Err(Failure::new(
            format!(
                "{}: the weights need {size}, but only {} are free there",
                folder.display(),
                format::bytes(free as usize)
            ),
            "free some space there, or set XDG_CACHE_HOME to another folder",
        )
        .into());
    }
    app.console.note(&format!("writing {size} of synthetic weights to {} (only once)", path.display()));
    let mut bar = ProgressBar::new(&app.console, "writing");
    atomic_file::write_own(&path, Access::Owner, |out| {
        shape.write_synthetic(file_type, out, &mut |done, total| bar.show_bytes(done, total)).map(|_| ())
    })
    .map_err(failure)?;
    Ok(path)
}
