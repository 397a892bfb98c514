//! The status of a job at its issue: one comment, edited in place, and the issue closed when the job ships.

use domain::{ItemStatus, JobId};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::GitHub;
use super::api::Repeat;
use super::wire::Comment;
use crate::ForgeError;
use crate::text::marker;

/// Comments with our mark that are tried. Anyone can write the mark into a comment; only ours can be edited.
const CANDIDATES_MAX: usize = 10;

/// An issue.
#[derive(Debug, Deserialize)]
struct Issue {
    state: String,
}

impl GitHub {
    /// Shows a status at an issue, and returns the id of the comment. `known` is the comment of an earlier call.
    pub(crate) async fn show_item_status(
        &self,
        issue: u64,
        status: &ItemStatus,
        known: Option<u64>,
    ) -> Result<u64, ForgeError> {
        let body = format!("{}\n{}", marker(status.job), status.text);
        let comment = self.keep_item_comment(issue, status.job, &body, known).await?;
        if status.is_done {
            self.close(issue).await?;
        }
        Ok(comment)
    }

    async fn keep_item_comment(
        &self,
        issue: u64,
        job: JobId,
        body: &str,
        known: Option<u64>,
    ) -> Result<u64, ForgeError> {
        if let Some(id) = known {
            match self.edit_comment(id, body).await {
                Err(error) if is_not_ours(&error) => {}
                edited => return edited.map(|()| id),
            }
        }
        if let Some(id) = self.edit_marked(issue, job, body).await? {
            return Ok(id);
        }
        let path = self.path(&format!("/issues/{issue}/comments"));
        let posted: Result<Comment, _> =
            self.api.send(Method::POST, &path, &json!({ "body": body }), Repeat::Never).await;
        match posted {
            Ok(comment) => Ok(comment.id),
            // It may exist although the answer was lost: then it is found by its mark.
            Err(error) if error.is_unknown() => self.edit_marked(issue, job, body).await?.ok_or(error),
            Err(error) => Err(error),
        }
    }

    /// Edits the comment with our mark. Others may have copied the mark: theirs cannot be edited.
    async fn edit_marked(&self, issue: u64, job: JobId, body: &str) -> Result<Option<u64>, ForgeError> {
        let comments: Vec<Comment> = self.all(&format!("/issues/{issue}/comments")).await?;
        let marker = marker(job);
        let is_marked = |comment: &&Comment| comment.body.as_deref().is_some_and(|body| body.starts_with(&marker));
        for comment in comments.iter().filter(is_marked).take(CANDIDATES_MAX) {
            match self.edit_comment(comment.id, body).await {
                Err(error) if is_not_ours(&error) => {}
                edited => return edited.map(|()| Some(comment.id)),
            }
        }
        Ok(None)
    }

    async fn edit_comment(&self, id: u64, body: &str) -> Result<(), ForgeError> {
        let path = self.path(&format!("/issues/comments/{id}"));
        let _: Value = self.api.send(Method::PATCH, &path, &json!({ "body": body }), Repeat::Harmless).await?;
        Ok(())
    }

    async fn close(&self, issue: u64) -> Result<(), ForgeError> {
        let path = self.path(&format!("/issues/{issue}"));
        let found: Issue = self.api.get(&path).await?;
        if found.state == "closed" {
            return Ok(());
        }
        let order = json!({ "state": "closed", "state_reason": "completed" });
        let _: Value = self.api.send(Method::PATCH, &path, &order, Repeat::Harmless).await?;
        Ok(())
    }
}

/// Whether a comment is another account's, or was deleted.
fn is_not_ours(error: &ForgeError) -> bool {
    matches!(error.status(), Some(403 | 404 | 410))
}
