//! What the Hub's server is asked: the files of a repository, and their contents.

mod refusal;

use std::collections::HashMap;
use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;
use ureq::config::RedirectAuthHeaders;
use ureq::http::Uri;
use ureq::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, RANGE};
use ureq::{Agent, BodyReader};

pub use self::refusal::Refusal;
use crate::agent::{self, variable};
use crate::patience::Again;
use crate::proxy::{self, NamedProxy};
use crate::token::{self, Token};
use terminal::failure::Failure;
use terminal::format;

const HUGGING_FACE: &str = "https://huggingface.co";
/// Time after which a server that sends nothing has failed, unless `HF_HUB_DOWNLOAD_TIMEOUT` gives another one.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Times of that length in which a list of files must be here, and in which a download must keep [`MIN_RATE`].
const TIMEOUTS: u32 = 4;
/// Bytes a second below which a download counts as stalled.
pub const MIN_RATE: u64 = 4 << 10;
/// Largest list of files, in bytes.
const MAX_LIST: u64 = 32 << 20;

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

    /// The files of some paths.
    ///
    /// # Errors
    /// The first path for which the server gives no checksum.
    pub fn files<'a>(&self, paths: &[&'a str]) -> Result<Vec<RemoteFile>, &'a str> {
        let siblings: HashMap<&str, &Sibling> =
            self.siblings.iter().map(|sibling| (&*sibling.rfilename, sibling)).collect();
        let file = |path: &&'a str| {
            let Lfs { sha256, size } = siblings.get(path)?.lfs.clone()?;
            let checksum = is_hash(&sha256, 64).then(|| sha256.to_ascii_lowercase())?;
            Some(RemoteFile { path: (*path).to_owned(), checksum, size })
        };
        paths.iter().map(|path| file(path).ok_or(*path)).collect()
    }
}

/// A server of models.
pub struct Server {
    agent: Agent,
    /// `https://huggingface.co`
    endpoint: String,
    /// Its host, for people.
    host: String,
    token: Option<Token>,
    /// Whether the user's token is kept back: who listens would have it.
    keeps_token: bool,
    proxy: Option<NamedProxy>,
    /// Time after which a server that sends nothing has failed.
    timeout: Duration,
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
        let (Some(is_encrypted), Some(host)) =
            (scheme.map(|scheme| scheme == "https"), uri.as_ref().and_then(Uri::host))
        else {
            return Err(Failure::usage(
                format!("HF_ENDPOINT is {endpoint}, which is no address of a server"),
                format!("give an address such as {HUGGING_FACE}, or unset HF_ENDPOINT"),
            ));
        };
        let host = host.to_owned();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        let timeout = variable("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|seconds| seconds.parse().ok());
        let timeout = timeout.map_or(TIMEOUT, |seconds: u32| Duration::from_secs(seconds.max(1).into()));
        let proxy = match uri.as_ref().filter(|_| !is_local) {
            Some(uri) => proxy::from_environment(uri)?,
            None => None,
        };
        let config = agent::settings(proxy.as_ref(), timeout)?
            .https_only(is_encrypted)
            // A redirect leads to another company's server.
            .redirect_auth_headers(RedirectAuthHeaders::SameHost);
        let (agent, token) = (config.build().new_agent(), token::read()?);
        // A token is not for everyone who listens.
        let keeps_token = token.is_some() && !is_local && !is_encrypted;
        let token = token.filter(|_| !keeps_token);
        Ok(Server { agent, endpoint, host, token, keeps_token, proxy, timeout })
    }

    /// The server's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The time in which a download must bring [`MIN_RATE`].
    pub fn patience(&self) -> Duration {
        self.timeout * TIMEOUTS
    }

    /// Asks for the files of a repository.
    pub fn revision(&self, repository: &str) -> Result<Revision, Refusal> {
        let path = format!("api/models/{repository}/revision/main?blobs=true");
        let (_, body) = self.get(repository, &path, 0, Some(self.patience()))?;
        let mut list = Vec::new();
        body.take(MAX_LIST + 1).read_to_end(&mut list).map_err(|error| {
            let message = format!("{} broke off while it sent the list of files: {error}", self.host);
            Refusal::never(message, "run the command again")
        })?;
        if list.len() as u64 > MAX_LIST {
            return Err(Refusal::never(
                format!(
                    "the list of files of {repository} has more than {}",
                    format::bytes(MAX_LIST as usize)
                ),
                "download the file in another way, and give its path with -m",
            ));
        }
        if is_web_page(&list) {
            return Err(self.web_page("the list of files"));
        }
        let revision: Result<Revision, _> = serde_json::from_slice(&list);
        let is_commit = |revision: &Revision| is_hash(&revision.sha, 40);
        revision.ok().filter(is_commit).ok_or_else(|| {
            Refusal::never(
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
        let (headers, body) = self.get(repository, &path, begin, None)?;
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        if text(CONTENT_TYPE).is_some_and(|kind| kind.trim().to_ascii_lowercase().starts_with("text/html")) {
            return Err(self.web_page(&file.path));
        }
        let (begins, length) = match text(CONTENT_RANGE) {
            Some(range) => (begin, range_length(range, begin, file.size)),
            None => (0, text(CONTENT_LENGTH).map_or(Some(file.size), |length| length.parse().ok())),
        };
        if length.and_then(|length| length.checked_add(begins)) != Some(file.size) {
            let failure = Failure::new(
                format!("{} sends another number of bytes of {} than it says", self.host, file.path),
                "try again later; a proxy of the network may change what is sent",
            );
            let again = if begin > 0 { Again::FromStart } else { Again::Never };
            return Err(Refusal { failure, again });
        }
        Ok((begins, body))
    }

    /// Asks for what is at a path. All of the answer must be here within `time`, if that is given.
    fn get(
        &self,
        repository: &str,
        path: &str,
        begin: u64,
        time: Option<Duration>,
    ) -> Result<(HeaderMap, BodyReader<'static>), Refusal> {
        let mut request = self.agent.get(format!("{}/{path}", self.endpoint));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.text));
        }
        if begin > 0 {
            request = request.header(RANGE, format!("bytes={begin}-"));
        }
        let request = request.config().timeout_global(time).build();
        let response = request.call().map_err(|error| self.no_answer(error))?;
        let (parts, body) = response.into_parts();
        match parts.status.as_u16() {
            200 => {}
            206 if parts.headers.contains_key(CONTENT_RANGE) => {}
            status => return Err(self.refused(repository, status, &parts.headers, begin)),
        }
        Ok((parts.headers, body.into_reader()))
    }
}

/// Whether an answer begins as a web page does.
fn is_web_page(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    body.trim_ascii_start().first() == Some(&b'<')
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
        let files = |lfs| revision(lfs).files(&["m.gguf"]);
        assert!(files(None).is_err() && files(lfs("../../x")).is_err());
        let file = files(lfs(&"AB".repeat(32))).expect("a file").remove(0);
        assert_eq!((file.checksum, file.size), ("ab".repeat(32), 5));
    }
}
