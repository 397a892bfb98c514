//! One comment per job, edited, never a second one.

use domain::JobId;
use http::Method;
use serde_json::{Value, json};

use super::GitHub;
use super::api::Repeat;
use super::wire::Comment;
use crate::ForgeError;
use crate::text::{is_ours, marker};

impl GitHub {
    pub(super) async fn keep_comment(&self, request: u64, job: JobId, text: &str) -> Result<(), ForgeError> {
        let body = format!("{}\n{text}", marker(job));
        match self.our_comment(request, job).await? {
            Some(known) => self.edit(&known, &body).await,
            None => {
                let path = self.path(&format!("/issues/{request}/comments"));
                let said: Result<Value, _> =
                    self.api.send(Method::POST, &path, &json!({ "body": body }), Repeat::Never).await;
                match said {
                    // It may exist although the answer was lost: then it is edited, and not posted twice.
                    Err(error) if error.is_unknown() => match self.our_comment(request, job).await? {
                        Some(known) => self.edit(&known, &body).await,
                        None => Err(error),
                    },
                    said => said.map(drop),
                }
            }
        }
    }

    async fn edit(&self, known: &Comment, body: &str) -> Result<(), ForgeError> {
        if known.body.as_deref() == Some(body) {
            return Ok(());
        }
        let path = self.path(&format!("/issues/comments/{}", known.id));
        let _: Value = self.api.send(Method::PATCH, &path, &json!({ "body": body }), Repeat::Harmless).await?;
        Ok(())
    }

    async fn our_comment(&self, request: u64, job: JobId) -> Result<Option<Comment>, ForgeError> {
        let comments: Vec<Comment> = self.all(&format!("/issues/{request}/comments")).await?;
        let marker = marker(job);
        Ok(comments.into_iter().find(|comment| comment.body.as_deref().is_some_and(|body| body.starts_with(&marker))))
    }
}

/// Whether a comment was written by a fleet, and is therefore not feedback.
pub(super) fn is_by_a_fleet(comment: &Comment) -> bool {
    comment.body.as_deref().is_some_and(is_ours)
}
