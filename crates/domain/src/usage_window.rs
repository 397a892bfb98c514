//! Usage windows of engines: a limit of a credential that resets by itself [B1].

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::EngineName;
use crate::time::Timestamp;

/// An exhausted usage window. `Display` describes what the job waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageWindow {
    /// The engine of the credential.
    pub engine: EngineName,
    /// The engine's name for the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// When the window resets or is retried; absent if an operator has to resume the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether the credential's account has no credit left. Such a window does not reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
}

impl UsageWindow {
    /// The reached limit, for an agent: without the remedies for operators.
    pub(crate) fn limit(&self) -> String {
        let window = self.window.as_ref().map_or_else(String::new, |window| format!("/{window}"));
        format!("{}{window}", self.engine)
    }

    /// What the job waits for, with the command that resumes the credential if an operator has to.
    pub fn text_for(&self, credential: Option<&str>) -> String {
        let resume = match credential {
            Some(credential) => format!("`giga credential resume {credential}`"),
            None => "`giga credential resume LOGIN` (`giga factory list` shows the login)".to_owned(),
        };
        if self.exhausted {
            return format!("waiting for credit of {}: add some, then resume it with {resume}", self.engine);
        }
        let limit = self.limit();
        match self.until {
            Some(until) => format!("waiting for {limit} to reset at {}", until.to_the_minute()),
            None => format!("{limit} is suspended until an administrator resumes it with {resume}"),
        }
    }
}

impl fmt::Display for UsageWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text_for(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_window_describes_what_the_job_waits_for() {
        let window = |window: Option<&str>, until| UsageWindow {
            engine: "claude".parse().unwrap(),
            window: window.map(str::to_owned),
            until,
            exhausted: false,
        };
        let at = "2026-11-16T14:05:59Z".parse().unwrap();

        assert_eq!(
            window(Some("five_hour"), Some(at)).to_string(),
            "waiting for claude/five_hour to reset at 2026-11-16 14:05 UTC"
        );
        assert_eq!(
            window(None, None).to_string(),
            "claude is suspended until an administrator resumes it with `giga credential resume LOGIN` (`giga factory list` shows the login)"
        );
        assert_eq!(
            UsageWindow { exhausted: true, ..window(None, None) }.text_for(Some("mac/claude")),
            "waiting for credit of claude: add some, then resume it with `giga credential resume mac/claude`"
        );
    }
}
