//! Follows the demand of a coordinator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError, EventFeed, FeedItem};
use domain::{Clock, PoolName};
use protocol::{PoolScale, ScaleResponse};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the demand is read when no event came: what a lost event would have told.
const POLL_EVERY: Duration = Duration::from_secs(10);

/// Events come in bursts: the demand is read at the first, and again when there was quiet.
const QUIET: Duration = Duration::from_millis(200);

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The last answer of the coordinator; `None` if it never answered.
pub type LatestDemand = watch::Receiver<Option<ScaleResponse>>;

/// Reads the demand after each change of the fleet.
pub struct DemandFeed {
    client: Client,
    clock: Arc<dyn Clock>,
    /// Only these pools; all when empty.
    pools: BTreeSet<PoolName>,
    latest: watch::Sender<Option<ScaleResponse>>,
}

impl DemandFeed {
    /// A feed that has read nothing yet.
    pub fn new(client: Client, clock: Arc<dyn Clock>, pools: BTreeSet<PoolName>) -> Self {
        Self { client, clock, pools, latest: watch::Sender::new(None) }
    }

    /// The last answer, and its changes.
    pub fn latest(&self) -> LatestDemand {
        self.latest.subscribe()
    }

    /// Reads until `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut feed = EventFeed::new(self.client.clone(), Arc::clone(&self.clock), "/events/stream", None);
        let mut is_answered = true;
        while !stop.is_cancelled() {
            let answer = self.read().await;
            match &answer {
                Ok(_) if !is_answered => info!("The coordinator answers again"),
                Err(error) if is_answered => {
                    warn!(%error, "The coordinator does not say how many factories should run, the last answer holds: {error}");
                }
                Ok(_) | Err(_) => {}
            }
            is_answered = answer.is_ok();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.until_change(&mut feed) => {}
                () = self.clock.sleep(POLL_EVERY) => {}
            }
        }
    }

    /// Reads the demand once. A failure leaves the last answer in place.
    pub async fn read(&self) -> Result<(), ClientError> {
        let asked = self.client.get::<ScaleResponse>("/scale");
        let answer = tokio::select! {
            answer = asked => answer?,
            () = self.clock.sleep(ANSWER_MAX) => {
                let base = self.client.base().to_owned();
                return Err(ClientError::NoAnswer { base, why: "it took too long".to_owned() });
            }
        };
        let answer = self.limited(answer);
        self.latest.send_if_modified(|latest| {
            let is_changed = latest.as_ref() != Some(&answer);
            *latest = Some(answer);
            is_changed
        });
        Ok(())
    }

    fn limited(&self, answer: ScaleResponse) -> ScaleResponse {
        if self.pools.is_empty() {
            return answer;
        }
        let pools: Vec<PoolScale> = answer.pools.into_iter().filter(|one| self.pools.contains(&one.pool)).collect();
        ScaleResponse { wanted: pools.iter().fold(0, |sum, one| one.wanted.saturating_add(sum)), pools }
    }

    /// Waits for a change of the fleet, and reads the demand at once. The rest of a burst of events is read when there was
    /// quiet, by the caller.
    async fn until_change(&self, feed: &mut EventFeed) {
        self.until_news(feed).await;
        // A failure is logged by the read that follows.
        let _ = self.read().await;
        let rest = async {
            loop {
                self.until_news(feed).await;
            }
        };
        tokio::select! {
            () = rest => {}
            () = self.clock.sleep(QUIET) => {}
        }
    }

    async fn until_news(&self, feed: &mut EventFeed) {
        loop {
            match feed.next().await {
                // The activity of agents changes no demand.
                Ok(FeedItem::Progress(_) | FeedItem::Lost { .. }) => {}
                Ok(FeedItem::Event { .. } | FeedItem::Reset | FeedItem::Reconnected) => return,
                Err(error) => {
                    warn!(%error, "Cannot follow the events of the coordinator, reading the demand from time to time: {error}");
                    return std::future::pending().await;
                }
            }
        }
    }
}
