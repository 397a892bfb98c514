//! Allowed host names: a web page that points its own name at the server must not act for its visitor (DNS rebinding).

use std::collections::BTreeSet;
use std::net::IpAddr;

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, header};

use crate::problem::Problem;

/// The names and addresses of the server.
pub(crate) struct AllowedHosts {
    bound: IpAddr,
    names: BTreeSet<String>,
}

impl AllowedHosts {
    /// Loopback, the listen address, and `allowed`.
    pub(crate) fn new(bound: IpAddr, allowed: &[String]) -> Self {
        let names = allowed.iter().map(|name| plain(name)).chain(["localhost".to_owned()]).collect();
        Self { bound, names }
    }

    /// Rejects a request for another host, and a change requested by a page of another site. `local` is the server's
    /// address of its connection.
    pub(crate) fn check(&self, request: &Parts, local: IpAddr) -> Result<(), Problem> {
        let Some(called) = authority(request) else { return Err(Problem::foreign_host("")) };
        if !self.knows(called.host(), local) {
            return Err(Problem::foreign_host(called.host()));
        }
        let changes = !is_read(&request.method);
        match request.headers.get(header::ORIGIN) {
            Some(origin) if changes && !is_same_site(origin.as_bytes(), &called) => {
                Err(Problem::foreign_origin(&String::from_utf8_lossy(origin.as_bytes())))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Rejects a name or an address that is not the server's.
    pub(crate) fn check_name(&self, host: &str, local: IpAddr) -> Result<(), Problem> {
        if self.knows(host, local) { Ok(()) } else { Err(Problem::foreign_host(host)) }
    }

    fn knows(&self, host: &str, local: IpAddr) -> bool {
        let host = plain(host);
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_ours = |address: IpAddr| {
            let address = address.to_canonical();
            address.is_loopback() || address == local.to_canonical() || address == self.bound.to_canonical()
        };
        self.names.contains(&host) || address.is_ok_and(is_ours)
    }
}

/// Requires that a change comes from a page of this server itself. A browser sends the cookie of a session with the
/// requests of other pages too, so that silence is no proof.
pub(crate) fn check_same_origin(request: &Parts) -> Result<(), Problem> {
    if is_read(&request.method) {
        return Ok(());
    }
    let origin = request.headers.get(header::ORIGIN).map(|origin| origin.as_bytes());
    let is_own = match request.headers.get(FETCH_SITE) {
        Some(site) => site == SAME_ORIGIN,
        None => origin.zip(authority(request)).is_some_and(|(origin, called)| is_same_site(origin, &called)),
    };
    let shown = || origin.map_or("an unknown origin".into(), String::from_utf8_lossy);
    if is_own { Ok(()) } else { Err(Problem::foreign_origin(&shown())) }
}

/// Rejects a sign-in by a page of another origin; programs send none.
pub(crate) fn check_sign_in(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(FETCH_SITE) {
        Some(site) if site != SAME_ORIGIN => Err(Problem::foreign_origin("another origin")),
        Some(_) | None => Ok(()),
    }
}

/// Tells the relation of a page to the server that it calls. Pages cannot set it.
const FETCH_SITE: &str = "sec-fetch-site";
const SAME_ORIGIN: &str = "same-origin";

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The host of the request: the request line takes precedence over the header.
pub(crate) fn authority(request: &Parts) -> Option<Authority> {
    if let Some(authority) = request.uri.authority() {
        return Some(authority.clone());
    }
    request.headers.get(header::HOST)?.to_str().ok()?.parse().ok()
}

fn is_same_site(origin: &[u8], called: &Authority) -> bool {
    let origin = String::from_utf8_lossy(origin);
    let site = origin.split_once("://").map(|(_, site)| site);
    site.is_some_and(|site| site.eq_ignore_ascii_case(called.as_str()))
}

fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, headers: &[(&str, &str)]) -> Result<(), u16> {
        let mut request = http::Request::builder().method(method).uri("/api/fleet/jobs");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let hosts = AllowedHosts::new("0.0.0.0".parse().unwrap(), &["Giga.Example".to_owned()]);
        hosts.check(&parts, "192.0.2.7".parse().unwrap()).map_err(|problem| problem.into_body().status)
    }

    // [attack: CSRF, DNS rebinding]
    #[test]
    fn only_allowed_host_names_are_served() {
        let called = |host: &str| asked(Method::GET, &[("host", host)]);

        for host in ["localhost:7878", "127.0.0.1", "[::1]:7878", "192.0.2.7:7878", "giga.example", "GIGA.EXAMPLE."] {
            assert_eq!(called(host), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "192.0.2.8", "127.0.0.1.evil.example", "a@localhost.x"] {
            assert_eq!(called(host), Err(403), "{host}");
        }
        assert_eq!(asked(Method::GET, &[]), Err(403));
    }

    // [T4] [attack: CSRF, DNS rebinding]
    #[test]
    fn a_session_writes_only_from_its_own_page() {
        let from = |method: Method, headers: &[(&str, &str)]| {
            let mut request = http::Request::builder().method(method).uri("/").header("host", "localhost:7878");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            check_same_origin(&parts).is_ok()
        };
        let (own, other) = (("origin", "http://localhost:7878"), ("origin", "http://localhost:3000"));

        assert!(from(Method::POST, &[("sec-fetch-site", "same-origin")]));
        assert!(from(Method::DELETE, &[own]));
        for site in ["same-site", "cross-site", "none", ""] {
            assert!(!from(Method::POST, &[("sec-fetch-site", site)]), "{site}");
            assert!(!from(Method::POST, &[own, ("sec-fetch-site", site)]), "{site}");
        }
        assert!(!from(Method::POST, &[other]) && !from(Method::POST, &[]));
        assert!(from(Method::GET, &[other, ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn pages_of_other_sites_may_read_but_not_write() {
        let from = |method: Method, origin: &str| asked(method, &[("host", "localhost:7878"), ("origin", origin)]);

        assert_eq!(from(Method::POST, "http://localhost:7878"), Ok(()));
        assert_eq!(from(Method::GET, "https://evil.example"), Ok(()));
        for origin in ["https://evil.example", "http://localhost:9999", "null"] {
            assert_eq!(from(Method::POST, origin), Err(403), "{origin}");
            assert_eq!(from(Method::DELETE, origin), Err(403), "{origin}");
        }
    }
}
