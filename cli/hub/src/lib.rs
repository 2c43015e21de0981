//! Models of Hugging Face by name: `-hf OWNER/REPOSITORY[:QUANT]`. They are downloaded once into the cache that
//! Hugging Face's own programs use, and a file that is there needs no network. Documents of the web are fetched by address
//! (`web.rs`). Beside this crate, only the server and devices of other machines use a network.
//!
//! What the server says is foreign: names become paths only if they are plain, and a file gets its name in the cache when the
//! checksum of what is on the disk is right. A download may end at any moment, by Ctrl-C, a full disk or a server that is
//! gone: what has arrived is kept, and the next one goes on from it. Two programs never write one file. The user's token goes
//! to its server and into no message.
//!
//! Without the feature `download` the cache is only read.

#![forbid(unsafe_code)]

#[cfg(feature = "download")]
mod agent;
#[cfg(feature = "download")]
mod cache;
mod choose;
#[cfg(feature = "download")]
mod download;
pub mod folders;
#[cfg(feature = "download")]
mod part;
#[cfg(feature = "download")]
mod patience;
#[cfg(feature = "download")]
mod proxy;
#[cfg(feature = "download")]
mod server;
#[cfg(feature = "download")]
mod token;
pub mod walk;
pub mod web;

use std::fmt;
use std::path::{Path, PathBuf};

use terminal::console::Console;
use terminal::failure::Failure;
use terminal::interrupt::Interrupt;

use self::choose::{choose, is_first_of_model};
use self::walk::{Walk, paths_below};

/// What `-hf` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubModel {
    /// `OWNER/REPOSITORY`.
    repository: String,
    /// A quantisation, or the name of a file.
    quant: Option<String>,
}

impl HubModel {
    /// The repository's folder in the cache.
    fn folder_name(&self) -> String {
        format!("models--{}", self.repository.replace('/', "--"))
    }
}

impl fmt::Display for HubModel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.quant {
            Some(quant) => write!(f, "{}:{quant}", self.repository),
            None => f.write_str(&self.repository),
        }
    }
}

/// Parses `OWNER/REPOSITORY[:QUANT]`.
///
/// # Errors
/// Another form, or characters that Hugging Face does not allow.
pub fn parse(text: &str) -> Result<HubModel, Failure> {
    let (repository, quant) = match text.split_once(':') {
        Some((repository, quant)) => (repository, Some(quant)),
        None => (text, None),
    };
    let is_name = |name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        name.chars().all(plain) && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    };
    let names: Vec<&str> = repository.split('/').collect();
    if names.len() != 2 || !names.iter().all(|name| is_name(name)) || quant == Some("") {
        let suggestion = of_address(text).map(|model| format!("did you mean `-hf {model}`? "));
        return Err(Failure::usage(
            format!("{text} is no model of Hugging Face"),
            "give OWNER/REPOSITORY or OWNER/REPOSITORY:QUANT, for example Qwen/Qwen2.5-7B-Instruct-GGUF:Q4_K_M",
        )
        .with_suggestion(&suggestion.unwrap_or_default()));
    }
    Ok(HubModel { repository: repository.to_owned(), quant: quant.map(str::to_owned) })
}

/// The model at an address of Hugging Face's site: `https://huggingface.co/OWNER/REPOSITORY/blob/main/FILE`. `None` for
/// another text.
pub fn of_address(text: &str) -> Option<HubModel> {
    let address = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    let path = ["huggingface.co/", "www.huggingface.co/", "hf.co/"]
        .iter()
        .find_map(|host| address.strip_prefix(host))?;
    let path = path.split(['?', '#']).next()?.trim_end_matches('/');
    let names: Vec<&str> = path.splitn(5, '/').collect();
    let name = match names[..] {
        [owner, repository, "blob" | "resolve", _, file] => format!("{owner}/{repository}:{file}"),
        [owner, repository, ..] => format!("{owner}/{repository}"),
        _ => return None,
    };
    parse(&name).ok()
}

/// The file of a model, or the first part of a split one. It is downloaded if it is not on this machine. With
/// `checks`, what is here is compared with its checksum, and downloaded again if it is damaged.
///
/// # Errors
/// The download fails, is interrupted or is not allowed; there is no such model.
pub fn path(
    console: &Console,
    interrupt: &Interrupt,
    model: &HubModel,
    checks: bool,
) -> Result<PathBuf, Failure> {
    let hub = folders::hugging_face_folder().ok_or_else(|| {
        Failure::new("there is no folder for models of Hugging Face", "set HF_HUB_CACHE to a folder")
    })?;
    match find(&hub, model, is_offline()).filter(|_| !checks) {
        Some(path) => Ok(path),
        None if is_offline() => Err(Failure::new(
            match checks {
                true => format!("HF_HUB_OFFLINE does not allow to compare {model} with its checksum"),
                false => format!("{model} is not on this machine, and HF_HUB_OFFLINE allows no download"),
            },
            match &names_here(&hub, model)[..] {
                [] => "unset HF_HUB_OFFLINE; `longhand models` lists the models that are here".to_owned(),
                names => {
                    format!("unset HF_HUB_OFFLINE, or use one that is here: -hf {}", names.join(", -hf "))
                }
            },
        )),
        None => download(console, interrupt, model, &hub, checks),
    }
}

/// The model that the cache has already; of a split one the first part. What may be a draft for another model is taken
/// only if `takes_drafts`: the server knows better.
fn find(hub: &Path, model: &HubModel, takes_drafts: bool) -> Option<PathBuf> {
    folders::revisions(&hub.join(model.folder_name()), &mut Walk::default()).into_iter().find_map(
        |snapshot| {
            let paths = paths_below(&snapshot);
            let chosen = choose(&paths, &model.repository, model.quant.as_deref()).ok()?;
            let first = chosen.parts.first().filter(|_| chosen.is_sure || takes_drafts)?;
            Some(snapshot.join(first))
        },
    )
}

/// Names of the models of a repository that are on this machine, at most some.
fn names_here(hub: &Path, model: &HubModel) -> Vec<String> {
    let snapshots = folders::revisions(&hub.join(model.folder_name()), &mut Walk::default());
    let paths = snapshots.iter().flat_map(|snapshot| paths_below(snapshot));
    let mut paths: Vec<String> = paths.filter(|path| is_first_of_model(path)).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.iter().take(5).map(|path| format!("{}:{path}", model.repository)).collect()
}

/// How `-hf` names a file in the cache of Hugging Face: `OWNER/REPOSITORY:PATH`. `None` for another path.
pub fn name_of(path: &Path) -> Option<String> {
    let mut parts = path.iter().map(|part| part.to_string_lossy());
    let folder = parts.find(|part| part.starts_with("models--"))?.into_owned();
    let (owner, name) = folder.strip_prefix("models--")?.split_once("--")?;
    (parts.next()? == "snapshots").then_some(())?;
    parts.next()?;
    let file: Vec<String> = parts.map(|part| part.into_owned()).collect();
    Some(format!("{owner}/{name}:{}", file.join("/"))).filter(|_| !file.is_empty())
}

#[cfg(feature = "download")]
use download::download;

#[cfg(not(feature = "download"))]
fn download(_: &Console, _: &Interrupt, model: &HubModel, _: &Path, _: bool) -> Result<PathBuf, Failure> {
    Err(Failure::new(
        format!("{model} is not on this machine, and this longhand was built without the feature `download`"),
        format!(
            "build it with the default features, or download a file with `hf download {} FILE`",
            model.repository
        ),
    ))
}

/// Whether `HF_HUB_OFFLINE` is set to a word that means yes.
fn is_offline() -> bool {
    let value = std::env::var("HF_HUB_OFFLINE").unwrap_or_default().to_ascii_uppercase();
    ["1", "ON", "YES", "TRUE"].contains(&&*value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_site_is_understood() {
        for (address, name) in [
            ("https://huggingface.co/acme/Needle-GGUF", Some("acme/Needle-GGUF")),
            ("hf.co/acme/Needle-GGUF:Q8_0", Some("acme/Needle-GGUF:Q8_0")),
            ("https://huggingface.co/acme/Needle-GGUF/tree/main", Some("acme/Needle-GGUF")),
            (
                "https://huggingface.co/acme/Needle-GGUF/resolve/main/Q8_0/n.gguf?download=true",
                Some("acme/Needle-GGUF:Q8_0/n.gguf"),
            ),
            ("https://huggingface.co/acme", None),
            ("https://example.com/acme/Needle-GGUF", None),
            ("acme/Needle-GGUF", None),
        ] {
            assert_eq!(of_address(address).map(|model| model.to_string()).as_deref(), name, "{address}");
        }
        let error = parse("hf.co/a/b").expect_err("not a name");
        assert!(error.hint().starts_with("did you mean `-hf a/b`? "), "{}", error.hint());
    }

    #[test]
    fn a_file_in_the_cache_has_a_name() {
        let folder = "/home/x/.cache/huggingface/hub/models--acme--Needle-GGUF";
        for (path, name) in [
            ("snapshots/abc/needle-Q8_0.gguf", Some("acme/Needle-GGUF:needle-Q8_0.gguf")),
            ("snapshots/abc/Q8_0/needle.gguf", Some("acme/Needle-GGUF:Q8_0/needle.gguf")),
            ("snapshots/abc", None),
            ("blobs/abc", None),
        ] {
            assert_eq!(name_of(&Path::new(folder).join(path)).as_deref(), name, "{path}");
        }
        assert_eq!(name_of(Path::new("/models/snapshots/abc/needle.gguf")), None);
    }

    #[test]
    fn names_have_an_owner_and_perhaps_a_quantisation() {
        for (text, repository, quant) in [
            ("Qwen/Qwen2.5-7B-Instruct-GGUF", "Qwen/Qwen2.5-7B-Instruct-GGUF", None),
            ("a_b/c:Q4_K_M", "a_b/c", Some("Q4_K_M")),
            ("a/b:sub/file-q8_0.gguf", "a/b", Some("sub/file-q8_0.gguf")),
        ] {
            let model = parse(text).expect(text);
            assert_eq!((&*model.repository, model.quant.as_deref()), (repository, quant));
            assert_eq!(model.to_string(), text);
        }
        for text in
            ["", "a", "a/b/c", "/b", "a/", "a/b:", "../b", "a/..", "a/b c", "a/b\u{1b}", "a\\b/c", "-a/b"]
        {
            let error = parse(text).expect_err(text);
            assert!(error.hint().contains("OWNER/REPOSITORY:QUANT"), "{text}");
        }
    }
}
