//! Configuration of a factory's forge and its pull requests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::{BranchTemplate, CommitAuthor, ProductId, RepoName};
use serde::Deserialize;

use super::slug::Slug;
use super::token::TokenSource;

/// The forge and the form of pull requests. Absent, everything is plain git.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct ForgeConfig {
    /// The kind of access.
    pub kind: ForgeKind,
    /// The base URL of its API; `https://api.github.com` when absent.
    pub api: Option<String>,
    /// A file with the token and nothing else.
    pub token_file: Option<PathBuf>,
    /// A variable of the factory's own environment that holds the token.
    pub token_env: Option<String>,
    /// The program `gh`, and the home directory of its credential.
    pub gh: GhConfig,
    /// Names on the forge of repositories whose URL does not contain it.
    pub slugs: BTreeMap<RepoName, Slug>,
    /// The form of pull requests, unless a product or a repository overrides it.
    pub pull_requests: PullRequestConfig,
    /// The same for a product.
    pub products: BTreeMap<ProductId, PullRequestConfig>,
    /// The same for a repository, which takes precedence.
    pub repos: BTreeMap<RepoName, PullRequestConfig>,
    /// Whose comments return a job to an agent, by the forge's author association; owners, members and collaborators
    /// when absent. Other authors cannot instruct an agent.
    pub listen_to: Option<Vec<String>>,
    /// The prefix of a comment for the agent outside of a review; `/giga` when absent.
    pub mention: Option<String>,
}

/// How a forge is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgeKind {
    /// There is none: branches and merges only.
    #[default]
    None,
    /// GitHub by its REST API, with a token.
    Github,
    /// GitHub through the program `gh`.
    Gh,
}

/// How the program `gh` is started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct GhConfig {
    /// The program; `gh` when absent.
    pub program: Option<PathBuf>,
    /// The home directory of its credential.
    pub home: Option<PathBuf>,
}

/// The form of a pull request. Absent fields inherit from the next more general level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct PullRequestConfig {
    /// Whether it is opened as a draft.
    pub draft: Option<bool>,
    /// Its title; `{title} {id} {repo}` are replaced.
    pub title: Option<String>,
    /// Its branch, which ends in the job's id: `agents/{id}`. Not for a product: every factory must use the same name.
    pub branch: Option<BranchTemplate>,
    /// Its labels.
    pub labels: Option<Vec<String>>,
    /// Reviewers to request; `acme/core` names a team.
    pub reviewers: Option<Vec<String>>,
    /// The author of its commits. Not for a product.
    pub author: Option<CommitAuthor>,
    /// Whether the forge merges it once its own rules are met.
    pub auto_merge: Option<bool>,
    /// How it is merged.
    pub method: Option<MergeMethod>,
    /// Whether its branch is deleted after the merge.
    pub delete_branch: Option<bool>,
}

/// How a forge makes commits of a pull request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeMethod {
    /// One merge commit on top of its commits.
    #[default]
    Merge,
    /// One commit instead of its commits.
    Squash,
    /// Its commits, rebased onto the base branch.
    Rebase,
}

impl MergeMethod {
    /// The name in GitHub's API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Squash => "squash",
            Self::Rebase => "rebase",
        }
    }
}

/// The resolved form of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestSettings {
    /// Whether it is opened as a draft.
    pub draft: bool,
    /// The template of its title.
    pub title: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// Reviewers to request.
    pub reviewers: Vec<String>,
    /// Whether the forge merges it once its own rules are met.
    pub auto_merge: bool,
    /// How it is merged.
    pub method: MergeMethod,
    /// Whether its branch is deleted after the merge, if that is configured.
    pub delete_branch: Option<bool>,
}

impl ForgeConfig {
    /// The current token, so that it can be scrubbed.
    pub fn known_token(&self) -> Option<String> {
        let source = match (&self.token_file, &self.token_env) {
            (Some(file), _) => TokenSource::File(file.clone()),
            (None, Some(name)) => TokenSource::Variable(name.clone()),
            (None, None) => return None,
        };
        source.read().ok().map(|token| token.reveal().to_owned())
    }

    /// The form of a repository's pull requests: the repository's settings take precedence, then the product's.
    pub fn settings(&self, repo: &RepoName, product: &ProductId) -> PullRequestSettings {
        let places = [self.repos.get(repo), self.products.get(product), Some(&self.pull_requests)];
        let places: Vec<&PullRequestConfig> = places.into_iter().flatten().collect();
        PullRequestSettings {
            draft: first(&places, |place| place.draft).unwrap_or(false),
            title: first(&places, |place| place.title.clone()).unwrap_or_else(|| "{title}".to_owned()),
            labels: first(&places, |place| place.labels.clone()).unwrap_or_default(),
            reviewers: first(&places, |place| place.reviewers.clone()).unwrap_or_default(),
            auto_merge: first(&places, |place| place.auto_merge).unwrap_or(false),
            method: first(&places, |place| place.method).unwrap_or_default(),
            delete_branch: first(&places, |place| place.delete_branch),
        }
    }

    /// The branch template of a repository's jobs, if it is not the default.
    pub fn branch(&self, repo: &RepoName) -> Option<&BranchTemplate> {
        self.repos.get(repo).and_then(|place| place.branch.as_ref()).or(self.pull_requests.branch.as_ref())
    }

    /// The author of commits to a repository, if it is not the factory's own.
    pub fn author(&self, repo: &RepoName) -> Option<&CommitAuthor> {
        self.repos.get(repo).and_then(|place| place.author.as_ref()).or(self.pull_requests.author.as_ref())
    }
}

fn first<T>(places: &[&PullRequestConfig], said: impl Fn(&PullRequestConfig) -> Option<T>) -> Option<T> {
    places.iter().find_map(|place| said(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repositorys_word_counts_before_the_products_and_that_before_the_general_one() {
        let config: ForgeConfig = serde_json::from_str(
            r#"{"kind": "github",
                "pull_requests": {"draft": true, "labels": ["agent"], "title": "[bot] {title}"},
                "products": {"tracker": {"labels": ["tracker"], "method": "squash"}},
                "repos": {"notes": {"draft": false}}}"#,
        )
        .unwrap();

        let settings = config.settings(&"notes".parse().unwrap(), &"tracker".parse().unwrap());

        let expected = PullRequestSettings {
            draft: false,
            title: "[bot] {title}".to_owned(),
            labels: vec!["tracker".to_owned()],
            reviewers: Vec::new(),
            auto_merge: false,
            method: MergeMethod::Squash,
            delete_branch: None,
        };
        assert_eq!(settings, expected);
    }
}
