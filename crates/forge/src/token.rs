//! The forge's token: read when it is needed, sent only to the forge.

use std::fmt;
use std::path::PathBuf;

/// Where the token comes from. It is read again for every call, so that a short-lived one can be replaced on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// A file that holds nothing else.
    File(PathBuf),
    /// A variable of the factory's own environment, which no engine inherits.
    Variable(String),
}

/// A token. Neither `Debug` nor an error shows it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl TokenSource {
    /// The current token, or why there is none.
    pub(crate) fn read(&self) -> Result<Token, String> {
        let text = match self {
            Self::File(path) => {
                std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?
            }
            Self::Variable(name) => std::env::var(name).map_err(|_| format!("the variable {name} is not set"))?,
        };
        let text = text.trim();
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err("it is empty, or holds characters that no token has".to_owned());
        }
        Ok(Token(text.to_owned()))
    }
}

impl Token {
    /// The text, for the forge alone.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// A text of the forge without the token.
    pub(crate) fn scrubbed(&self, text: &str) -> String {
        text.replace(&self.0, "…")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_show_the_token() {
        let token = Token("ghp_canary".to_owned());

        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_eq!(token.scrubbed("bad credentials `ghp_canary`"), "bad credentials `…`");
    }

    #[test]
    fn a_token_file_is_read_anew_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let source = TokenSource::File(path.clone());

        assert!(source.read().is_err());
        for text in ["first\n", "second"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(source.read().unwrap().reveal(), text.trim());
        }
    }
}
