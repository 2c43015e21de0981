//! What the Hub's server is asked: the files of a repository, and their contents. Says why it gives no answer.

use std::env;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use models::regular_file;
use serde::Deserialize;
use ureq::config::RedirectAuthHeaders;
use ureq::http::Uri;
use ureq::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, RANGE};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, BodyReader, Proxy};

use crate::failure::Failure;
use crate::local_models;

const HUGGING_FACE: &str = "https://huggingface.co";
/// Time after which a server that sends nothing has failed, unless `HF_HUB_DOWNLOAD_TIMEOUT` gives another one.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Largest list of files, in bytes.
const MAX_LIST: u64 = 32 << 20;
/// Largest files of a token and of certificates, in bytes.
const MAX_TOKEN_BYTES: u64 = 16 << 10;
const MAX_CERTIFICATE_BYTES: u64 = 32 << 20;
/// Largest error text of a server that is quoted, in characters.
const MAX_QUOTE: usize = 200;

/// The latest commit of a repository.
#[derive(Deserialize)]
pub struct Revision {
    /// The commit.
    pub sha: String,
    /// All files.
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    lfs: Option<Lfs>,
}

#[derive(Clone, Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: String,
    size: u64,
}

/// A file of a repository.
#[derive(Clone, Debug)]
pub struct RemoteFile {
    /// The path in the repository.
    pub path: String,
    /// SHA-256 in hexadecimal digits.
    pub checksum: String,
    /// Bytes.
    pub size: u64,
}

impl Revision {
    /// Paths of the files that can be stored.
    pub fn paths(&self) -> Vec<String> {
        let paths = self.siblings.iter().map(|sibling| sibling.rfilename.clone());
        paths.filter(|path| is_plain_path(path)).collect()
    }

    /// The file of a path; `None` where the server gives no checksum.
    pub fn file(&self, path: &str) -> Option<RemoteFile> {
        let sibling = self.siblings.iter().find(|sibling| sibling.rfilename == path)?;
        let Lfs { sha256, size } = sibling.lfs.clone()?;
        let checksum = is_hash(&sha256, 64).then(|| sha256.to_ascii_lowercase())?;
        Some(RemoteFile { path: path.to_owned(), checksum, size })
    }
}

/// An answer that is no success.
pub struct Refusal {
    /// What to say.
    pub failure: Failure,
    /// Whether the same request may succeed later.
    pub may_pass: bool,
}

/// A server of models.
pub struct Server {
    agent: Agent,
    /// `https://huggingface.co`
    endpoint: String,
    /// Its host, for people.
    host: String,
    token: Option<String>,
}

impl Server {
    /// Hugging Face, or the server and the token that the environment names.
    ///
    /// # Errors
    /// The environment names no usable server or certificates.
    pub fn from_environment() -> Result<Server, Failure> {
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| HUGGING_FACE.to_owned());
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let uri: Option<Uri> = endpoint.parse().ok();
        let scheme =
            uri.as_ref().and_then(Uri::scheme_str).filter(|scheme| ["http", "https"].contains(scheme));
        let (Some(scheme), Some(host)) = (scheme, uri.as_ref().and_then(Uri::host)) else {
            return Err(Failure::usage(
                format!("HF_ENDPOINT is {endpoint}, which is no address of a server"),
                format!("give an address such as {HUGGING_FACE}, or unset HF_ENDPOINT"),
            ));
        };
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        let timeout = variable("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|seconds| seconds.parse().ok());
        let timeout =
            Some(timeout.map_or(TIMEOUT, |seconds: u32| Duration::from_secs(seconds.max(1).into())));
        let config = Agent::config_builder()
            .user_agent(concat!("longhand/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .https_only(scheme == "https")
            // A redirect leads to another company's server.
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .proxy(if is_local { None } else { Proxy::try_from_env() })
            .tls_config(TlsConfig::builder().root_certs(root_certificates()?).build())
            .timeout_resolve(timeout)
            .timeout_connect(timeout)
            .timeout_per_read(timeout)
            .timeout_per_write(timeout);
        Ok(Server {
            agent: config.build().new_agent(),
            host: host.to_owned(),
            // A token is not for everyone who listens.
            token: token().filter(|_| is_local || scheme == "https"),
            endpoint,
        })
    }

    /// The server's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Asks for the files of a repository.
    pub fn revision(&self, repository: &str) -> Result<Revision, Failure> {
        let path = format!("api/models/{repository}/revision/main?blobs=true");
        let (_, body) = self.get(repository, &path, 0).map_err(|refusal| refusal.failure)?;
        let mut list = Vec::new();
        body.take(MAX_LIST).read_to_end(&mut list).map_err(|error| {
            let message = format!("{} broke off while it sent the list of files: {error}", self.host);
            Failure::new(message, "run the command again")
        })?;
        let revision: Result<Revision, _> = serde_json::from_slice(&list);
        let is_commit = |revision: &Revision| is_hash(&revision.sha, 40);
        revision.ok().filter(is_commit).ok_or_else(|| {
            Failure::new(
                format!("{} does not answer as a server of Hugging Face does", self.host),
                "check HF_ENDPOINT and the network's proxy",
            )
        })
    }

    /// Asks for a file's bytes from `begin` on. Returns where the bytes begin that the server sends, which is `begin`
    /// or 0.
    pub fn open(
        &self,
        repository: &str,
        commit: &str,
        file: &RemoteFile,
        begin: u64,
    ) -> Result<(u64, BodyReader<'static>), Refusal> {
        let path = format!("{repository}/resolve/{commit}/{}", percent_encoded(&file.path));
        let (headers, body) = self.get(repository, &path, begin)?;
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let (begins, length) = match text(CONTENT_RANGE) {
            Some(range) => (begin, range_length(range, begin, file.size)),
            None => (0, text(CONTENT_LENGTH).map_or(Some(file.size), |length| length.parse().ok())),
        };
        if length.and_then(|length| length.checked_add(begins)) != Some(file.size) {
            let failure = Failure::new(
                format!("{} sends another number of bytes of {} than it says", self.host, file.path),
                "try again later; a proxy of the network may change what is sent",
            );
            return Err(Refusal { failure, may_pass: false });
        }
        Ok((begins, body))
    }

    fn get(
        &self,
        repository: &str,
        path: &str,
        begin: u64,
    ) -> Result<(HeaderMap, BodyReader<'static>), Refusal> {
        let mut request = self.agent.get(format!("{}/{path}", self.endpoint));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if begin > 0 {
            request = request.header(RANGE, format!("bytes={begin}-"));
        }
        let response = request.call().map_err(|error| match error {
            ureq::Error::Io(error) => self.no_answer(&error),
            error => self.no_answer(&error),
        })?;
        let (parts, body) = response.into_parts();
        match parts.status.as_u16() {
            200 => {}
            206 if parts.headers.contains_key(CONTENT_RANGE) => {}
            status => return Err(self.refused(repository, status, &parts.headers)),
        }
        Ok((parts.headers, body.into_reader()))
    }

    /// The error of a server that cannot be reached, or that answers nonsense.
    pub fn no_answer(&self, error: &dyn std::error::Error) -> Refusal {
        let error = error.to_string();
        let hint = if error.contains("certificate") {
            "if the network has a proxy with a certificate of its own, give that in a PEM file with SSL_CERT_FILE"
        } else {
            "check the network, and run the command again: a download resumes. Models that are on this \
             machine need no network: `longhand models`"
        };
        let failure = Failure::new(format!("no answer of {}: {error}", self.host), hint);
        Refusal { failure, may_pass: true }
    }

    /// The error of an answer with another status than success.
    fn refused(&self, repository: &str, status: u16, headers: &HeaderMap) -> Refusal {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let address = format!("{}/{repository}", self.endpoint);
        let (message, hint) = match (status, header("x-error-code")) {
            (401 | 403, "GatedRepo") => (
                format!("{repository} is gated: its owner gives it to those who ask"),
                format!("accept its terms at {address}, and set HF_TOKEN to a token of your account"),
            ),
            (404, "EntryNotFound") => (
                format!("{repository} has no such file any more"),
                format!("look at its files at {address}/tree/main"),
            ),
            (401 | 404, _) => (
                format!("there is no repository {repository} on {}, or it is private", self.host),
                match self.token {
                    Some(_) => format!("check its name at {address}, and whether HF_TOKEN is valid"),
                    None => format!("check its name at {address}; for a private one set HF_TOKEN"),
                },
            ),
            (403, _) => (
                format!("{} allows no access to {repository}", self.host),
                format!("look at {address} in a browser, and set HF_TOKEN to a token that may read it"),
            ),
            _ => {
                let text: String = header("x-error-message").chars().take(MAX_QUOTE).collect();
                let text = if text.is_empty() { text } else { format!(": {text}") };
                (format!("{} answers with status {status}{text}", self.host), "try again later".to_owned())
            }
        };
        Refusal { failure: Failure::new(message, hint), may_pass: status == 429 || status >= 500 }
    }
}

/// Certificates that are trusted: those of `SSL_CERT_FILE`, which networks with a proxy of their own need, else
/// Mozilla's, which are in the program.
fn root_certificates() -> Result<RootCerts, Failure> {
    let Some(path) = variable("SSL_CERT_FILE") else { return Ok(RootCerts::WebPki) };
    let wrong = |what: String| {
        Failure::new(format!("SSL_CERT_FILE: {path}: {what}"), "give a PEM file, or unset SSL_CERT_FILE")
    };
    let mut pem = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(MAX_CERTIFICATE_BYTES).read_to_end(&mut pem));
    read.map_err(|error| wrong(error.to_string()))?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    match certificates.is_empty() {
        true => Err(wrong("there is no certificate in it".to_owned())),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}

/// The user's token, where Hugging Face's programs look for it.
fn token() -> Option<String> {
    let file = || variable("HF_TOKEN_PATH").map(PathBuf::from).or_else(local_models::hugging_face_token);
    let token = variable("HF_TOKEN").or_else(|| regular_file::read_text(&file()?, MAX_TOKEN_BYTES).ok())?;
    Some(token.trim().to_owned()).filter(|token| !token.is_empty())
}

/// An environment variable; an empty one counts as none.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The bytes that a `Content-Range` promises: `bytes 5-9/10` are 5 from byte 5 on. `None` for another range.
fn range_length(range: &str, begin: u64, size: u64) -> Option<u64> {
    let (range, whole) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| text.parse::<u64>().ok();
    let is_asked = number(first)? == begin && (whole == "*" || number(whole)? == size);
    is_asked.then_some(number(last)?.checked_sub(begin)?.checked_add(1)?)
}

fn is_hash(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a path stays below the folder that it is put into, on every system.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |name: &str| {
        let forbidden = |c: char| c.is_control() || "\\:*?\"<>|".contains(c);
        !name.is_empty() && !name.starts_with('.') && !name.contains(forbidden) && name.len() < 256
    };
    path.split('/').all(is_plain)
}

fn percent_encoded(path: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'/' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    path.bytes().map(encoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_stored() {
        for (path, plain) in [
            ("model-Q4_K_M.gguf", true),
            ("Q8_0/model 1.gguf", true),
            ("../model.gguf", false),
            ("/model.gguf", false),
            ("a//b.gguf", false),
            ("a/./b.gguf", false),
            ("c:\\model.gguf", false),
            ("a\u{0}.gguf", false),
            ("", false),
        ] {
            assert_eq!(is_plain_path(path), plain, "{path:?}");
        }
        assert_eq!(percent_encoded("a b/ü-1.gguf"), "a%20b/%C3%BC-1.gguf");
    }

    #[test]
    fn another_range_than_the_one_asked_for_is_refused() {
        for (range, length) in [
            ("bytes 5-9/10", Some(5)),
            ("bytes 5-9/*", Some(5)),
            ("bytes 5-8/10", Some(4)),
            ("bytes 4-9/10", None),
            ("bytes 5-9/11", None),
            ("bytes 5-3/10", None),
            ("5-9/10", None),
            ("bytes */10", None),
        ] {
            assert_eq!(range_length(range, 5, 10), length, "{range}");
        }
    }

    #[test]
    fn a_file_without_a_checksum_is_not_taken() {
        let lfs = |sha256: &str| Some(Lfs { sha256: sha256.to_owned(), size: 5 });
        let revision = |lfs| Revision {
            sha: String::new(),
            siblings: vec![Sibling { rfilename: "m.gguf".to_owned(), lfs }],
        };
        assert!(revision(None).file("m.gguf").is_none());
        assert!(revision(lfs("../../x")).file("m.gguf").is_none());
        let file = revision(lfs(&"AB".repeat(32))).file("m.gguf").expect("a file");
        assert_eq!((file.checksum, file.size), ("ab".repeat(32), 5));
    }
}
