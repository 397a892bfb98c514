//! Opens a pull request once, however often it is requested.

use domain::PullRequest;
use http::Method;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::GitHub;
use super::api::Repeat;
use super::wire::{GhPullRequest, Label};
use crate::text::merged_body;
use crate::{ForgeError, PullRequestDraft};

impl GitHub {
    /// Finds the open pull request of the branch, or creates it; then updates its text and its labels.
    pub(super) async fn propose(&self, proposal: &PullRequestDraft) -> Result<PullRequest, ForgeError> {
        let found = match self.open_request(&proposal.branch).await? {
            Some(found) => found,
            None => {
                let made = self.make(proposal).await?;
                self.ask_reviewers(made.number, &proposal.reviewers).await;
                info!(job.id = %proposal.job, "Opened {} for job {}", made.html_url, proposal.job.short());
                made
            }
        };
        self.bring_up_to_date(&found, proposal).await?;
        self.label(&found, &proposal.labels).await;
        Ok(found.public())
    }

    /// The open pull request whose head is a branch of this repository.
    pub(super) async fn open_request(&self, branch: &str) -> Result<Option<GhPullRequest>, ForgeError> {
        let head = format!("{}:{branch}", self.slug.owner());
        let path = self.path(&format!("/pulls?state=open&per_page=10&head={}", escaped(&head)));
        let found: Vec<GhPullRequest> = self.api.get(&path).await?;
        Ok(found.into_iter().next())
    }

    /// Creates the pull request. Without an answer, the caller looks for an existing one before it tries again.
    async fn make(&self, proposal: &PullRequestDraft) -> Result<GhPullRequest, ForgeError> {
        let mut draft = proposal.draft;
        loop {
            let request = json!({
                "title": proposal.title, "head": proposal.branch, "base": proposal.base,
                "body": proposal.body, "draft": draft,
            });
            let made: Result<GhPullRequest, _> =
                self.api.send(Method::POST, &self.path("/pulls"), &request, Repeat::Never).await;
            let error = match made {
                Ok(made) => return Ok(made),
                Err(error) => error,
            };
            let says = error.to_string().to_lowercase();
            if draft && error.status() == Some(422) && says.contains("draft") {
                // Not every plan supports drafts.
                draft = false;
                continue;
            }
            let may_be_there = error.is_unknown() || (error.status() == Some(422) && says.contains("already exists"));
            if !may_be_there {
                return Err(error);
            }
            return self.open_request(&proposal.branch).await?.ok_or(error);
        }
    }

    /// Replaces only the fleet's part of the text; people's changes around it stay.
    async fn bring_up_to_date(&self, found: &GhPullRequest, proposal: &PullRequestDraft) -> Result<(), ForgeError> {
        let body = merged_body(found.body.as_deref().unwrap_or_default(), &proposal.body);
        if found.body.as_deref() == Some(&body) {
            return Ok(());
        }
        let path = self.path(&format!("/pulls/{}", found.number));
        let _: Value = self.api.send(Method::PATCH, &path, &json!({ "body": body }), Repeat::Harmless).await?;
        Ok(())
    }

    /// A rejected label does not fail the pull request.
    async fn label(&self, found: &GhPullRequest, labels: &[String]) {
        let has = |name: &String| found.labels.iter().any(|label| label.name.eq_ignore_ascii_case(name));
        let missing: Vec<&String> = labels.iter().filter(|name| !has(name)).collect();
        if missing.is_empty() {
            return;
        }
        let path = self.path(&format!("/issues/{}/labels", found.number));
        let labelled: Result<Vec<Label>, _> =
            self.api.send(Method::POST, &path, &json!({ "labels": missing }), Repeat::Harmless).await;
        if let Err(error) = labelled {
            warn!(%error, "Could not label {}", found.html_url);
        }
    }

    /// A rejected reviewer, such as the author, does not fail the pull request either.
    async fn ask_reviewers(&self, number: u64, reviewers: &[String]) {
        if reviewers.is_empty() {
            return;
        }
        let (teams, people): (Vec<&String>, Vec<&String>) = reviewers.iter().partition(|name| name.contains('/'));
        let teams: Vec<&str> = teams.iter().filter_map(|team| team.rsplit('/').next()).collect();
        let path = self.path(&format!("/pulls/{number}/requested_reviewers"));
        let request = json!({ "reviewers": people, "team_reviewers": teams });
        let asked: Result<Value, _> = self.api.send(Method::POST, &path, &request, Repeat::Harmless).await;
        if let Err(error) = asked {
            warn!(%error, "Could not ask for reviews of pull request {number}");
        }
    }
}

/// A value encoded for a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' | b':' => {
                escaped.push(char::from(byte));
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: hostile names]
    #[test]
    fn nothing_in_a_branch_can_begin_another_part_of_a_query() {
        assert_eq!(escaped("acme:aq/job/1"), "acme:aq/job/1");
        assert_eq!(escaped("a&state=all#é"), "a%26state%3Dall%23%C3%A9");
    }
}
