//! GitHub Issues as a tracker [T6].

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Clock, ItemStatus, ItemTracker, TrackerError, TrackerItem};
use parking_lot::Mutex;

use crate::config::ForgeConfig;
use crate::error::ForgeError;
use crate::forges::{ForgesError, github_api};
use crate::github::{Api, GitHub, TrustedAuthors};
use crate::slug::Slug;

/// Comments whose ids are remembered. Others are found by their mark.
const COMMENTS_MAX: usize = 1_000;

/// Where GitHub is, and how it is signed in to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IssueTrackerConfig {
    /// The base URL of the API; `https://api.github.com` when absent.
    pub api: Option<String>,
    /// A file with the token and nothing else.
    pub token_file: Option<PathBuf>,
    /// A variable of the own environment that holds the token.
    pub token_env: Option<String>,
}

/// Shows the status of jobs at GitHub issues.
pub struct IssueTracker {
    api: Arc<Api>,
    authors: Arc<TrustedAuthors>,
    /// The ids of our comments, by item.
    comments: Mutex<Vec<(String, u64)>>,
}

impl IssueTracker {
    /// Checks the configuration. Nothing is sent yet.
    pub fn open(config: &IssueTrackerConfig, clock: Arc<dyn Clock>) -> Result<Self, ForgesError> {
        let config = ForgeConfig {
            api: config.api.clone(),
            token_file: config.token_file.clone(),
            token_env: config.token_env.clone(),
            ..ForgeConfig::default()
        };
        let authors = Arc::new(TrustedAuthors { to: Vec::new(), mention: String::new() });
        Ok(Self { api: github_api(&config, clock)?, authors, comments: Mutex::default() })
    }

    fn known(&self, key: &str) -> Option<u64> {
        self.comments.lock().iter().find(|(known, _)| known == key).map(|(_, id)| *id)
    }

    fn remember(&self, key: &str, id: u64) {
        let mut comments = self.comments.lock();
        comments.retain(|(known, _)| known != key);
        if comments.len() >= COMMENTS_MAX {
            comments.remove(0);
        }
        comments.push((key.to_owned(), id));
    }
}

#[async_trait]
impl ItemTracker for IssueTracker {
    async fn show_status(&self, item: &TrackerItem, status: &ItemStatus) -> Result<(), TrackerError> {
        let (slug, issue) = place_of(&item.key).ok_or_else(|| TrackerError::Gone(not_an_issue(&item.key)))?;
        let github = GitHub::new(Arc::clone(&self.api), slug, Arc::clone(&self.authors));
        match github.show_item_status(issue, status, self.known(&item.key)).await {
            Ok(comment) => {
                self.remember(&item.key, comment);
                Ok(())
            }
            Err(error) => Err(tracker_error(&error)),
        }
    }
}

/// `acme/notes#12`
fn place_of(key: &str) -> Option<(Slug, u64)> {
    let (slug, number) = key.split_once('#')?;
    Some((slug.parse().ok()?, number.parse().ok()?))
}

fn not_an_issue(key: &str) -> String {
    format!("`{}` does not name an issue: write `owner/name#12`", domain::escape_for_terminal(key))
}

/// What an error means for the item: a request that GitHub rejects would be rejected again.
fn tracker_error(error: &ForgeError) -> TrackerError {
    let message = error.to_string();
    match error {
        ForgeError::RateLimited { wait } => TrackerError::Retryable { message, wait: Some(*wait) },
        ForgeError::Refused { status: 403, message: said, .. } if said.contains("locked") => {
            TrackerError::Gone(message)
        }
        ForgeError::Refused { status: 404 | 410 | 422, .. } => TrackerError::Gone(message),
        _ => TrackerError::Retryable { message, wait: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [T6]
    #[test]
    fn an_items_key_names_an_issue() {
        let (slug, number) = place_of("acme/notes#12").unwrap();

        assert_eq!((slug.to_string().as_str(), number), ("acme/notes", 12));
        for key in ["acme/notes", "acme/notes#", "acme#1", "../x#1", "acme/notes#1/../2", "a/b/c#1"] {
            assert!(place_of(key).is_none(), "{key}");
        }
    }
}
