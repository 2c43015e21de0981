//! What all requests have in common: who asks, which certificates are trusted, how long a server may be silent, and what to do
//! where none answers.

use std::path::Path;
use std::time::Duration;

use models::regular_file;
use terminal::failure::Failure;
use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::AgentScope;

use crate::proxy::NamedProxy;

/// Largest file of certificates, in bytes.
const MAX_CERTIFICATES: u64 = 16 << 20;

/// The settings of requests through this proxy, if any. A server that sends nothing for `timeout` has failed.
///
/// # Errors
/// The environment names no usable certificates.
pub fn settings(proxy: Option<&NamedProxy>, timeout: Duration) -> Result<ConfigBuilder<AgentScope>, Failure> {
    Ok(Agent::config_builder()
        .user_agent(concat!("longhand/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .proxy(proxy.map(|named| named.proxy.clone()))
        .tls_config(TlsConfig::builder().root_certs(root_certificates()?).build())
        .timeout_resolve(Some(timeout))
        .timeout_connect(Some(timeout))
        .timeout_send_request(Some(timeout))
        .timeout_recv_response(Some(timeout))
        .timeout_per_read(Some(timeout))
        .timeout_per_write(Some(timeout)))
}

/// Certificates that are trusted: those of `SSL_CERT_FILE`, which networks with a proxy of their own need, else
/// Mozilla's, which are in the program.
fn root_certificates() -> Result<RootCerts, Failure> {
    let Some(path) = variable("SSL_CERT_FILE") else { return Ok(RootCerts::WebPki) };
    let wrong = |what: String| {
        Failure::new(format!("SSL_CERT_FILE: {path}: {what}"), "give a PEM file, or unset SSL_CERT_FILE")
    };
    let file = Path::new(&path);
    let pem = regular_file::read(file, MAX_CERTIFICATES).map_err(|error| {
        wrong(match file.exists() && !file.is_file() {
            true => format!("there is no certificate in it: {error}"),
            false => error.to_string(),
        })
    })?;
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

/// An environment variable; an empty one counts as none.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The error where no server answers: `no answer of example.com: its name is not found`, and what to do if that is known.
pub fn no_answer(host: &str, proxy: Option<&NamedProxy>, error: &ureq::Error) -> (String, Option<String>) {
    let text = match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::HostNotFound => "its name is not found".to_owned(),
        error => error.to_string(),
    };
    let (through, variable) = match proxy {
        Some(named) => (format!(" through the proxy {}", named.address()), named.variable),
        None => (String::new(), "HTTPS_PROXY"),
    };
    let hint = match error {
        ureq::Error::ConnectProxyFailed(reason) if reason.contains("407") => Some(format!(
            "the proxy asks for a login: give it in {variable}, such as http://NAME:PASSWORD@{}",
            proxy.map(NamedProxy::address).unwrap_or_default()
        )),
        ureq::Error::ConnectProxyFailed(_) => {
            Some(format!("check {variable}, or name {host} in NO_PROXY if it needs no proxy"))
        }
        _ if text.contains("certificate") => {
            let is_clock = ["Expired", "NotValidYet"].iter().any(|kind| text.contains(kind));
            let clock = if is_clock { "check the clock of this machine; " } else { "" };
            Some(format!(
                "{clock}if the network has a proxy with a certificate of its own, give that in a PEM file with \
                 SSL_CERT_FILE"
            ))
        }
        _ => None,
    };
    (format!("no answer of {host}{through}: {text}"), hint)
}
