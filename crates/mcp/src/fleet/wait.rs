//! Waiting for a job, within the time that clients give a tool call.

use std::time::Duration;

use client::{Client, ClientError, EventStream};
use domain::{Clock, JobEvent, JobId, StageName};
use protocol::{JobDetail, JobView};
use tokio_util::sync::CancellationToken;

use super::answers::Outcome;
use super::params::Until;

/// Clients end a tool call after 60 seconds or more.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(50);

/// Without a wish. Leaves time for the answer.
pub(super) const WAIT_DEFAULT: Duration = Duration::from_secs(45);

/// The pause before a job that is older than its event is read again.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(20);

/// The stream of a job, and the job as last read.
pub(super) struct Watch {
    pub(super) job: JobView,
    /// Where the stream is.
    pub(super) cursor: Option<String>,
    stream: EventStream,
}

impl Watch {
    /// The stream first: what happens after the job was read is in it.
    pub(super) async fn open(client: &Client, id: JobId) -> Result<Self, ClientError> {
        let stream = client.events(&format!("/jobs/{id}/events/stream"), None).await?;
        Ok(Self { job: read(client, id).await?, cursor: None, stream })
    }

    /// Follows the job until it is where it is waited for, or the time is over.
    pub(super) async fn until(
        &mut self,
        client: &Client,
        clock: &dyn Clock,
        until: Until,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<Outcome, ClientError> {
        let over = tokio::select! {
            over = tokio::time::timeout(timeout, self.follow(client, clock, until)) => over,
            () = cancel.cancelled() => return Ok(Outcome::TimedOut),
        };
        match over {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Outcome::TimedOut),
        }
    }

    async fn follow(&mut self, client: &Client, clock: &dyn Clock, until: Until) -> Result<Outcome, ClientError> {
        let id = self.job.id;
        loop {
            if let Some(outcome) = outcome(&self.job, until) {
                return Ok(outcome);
            }
            let Some(event) = self.stream.next().await? else {
                // The coordinator restarts, or the reader was too slow.
                self.stream = client.events(&format!("/jobs/{id}/events/stream"), self.cursor.as_deref()).await?;
                self.job = read(client, id).await?;
                continue;
            };
            self.cursor = event.id.or_else(|| self.cursor.take());
            match event.event.as_str() {
                "job" => {
                    let seq = serde_json::from_str::<JobEvent>(&event.data).ok().map(|event| event.seq);
                    self.job = read(client, id).await?;
                    // An event can arrive before reads include it.
                    while seq.is_some_and(|seq| self.job.seq < seq) {
                        clock.sleep(CATCH_UP_PAUSE).await;
                        self.job = read(client, id).await?;
                    }
                }
                "reset" => self.job = read(client, id).await?,
                _ => {}
            }
        }
    }
}

async fn read(client: &Client, id: JobId) -> Result<JobView, ClientError> {
    let detail: JobDetail = client.get(&format!("/jobs/{id}")).await?;
    Ok(detail.job)
}

/// How a wait for this state ends now, if it does.
fn outcome(job: &JobView, until: Until) -> Option<Outcome> {
    let is_reached = match until {
        Until::Finished => job.rests() && !job.needs_person(),
        Until::Testing => matches!(job.stage, StageName::Testing | StageName::Shipped),
        Until::Shipped => job.stage == StageName::Shipped,
    };
    match (is_reached, job.needs_person() || job.stage.is_terminal()) {
        (true, _) => Some(Outcome::Reached),
        (false, true) => Some(Outcome::NeedsAttention),
        (false, false) => None,
    }
}
