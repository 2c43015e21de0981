//! The folders where programs keep models.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use models::regular_file;
use serde::Deserialize;

use super::LocalModel;

/// Most entries that are looked at below one folder, so that a home folder as `model-folders` takes no
/// minutes.
const MAX_ENTRIES: usize = 20_000;
/// Levels of folders below one folder.
const MAX_DEPTH: usize = 6;
/// Largest size of a manifest or a reference, in bytes.
const MAX_TEXT: u64 = 1 << 20;

/// The models in all places.
pub fn all(folders: &[PathBuf]) -> Vec<LocalModel> {
    let hub = hugging_face_folder();
    let ollama = variable("OLLAMA_MODELS").or_else(|| at_home(".ollama/models"));
    let mut models = Vec::new();
    models.extend(hub.iter().flat_map(|folder| hugging_face(folder)));
    models.extend(ollama.iter().flat_map(|folder| self::ollama(folder)));
    for folder in [".lmstudio/models", ".cache/lm-studio/models"].into_iter().filter_map(at_home) {
        models.extend(files_below(&folder, "LM Studio"));
    }
    models.extend(folders.iter().flat_map(|folder| files_below(folder, "model-folders")));
    models
}

/// Where Hugging Face's programs keep repositories.
pub fn hugging_face_folder() -> Option<PathBuf> {
    let given = variable("HF_HUB_CACHE").or_else(|| variable("HUGGINGFACE_HUB_CACHE"));
    given.or_else(|| Some(hugging_face_home()?.join("hub")))
}

/// Where Hugging Face's programs keep the user's token.
#[cfg(feature = "download")]
pub fn hugging_face_token() -> Option<PathBuf> {
    Some(hugging_face_home()?.join("token"))
}

fn hugging_face_home() -> Option<PathBuf> {
    let cache = || variable("XDG_CACHE_HOME").or_else(|| at_home(".cache"));
    variable("HF_HOME").or_else(|| Some(cache()?.join("huggingface")))
}

/// A path in the user's home folder.
fn at_home(path: &str) -> Option<PathBuf> {
    Some(variable("HOME")?.join(path))
}

/// A folder that an environment variable names.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// `models--OWNER--REPOSITORY/snapshots/REVISION/FILE.gguf`. Of several revisions with a file, the one that
/// `refs/main` names is listed, else one of them.
fn hugging_face(hub: &Path) -> Vec<LocalModel> {
    let mut models = Vec::new();
    let mut names = HashSet::new();
    for (folder_name, repository) in entries(hub) {
        let Some(name) = folder_name.strip_prefix("models--") else { continue };
        let name = name.replace("--", "/");
        for revision in snapshots(&repository) {
            for model in files_below(&revision, "Hugging Face") {
                let model = LocalModel { name: format!("{name}/{}", model.name), ..model };
                if names.insert(model.name.clone()) {
                    models.push(model);
                }
            }
        }
    }
    models
}

/// The revisions of a repository: the one that `refs/main` names, then the others.
pub fn snapshots(repository: &Path) -> Vec<PathBuf> {
    let main = text(&repository.join("refs/main")).unwrap_or_default();
    let mut revisions = entries(&repository.join("snapshots"));
    revisions.sort_unstable_by_key(|(revision, path)| (revision != main.trim(), path.clone()));
    revisions.into_iter().map(|(_, path)| path).collect()
}

/// Paths of the files below a folder, with `/` on every system.
pub fn paths_below(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    walk(folder, &mut |path| paths.extend(relative_name(folder, path)));
    paths
}

/// Ollama's description of a model.
#[derive(Deserialize)]
struct Manifest {
    layers: Vec<Layer>,
}

/// A file of a model.
#[derive(Deserialize)]
struct Layer {
    #[serde(rename = "mediaType")]
    media_type: String,
    digest: String,
}

/// `manifests/HOST/NAMESPACE/MODEL/TAG`, each JSON that names a file in `blobs`.
fn ollama(folder: &Path) -> Vec<LocalModel> {
    let manifests = folder.join("manifests");
    let mut paths = Vec::new();
    walk(&manifests, &mut |path| paths.push(path.to_owned()));
    let model = |path: &PathBuf| {
        let manifest: Manifest = serde_json::from_str(&text(path)?).ok()?;
        let layer =
            manifest.layers.iter().find(|layer| layer.media_type == "application/vnd.ollama.image.model")?;
        // Nothing but a hash: it becomes part of a path.
        let hash = layer.digest.strip_prefix("sha256:")?;
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let file = folder.join("blobs").join(format!("sha256-{hash}"));
        let name = relative_name(&manifests, path)?;
        let (model, tag) = name.rsplit_once('/')?;
        let model = model.strip_prefix("registry.ollama.ai/").unwrap_or(model);
        let model = model.strip_prefix("library/").unwrap_or(model);
        let name = format!("{model}:{tag}");
        (is_hash && file.is_file()).then_some(LocalModel { name, place: "Ollama", path: file })
    };
    paths.iter().filter_map(model).collect()
}

/// All GGUF files below a folder; of split ones the first part.
fn files_below(folder: &Path, place: &'static str) -> Vec<LocalModel> {
    let mut models = Vec::new();
    walk(folder, &mut |path| {
        let is_gguf = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        if let Some(name) = relative_name(folder, path).filter(|name| is_gguf && !is_later_part(name)) {
            models.push(LocalModel { name, place, path: path.to_owned() });
        }
    });
    models
}

/// Whether a file's name ends like `-00002-of-00003.gguf`, with any number but the first.
fn is_later_part(name: &str) -> bool {
    let part = name.rsplit_once("-of-").and_then(|(before, _)| before.rsplit_once('-'));
    part.and_then(|(_, number)| number.parse::<u32>().ok()).is_some_and(|number| number > 1)
}

/// The path below `folder`, with `/` on every system.
fn relative_name(folder: &Path, path: &Path) -> Option<String> {
    let parts = path.strip_prefix(folder).ok()?.iter();
    Some(parts.map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"))
}

/// Calls `file` for every regular file below a folder. Links are followed; the depth ends their loops.
fn walk(folder: &Path, file: &mut dyn FnMut(&Path)) {
    let mut budget = MAX_ENTRIES;
    walk_levels(folder, MAX_DEPTH, &mut budget, file);
}

fn walk_levels(folder: &Path, depth: usize, budget: &mut usize, file: &mut dyn FnMut(&Path)) {
    for (_, path) in entries(folder) {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => file(&path),
            Ok(metadata) if metadata.is_dir() && depth > 1 => walk_levels(&path, depth - 1, budget, file),
            _ => {}
        }
    }
}

/// Names and paths in a folder, by name; empty if it cannot be read.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let mut entries: Vec<_> =
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect();
    entries.sort_unstable();
    entries
}

/// A small text file; `None` if there is none.
fn text(path: &Path) -> Option<String> {
    regular_file::read_text(path, MAX_TEXT).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_parts_of_split_files_are_found() {
        for (name, later) in [
            ("m-00001-of-00003.gguf", false),
            ("m-00002-of-00003.gguf", true),
            ("m-q4.gguf", false),
            ("one-of-many.gguf", false),
            ("-of-", false),
        ] {
            assert_eq!(is_later_part(name), later, "{name}");
        }
    }
}
