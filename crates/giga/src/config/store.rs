//! Where a coordinator keeps its jobs.

use std::ops::Deref;
use std::str::FromStr;

use serde::Deserialize;
use store::StoreUrl;

use super::setting::DisplayedValue;

/// Where a coordinator keeps its jobs: `sqlite`, or `postgres://…`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct StoreChoice(StoreUrl);

impl Default for StoreChoice {
    /// A file in the data directory.
    fn default() -> Self {
        Self(StoreUrl::sqlite())
    }
}

impl Deref for StoreChoice {
    type Target = StoreUrl;

    fn deref(&self) -> &StoreUrl {
        &self.0
    }
}

impl FromStr for StoreChoice {
    type Err = String;

    /// The error does not repeat the value: it may hold a password.
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for StoreChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl DisplayedValue for StoreChoice {
    fn shown(&self) -> String {
        self.0.to_string()
    }
}
