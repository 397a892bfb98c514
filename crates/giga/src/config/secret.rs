//! A text that never shows itself.

use std::fmt;

use serde::Deserialize;

/// A token. Neither `Debug` nor a listing gives it away.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    /// A secret with this text.
    pub(crate) fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The text, for the one who is asked for it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// What may be shown: `giga_adm_…`.
    pub(crate) fn kind(&self) -> String {
        let mut parts = self.0.split('_');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("giga"), Some(kind), Some(_)) if kind.len() <= 8 && kind.chars().all(|c| c.is_ascii_lowercase()) => {
                format!("giga_{kind}_…")
            }
            _ => "…".to_owned(),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
