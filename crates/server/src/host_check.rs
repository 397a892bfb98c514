//! Allowed host names: a web page that points its own name at the server must not act for its visitor (DNS rebinding).

use std::collections::BTreeSet;
use std::net::IpAddr;

use http::request::Parts;
use http::uri::Authority;
use http::{Method, header};

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
        let changes = !matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
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

/// The host of the request: the request line takes precedence over the header.
fn authority(request: &Parts) -> Option<Authority> {
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
