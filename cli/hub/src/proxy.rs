//! The proxy that the environment names, as other programs read it: that of the server's scheme, else `ALL_PROXY`;
//! `NO_PROXY` lists hosts that need none.

use std::env;

use terminal::failure::Failure;
use ureq::http::Uri;
use ureq::{Proxy, ProxyProtocol};

/// A proxy, and which variable names it.
pub struct NamedProxy {
    pub proxy: Proxy,
    /// `HTTPS_PROXY`.
    pub variable: &'static str,
}

impl NamedProxy {
    /// Its address for people, without a password.
    pub fn address(&self) -> String {
        format!("{}:{}", self.proxy.host(), self.proxy.port())
    }
}

/// The proxy to the server at `uri`; `None` if there is none.
///
/// # Errors
/// A variable has no address of a proxy, or that of a kind that longhand does not have.
pub fn from_environment(uri: &Uri) -> Result<Option<NamedProxy>, Failure> {
    let mut variables = vec!["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];
    if uri.scheme_str() == Some("http") {
        variables.rotate_left(2);
    }
    // A proxy for the one scheme comes before that for all.
    variables.splice(2..2, ["ALL_PROXY", "all_proxy"]);
    let value = |name: &&'static str| Some((*name, env::var(name).ok().filter(|value| !value.is_empty())?));
    let Some((variable, address)) = variables.iter().find_map(value) else { return Ok(None) };
    let wrong = |what: &str| {
        Failure::new(
            format!("{variable} {what}"),
            "give the address of an HTTP proxy, such as HTTPS_PROXY=http://proxy.example.com:3128; or name the server in \
             NO_PROXY",
        )
    };
    let proxy = Proxy::new(&address).and_then(with_exceptions);
    let proxy = proxy.map_err(|_| wrong("is no address of a proxy"))?;
    match proxy.protocol() {
        _ if proxy.is_no_proxy(uri) => Ok(None),
        ProxyProtocol::Http | ProxyProtocol::Https => Ok(Some(NamedProxy { proxy, variable })),
        other => Err(wrong(&format!("names a {other} proxy, and longhand knows HTTP proxies only"))),
    }
}

/// The proxy, with the hosts of `NO_PROXY`. `example.com` and `.example.com` are the domain and all hosts in it.
fn with_exceptions(proxy: Proxy) -> Result<Proxy, ureq::Error> {
    let list = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| env::var(name).ok()).unwrap_or_default();
    let mut builder = Proxy::builder(proxy.protocol()).host(proxy.host()).port(proxy.port());
    if let Some(name) = proxy.username() {
        builder = builder.username(name);
    }
    if let Some(password) = proxy.password() {
        builder = builder.password(password);
    }
    for host in list.split(',').map(str::trim).filter(|host| !host.is_empty()) {
        builder = builder.no_proxy(host);
        let name = host.trim_start_matches('.');
        if !name.contains('*') {
            builder = builder.no_proxy(name).no_proxy(&format!(".{name}"));
        }
    }
    builder.build()
}
