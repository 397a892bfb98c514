//! Configuration of a factory's forge and its pull requests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::{BranchName, JobId, ProductId, RepoName};
use serde::Deserialize;

use super::slug::Slug;
use super::token::TokenSource;
use crate::config::Identity;

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
    pub author: Option<Identity>,
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

/// The name of a branch with the job's id at its end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct BranchTemplate {
    before: String,
}

/// An invalid template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not make a branch: write a branch's name that ends in `{{id}}`")]
pub struct BranchTemplateError(String);

impl BranchTemplate {
    /// The branch of a job.
    pub(crate) fn branch(&self, job: JobId) -> BranchName {
        match format!("{}{job}", self.before).parse() {
            Ok(branch) => branch,
            Err(_) => unreachable!("the template was tried with another id"),
        }
    }
}

impl BranchTemplate {
    /// The job of a branch in our own spelling.
    pub(crate) fn job(&self, branch: &str) -> Option<JobId> {
        let job: JobId = branch.strip_prefix(&self.before)?.parse().ok()?;
        (self.branch(job).as_str() == branch).then_some(job)
    }

    /// A pattern of all its branches, and perhaps others.
    pub(crate) fn pattern(&self) -> String {
        format!("refs/heads/{}*", self.before)
    }
}

impl std::str::FromStr for BranchTemplate {
    type Err = BranchTemplateError;

    fn from_str(text: &str) -> Result<Self, BranchTemplateError> {
        let refused = || BranchTemplateError(domain::escape_for_terminal(text));
        let before = text.strip_suffix("{id}").ok_or_else(refused)?;
        let tried: Result<BranchName, _> = format!("{before}0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a").parse();
        // A branch without a prefix of its own could be any user's.
        if tried.is_err() || before.is_empty() {
            return Err(refused());
        }
        Ok(Self { before: before.to_owned() })
    }
}

impl TryFrom<String> for BranchTemplate {
    type Error = BranchTemplateError;

    fn try_from(text: String) -> Result<Self, BranchTemplateError> {
        text.parse()
    }
}

/// The resolved form of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PullRequestSettings {
    pub(crate) draft: bool,
    pub(crate) title: String,
    pub(crate) labels: Vec<String>,
    pub(crate) reviewers: Vec<String>,
    pub(crate) auto_merge: bool,
    pub(crate) method: MergeMethod,
    pub(crate) delete_branch: Option<bool>,
}

impl ForgeConfig {
    /// The current token, so that it can be scrubbed.
    pub(crate) fn known_token(&self) -> Option<String> {
        let source = match (&self.token_file, &self.token_env) {
            (Some(file), _) => TokenSource::File(file.clone()),
            (None, Some(name)) => TokenSource::Variable(name.clone()),
            (None, None) => return None,
        };
        source.read().ok().map(|token| token.reveal().to_owned())
    }

    /// The form of a repository's pull requests: the repository's settings take precedence, then the product's.
    pub(crate) fn settings(&self, repo: &RepoName, product: &ProductId) -> PullRequestSettings {
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
    pub(crate) fn branch(&self, repo: &RepoName) -> Option<&BranchTemplate> {
        self.repos.get(repo).and_then(|place| place.branch.as_ref()).or(self.pull_requests.branch.as_ref())
    }

    /// The author of commits to a repository, if it is not the factory's own.
    pub(crate) fn author(&self, repo: &RepoName) -> Option<&Identity> {
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

    #[test]
    fn a_branch_template_ends_in_the_id_and_makes_a_branch() {
        let job: JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap();
        let template: BranchTemplate = "agents/notes-{id}".parse().unwrap();

        assert_eq!(template.branch(job).as_str(), format!("agents/notes-{job}"));
        assert_eq!(template.job(&format!("agents/notes-{job}")), Some(job));
        for other in [format!("agents/{job}"), format!("agents/notes-{job}/x"), "agents/notes-by-hand".to_owned()] {
            assert_eq!(template.job(&other), None, "{other}");
        }
        for text in ["", "{id}", "agents/{id}/x", "agents", "-x/{id}", "a b/{id}", "a..b/{id}", "a/$(x)/{id}"] {
            assert!(text.parse::<BranchTemplate>().is_err(), "{text}");
        }
    }
}
