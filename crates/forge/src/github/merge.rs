//! Merging the recorded commit through the forge [I15].

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tracing::info;

use super::GitHub;
use super::api::{COMPLAINT_CHARS_MAX, Repeat};
use super::status::{Check, CheckState};
use super::wire::{GhPullRequest, Graph};
use crate::{AutoMerge, ForgeError, MergeOrder, MergeOutcome};

/// The pause before a merge with running checks is tried again.
const CHECKS_WAIT: Duration = Duration::from_secs(60);

/// The pause while GitHub computes in the background whether something can be merged.
const THINKING_WAIT: Duration = Duration::from_secs(3);

impl GitHub {
    /// Merges if the head is the expected commit; otherwise returns the reason. Idempotent.
    pub(super) async fn merge_expected(&self, order: &MergeOrder) -> Result<MergeOutcome, ForgeError> {
        let request = self.request(order.request).await?;
        if let Some(settled) = settled(&request, order) {
            return Ok(settled);
        }
        if request.draft {
            self.mark_ready(&request).await?;
        }
        let body = json!({
            "sha": order.sha, "merge_method": order.method.name(),
            "commit_title": order.title, "commit_message": order.message,
        });
        let path = self.path(&format!("/pulls/{}/merge", order.request));
        let merged: Result<Value, _> = self.api.send(Method::PUT, &path, &body, Repeat::Never).await;
        let Err(error) = merged else { return Ok(MergeOutcome::Merged) };
        if !matches!(error.status(), Some(405 | 409 | 422)) && !error.is_unknown() {
            return Err(error);
        }
        let now = self.request(order.request).await?;
        match settled(&now, order) {
            Some(settled) => Ok(settled),
            None if error.is_unknown() => Err(error),
            None => self.explain(&now, order, &error).await,
        }
    }

    async fn request(&self, number: u64) -> Result<GhPullRequest, ForgeError> {
        self.api.get(&self.path(&format!("/pulls/{number}"))).await
    }

    /// Why a merge was rejected, and whether that passes by itself.
    async fn explain(
        &self,
        now: &GhPullRequest,
        order: &MergeOrder,
        error: &ForgeError,
    ) -> Result<MergeOutcome, ForgeError> {
        if now.mergeable.is_none() {
            let message = "the forge is still working out whether it can be merged".to_owned();
            return Ok(MergeOutcome::NotYet { message, after: THINKING_WAIT });
        }
        if now.mergeable == Some(false) || now.mergeable_state.as_deref() == Some("dirty") {
            return Ok(MergeOutcome::Conflicts);
        }
        let checks = self.checks(&order.sha).await?;
        let failed = names(&checks, CheckState::Failed);
        if !failed.is_empty() {
            return Ok(MergeOutcome::Refused { message: format!("checks failed: {}", failed.join(", ")) });
        }
        let running = names(&checks, CheckState::Running);
        if running.is_empty() && order.auto == AutoMerge::Never {
            return Ok(MergeOutcome::Refused { message: error.to_string() });
        }
        let waits_for = match running.is_empty() {
            true => "the forge's own rules are not met yet".to_owned(),
            false => format!("checks are still running: {}", running.join(", ")),
        };
        if order.auto == AutoMerge::WhenAllowed {
            self.merge_when_allowed(now, order).await?;
        }
        Ok(MergeOutcome::NotYet { message: waits_for, after: CHECKS_WAIT })
    }

    /// Enables auto-merge of this commit and no other.
    async fn merge_when_allowed(&self, request: &GhPullRequest, order: &MergeOrder) -> Result<(), ForgeError> {
        let question = "mutation($id: ID!, $method: PullRequestMergeMethod!, $sha: GitObjectID!, $title: String, $body: String) { \
             enablePullRequestAutoMerge(input: { pullRequestId: $id, mergeMethod: $method, expectedHeadOid: $sha, \
             commitHeadline: $title, commitBody: $body }) { clientMutationId } }";
        let variables = json!({
            "id": request.node_id, "method": order.method.name().to_uppercase(), "sha": order.sha,
            "title": order.title, "body": order.message,
        });
        self.ask_graph("the auto-merge", question, variables).await?;
        info!("Left the merge of {} to the forge", request.html_url);
        Ok(())
    }

    async fn mark_ready(&self, request: &GhPullRequest) -> Result<(), ForgeError> {
        let question =
            "mutation($id: ID!) { markPullRequestReadyForReview(input: { pullRequestId: $id }) { clientMutationId } }";
        self.ask_graph("the end of the draft", question, json!({ "id": request.node_id })).await
    }

    async fn ask_graph(&self, what: &str, question: &str, variables: Value) -> Result<(), ForgeError> {
        let request = json!({ "query": question, "variables": variables });
        let answer: Graph = self.api.send(Method::POST, "/graphql", &request, Repeat::Harmless).await?;
        match answer.errors.first() {
            None => Ok(()),
            // Enabled before.
            Some(error) if error.message.to_lowercase().contains("already") => Ok(()),
            Some(error) => {
                let message = domain::terminal_chars(&error.message).take(COMPLAINT_CHARS_MAX).collect();
                Err(ForgeError::Refused { what: what.to_owned(), status: 422, message })
            }
        }
    }
}

/// What is decided already, whatever the request.
fn settled(request: &GhPullRequest, order: &MergeOrder) -> Option<MergeOutcome> {
    let is_expected = request.head.sha == order.sha;
    if request.merged {
        return Some(match is_expected {
            true => MergeOutcome::Merged,
            false => MergeOutcome::Refused {
                message: format!("it was merged as {}, which is not the completed commit", request.head.sha),
            },
        });
    }
    if request.state == "closed" {
        return Some(MergeOutcome::Refused { message: "it was closed without a merge".to_owned() });
    }
    (!is_expected).then(|| MergeOutcome::Refused {
        message: format!("its branch was moved by another writer: it shows {}", request.head.sha),
    })
}

fn names(checks: &[Check], state: CheckState) -> Vec<&str> {
    checks.iter().filter(|check| check.state == state).map(|check| check.name.as_str()).collect()
}
