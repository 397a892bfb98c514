//! The author of a commit.

use serde::Deserialize;

use crate::names::{escape_for_terminal, is_terminal_safe};

/// The author of the factory's commits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawAuthor")]
pub struct CommitAuthor {
    name: String,
    email: String,
}

/// A name or address that would break git's line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be the author of a commit: it is empty, or holds `<`, `>` or a control character")]
pub struct CommitAuthorError(String);

impl CommitAuthor {
    /// The author `name <email>`.
    pub fn new(name: &str, email: &str) -> Result<Self, CommitAuthorError> {
        for text in [name, email] {
            let broken = text.trim().is_empty() || text.chars().any(|c| matches!(c, '<' | '>') || !is_terminal_safe(c));
            if broken {
                return Err(CommitAuthorError(escape_for_terminal(text)));
            }
        }
        Ok(Self { name: name.to_owned(), email: email.to_owned() })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address.
    pub fn email(&self) -> &str {
        &self.email
    }
}

impl Default for CommitAuthor {
    fn default() -> Self {
        Self { name: "Gigafactory".to_owned(), email: "gigafactory@localhost".to_owned() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAuthor {
    name: String,
    email: String,
}

impl TryFrom<RawAuthor> for CommitAuthor {
    type Error = CommitAuthorError;

    fn try_from(raw: RawAuthor) -> Result<Self, CommitAuthorError> {
        Self::new(&raw.name, &raw.email)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_that_would_forge_a_header_is_refused() {
        for name in ["", " ", "a <b>", "a\nparent 0"] {
            assert!(CommitAuthor::new(name, "a@b").is_err(), "{name:?}");
            assert!(CommitAuthor::new("a", name).is_err(), "{name:?}");
        }
    }
}
