//! The cookie of a browser session: one half of it.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};

/// Cookies of our name that are tried: another page of the host may have set some.
const TRIED_MAX: usize = 4;

/// The cookie's name and attributes.
#[derive(Debug, Clone)]
pub(crate) struct SessionCookie {
    name: String,
    is_secure: bool,
}

impl SessionCookie {
    /// The cookie of a server on `port`. Browsers have one jar for all ports of a host: without TLS its name has the
    /// port, so that two coordinators on one machine do not sign each other out.
    pub(crate) fn new(is_secure: bool, port: u16) -> Self {
        let name = if is_secure { "__Host-giga".to_owned() } else { format!("giga-{port}") };
        Self { name, is_secure }
    }

    /// Whether browsers use TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The header that sets it.
    pub(crate) fn set(&self, secret: &str, age: Duration) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let (name, seconds) = (&self.name, age.as_secs());
        let text = format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The header that removes it.
    pub(crate) fn remove(&self) -> Option<HeaderValue> {
        self.set("", Duration::ZERO)
    }

    /// The values that a request has for it.
    pub(crate) fn values<'h>(&self, headers: &'h HeaderMap) -> impl Iterator<Item = &'h str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.name).map(|(_, value)| value).take(TRIED_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_out_of_reach_of_scripts_and_other_sites() {
        let age = Duration::from_mins(1);

        let local = SessionCookie::new(false, 7878).set("x", age).unwrap();
        let secure = SessionCookie::new(true, 443).set("x", age).unwrap();

        assert_eq!(local, "giga-7878=x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict");
        assert_eq!(secure, "__Host-giga=x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure");
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "theme=dark; giga-7879=no; giga-7878=one".parse().unwrap());
        headers.append(header::COOKIE, "giga-7878=two".parse().unwrap());

        let cookie = SessionCookie::new(false, 7878);

        assert_eq!(cookie.values(&headers).collect::<Vec<_>>(), ["one", "two"]);
    }
}
