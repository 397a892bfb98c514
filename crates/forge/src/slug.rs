//! The name of a repository on a forge: `owner/name`.

use std::fmt;

use serde::Deserialize;

/// The name of a repository on a forge, validated for use in a path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Slug {
    owner: String,
    name: String,
}

/// An invalid repository name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not name a repository on a forge: write `owner/name`")]
pub struct SlugError(String);

impl Slug {
    /// Who owns it.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The repository of a URL, if it is at `host`.
    pub fn of_url(url: &str, host: &str) -> Option<Self> {
        let rest = match url.split_once("://") {
            Some(("https" | "ssh", rest)) => rest.split_once('/')?,
            Some(_) => return None,
            None => url.split_once(':')?,
        };
        let (authority, path) = rest;
        let name = authority.rsplit('@').next()?.split(':').next()?;
        if !name.eq_ignore_ascii_case(host) {
            return None;
        }
        path.strip_suffix(".git").unwrap_or(path).trim_matches('/').parse().ok()
    }
}

impl std::str::FromStr for Slug {
    type Err = SlugError;

    fn from_str(text: &str) -> Result<Self, SlugError> {
        let is_plain = |part: &str| {
            let is_name = part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
            !part.is_empty() && part.len() <= 100 && is_name && !part.starts_with(['.', '-'])
        };
        match text.split_once('/') {
            Some((owner, name)) if is_plain(owner) && is_plain(name) => {
                Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
            }
            _ => Err(SlugError(domain::escape_for_terminal(text))),
        }
    }
}

impl TryFrom<String> for Slug {
    type Error = SlugError;

    fn try_from(text: String) -> Result<Self, SlugError> {
        text.parse()
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_an_address_leads_to_the_same_name() {
        for url in [
            "https://github.com/acme/notes.git",
            "https://github.com/acme/notes",
            "https://bot@GitHub.com/acme/notes/",
            "ssh://git@github.com:22/acme/notes.git",
            "git@github.com:acme/notes.git",
        ] {
            assert_eq!(
                Slug::of_url(url, "github.com").map(|slug| slug.to_string()).as_deref(),
                Some("acme/notes"),
                "{url}"
            );
        }
    }

    #[test]
    fn addresses_elsewhere_are_not_on_the_forge() {
        for url in [
            "/srv/git/notes.git",
            "file:///srv/acme/notes",
            "https://github.com.evil.example/acme/notes",
            "https://evil.example/github.com/notes",
            "git@example.org:acme/notes",
            "https://github.com/notes",
            "https://github.com/a/b/c",
        ] {
            assert_eq!(Slug::of_url(url, "github.com"), None, "{url}");
        }
    }

    // [attack: hostile names]
    #[test]
    fn names_that_could_change_a_path_are_refused() {
        for text in ["", "notes", "a/b/c", "../x", "a/..", "a/b?x=1", "a/b#c", "a b/c", "-a/b", "a/é"] {
            assert!(text.parse::<Slug>().is_err(), "{text}");
        }
    }
}
