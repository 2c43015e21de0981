//! Documents of the web that the user names by their addresses. Nothing else fetches one: no document, page or answer can.
//!
//! A document has a largest size and a longest time. Redirects are followed a few times, and never from the web to this machine
//! or its network, which only the user may name.

use std::borrow::Cow;

#[cfg(not(feature = "download"))]
use terminal::failure::Failure;

/// A document as a server sent it.
#[derive(Debug)]
pub struct WebDocument {
    /// What the server says that it is: `text/html; charset=utf-8`.
    pub media_type: Option<String>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Whether a text is an address of the web.
pub fn is_address(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// An address without the name and password in it, to be shown and kept.
pub fn without_login(address: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = address.split_once("://").filter(|_| is_address(address)) else {
        return address.into();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]).into(),
        None => address.into(),
    }
}

/// Fetches the document at an address.
///
/// # Errors
/// There is no such document, it is too large or too slow, or a redirect leads to this machine or its network.
#[cfg(not(feature = "download"))]
pub fn fetch(address: &str) -> Result<WebDocument, Failure> {
    Err(Failure::new(
        format!(
            "{} is an address, and this longhand was built without the feature `download`",
            without_login(address)
        ),
        "build it with the default features, or download the document and give its path",
    ))
}

#[cfg(feature = "download")]
pub use self::request::fetch;

#[cfg(feature = "download")]
mod request {
    use std::io::Read;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use terminal::failure::Failure;
    use terminal::format;
    use ureq::config::Config;
    use ureq::http::Uri;
    use ureq::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
    use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
    use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
    use ureq::{Agent, BodyReader, Timeout};

    use super::{WebDocument, without_login};
    use crate::{agent, proxy};

    /// Largest document, in bytes.
    const MAX_BYTES: u64 = 64 << 20;
    /// Longest time for a document with all redirects, and for a server that sends nothing.
    const TIME: Duration = Duration::from_secs(120);
    const SILENCE: Duration = Duration::from_secs(20);
    /// Redirects that are followed.
    const MAX_REDIRECTS: usize = 5;
    /// What is asked for.
    const WANTED: &str = "text/html,application/xhtml+xml,text/markdown,text/plain,application/pdf,*/*;q=0.5";
    /// Why a redirect is not followed.
    const IS_LOCAL: &str = "it is on this machine or in its network";

    /// See [`super::fetch`].
    ///
    /// # Errors
    /// As there.
    pub fn fetch(address: &str) -> Result<WebDocument, Failure> {
        let until = Instant::now() + TIME;
        let is_local = Arc::new(AtomicBool::new(false));
        let asked = &without_login(address);
        let mut request = Request {
            asked,
            uri: parse(address, asked)?,
            address: address.to_owned(),
            allows_local: true,
            is_local: is_local.clone(),
        };
        for _ in 0..=MAX_REDIRECTS {
            let (status, headers, body) = request.send(until)?;
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return request.document(status, &headers, body);
            }
            request.follow(&headers)?;
        }
        Err(request.failed(
            &format!("it redirects more than {MAX_REDIRECTS} times"),
            "open it in a browser, and give the address that it shows then",
        ))
    }

    /// A request for a document, after some redirects.
    struct Request<'a> {
        /// The address that the user gave, without a password.
        asked: &'a str,
        /// The address that is asked now.
        address: String,
        uri: Uri,
        /// Whether it may be on this machine or in its network.
        allows_local: bool,
        /// Whether it was.
        is_local: Arc<AtomicBool>,
    }

    impl Request<'_> {
        fn send(&self, until: Instant) -> Result<(u16, HeaderMap, BodyReader<'static>), Failure> {
            let proxy = match is_local_name(self.host()) {
                true => None,
                false => proxy::from_environment(&self.uri)?,
            };
            // Behind a proxy only the name is known.
            if !self.allows_local && is_local_name(self.host()) {
                return Err(self.leads_inside());
            }
            if is_local_name(self.host()) {
                self.is_local.store(true, Ordering::Relaxed);
            }
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let config =
                agent::settings(proxy.as_ref(), SILENCE)?.max_redirects(0).timeout_global(Some(left)).build();
            let resolver = Guard {
                inner: DefaultResolver::default(),
                allows_local: self.allows_local || proxy.is_some(),
                is_local: self.is_local.clone(),
            };
            let agent = Agent::with_parts(config, DefaultConnector::default(), resolver);
            let response = agent.get(self.uri.clone()).header(ACCEPT, WANTED).call().map_err(|error| {
                if matches!(&error, ureq::Error::Io(error) if error.to_string() == IS_LOCAL) {
                    return self.leads_inside();
                }
                let (message, hint) = agent::no_answer(self.host(), proxy.as_ref(), &error);
                let hint = hint.unwrap_or_else(|| {
                    "check the address and the network (behind a firewall, name its proxy in HTTPS_PROXY)"
                        .to_owned()
                });
                Failure::new(format!("{}: {message}", self.asked), hint)
            })?;
            let (parts, body) = response.into_parts();
            Ok((parts.status.as_u16(), parts.headers, body.into_reader()))
        }

        /// Goes on to where a redirect leads.
        fn follow(&mut self, headers: &HeaderMap) -> Result<(), Failure> {
            let location = headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let address = joined(&self.uri, location);
            let uri = parse(&address, self.asked)?;
            if self.uri.scheme_str() == Some("https") && uri.scheme_str() == Some("http") {
                return Err(self.failed(
                    &format!("it leads to an address without encryption: {}", without_login(&address)),
                    "give that address, if you trust it",
                ));
            }
            self.allows_local = self.is_local.load(Ordering::Relaxed);
            (self.uri, self.address) = (uri, address);
            Ok(())
        }

        /// The document that a server sends.
        fn document(
            &self,
            status: u16,
            headers: &HeaderMap,
            body: BodyReader<'static>,
        ) -> Result<WebDocument, Failure> {
            let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
            let host = self.host();
            match status {
                200 | 203 => {}
                401 | 403 => {
                    let hint = "open it in a browser, save it there, and give the file";
                    return Err(self.failed(&format!("{host} refuses it (status {status})"), hint));
                }
                404 | 410 => {
                    return Err(self.failed(
                        &format!("{host} has no such document (status {status})"),
                        "check the address",
                    ));
                }
                status => {
                    return Err(
                        self.failed(&format!("{host} answers with status {status}"), "try again later")
                    );
                }
            }
            let media_type = text(CONTENT_TYPE).map(str::to_owned);
            let kind = media_type.as_deref().unwrap_or_default().trim().to_ascii_lowercase();
            if let Some(kind) =
                ["image", "audio", "video", "font"].into_iter().find(|of| kind.starts_with(&format!("{of}/")))
            {
                let what = format!("it is no text, but of the kind {kind}");
                return Err(self.failed(&what, "give the address of a page or a document"));
            }
            let too_large = || {
                let limit = format::bytes(MAX_BYTES as usize);
                self.failed(&format!("it has more than {limit}"), "download it, and give the file")
            };
            if text(CONTENT_LENGTH)
                .and_then(|length| length.parse::<u64>().ok())
                .is_some_and(|length| length > MAX_BYTES)
            {
                return Err(too_large());
            }
            if let Some(encoding) = text(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
                let what = format!("{host} sends it compressed ({encoding}), which it was not asked for");
                return Err(self.failed(&what, "open it in a browser, save it there, and give the file"));
            }
            let mut bytes = Vec::new();
            body.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| {
                let reason = match error.get_ref().and_then(|error| error.downcast_ref()) {
                    Some(ureq::Error::Timeout(Timeout::PerRead)) => {
                        format!("{host} sends nothing more for {} seconds", SILENCE.as_secs())
                    }
                    Some(ureq::Error::Timeout(_)) => {
                        format!("it takes longer than {} seconds", TIME.as_secs())
                    }
                    _ => format!("{host} broke off: {error}"),
                };
                self.failed(&reason, "try again, or download it and give the file")
            })?;
            match bytes.len() as u64 > MAX_BYTES {
                true => Err(too_large()),
                false => Ok(WebDocument { media_type, bytes }),
            }
        }

        fn host(&self) -> &str {
            self.uri.host().unwrap_or_default()
        }

        fn leads_inside(&self) -> Failure {
            self.failed(
                &format!("it redirects to {}, and {IS_LOCAL}", without_login(&self.address)),
                "give that address itself, if you want what is there",
            )
        }

        fn failed(&self, what: &str, hint: &str) -> Failure {
            Failure::new(format!("{}: {what}", self.asked), hint)
        }
    }

    /// Looks names up, and refuses what is on this machine or in its network where that is not allowed.
    #[derive(Debug)]
    struct Guard {
        inner: DefaultResolver,
        allows_local: bool,
        is_local: Arc<AtomicBool>,
    }

    impl Resolver for Guard {
        fn resolve(
            &self,
            uri: &Uri,
            config: &Config,
            timeout: NextTimeout,
        ) -> Result<ResolvedSocketAddrs, ureq::Error> {
            let found = self.inner.resolve(uri, config, timeout)?;
            if found.iter().any(|address| is_local(address.ip())) {
                if !self.allows_local {
                    return Err(ureq::Error::Io(std::io::Error::new(
                        std::io::ErrorKind::PermissionDenied,
                        IS_LOCAL,
                    )));
                }
                self.is_local.store(true, Ordering::Relaxed);
            }
            Ok(found)
        }
    }

    /// An address of the web with a server.
    fn parse(address: &str, asked: &str) -> Result<Uri, Failure> {
        let address = address.split('#').next().unwrap_or_default();
        // Addresses from a browser may have letters that servers want encoded.
        let encoded: String = address
            .chars()
            .map(|c| match c {
                ' ' => "%20".to_owned(),
                c if c.is_ascii() => c.to_string(),
                c => c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect(),
            })
            .collect();
        let uri: Option<Uri> = encoded.parse().ok();
        uri.filter(|uri| super::is_address(&encoded) && has_server(uri)).ok_or_else(|| {
            Failure::new(
                format!("{asked}: {} is no address of a document", without_login(address)),
                "give an address such as https://example.com/report.pdf",
            )
        })
    }

    /// Whether an address has a host, and where it has a port, one that there can be.
    fn has_server(uri: &Uri) -> bool {
        let host = uri.host().unwrap_or_default();
        let server = uri.authority().map_or("", |authority| authority.as_str());
        let port = server.rsplit('@').next().and_then(|server| server.strip_prefix(host)?.strip_prefix(':'));
        !host.is_empty()
            && port.is_none_or(|port| port.is_empty() || uri.port_u16().is_some_and(|port| port > 0))
    }

    /// Where a reference of a document leads (RFC 3986, 5.2).
    fn joined(from: &Uri, reference: &str) -> String {
        let scheme = from.scheme_str().unwrap_or("https");
        let host = from.authority().map_or("", |authority| authority.as_str());
        let path = from.path();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        match reference {
            reference if reference.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':')) => {
                reference.to_owned()
            }
            reference if reference.starts_with("//") => format!("{scheme}:{reference}"),
            reference if reference.starts_with('/') => format!("{scheme}://{host}{reference}"),
            reference if reference.starts_with('?') => format!("{scheme}://{host}{path}{reference}"),
            reference => format!("{scheme}://{host}{folder}/{reference}"),
        }
    }

    /// Whether the name of a host is one of this machine or its network, as far as a name says it.
    fn is_local_name(host: &str) -> bool {
        let name = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
        match name.parse::<IpAddr>() {
            Ok(address) => is_local(address),
            Err(_) => {
                name == "localhost"
                    || [".localhost", ".local", ".internal", ".lan", ".home.arpa"]
                        .iter()
                        .any(|end| name.ends_with(end))
                    || !name.contains('.')
            }
        }
    }

    /// Whether an address is not one of the public internet.
    fn is_local(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => is_local_v4(v4),
            IpAddr::V6(v6) => match embedded(v6) {
                Some(v4) => is_local_v4(v4),
                None => v6.is_multicast() || v6.is_unique_local() || v6.is_unicast_link_local(),
            },
        }
    }

    /// The address of version 4 that an address leads to: `::ffff:127.0.0.1`, `::127.0.0.1` (which `::1` is among), that
    /// of NAT64 (RFC 6052) or 6to4 (RFC 3056).
    fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
        let of = |high: u16, low: u16| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
        match address.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(of(high, low)),
            _ => address.to_ipv4(),
        }
    }

    fn is_local_v4(address: Ipv4Addr) -> bool {
        let [a, b, c, _] = address.octets();
        address.is_private()
            || address.is_loopback()
            || address.is_link_local()
            || address.is_multicast()
            || a == 0
            // Of providers (RFC 6598), of protocols, for measurements (RFC 2544), and not in use.
            || (a == 100 && (64..128).contains(&b))
            || (a, b, c) == (192, 0, 0)
            || (a == 198 && (b == 18 || b == 19))
            || a >= 240
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn addresses_of_this_machine_and_its_network_are_known() {
            for (host, local) in [
                ("127.0.0.1", true),
                ("10.1.2.3", true),
                ("192.168.0.1", true),
                ("172.16.0.1", true),
                ("169.254.169.254", true),
                ("100.64.0.1", true),
                ("0.0.0.0", true),
                ("[::1]", true),
                ("[::]", true),
                ("[::ffff:10.0.0.1]", true),
                ("[fd00::1]", true),
                ("[fe80::1]", true),
                ("[64:ff9b::a00:1]", true),
                ("[2002:c0a8:1::1]", true),
                ("192.0.0.170", true),
                ("198.19.0.1", true),
                ("255.255.255.255", true),
                ("[64:ff9b::808:808]", false),
                ("192.0.1.1", false),
                ("localhost", true),
                ("LOCALHOST.", true),
                ("printer.local", true),
                ("router", true),
                ("8.8.8.8", false),
                ("[2606:4700::1111]", false),
                ("example.com", false),
            ] {
                assert_eq!(is_local_name(host), local, "{host}");
            }
        }

        #[test]
        fn redirects_are_joined_to_the_address() {
            let from: Uri = "https://example.com:8443/a/b?c=d".parse().expect("an address");
            for (reference, address) in [
                ("http://other.org/x", "http://other.org/x"),
                ("//other.org/x", "https://other.org/x"),
                ("/x?y", "https://example.com:8443/x?y"),
                ("x", "https://example.com:8443/a/x"),
                ("?e=f", "https://example.com:8443/a/b?e=f"),
                ("file:///etc/passwd", "file:///etc/passwd"),
            ] {
                assert_eq!(joined(&from, reference), address);
            }
            for wrong in [
                "file:///etc/passwd",
                "https://",
                "http://a:74477/",
                "http://a:b/",
                "http://a:0/",
                "http://u:p@",
            ] {
                assert!(parse(wrong, "x").is_err(), "{wrong}");
            }
            for right in ["http://a", "http://a:/x", "http://[::1]:8080/x", "http://user:1234@a:80/x@y:z"] {
                assert!(parse(right, "x").is_ok(), "{right}");
            }
            assert_eq!(parse("https://example.com/ä b#c", "x").expect("an address").path(), "/%C3%A4%20b");
        }

        #[test]
        fn an_address_is_shown_without_a_password() {
            for (address, shown) in [
                ("https://user:pass@example.com/x?y", "https://example.com/x?y"),
                ("https://user:p@ss@example.com", "https://example.com"),
                ("https://user@example.com:80#x", "https://example.com:80#x"),
                ("https://example.com/a@b", "https://example.com/a@b"),
                ("https://example.com?a@b", "https://example.com?a@b"),
                ("notes@home.txt", "notes@home.txt"),
                ("ftp://user:pass@x", "ftp://user:pass@x"),
            ] {
                assert_eq!(without_login(address), shown);
            }
        }

        /// What a name resolves to counts, not only the name.
        #[test]
        fn a_name_that_leads_inside_is_refused_after_a_redirect() {
            let is_local = Arc::new(AtomicBool::new(false));
            let request = |allows_local| Request {
                asked: "https://example.com",
                address: "http://localhost:1/".to_owned(),
                uri: "http://localhost:1/".parse().expect("an address"),
                allows_local,
                is_local: is_local.clone(),
            };
            let until = Instant::now() + TIME;
            let error = |allows| request(allows).send(until).err().expect("nobody answers").to_string();
            assert!(error(false).contains(IS_LOCAL), "{}", error(false));
            assert!(error(true).contains("no answer of localhost"), "{}", error(true));
            let guard =
                Guard { inner: DefaultResolver::default(), allows_local: false, is_local: is_local.clone() };
            let agent =
                Agent::with_parts(Agent::config_builder().build(), DefaultConnector::default(), guard);
            let error = agent.get("http://localhost:1/").call().expect_err("refused").to_string();
            assert!(error.contains(IS_LOCAL), "{error}");
        }
    }
}
