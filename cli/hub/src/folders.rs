//! Where Hugging Face's programs keep models and the user's token.

use std::env;
use std::path::{Path, PathBuf};

use models::regular_file;

use crate::walk::Walk;

/// Largest size of a reference, in bytes.
const MAX_TEXT: u64 = 1 << 20;

/// Where Hugging Face's programs keep repositories.
pub fn hugging_face_folder() -> Option<PathBuf> {
    let given = given_path("HF_HUB_CACHE").or_else(|| given_path("HUGGINGFACE_HUB_CACHE"));
    given.or_else(|| Some(hugging_face_home()?.join("hub")))
}

/// Where Hugging Face's programs keep the user's token.
#[cfg(feature = "download")]
pub fn hugging_face_token() -> Option<PathBuf> {
    Some(hugging_face_home()?.join("token"))
}

fn hugging_face_home() -> Option<PathBuf> {
    let cache = || variable("XDG_CACHE_HOME").or_else(|| at_home(".cache"));
    given_path("HF_HOME").or_else(|| Some(cache()?.join("huggingface")))
}

/// A path in the user's home folder.
pub fn at_home(path: &str) -> Option<PathBuf> {
    Some(env::home_dir().filter(|home| home.is_absolute())?.join(path))
}

/// A folder that a variable of Hugging Face's programs names: also below the current folder, or `~`.
fn given_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)?;
    match path.strip_prefix("~") {
        Ok(below) => at_home("").map(|home| home.join(below)),
        Err(_) => std::path::absolute(path).ok(),
    }
}

/// A folder that an environment variable names by its whole path.
pub fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The revisions of a repository: the one that `refs/main` names, then the others.
pub fn revisions(repository: &Path, walk: &mut Walk) -> Vec<PathBuf> {
    let main = regular_file::read_text(&repository.join("refs/main"), MAX_TEXT).unwrap_or_default();
    let mut revisions = walk.entries(&repository.join("snapshots"));
    revisions.sort_unstable_by_key(|(revision, path)| (revision != main.trim(), path.clone()));
    revisions.into_iter().map(|(_, path)| path).collect()
}
