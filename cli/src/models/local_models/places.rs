//! The folders where programs keep models.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use hub::folders::{at_home, hugging_face_folder, revisions, variable};
use hub::walk::{MAX_ENTRIES, Walk, relative_name};
use models::invisible::escape_name;
use models::regular_file;
use serde::Deserialize;
use terminal::format;

use crate::models::local_models::LocalModel;

/// Where Ollama's service keeps models on Linux.
const OLLAMA_SERVICE: &str = "/usr/share/ollama/.ollama/models";
/// Largest size of a manifest, in bytes.
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
        let mut walk = Walk::default();
        self.models.extend(models(folder, &mut walk));
        self.omitted.append(&mut walk.unreadable);
        if walk.is_cut_off() {
            let shown = escape_name(&folder.to_string_lossy());
            self.omitted.push(format!("{shown}: only {} entries were looked at", format::count(MAX_ENTRIES)));
        }
    }
}

/// `models--OWNER--REPOSITORY/snapshots/REVISION/FILE.gguf`. Of several revisions with a file, the one that
/// `refs/main` names is listed, else one of them.
fn hugging_face(repositories: &Path, walk: &mut Walk) -> Vec<LocalModel> {
    let mut models = Vec::new();
    let mut names = HashSet::new();
    for (folder_name, repository) in walk.entries(repositories) {
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
