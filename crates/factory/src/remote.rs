//! Where a repository comes from, and by which transport git may go there.

use std::path::Path;

/// The address of a repository, checked so that git can neither read it as an option nor run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    url: String,
    transport: Transport,
}

/// The transports that git may use, one call at a time. Everything else is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// No other repository is talked to.
    None,
    /// https or ssh.
    Network,
    /// Another folder of this machine.
    Folder,
}

/// An address that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an address of a repository is refused: {why}")]
pub struct RemoteError {
    /// The rule it breaks. The address itself may hold a password and is not repeated.
    pub why: &'static str,
}

impl Remote {
    /// Checks an address as it stands in the configuration.
    pub fn parse(url: &str) -> Result<Self, RemoteError> {
        let refuse = |why| Err(RemoteError { why });
        if url.is_empty() || url.starts_with('-') || url.chars().any(|c| c.is_whitespace() || !domain::is_harmless(c)) {
            return refuse("it is empty, begins with `-`, or holds a space or a control character");
        }
        let transport = if let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("ssh://")) {
            check_host(rest.split('/').next().unwrap_or_default())?;
            Transport::Network
        } else if Path::new(url.strip_prefix("file://").unwrap_or(url)).is_absolute() {
            Transport::Folder
        } else if let Some((host, path)) = url.split_once(':') {
            // `ext::…` and other helpers have an empty or `:`-led path.
            if path.starts_with(':') || path.starts_with('-') || path.is_empty() || path.starts_with("//") {
                return refuse("only https, ssh, `user@host:path` and absolute paths are known");
            }
            check_host(host)?;
            Transport::Network
        } else {
            return refuse("only https, ssh, `user@host:path` and absolute paths are known");
        };
        Ok(Self { url: url.to_owned(), transport })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }
}

fn check_host(authority: &str) -> Result<(), RemoteError> {
    let host = authority.rsplit('@').next().unwrap_or_default();
    let plain = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']'));
    if host.is_empty() || host.starts_with('-') || authority.starts_with('-') || !plain {
        return Err(RemoteError { why: "its host is not a plain host name" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_git_could_run_are_refused() {
        for url in [
            "",
            "--upload-pack=touch canary",
            "-u",
            "ext::sh -c touch% canary",
            "ext::sh",
            "fd::3",
            "http://forge.example/a",
            "git://forge.example/a",
            "ftp://forge.example/a",
            "ssh://-oProxyCommand=touch/a",
            "ssh://x@-oProxyCommand=touch/a",
            "-oProxyCommand=touch:a",
            "host:-a",
            "https://$(touch)/a",
            "https://forge.example/a\nb",
            "relative/folder",
            "..",
        ] {
            assert!(Remote::parse(url).is_err(), "{url:?}");
        }
    }

    #[test]
    fn ordinary_addresses_pass() {
        for (url, transport) in [
            ("https://forge.example:8443/acme/notes.git", Transport::Network),
            ("ssh://git@forge.example/acme/notes.git", Transport::Network),
            ("git@forge.example:acme/notes.git", Transport::Network),
            ("/srv/git/notes.git", Transport::Folder),
            ("file:///srv/git/notes.git", Transport::Folder),
        ] {
            assert_eq!(Remote::parse(url).map(|remote| remote.transport()), Ok(transport), "{url}");
        }
    }

    #[test]
    fn a_refusal_never_repeats_a_password() {
        let error = Remote::parse("http://user:hunter2@forge.example/a").unwrap_err();

        assert!(!error.to_string().contains("hunter2"));
    }
}
