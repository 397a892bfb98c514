//! The address of a NATS server.

use std::fmt;
use std::str::FromStr;

use async_nats::ServerAddr;

/// One server, or several of one cluster: `nats://host:4222`, `tls://user:password@host`, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsUrl(Vec<ServerAddr>);

impl NatsUrl {
    pub(super) fn servers(&self) -> Vec<ServerAddr> {
        self.0.clone()
    }
}

impl FromStr for NatsUrl {
    type Err = String;

    /// The error does not repeat the value: it may hold a password.
    fn from_str(text: &str) -> Result<Self, String> {
        let why = || "write `nats://host:4222` or `tls://host`, several separated by commas".to_owned();
        let mut servers = Vec::new();
        for part in text.split(',').map(str::trim) {
            if !["nats://", "tls://"].iter().any(|scheme| part.starts_with(scheme)) {
                return Err(why());
            }
            let server: ServerAddr = part.parse().map_err(|_| why())?;
            if server.host().is_empty() {
                return Err(why());
            }
            servers.push(server);
        }
        Ok(Self(servers))
    }
}

impl fmt::Display for NatsUrl {
    /// Without credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, server) in self.0.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            let host = match server.host() {
                address if address.contains(':') => format!("[{address}]"),
                host => host.to_owned(),
            };
            write!(f, "{comma}{}://{host}:{}", server.scheme(), server.port())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let url: NatsUrl = "nats://fleet:secret@127.0.0.1:4222, tls://nats.example".parse().unwrap();

        assert_eq!(url.to_string(), "nats://127.0.0.1:4222,tls://nats.example:4222");
    }

    #[test]
    fn text_that_is_no_address_is_rejected_and_not_repeated() {
        for text in ["", "nats", "http://host", "nats://", "nats://a,secret", "host:4222"] {
            let error = text.parse::<NatsUrl>().unwrap_err();

            assert!(!error.contains("secret"), "{error}");
        }
    }
}
