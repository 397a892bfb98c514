//! Address policy against server-side request forgery: an untrusted URL must not reach internal addresses.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;

use crate::http::TransportError;

/// The addresses that a transport may connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressPolicy {
    /// Any address, for URLs of an operator.
    Anywhere,
    /// https to public addresses only, for untrusted URLs.
    PublicOnly,
    /// The same, and http or https to loopback addresses, where an operator allows it.
    PublicOrLoopback,
}

impl AddressPolicy {
    /// Checks a URL before the request is sent. Resolved names are checked again.
    pub(crate) fn check(self, uri: &Uri) -> Result<(), TransportError> {
        if self == Self::Anywhere {
            return Ok(());
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let address = host.parse::<IpAddr>().ok();
        let is_loopback = address.is_some_and(|address| address.is_loopback()) || host == "localhost";
        if uri.scheme_str() != Some("https") && !(self == Self::PublicOrLoopback && is_loopback) {
            return Err(TransportError::new("it leads to an address that is not https"));
        }
        match address {
            Some(address) if !self.allows(address) => {
                Err(TransportError::new("it leads to an address that is not public"))
            }
            _ => Ok(()),
        }
    }

    fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Anywhere => true,
            Self::PublicOnly => is_public(address),
            Self::PublicOrLoopback => is_public(address) || address.is_loopback(),
        }
    }
}

/// Resolves names and returns only allowed addresses. Connections use exactly the returned addresses, which prevents
/// DNS rebinding.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    system: GaiResolver,
    reach: AddressPolicy,
}

impl Resolver {
    pub(crate) fn new(reach: AddressPolicy) -> Self {
        Self { system: GaiResolver::new(), reach }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (found, reach) = (self.system.call(name), self.reach);
        Box::pin(async move {
            let found: Vec<SocketAddr> = found.await?.collect();
            if !found.iter().all(|address| reach.allows(address.ip())) {
                return Err(io::Error::other("the name leads to an address that is not public"));
            }
            Ok(found.into_iter())
        })
    }
}

/// Whether an address is public: not loopback, not private, and not a translation of either.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = matches!(
        (a, b, c),
        (0 | 240..=255, _, _) | (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18 | 19, _)
    );
    !(is_special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    if let Some(inner) = inner_v4(address) {
        return is_public_v4(inner);
    }
    // Only 2000::/3 is allocated; parts of it are tunnels and documentation.
    let is_given_out = first & 0xe000 == 0x2000;
    let is_special = first == 0x2002 || (first == 0x2001 && (second < 0x0200 || second == 0x0db8)) || first == 0x3fff;
    is_given_out && !is_special
}

/// The embedded IPv4 address: mapped or translated.
fn inner_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, ..] = address.segments();
    let is_translated = (a, b, c, d) == (0x64, 0xff9b, 0, 0) && address.segments()[4..6] == [0, 0];
    let [.., w, x, y, z] = address.octets();
    address.to_ipv4_mapped().or_else(|| is_translated.then(|| Ipv4Addr::new(w, x, y, z)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: SSRF]
    #[test]
    fn only_public_addresses_are_accepted() {
        for inside in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.8.9.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:a9fe:a9fe",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for outside in
            ["1.1.1.1", "140.82.112.3", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"]
        {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
    }

    // [attack: SSRF]
    #[test]
    fn untrusted_urls_need_https_and_public_addresses() {
        let check = |address: &str| AddressPolicy::PublicOnly.check(&address.parse().unwrap());

        for address in
            ["http://logs.example/1", "https://127.0.0.1/1", "https://[::1]:8443/1", "https://169.254.169.254/"]
        {
            assert!(check(address).is_err(), "{address}");
        }
        assert_eq!(check("https://logs.example/1"), Ok(()));
        assert_eq!(AddressPolicy::Anywhere.check(&"http://127.0.0.1/".parse().unwrap()), Ok(()));
    }

    // [attack: SSRF]
    #[tokio::test]
    async fn a_name_with_an_internal_address_is_not_resolved() {
        for name in ["localhost", "127.1", "2130706433", "0x7f000001"] {
            let resolved = Resolver::new(AddressPolicy::PublicOnly).call(name.parse().unwrap()).await;
            assert!(resolved.is_err(), "{name}");
        }
        let resolved = Resolver::new(AddressPolicy::Anywhere).call("localhost".parse().unwrap()).await;
        assert!(resolved.is_ok_and(|found| found.len() > 0));
    }
}
