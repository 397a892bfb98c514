//! `[tracker]`: trackers whose items become jobs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::{ProductId, ProfileRef, RepoName, TrackerName};
use serde::Deserialize;
use toml::Spanned;

use crate::failure::Failure;

use super::resolver::Resolver;
use super::setting::Setting;

/// The default label.
const LABEL: &str = "giga";

/// The trackers of a coordinator.
#[derive(Debug)]
pub(crate) struct TrackerConfig {
    /// GitHub Issues.
    pub(crate) github: Setting<Option<GithubTracker>>,
    /// Trackers that send signed webhooks.
    pub(crate) sources: Setting<BTreeMap<TrackerName, SignedTracker>>,
}

/// `[tracker]` in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tracker {
    github: Option<GithubTracker>,
    sources: Option<BTreeMap<TrackerName, SignedTracker>>,
}

/// `[tracker.github]`: issues with a label become jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GithubTracker {
    /// The base URL of the API; `https://api.github.com` when absent.
    pub(crate) api: Option<String>,
    /// A file with the token that comments on issues and closes them.
    token_file: Option<Spanned<PathBuf>>,
    /// A variable of the coordinator's environment with it.
    pub(crate) token_env: Option<String>,
    /// A file with the secret of the webhook.
    webhook_secret_file: Option<Spanned<PathBuf>>,
    /// The label that makes an issue a job; `giga` when absent.
    label: Option<String>,
    /// The logins whose issues become jobs; all when absent.
    pub(crate) allowed_authors: Option<Vec<String>>,
    /// The product of the jobs.
    pub(crate) product: Option<ProductId>,
    /// The profile of the jobs.
    pub(crate) profile: Option<ProfileRef>,
    /// The repositories whose issues count; all when absent.
    pub(crate) repos: BTreeMap<String, TrackedRepo>,
}

/// `[tracker.github.repos."acme/notes"]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TrackedRepo {
    /// The repository of its jobs; found by its address when absent.
    pub(crate) repo: Option<RepoName>,
    /// The product of its jobs.
    pub(crate) product: Option<ProductId>,
}

/// `[tracker.sources.NAME]`: signed webhooks of any other tracker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SignedTracker {
    /// A file with the secret of the webhook.
    webhook_secret_file: Option<Spanned<PathBuf>>,
    /// The product of the jobs.
    pub(crate) product: Option<ProductId>,
    /// The repository of the jobs.
    pub(crate) repo: Option<RepoName>,
    /// The profile of the jobs.
    pub(crate) profile: Option<ProfileRef>,
}

impl TrackerConfig {
    pub(super) fn resolve(resolver: &mut Resolver, mut file: Tracker) -> Result<Self, Failure> {
        if let Some(github) = &mut file.github {
            github.token_file = resolver.placed(github.token_file.take());
            github.webhook_secret_file = resolver.placed(github.webhook_secret_file.take());
            if github.token_file.is_some() && github.token_env.is_some() {
                return Err(Failure::usage("tracker.github: give either `token_file` or `token_env`, not both"));
            }
            if github.webhook_secret_file.is_none() {
                return Err(Failure::usage("tracker.github: `webhook_secret_file` is missing")
                    .hint("write the secret of GitHub's webhook to a file, and name the file"));
            }
        }
        for (name, source) in file.sources.iter_mut().flatten() {
            if name.as_str() == "github" {
                return Err(Failure::usage("tracker.sources.github: the name belongs to GitHub Issues")
                    .hint("configure it as [tracker.github]"));
            }
            source.webhook_secret_file = resolver.placed(source.webhook_secret_file.take());
            if source.webhook_secret_file.is_none() {
                return Err(Failure::usage(format!("tracker.sources.{name}: `webhook_secret_file` is missing"))
                    .hint("write a long random secret to a file, and name the file"));
            }
        }
        Ok(Self {
            github: resolver.table("tracker.github", file.github.map(Some), shown_github),
            sources: resolver.table("tracker.sources", file.sources, |sources| {
                let names: Vec<&str> = sources.keys().map(TrackerName::as_str).collect();
                if names.is_empty() { "-".to_owned() } else { names.join(", ") }
            }),
        })
    }
}

impl GithubTracker {
    pub(crate) fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(LABEL)
    }

    pub(crate) fn token_file(&self) -> Option<PathBuf> {
        self.token_file.as_ref().map(|path| path.get_ref().clone())
    }

    pub(crate) fn webhook_secret_file(&self) -> Option<PathBuf> {
        self.webhook_secret_file.as_ref().map(|path| path.get_ref().clone())
    }
}

impl SignedTracker {
    pub(crate) fn webhook_secret_file(&self) -> Option<PathBuf> {
        self.webhook_secret_file.as_ref().map(|path| path.get_ref().clone())
    }
}

/// The label, the place, and whether there is a token; never the token.
#[expect(clippy::ref_option, reason = "the listing lends the value")]
fn shown_github(github: &Option<GithubTracker>) -> String {
    let Some(github) = github else { return "-".to_owned() };
    let api = github.api.as_deref().unwrap_or("api.github.com");
    let has_token = github.token_file.is_some() || github.token_env.is_some();
    let status = if has_token { "" } else { ", without a token: no status is shown" };
    format!("label `{}` at {api}{status}", github.label())
}

#[cfg(test)]
mod tests {
    use super::super::of_file;

    // [T6]
    #[test]
    fn a_tracker_needs_a_secret() {
        let failure = |text: &str| of_file(text).unwrap_err().message().to_owned();

        assert_eq!(failure("[tracker.github]\nlabel = \"x\"\n"), "tracker.github: `webhook_secret_file` is missing");
        assert_eq!(failure("[tracker.sources.desk]\n"), "tracker.sources.desk: `webhook_secret_file` is missing");
        assert!(failure("[tracker.sources.github]\nwebhook_secret_file = \"x\"\n").contains("GitHub Issues"));
    }
}
