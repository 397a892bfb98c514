//! The trackers of a coordinator: their secrets, and where they show the status of jobs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use coordinator::{IssueRules, TrackerSource};
use domain::{Clock, ItemTracker, TrackerName};
use forge::{IssueTracker, IssueTrackerConfig};
use server::WebhookSecret;

use crate::config::{Config, GithubTracker};

/// The name of GitHub Issues among the trackers.
const GITHUB: &str = "github";

/// The secrets that trackers sign their webhooks with.
pub(super) fn secrets(config: &Config) -> anyhow::Result<BTreeMap<TrackerName, WebhookSecret>> {
    let mut secrets = BTreeMap::new();
    if let Some(file) = config.tracker.github.value.as_ref().and_then(GithubTracker::webhook_secret_file) {
        secrets.insert(github_name()?, secret(&file)?);
    }
    for (name, source) in &config.tracker.sources.value {
        if let Some(file) = source.webhook_secret_file() {
            secrets.insert(name.clone(), secret(&file)?);
        }
    }
    Ok(secrets)
}

/// The trackers.
pub(super) fn sources(config: &Config, clock: &Arc<dyn Clock>) -> anyhow::Result<BTreeMap<TrackerName, TrackerSource>> {
    let mut sources = BTreeMap::new();
    if let Some(github) = &config.tracker.github.value {
        sources.insert(github_name()?, github_source(github, clock)?);
    }
    for (name, source) in &config.tracker.sources.value {
        let source = TrackerSource {
            product: source.product.clone(),
            repo: source.repo.clone(),
            profile: source.profile.clone(),
            ..TrackerSource::default()
        };
        sources.insert(name.clone(), source);
    }
    Ok(sources)
}

fn github_source(github: &GithubTracker, clock: &Arc<dyn Clock>) -> anyhow::Result<TrackerSource> {
    let repos = github.repos.iter().map(|(name, place)| (name.clone(), (place.repo.clone(), place.product.clone())));
    let issues = IssueRules {
        label: github.label().to_owned(),
        authors: github.allowed_authors.clone(),
        repos: repos.collect(),
    };
    let (token_file, token_env) = (github.token_file(), github.token_env.clone());
    let status = if token_file.is_some() || token_env.is_some() {
        let config = IssueTrackerConfig { api: github.api.clone(), token_file, token_env };
        let tracker = IssueTracker::open(&config, Arc::clone(clock)).context("tracker.github")?;
        Some(Arc::new(tracker) as Arc<dyn ItemTracker>)
    } else {
        None
    };
    Ok(TrackerSource {
        product: github.product.clone(),
        repo: None,
        profile: github.profile.clone(),
        issues: Some(issues),
        status,
    })
}

fn github_name() -> anyhow::Result<TrackerName> {
    Ok(GITHUB.parse()?)
}

fn secret(path: &Path) -> anyhow::Result<WebhookSecret> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    WebhookSecret::new(&text).with_context(|| format!("{} is empty", path.display()))
}
