//! Waiting for a job, within the time that clients give a tool call.

use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError, EventFeed, FeedItem};
use domain::{Clock, EventSeq, JobId, StageName};
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

/// The events of a job, and the job as last read.
pub(super) struct Watch {
    pub(super) job: JobView,
    client: Client,
    clock: Arc<dyn Clock>,
    feed: EventFeed,
}

impl Watch {
    /// The stream first: what happens after the job was read is in it.
    pub(super) async fn open(client: Client, clock: Arc<dyn Clock>, id: JobId) -> Result<Self, ClientError> {
        let path = format!("/jobs/{id}/events/stream");
        let mut feed = EventFeed::new(client.clone(), Arc::clone(&clock), path, None);
        feed.connect().await?;
        let job = read(&client, id).await?;
        Ok(Self { job, client, clock, feed })
    }

    /// Where the stream is: `after` of a list of events.
    pub(super) fn cursor(&self) -> Option<String> {
        self.feed.position().map(str::to_owned)
    }

    /// Follows the job until it is where it is waited for, or the time is over.
    pub(super) async fn until(
        &mut self,
        until: Until,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<Outcome, ClientError> {
        let followed = tokio::select! {
            followed = tokio::time::timeout(timeout, self.follow(until)) => followed,
            () = cancel.cancelled() => return Ok(Outcome::TimedOut),
        };
        followed.unwrap_or(Ok(Outcome::TimedOut))
    }

    async fn follow(&mut self, until: Until) -> Result<Outcome, ClientError> {
        loop {
            if let Some(outcome) = outcome(&self.job, until) {
                return Ok(outcome);
            }
            match self.feed.next().await? {
                FeedItem::Event { event: Some(event), .. } => self.catch_up(event.seq).await?,
                FeedItem::Event { event: None, .. } | FeedItem::Reset | FeedItem::Reconnected => {
                    self.job = read(&self.client, self.job.id).await?;
                }
                FeedItem::Progress(_) | FeedItem::Lost { .. } => {}
            }
        }
    }

    /// Reads the job. An event can arrive before reads include it.
    async fn catch_up(&mut self, seq: EventSeq) -> Result<(), ClientError> {
        loop {
            self.job = read(&self.client, self.job.id).await?;
            if self.job.seq >= seq {
                return Ok(());
            }
            self.clock.sleep(CATCH_UP_PAUSE).await;
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
        Until::Finished => job.is_settled() && !job.needs_person(),
        Until::Testing => matches!(job.stage, StageName::Testing | StageName::Shipped),
        Until::Shipped => job.stage == StageName::Shipped,
    };
    match (is_reached, job.needs_person() || job.stage.is_terminal()) {
        (true, _) => Some(Outcome::Reached),
        (false, true) => Some(Outcome::NeedsAttention),
        (false, false) => None,
    }
}
