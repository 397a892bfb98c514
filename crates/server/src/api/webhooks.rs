//! Webhooks of a forge. They are only a hint: the factory polls the pull request itself.

use axum::extract::{Request, State};
use coordinator::{Error, ForgeHint};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::RequestOrigin;
use crate::json_response::Json;
use crate::problem::Problem;

/// The jobs that a webhook concerns.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AffectedJobs {
    /// Number of jobs whose pull requests are polled next.
    jobs: usize,
}

/// Receives a GitHub webhook: the pull requests that it names are polled next. Signed with the shared secret.
#[utoipa::path(
    post, path = "/webhooks/github", tag = "root", request_body(content = serde_json::Value),
    params(("X-Hub-Signature-256" = String, Header, description = "`sha256=` and the HMAC of the body", pattern = "^sha256=[0-9a-fA-F]{64}$", max_length = 71)),
    responses((status = 200, description = "Heard", body = AffectedJobs)),
)]
pub(crate) async fn github(
    State(app): State<App>,
    whence: RequestOrigin,
    request: Request,
) -> Result<Json<AffectedJobs>, Problem> {
    let secret = app.webhook_secret().ok_or_else(|| Problem::no_such_route("/webhooks/github"))?;
    whence.check(&app)?;
    let signature = request.headers().get("x-hub-signature-256").and_then(|value| value.to_str().ok());
    // Without a signature to compare, the body is not read.
    let signature = signature.and_then(|text| secret.signature(text)).ok_or(Error::Unauthenticated);
    let signature = whence.checked_token(&app, signature)?;
    let body = app.webhook_bodies.read(&app, whence.network(), request, signature).await?;
    let body = whence.checked_token(&app, body.ok_or(Error::Unauthenticated))?;
    let message: Message = serde_json::from_slice(&body.bytes).map_err(|error| Problem::json(&error))?;
    Ok(Json(AffectedJobs { jobs: app.coordinator.poll_hinted(&message.hint()) }))
}

/// The parts of GitHub's webhooks that name a pull request or a commit.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    repository: Option<Repository>,
    pull_request: Option<PullRequestNumber>,
    issue: Option<PullRequestNumber>,
    check_run: Option<Check>,
    check_suite: Option<Check>,
    sha: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Repository {
    full_name: String,
}

#[derive(Debug, Deserialize)]
struct PullRequestNumber {
    number: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Check {
    head_sha: Option<String>,
    pull_requests: Vec<PullRequestNumber>,
}

impl Message {
    fn hint(self) -> ForgeHint {
        let checks: Vec<Check> = self.check_run.into_iter().chain(self.check_suite).collect();
        let commits = checks.iter().filter_map(|check| check.head_sha.clone()).chain(self.sha);
        let commits = commits.filter_map(|sha| sha.parse().ok()).collect();
        let named = self.pull_request.into_iter().chain(self.issue);
        let numbers = named.chain(checks.into_iter().flat_map(|check| check.pull_requests));
        let numbers = numbers.map(|named| named.number).collect();
        ForgeHint { repository: self.repository.map_or_else(String::new, |named| named.full_name), numbers, commits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(json: &str) -> ForgeHint {
        serde_json::from_str::<Message>(json).unwrap().hint()
    }

    // [§10]
    #[test]
    fn every_kind_of_webhook_names_its_pull_requests() {
        let sha = "a".repeat(40);
        let of = |numbers: Vec<u64>, commits: &[&str]| ForgeHint {
            repository: "acme/notes".to_owned(),
            numbers,
            commits: commits.iter().map(|sha| sha.parse().unwrap()).collect(),
        };
        let repository = r#""repository": {"full_name": "acme/notes", "id": 1}"#;

        assert_eq!(
            hint(&format!(r#"{{"action": "closed", "pull_request": {{"number": 7}}, {repository}}}"#)),
            of(vec![7], &[])
        );
        assert_eq!(hint(&format!(r#"{{"issue": {{"number": 8}}, {repository}}}"#)), of(vec![8], &[]));
        let check =
            format!(r#"{{"check_run": {{"head_sha": "{sha}", "pull_requests": [{{"number": 9}}]}}, {repository}}}"#);
        assert_eq!(hint(&check), of(vec![9], &[&sha]));
        assert_eq!(hint(&format!(r#"{{"sha": "{sha}", "state": "failure", {repository}}}"#)), of(vec![], &[&sha]));
        assert_eq!(hint(r#"{"zen": "Keep it simple."}"#), ForgeHint::default());
    }
}
