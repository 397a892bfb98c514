//! Polls a pull request at the coordinator's request [B5].

use std::sync::Arc;

use client::ClientError;
use domain::StageName;
use protocol::{PollPullRequest, PullRequestReportResponse};
use tracing::{debug, info, warn};

use super::Worker;

impl Worker {
    /// Polls in a task of its own, and reports the result. After an error the coordinator repeats its request.
    pub(super) fn look_at_request(self: &Arc<Self>, order: PollPullRequest) {
        if self.stopping.is_cancelled() {
            return;
        }
        let station = Arc::clone(self);
        self.tasks.spawn(async move { station.poll_and_report(&order).await });
    }

    async fn poll_and_report(&self, order: &PollPullRequest) {
        let (job, number) = (order.job_id, order.number);
        let Ok((_, config)) = self.mirror(&order.repo) else { return };
        let Some(forge) = self.forges.of(&order.repo, &config.url) else {
            debug!(job.id = %job, "Repository `{}` is on no forge that this factory knows", order.repo);
            return;
        };
        let report = match forge.read_pull_request(number).await {
            Ok(report) => report,
            Err(error) => {
                warn!(job.id = %job, %error, "Could not read pull request {number} of job {}", self.titles.label(job));
                return;
            }
        };
        let told: Result<PullRequestReportResponse, ClientError> =
            self.client.post(&format!("/jobs/{job}/pull-request"), &report).await;
        let answer = match told {
            Ok(answer) => answer,
            Err(error) => {
                info!(job.id = %job, %error, "What was seen on pull request {number} was not heard");
                return;
            }
        };
        if let Some(comment) = answer.comment {
            self.say_on_request(&*forge, number, job, answer.stage, &comment).await;
        }
        if answer.stage == StageName::Shipped {
            self.end_shipped_branch(order).await;
        }
    }
}
