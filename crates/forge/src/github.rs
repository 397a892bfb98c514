//! The GitHub API, independent of its transport.

mod api;
mod comments;
mod etag_cache;
mod issues;
mod merge;
mod open;
mod paging;
mod status;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use domain::{JobId, PullRequest};
use protocol::PullRequestReport;

pub(super) use api::Api;

use self::wire::Repository;
use super::slug::Slug;
use super::{Forge, ForgeError, MergeOrder, MergeOutcome, PullRequestDraft};

/// One repository on GitHub.
pub(super) struct GitHub {
    api: Arc<Api>,
    slug: Slug,
    listening: Arc<TrustedAuthors>,
}

/// Whose comments count.
#[derive(Debug)]
pub(super) struct TrustedAuthors {
    /// The required associations of a comment's author with the repository.
    pub(super) to: Vec<String>,
    /// The prefix of a comment for the agent outside of a review.
    pub(super) mention: String,
}

impl GitHub {
    pub(super) fn new(api: Arc<Api>, slug: Slug, listening: Arc<TrustedAuthors>) -> Self {
        Self { api, slug, listening }
    }

    fn path(&self, below: &str) -> String {
        format!("/repos/{}{below}", self.slug)
    }
}

#[async_trait]
impl Forge for GitHub {
    async fn open(&self, proposal: &PullRequestDraft) -> Result<PullRequest, ForgeError> {
        self.propose(proposal).await
    }

    async fn find(&self, branch: &str) -> Result<Option<PullRequest>, ForgeError> {
        Ok(self.open_request(branch).await?.map(|found| found.public()))
    }

    async fn say(&self, request: u64, job: JobId, text: &str) -> Result<(), ForgeError> {
        self.keep_comment(request, job, text).await
    }

    async fn merge(&self, order: &MergeOrder) -> Result<MergeOutcome, ForgeError> {
        self.merge_expected(order).await
    }

    async fn size(&self) -> Result<u64, ForgeError> {
        let repository: Repository = self.api.get(&self.path("")).await?;
        Ok(repository.size.saturating_mul(1024))
    }

    async fn read_pull_request(&self, number: u64) -> Result<PullRequestReport, ForgeError> {
        self.report_of(number).await
    }
}
