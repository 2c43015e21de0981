//! Why a server gives no answer, or another one than was asked for: what to say, what to do about it, and whether the
//! request may be made again.

use std::io;

use terminal::failure::Failure;
use terminal::format;
use ureq::http::header::{DATE, HeaderMap, RETRY_AFTER};

use crate::agent;
use crate::patience::{Again, retry_after};
use crate::server::{MIN_RATE, Server};

/// Largest error text of a server that is quoted, in characters.
const MAX_QUOTE: usize = 200;

/// An answer that is no success.
pub struct Refusal {
    /// What to say.
    pub failure: Failure,
    /// When the same request may succeed.
    pub again: Again,
}

impl Refusal {
    pub(super) fn never(message: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal { failure: Failure::new(message, hint), again: Again::Never }
    }
}

impl Server {
    /// The error of a body that ends too early.
    pub fn broke_off(&self, error: io::Error) -> Refusal {
        self.no_answer(ureq::Error::from(error))
    }

    /// The error of a server that sends too slowly.
    pub fn stalled(&self) -> Refusal {
        let failure = Failure::new(
            format!(
                "{} sends less than {} a second for {}",
                self.host,
                format::bytes(MIN_RATE as usize),
                format::duration(self.patience())
            ),
            "check the network, and run the command again: a download resumes",
        );
        Refusal { failure, again: Again::Stalled }
    }

    /// The error of a server that cannot be reached, or that answers nonsense.
    pub(super) fn no_answer(&self, error: ureq::Error) -> Refusal {
        let (message, hint) = agent::no_answer(&self.host, self.proxy.as_ref(), &error);
        let hint = match &error {
            ureq::Error::TooManyRedirects => "check HF_ENDPOINT and the network's proxy".to_owned(),
            _ => hint.unwrap_or_else(|| {
                format!(
                    "check the network{}, and run the command again: a download resumes. Models that are on this machine \
                     need no network: `longhand models`, or -m FILE",
                    match &self.proxy {
                        Some(named) => format!(" and {}", named.variable),
                        None => " (behind a firewall, name its proxy in HTTPS_PROXY, or a mirror in HF_ENDPOINT)".to_owned(),
                    }
                )
            }),
        };
        let again = if matches!(error, ureq::Error::TooManyRedirects) { Again::Never } else { Again::Soon };
        Refusal { failure: Failure::new(message, hint), again }
    }

    /// The error of a network that sends a page to people instead of what was asked for.
    pub(super) fn web_page(&self, what: &str) -> Refusal {
        Refusal::never(
            format!("{} sends a web page instead of {what}", self.host),
            "open any page in a browser: the network may ask for a login first. Otherwise check HF_ENDPOINT and the \
             network's proxy",
        )
    }

    /// The error of an answer with another status than success. `begin` is the first byte that was asked for.
    pub(super) fn refused(&self, repository: &str, status: u16, headers: &HeaderMap, begin: u64) -> Refusal {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let address = format!("{}/{repository}", self.endpoint);
        let text: String = header("x-error-message").chars().take(MAX_QUOTE).collect();
        let wait = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = wait.and_then(|wait| retry_after(wait, Some(header(DATE.as_str()))));
        let token = match (&self.token, self.keeps_token) {
            (Some(token), _) => {
                format!("the token of {} was sent, and must be one that may read it", token.source)
            }
            (None, true) => {
                "your token is not sent without encryption: give HF_ENDPOINT an address with https".to_owned()
            }
            (None, false) => "set HF_TOKEN to a token that may read it".to_owned(),
        };
        let (message, hint) = match (status, header("x-error-code"), &self.token) {
            (401 | 403, "GatedRepo", _) => (
                format!("{repository} is gated: its owner gives it to those who ask"),
                format!("accept its terms at {address} in a browser; {token}"),
            ),
            (404, "EntryNotFound", _) => (
                format!("{repository} has no such file any more"),
                format!("look at its files at {address}/tree/main"),
            ),
            (404, "RevisionNotFound", _) => (
                format!("{repository} has no revision main"),
                format!("look at its files at {address}, download one, and give its path with -m"),
            ),
            (401, _, Some(token)) if text.to_ascii_lowercase().contains("credentials") => (
                format!("{} does not accept the token of {}: {text}", self.host, token.source),
                format!(
                    "make a new token at {}/settings/tokens, or remove it: a public model needs none",
                    self.endpoint
                ),
            ),
            (401 | 404, ..) => (
                format!("there is no repository {repository} on {}, or it is private", self.host),
                format!("check its name at {address}; for a private one, {token}"),
            ),
            (403, ..) => (
                format!("{} allows no access to {repository}", self.host),
                format!("look at {address} in a browser; {token}"),
            ),
            (407, ..) => (
                format!("the proxy asks for a login (status 407, {})", self.host),
                "give it in HTTPS_PROXY, such as http://NAME:PASSWORD@proxy.example.com:3128".to_owned(),
            ),
            _ => {
                let busy = if status == 429 { " (too many requests)" } else { "" };
                let text = if text.is_empty() { text } else { format!(": {text}") };
                let hint = match (wait, status, &self.token, self.keeps_token) {
                    (Some(wait), ..) => format!("try again in {}", format::duration(wait)),
                    (None, 429, None, false) => {
                        "try again later; with an account's token in HF_TOKEN more requests are allowed"
                            .to_owned()
                    }
                    _ => "try again later".to_owned(),
                };
                (format!("{} answers with status {status}{busy}{text}", self.host), hint)
            }
        };
        let again = match (status, wait) {
            (416, _) if begin > 0 => Again::FromStart,
            (429 | 500.., Some(wait)) => Again::After(wait),
            (429 | 500.., None) => Again::Soon,
            _ => Again::Never,
        };
        Refusal { failure: Failure::new(message, hint), again }
    }
}
