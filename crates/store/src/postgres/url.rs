//! The address of a database and its TLS settings.

use std::fmt;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::open_error::OpenError;

/// The address of a database: `postgres://user:password@host:5432/name`, with libpq's parameters.
///
/// `sslmode=require` (or `verify-ca`, `verify-full`) encrypts and always verifies the server's certificate: against
/// the public authorities, or against that of `sslrootcert`. `fsync=off` accepts a server that does not flush. The
/// password is never displayed.
#[derive(Clone)]
pub struct Url {
    pub(super) config: Config,
    pub(super) encryption: Encryption,
    pub(super) flushing: Flushing,
}

/// Whether the connection uses TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Encryption {
    Plain,
    /// TLS, with the server's certificate verified against the public authorities.
    Public,
    /// TLS, with the server's certificate verified against the authority in this file.
    Private(PathBuf),
}

/// Whether the server must flush commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flushing {
    Required,
    Waived,
}

impl Url {
    /// Parses a URL. Errors do not repeat it, because it may contain a password.
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        let wrong = |why: &str| OpenError::Url { why: why.to_owned() };
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err(wrong("it must begin with `postgres://`"));
        }
        let (address, parameters) = text.split_once('?').unwrap_or((text, ""));
        let mut encrypted = false;
        let (mut authority, mut flushing, mut kept) = (None, Flushing::Required, Vec::new());
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("sslmode", "require" | "verify-ca" | "verify-full") => encrypted = true,
                ("sslmode", "disable" | "allow" | "prefer") => {}
                ("sslmode", _) => return Err(wrong("sslmode must be `disable` or `require`")),
                ("sslrootcert", path) => authority = Some(PathBuf::from(path)),
                ("fsync", "off") => flushing = Flushing::Waived,
                ("fsync", _) => {
                    return Err(wrong("fsync can only be `off` here: otherwise the server's setting applies"));
                }
                _ => kept.push(parameter),
            }
        }
        let encryption = match (encrypted, authority) {
            (true, Some(authority)) => Encryption::Private(authority),
            (true, None) => Encryption::Public,
            (false, Some(_)) => return Err(wrong("sslrootcert needs sslmode=require")),
            (false, None) => Encryption::Plain,
        };
        let mut config: Config = format!("{address}?{}", kept.join("&"))
            .parse()
            .map_err(|error: tokio_postgres::Error| wrong(&super::errors::chain(&error)))?;
        config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
        // Of several hosts, the one that accepts writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(Self { config, encryption, flushing })
    }

    /// Reports whether the traffic stays on this machine or is encrypted.
    pub fn is_private(&self) -> bool {
        self.encryption != Encryption::Plain || self.is_local()
    }

    /// Reports whether the server is on this machine.
    pub fn is_local(&self) -> bool {
        let is_here = |host: &Host| match host {
            Host::Tcp(name) => {
                name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            #[cfg(unix)]
            Host::Unix(_) => true,
        };
        self.config.get_hosts().iter().all(is_here)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            let password = if self.config.get_password().is_some() { ":…" } else { "" };
            write!(f, "{user}{password}@")?;
        }
        let ports = self.config.get_ports();
        for (n, host) in self.config.get_hosts().iter().enumerate() {
            f.write_str(if n > 0 { "," } else { "" })?;
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{}", path.display())?,
            }
            if let Some(port) = ports.get(n).or(ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

impl PartialEq for Url {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config && self.encryption == other.encryption && self.flushing == other.flushing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: secrets in logs, events, artifacts]
    #[test]
    fn a_password_is_never_displayed() {
        let url = Url::parse("postgres://ada:s3cret@db.example:6432/fleet?application_name=x").unwrap();

        assert_eq!(url.to_string(), "postgres://ada:…@db.example:6432/fleet");
        assert!(!format!("{url:?}").contains("s3cret"));
    }

    #[test]
    fn sslmode_sets_encryption_and_always_verifies() {
        let encryption = |parameters: &str| Url::parse(&format!("postgres://h/d{parameters}")).unwrap().encryption;

        assert_eq!(encryption(""), Encryption::Plain);
        assert_eq!(encryption("?sslmode=prefer"), Encryption::Plain);
        assert_eq!(encryption("?sslmode=require"), Encryption::Public);
        assert_eq!(encryption("?sslmode=verify-full&sslrootcert=/ca.pem"), Encryption::Private("/ca.pem".into()));
    }

    #[test]
    fn only_plain_text_to_another_host_is_not_private() {
        let is_private = |text: &str| Url::parse(text).unwrap().is_private();

        assert!(is_private("postgres://localhost/d"));
        assert!(is_private("postgres://127.0.0.1/d"));
        assert!(is_private("postgres://db.example/d?sslmode=require"));
        assert!(!is_private("postgres://db.example/d"));
    }

    #[test]
    fn an_invalid_url_is_rejected_without_repeating_it() {
        for bad in [
            "mysql://u:s3cret@h/d",
            "postgres://u:s3cret@h/d?sslmode=maybe",
            "postgres://u:s3cret@h/d?sslrootcert=/ca.pem",
            "postgres://u:s3cret@h/d?fsync=on",
            "postgres://u:s3cret@h:x/d",
            "postgres://u:s3cret@h/d?nonsense=1",
        ] {
            let error = Url::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
