//! The folders where programs keep models.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use models::invisible::escape_name;
use models::regular_file;
use serde::Deserialize;

use crate::models::local_models::LocalModel;
use crate::terminal::format;

/// Most entries that are looked at below one folder, so that a home folder as `model-folders` takes no
/// minutes.
const MAX_ENTRIES: usize = 20_000;
/// Where Ollama's service keeps models on Linux.
const OLLAMA_SERVICE: &str = "/usr/share/ollama/.ollama/models";
/// Levels of folders below one folder.
const MAX_DEPTH: usize = 6;
/// Largest size of a manifest or a reference, in bytes.
const MAX_TEXT: u64 = 1 << 20;

/// What is found in the folders.
#[derive(Default)]
pub struct Found {
    pub models: Vec<LocalModel>,
    /// What was not looked at, and why: folders that cannot be read or have too many entries.
    pub omitted: Vec<String>,
}

/// The models in all places.
pub fn all(folders: &[PathBuf]) -> Found {
    let mut found = Found::default();
    if let Some(folder) = hugging_face_folder() {
        found.search(&folder, hugging_face);
    }
    let ollama = match variable("OLLAMA_MODELS") {
        Some(folder) => vec![folder],
        // That of a user, and that of the system's service.
        None => at_home(".ollama/models").into_iter().chain([PathBuf::from(OLLAMA_SERVICE)]).collect(),
    };
    for folder in ollama {
        found.search(&folder, self::ollama);
    }
    for folder in [".lmstudio/models", ".cache/lm-studio/models"].into_iter().filter_map(at_home) {
        found.search(&folder, |folder, walk| files_below(folder, "LM Studio", walk));
    }
    for folder in folders {
        found.search(folder, |folder, walk| files_below(folder, "model-folders", walk));
    }
    found
}

impl Found {
    fn search(&mut self, folder: &Path, models: impl FnOnce(&Path, &mut Walk) -> Vec<LocalModel>) {
        let mut walk = Walk::new();
        self.models.extend(models(folder, &mut walk));
        self.omitted.append(&mut walk.unreadable);
        if walk.left == 0 {
            let shown = escape_name(&folder.to_string_lossy());
            self.omitted.push(format!("{shown}: only {} entries were looked at", format::count(MAX_ENTRIES)));
        }
    }
}

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
fn at_home(path: &str) -> Option<PathBuf> {
    Some(variable("HOME")?.join(path))
}

/// A folder that a variable of Hugging Face's programs names: also below the current folder, or `~`.
fn given_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)?;
    match path.strip_prefix("~") {
        Ok(below) => at_home("").map(|home| home.join(below)),
        Err(_) => std::path::absolute(path).ok(),
    }
}

/// A folder that an environment variable names by its whole path.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// `models--OWNER--REPOSITORY/snapshots/REVISION/FILE.gguf`. Of several revisions with a file, the one that
/// `refs/main` names is listed, else one of them.
fn hugging_face(hub: &Path, walk: &mut Walk) -> Vec<LocalModel> {
    let mut models = Vec::new();
    let mut names = HashSet::new();
    for (folder_name, repository) in walk.entries(hub) {
        let Some(name) = folder_name.strip_prefix("models--") else { continue };
        let name = name.replace("--", "/");
        for revision in revisions(&repository, walk) {
            for model in files_below(&revision, "Hugging Face", walk) {
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
    revisions(repository, &mut Walk::new())
}

fn revisions(repository: &Path, walk: &mut Walk) -> Vec<PathBuf> {
    let main = text(&repository.join("refs/main")).unwrap_or_default();
    let mut revisions = walk.entries(&repository.join("snapshots"));
    revisions.sort_unstable_by_key(|(revision, path)| (revision != main.trim(), path.clone()));
    revisions.into_iter().map(|(_, path)| path).collect()
}

/// Paths of the files below a folder, with `/` on every system.
pub fn paths_below(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    Walk::new().files(folder, &mut |path| paths.extend(relative_name(folder, path)));
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
fn ollama(folder: &Path, walk: &mut Walk) -> Vec<LocalModel> {
    let manifests = folder.join("manifests");
    let mut paths = Vec::new();
    walk.files(&manifests, &mut |path| paths.push(path.to_owned()));
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
fn files_below(folder: &Path, place: &'static str, walk: &mut Walk) -> Vec<LocalModel> {
    let mut models = Vec::new();
    walk.files(folder, &mut |path| {
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

/// A search in folders, with an end.
struct Walk {
    /// Entries that may still be looked at.
    left: usize,
    /// Folders that were looked at, without links: a link leads to one of them again.
    seen: HashSet<PathBuf>,
    unreadable: Vec<String>,
}

impl Walk {
    fn new() -> Walk {
        Walk { left: MAX_ENTRIES, seen: HashSet::new(), unreadable: Vec::new() }
    }

    /// Calls `file` for every regular file below a folder. Links are followed, each folder once. Pipes, devices and
    /// links to what is gone are left out.
    fn files(&mut self, folder: &Path, file: &mut dyn FnMut(&Path)) {
        self.levels(folder, MAX_DEPTH, file);
    }

    fn levels(&mut self, folder: &Path, depth: usize, file: &mut dyn FnMut(&Path)) {
        if !fs::canonicalize(folder).is_ok_and(|real| self.seen.insert(real)) {
            return;
        }
        for (_, path) in self.entries(folder) {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => file(&path),
                Ok(metadata) if metadata.is_dir() && depth > 1 => self.levels(&path, depth - 1, file),
                _ => {}
            }
        }
    }

    /// Names and paths in a folder, by name; empty if there is none.
    fn entries(&mut self, folder: &Path) -> Vec<(String, PathBuf)> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                // Most people have not all of the programs.
                if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                    self.unreadable.push(format!("{}: {error}", escape_name(&folder.to_string_lossy())));
                }
                return Vec::new();
            }
        };
        let mut entries: Vec<_> = entries
            .flatten()
            .take(self.left)
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
            .collect();
        self.left -= entries.len();
        entries.sort_unstable();
        entries
    }
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
