//! What outgoing webhooks send, and how [T6][D4].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::stage::StageName;

/// The format of a webhook's body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookFormat {
    /// A signed document for programs.
    #[default]
    Json,
    /// A text for Slack, and for chats that accept its webhooks.
    Slack,
}

impl WebhookFormat {
    /// Its name in `giga.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Slack => "slack",
        }
    }
}

/// What a webhook sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum WebhookTopic {
    /// Alerts that are raised and cleared.
    Alerts,
    /// Jobs, whenever their stage changes.
    Jobs,
    /// Jobs that enter one stage.
    Stage(StageName),
}

/// A text that names no topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no event of a webhook: write `alerts`, `jobs`, or `job.` and a stage, such as `job.shipped`")]
pub struct UnknownTopic(String);

impl FromStr for WebhookTopic {
    type Err = UnknownTopic;

    fn from_str(text: &str) -> Result<Self, UnknownTopic> {
        let unknown = || UnknownTopic(crate::names::escape_for_terminal(text));
        match (text, text.strip_prefix("job.")) {
            ("alerts", _) => Ok(Self::Alerts),
            ("jobs", _) => Ok(Self::Jobs),
            (_, Some(stage)) => stage.parse().map(Self::Stage).map_err(|_| unknown()),
            (_, None) => Err(unknown()),
        }
    }
}

impl TryFrom<String> for WebhookTopic {
    type Error = UnknownTopic;

    fn try_from(text: String) -> Result<Self, UnknownTopic> {
        text.parse()
    }
}

impl From<WebhookTopic> for String {
    fn from(topic: WebhookTopic) -> Self {
        topic.to_string()
    }
}

impl fmt::Display for WebhookTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alerts => f.write_str("alerts"),
            Self::Jobs => f.write_str("jobs"),
            Self::Stage(stage) => write!(f, "job.{stage}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [T6]
    #[test]
    fn topics_are_read_as_they_are_written() {
        for text in ["alerts", "jobs", "job.shipped", "job.dead_letter", "job.queued"] {
            assert_eq!(text.parse::<WebhookTopic>().unwrap().to_string(), text);
        }
        for text in ["", "alert", "job", "job.", "job.lost", "shipped"] {
            assert!(text.parse::<WebhookTopic>().is_err(), "{text}");
        }
    }
}
