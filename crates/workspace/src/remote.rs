//! The URL of a repository, and its allowed transports.

use std::path::Path;

/// The URL of a repository, validated so that git can neither read it as an option nor run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    url: String,
    transport: Transport,
    login: Option<Login>,
}

/// A user and a password, which are never on a command line.
#[derive(Clone, PartialEq, Eq)]
struct Login {
    user: String,
    password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login(…)")
    }
}

/// The transports that git may use, per call. Everything else is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// No other repository.
    None,
    /// https or ssh.
    Network,
    /// Another directory of this machine.
    Folder,
}

/// An invalid URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an address of a repository is refused: {why}")]
pub struct RemoteError {
    /// The rule it breaks. The URL itself may hold a password and is not repeated.
    pub why: &'static str,
}

impl Remote {
    /// Validates a URL of the configuration.
    pub fn parse(url: &str) -> Result<Self, RemoteError> {
        let refuse = |why| Err(RemoteError { why });
        if url.is_empty()
            || url.starts_with('-')
            || url.chars().any(|c| c.is_whitespace() || !domain::is_terminal_safe(c))
        {
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
        let (url, login) = without_login(url);
        Ok(Self { url, transport, login })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The URL for people: without a user of https, which may be a token.
    pub fn shown(&self) -> String {
        let shown = || {
            let rest = self.url.strip_prefix("https://")?;
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let (_, host) = authority.rsplit_once('@')?;
            Some(format!("https://{host}{path}"))
        };
        shown().unwrap_or_else(|| self.url.clone())
    }

    /// The remote at a relative URL, `../other.git`, with the same credential.
    pub(crate) fn beside(&self, relative: &str) -> Option<Self> {
        let mut base = self.url.trim_end_matches('/').to_owned();
        let mut rest = relative;
        loop {
            if let Some(after) = rest.strip_prefix("./") {
                rest = after;
            } else if let Some(after) = rest.strip_prefix("../") {
                let cut = base.rfind(['/', ':'])?;
                base.truncate(cut);
                rest = after;
            } else {
                break;
            }
        }
        let whole = Self::parse(&format!("{base}/{rest}")).ok()?;
        (!rest.contains("..")).then_some(Self { login: self.login.clone(), ..whole })
    }

    /// The user and the password of the URL.
    pub fn login(&self) -> Option<(&str, &str)> {
        self.login.as_ref().map(|login| (login.user.as_str(), login.password.as_str()))
    }

    /// Its path on this machine, if it is local.
    pub fn folder(&self) -> Option<&Path> {
        (self.transport() == Transport::Folder).then(|| Path::new(self.url().trim_start_matches("file://")))
    }

    /// How it is reached.
    pub fn transport(&self) -> Transport {
        self.transport
    }
}

/// Splits `https://user:password@host/…` into `https://host/…` and the credential. A user alone is no secret, and
/// stays.
fn without_login(url: &str) -> (String, Option<Login>) {
    let parts = || {
        let rest = url.strip_prefix("https://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (userinfo, host) = authority.rsplit_once('@')?;
        let (user, password) = userinfo.split_once(':')?;
        let login = Login { user: decoded(user)?, password: decoded(password)? };
        Some((format!("https://{host}{path}"), login))
    };
    parts().map_or_else(|| (url.to_owned(), None), |(url, login)| (url, Some(login)))
}

/// Decodes `%2F` and the like. A line break would forge git's next line.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, taken) = match (first, after) {
            (b'%', [high, low, ..]) => {
                let digits = [*high, *low];
                (u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?, 3)
            }
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    String::from_utf8(bytes).ok().filter(|text| text.chars().all(domain::is_terminal_safe))
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
    fn a_password_leaves_the_address_and_a_user_alone_stays() {
        let secret = Remote::parse("https://me:hunter%2F2@forge.example/a.git").unwrap();
        let open = Remote::parse("ssh://git@forge.example/a.git").unwrap();

        assert_eq!((secret.url(), secret.login()), ("https://forge.example/a.git", Some(("me", "hunter/2"))));
        assert!(!format!("{secret:?}").contains("hunter"), "{secret:?}");
        assert_eq!((open.url(), open.login()), ("ssh://git@forge.example/a.git", None));
        assert_eq!(open.shown(), "ssh://git@forge.example/a.git");
        let token = Remote::parse("https://ghp_hunter2@forge.example/a.git").unwrap();
        assert_eq!(token.shown(), "https://forge.example/a.git");
    }

    #[test]
    fn an_address_beside_another_keeps_its_login_and_climbs_no_higher_than_its_host() {
        let remote = Remote::parse("https://me:x@forge.example/acme/notes.git").unwrap();

        let beside = remote.beside("../other.git").unwrap();

        assert_eq!((beside.url(), beside.login()), ("https://forge.example/acme/other.git", Some(("me", "x"))));
        assert_eq!(remote.beside("../../../../../etc"), None);
        assert_eq!(remote.beside("../a/../b"), None);
    }

    // [attack: secrets in logs, events, artifacts]
    #[test]
    fn a_refusal_never_repeats_a_password() {
        let error = Remote::parse("http://user:hunter2@forge.example/a").unwrap_err();

        assert!(!error.to_string().contains("hunter2"));
    }
}
