//! Repository identity, independent of the clone's location [F3].

use std::fmt::Write as _;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::names::RepoIdentity;

/// Default ports by URL scheme.
const DEFAULT_PORTS: [(&str, &str); 4] = [("https", "443"), ("http", "80"), ("ssh", "22"), ("git", "9418")];

/// Hosts that serve ssh on the https port, and their forges.
const SSH_OVER_HTTPS: [(&str, &str); 3] = [
    ("ssh.github.com:443", "github.com"),
    ("altssh.gitlab.com:443", "gitlab.com"),
    ("altssh.bitbucket.org:443", "bitbucket.org"),
];

/// Longer identities are truncated and get a digest.
const LEN_MAX: usize = 300;

impl RepoIdentity {
    /// The identity of a remote's URL: without scheme, user, password, default port and `.git`, with a lower-case host.
    /// `git@host:acme/notes.git` and `https://host/acme/notes` are the same repository. `None` for a local path and for
    /// a text that is not a URL.
    pub fn of_url(url: &str) -> Option<Self> {
        let (scheme, authority, path) = match url.split_once("://") {
            Some(("file", _)) => return None,
            Some((scheme, rest)) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (scheme, authority, path)
            }
            // `user@host:path`: ssh, where no slash precedes the colon.
            None => {
                let (authority, path) = url.split_once(':').filter(|(host, _)| !host.contains('/'))?;
                ("ssh", authority, path)
            }
        };
        let host = authority.rsplit('@').next()?.to_ascii_lowercase();
        let default = DEFAULT_PORTS.iter().find(|(known, _)| *known == scheme).map(|(_, port)| format!(":{port}"));
        let host = default.and_then(|port| host.strip_suffix(&port).map(str::to_owned)).unwrap_or(host);
        let forge = SSH_OVER_HTTPS.iter().find(|(alias, _)| *alias == host).map(|(_, forge)| (*forge).to_owned());
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
        if host.is_empty() || path.is_empty() {
            return None;
        }
        Self::made_of(&format!("{}/{}", forge.unwrap_or(host), escaped(path)))
    }

    /// The identity of a local repository: `host` names the machine, `path` is absolute.
    pub fn local(host: &str, path: &str) -> Option<Self> {
        Self::made_of(&format!("file://{}{}", escaped(host), escaped(&path.replace('%', "%25"))))
    }

    /// A unique file name.
    pub fn file_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
        let readable: String = self.as_str().trim_start_matches("file://").chars().take(100).map(plain).collect();
        format!("{}-{}", readable.trim_start_matches(['.', '-', '_']), digest(self.as_str()))
    }

    fn made_of(text: &str) -> Option<Self> {
        if text.len() <= LEN_MAX {
            return Self::from_str(text).ok();
        }
        // Escaped text is ASCII, so that every byte is a character boundary.
        Self::from_str(&format!("{}~{}", text.get(..LEN_MAX - 20)?, digest(text))).ok()
    }
}

fn digest(text: &str) -> String {
    let mut shown = String::new();
    for byte in &Sha256::digest(text.as_bytes())[..8] {
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}

/// Percent-encodes characters that an identity does not allow.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'~' | b'/' | b'+' | b':' | b'%' => {
                shown.push(char::from(byte));
            }
            other => {
                let _ = write!(shown, "%{other:02X}");
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_remote_have_one_identity() {
        for url in [
            "https://github.com/acme/notes",
            "https://github.com/acme/notes.git",
            "https://GitHub.com:443/acme/notes.git/",
            "https://me:hunter2@github.com/acme/notes.git",
            "https://ghp_token@github.com/acme/notes",
            "http://github.com:80/acme/notes",
            "git@github.com:acme/notes.git",
            "github.com:/acme/notes",
            "ssh://git@github.com/acme/notes.git",
            "ssh://git@github.com:22/acme/notes",
            "ssh://git@ssh.github.com:443/acme/notes.git",
        ] {
            assert_eq!(RepoIdentity::of_url(url).unwrap().as_str(), "github.com/acme/notes", "{url}");
        }
    }

    #[test]
    fn another_port_host_or_path_is_another_repository() {
        let of = |url: &str| RepoIdentity::of_url(url).map(String::from);

        assert_eq!(of("https://forge.example:8443/acme/notes"), Some("forge.example:8443/acme/notes".to_owned()));
        assert_eq!(of("https://github.com/acme/Notes"), Some("github.com/acme/Notes".to_owned()));
        assert_eq!(of("ssh://git@[::1]:2222/notes"), Some("[::1]:2222/notes".to_owned()));
        for path in ["/srv/git/notes.git", "file:///srv/git/notes.git", "notes", "acme/notes", "https://github.com"] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn a_path_belongs_to_its_machine() {
        let on = |host: &str| RepoIdentity::local(host, "/srv/my notes").unwrap();

        assert_eq!(on("9f3a").as_str(), "file://9f3a/srv/my%20notes");
        assert_ne!(on("9f3a"), on("0b1c"));
        assert_ne!(on("9f3a").file_name(), on("0b1c").file_name());
        assert!(on("9f3a").file_name().starts_with("9f3a_srv_my_20notes-"), "{}", on("9f3a").file_name());
    }

    #[test]
    fn a_long_path_is_truncated_and_stays_distinct() {
        let long = |last: char| RepoIdentity::local("h", &format!("/{}{last}", "d".repeat(5_000))).unwrap();

        assert!(long('a').as_str().len() <= LEN_MAX && long('a').file_name().len() < 200);
        assert_ne!(long('a'), long('b'));
    }
}
