//! Who may ask. By default only programs of this machine reach the server; web pages that a browser of this machine shows are
//! no such programs. They are told by the address that they have asked (`Host`) and by where they come from (`Origin`).

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri, header};
use axum::middleware::Next;
use sha2::{Digest, Sha256};

use super::Shared;
use super::error::ApiError;

/// Keys, one of which every request must have. They are kept as hashes.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

impl Keys {
    /// These keys; blank ones are left out.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Keys {
        let keys = keys.into_iter().map(str::trim).filter(|key| !key.is_empty());
        Keys(keys.map(|key| hash(key.as_bytes())).collect())
    }

    /// Whether everybody may ask.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is one of them. The time that it takes says nothing about the keys: hashes are compared, all of them.
    fn has(&self, key: &[u8]) -> bool {
        let key = hash(key);
        let differs = |other: &[u8; 32]| other.iter().zip(&key).fold(0, |sum, (a, b)| sum | (a ^ b));
        self.0.iter().fold(false, |found, other| found | (differs(other) == 0))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Refuses who may not ask, before anything of a request is looked at.
pub(super) async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response<Body> {
    let path = request.uri().path();
    let is_public = matches!(path, "/health" | "/v1/health");
    let checked = check_host(&shared, request.headers(), request.uri()).and_then(|()| {
        check_key(&shared, request.headers()).or_else(|error| if is_public { Ok(()) } else { Err(error) })
    });
    match checked {
        Ok(()) => next.run(request).await,
        Err(error) => error.response_to(path),
    }
}

/// Refuses web pages: those of other addresses whose name leads here, and those that ask this address from another one.
fn check_host(shared: &Shared, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
    let forbidden = |message: String| Err(ApiError::new(StatusCode::FORBIDDEN, message));
    let is_known = |host: &str| {
        let name = host_name(host);
        is_this_machine(name) || shared.options.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    if [header::HOST, header::ORIGIN].iter().any(|name| headers.get_all(name).iter().count() > 1) {
        return Err(ApiError::bad("a request has one Host and one Origin at most"));
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = uri.authority().map(|authority| authority.as_str()).or(host).unwrap_or_default();
    if shared.options.keys.is_empty() && shared.is_local && !is_known(host) {
        let hint = "ask for 127.0.0.1 or localhost, or start it with --allow-host NAME";
        return forbidden(match host {
            "" => format!("the request does not say whom it asks (Host): {hint}"),
            host => format!("this server is not {host:?}: {hint}"),
        });
    }
    match headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default()) {
        None => Ok(()),
        // Its own pages would have the address under which it is asked.
        Some(origin) => {
            match origin.split_once("://").is_some_and(|(_, asked)| asked.eq_ignore_ascii_case(host)) {
                true => Ok(()),
                false => forbidden(format!("web pages of {origin:?} may not ask this server")),
            }
        }
    }
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn is_this_machine(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn check_key(shared: &Shared, headers: &HeaderMap) -> Result<(), ApiError> {
    let keys = &shared.options.keys;
    if keys.is_empty() {
        return Ok(());
    }
    let bearer = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let bearer = bearer.and_then(|value| {
        let (scheme, key) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key)
    });
    let given = [bearer, headers.get("x-api-key").map(|value| value.as_bytes())];
    if given.into_iter().flatten().any(|key| keys.has(key.trim_ascii())) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::UNAUTHORIZED,
        match given {
            [None, None] => "this server needs a key: Authorization: Bearer KEY, or X-API-Key: KEY",
            _ => "the key is not one of this server's",
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for host in
            ["localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:80", "127.3.2.1", "[::1]:8080", "[::1]"]
        {
            assert!(is_this_machine(host_name(host)), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]:80",
        ] {
            assert!(!is_this_machine(host_name(host)), "{host}");
        }
    }

    #[test]
    fn keys_are_found_among_several() {
        let keys = Keys::new(["one", " two \n", ""]);
        assert_eq!(keys.0.len(), 2);
        assert!(keys.has(b"one") && keys.has(b"two"));
        assert!(!keys.has(b"") && !keys.has(b"on") && !keys.has(b"three"));
        assert_eq!(format!("{keys:?}"), "2 keys");
    }
}
