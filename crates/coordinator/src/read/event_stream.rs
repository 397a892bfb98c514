//! Event streams: replay from any position, then live, without gaps or duplicates (row 24).

use std::sync::Arc;

use domain::{Position, RecentEvents, Scope, StoreError, StoredEvent};
use parking_lot::Mutex;
use protocol::{ProgressEvent, StreamEvent};
use tokio::sync::watch;
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::coordinator::purpose::Purpose;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::maintenance::sweep::TRY_AGAIN_AFTER;
use crate::read::live::LiveFollower;

/// Events per read.
const PAGE: u16 = 512;

/// A subscriber further behind starts over from a snapshot: a replay would take longer.
const BEHIND_MAX: u64 = 200_000;

/// The end of the log, in memory and shared by all subscribers.
#[derive(Default)]
pub(crate) struct EventTail {
    /// For subscribers near the end of the log; others read from the store.
    kept: Mutex<RecentEvents>,
    filling: tokio::sync::Mutex<()>,
}

/// One reader of the log.
pub struct Subscriber {
    coordinator: Arc<Coordinator>,
    scope: Scope,
    /// The last event returned, or skipped because it is outside the scope.
    position: Position,
    /// The end of the log at the last check.
    seen: Position,
    reset: bool,
    /// Wakes when the progress of an agent changes.
    progress: watch::Receiver<u64>,
    /// The progress updates returned so far.
    heard: u64,
    /// What the stream of the fleet tells beside events.
    live: Option<LiveFollower>,
    /// Whether the last item was events.
    has_sent_events: bool,
}

/// One item of an event stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// The next events, in order; at least one.
    Events(Vec<StoredEvent>),
    /// The progress of agents, the latest per job. It has no position, and a client may miss it.
    Progress(Vec<ProgressEvent>),
    /// Changes of the fleet: factories, alerts, modes, metrics. They have no position.
    Live(Vec<StreamEvent>),
    /// The position is unknown or too far behind: read the state again, then continue from here.
    Reset(Position),
}

impl Coordinator {
    /// Subscribes to everything that the caller may see: events after `after`, or from now on, and changes of the fleet.
    pub async fn follow_fleet(self: &Arc<Self>, who: &Principal, after: Option<Position>) -> Result<Subscriber, Error> {
        let subscriber = self.follow(self.fleet_scope(who)?, after).await?;
        Ok(Subscriber { live: Some(self.follow_live(who).await), ..subscriber })
    }

    /// Subscribes to events after `after`, or from now on.
    pub async fn follow(self: &Arc<Self>, scope: Scope, after: Option<Position>) -> Result<Subscriber, Error> {
        let end = self.log_end().await?;
        let position = after.unwrap_or(end);
        let is_unknown = position > end && !self.has_reached(position).await?;
        let is_far_behind = scope_is_wide(&scope) && end.0.saturating_sub(position.0) > BEHIND_MAX;
        let reset = is_unknown || is_far_behind;
        let position = if reset { end } else { position };
        let progress = self.progress.listen();
        let heard = *progress.borrow();
        Ok(Subscriber {
            coordinator: Arc::clone(self),
            scope,
            position,
            seen: position,
            reset,
            progress,
            heard,
            live: None,
            has_sent_events: false,
        })
    }

    /// The current end of the log.
    pub(crate) async fn log_end(&self) -> Result<Position, Error> {
        // Nothing is before position 0, so this resolves at once unless the log is empty.
        let end = tokio::select! {
            biased;
            // The scheduler's budget of a task must not make this return pending.
            end = tokio::task::unconstrained(self.ports.jobs.changed(Position(0))) => end?,
            () = std::future::ready(()) => Position(0),
        };
        Ok(end)
    }

    /// Whether the log has reached a position: another coordinator on the same store may know more of it than this one.
    pub(crate) async fn has_reached(&self, position: Position) -> Result<bool, Error> {
        let before = Position(position.0.saturating_sub(1));
        Ok(!self.ports.history.events(&Scope::Fleet, before, 1).await?.is_empty())
    }

    /// Events after a position, from memory where they are recent enough, and the position that was reached. The log is
    /// known to reach `end`.
    pub(crate) async fn events_after(
        &self,
        scope: &Scope,
        after: Position,
        end: Position,
    ) -> Result<(Vec<StoredEvent>, Position), StoreError> {
        if let Some(found) = self.tail.after(scope, after) {
            return Ok(found);
        }
        if end.0.saturating_sub(after.0) > PAGE.into() {
            let events = self.ports.history.events(scope, after, PAGE).await?;
            let reached = reached(&events, end);
            return Ok((events, reached));
        }
        // A subscriber this close reads for all: the others find the events in memory.
        let _turn = self.tail.filling.lock().await;
        if let Some(found) = self.tail.after(scope, after) {
            return Ok(found);
        }
        let mut events = self.ports.history.events(&Scope::Fleet, after, PAGE).await?;
        self.tail.keep(&events);
        let reached = reached(&events, end);
        events.retain(|event| scope.covers(event));
        Ok((events, reached))
    }
}

impl EventTail {
    /// The events in memory after a position, if memory reaches back that far and has newer ones.
    fn after(&self, scope: &Scope, after: Position) -> Option<(Vec<StoredEvent>, Position)> {
        let kept = self.kept.lock();
        if after >= kept.end()? {
            return None;
        }
        let mut events = Vec::new();
        let mut reached = after;
        for event in kept.after(after)?.take(PAGE.into()) {
            reached = event.position;
            if scope.covers(event) {
                events.push(event.clone());
            }
        }
        Some((events, reached))
    }

    /// Appends events to memory.
    fn keep(&self, events: &[StoredEvent]) {
        self.kept.lock().append(events.iter().cloned());
    }
}

impl Subscriber {
    /// Waits for the next events. `None` when the coordinator is stopping.
    pub async fn next(&mut self) -> Option<StreamItem> {
        Purpose::Stream.scope(self.advance()).await
    }

    async fn advance(&mut self) -> Option<StreamItem> {
        if std::mem::take(&mut self.reset) {
            return Some(StreamItem::Reset(self.position));
        }
        loop {
            // A steady flow of events does not hold it back.
            if std::mem::take(&mut self.has_sent_events) {
                let news = self.live_news().await;
                if !news.is_empty() {
                    return Some(StreamItem::Live(news));
                }
            }
            self.seen = self.coordinator.log_end().await.unwrap_or(self.seen);
            if self.seen <= self.position {
                let news = self.progress_news();
                if !news.is_empty() {
                    return Some(StreamItem::Progress(news));
                }
                let news = self.live_news().await;
                if !news.is_empty() {
                    return Some(StreamItem::Live(news));
                }
                self.wait().await?;
                continue;
            }
            match self.coordinator.events_after(&self.scope, self.position, self.seen).await {
                Ok((events, reached)) => {
                    self.position = reached;
                    if !events.is_empty() {
                        self.has_sent_events = true;
                        return Some(StreamItem::Events(events));
                    }
                }
                Err(error) => {
                    warn!(%error, "Could not read events, retrying");
                    self.pause().await?;
                }
            }
        }
    }

    /// The progress updates since the last call.
    fn progress_news(&mut self) -> Vec<ProgressEvent> {
        if *self.progress.borrow_and_update() == self.heard {
            return Vec::new();
        }
        let (news, heard) = self.coordinator.progress.after(self.heard, &self.scope);
        self.heard = heard;
        news
    }

    /// The changes of the fleet, if some may be sent now.
    async fn live_news(&mut self) -> Vec<StreamEvent> {
        let now = self.coordinator.ports.clock.monotonic();
        match self.live.as_mut().filter(|live| live.is_due(now)) {
            Some(live) => live.news(&self.coordinator).await,
            None => Vec::new(),
        }
    }

    /// Waits for new events, new progress or changes of the fleet. `None` when the coordinator is stopping.
    async fn wait(&mut self) -> Option<()> {
        let Self { coordinator, progress, live, .. } = self;
        let changed = async {
            match live {
                Some(live) => live.wait(coordinator).await,
                None => std::future::pending().await,
            }
        };
        let grown = tokio::select! {
            () = coordinator.stopped() => return None,
            _ = progress.changed() => return Some(()),
            () = changed => return Some(()),
            grown = coordinator.ports.jobs.changed(self.seen.max(self.position)) => grown,
        };
        match grown {
            Ok(_) => Some(()),
            Err(error) => {
                warn!(%error, "Could not wait for events, retrying");
                self.pause().await
            }
        }
    }

    /// Pauses after a store failure. `None` when the coordinator is stopping.
    async fn pause(&self) -> Option<()> {
        tokio::select! {
            () = self.coordinator.stopped() => None,
            () = self.coordinator.ports.clock.sleep(TRY_AGAIN_AFTER) => Some(()),
        }
    }

    /// The subscriber's position.
    pub fn position(&self) -> Position {
        self.position
    }
}

/// The position that a page reached: a page that is not full reached the end.
fn reached(page: &[StoredEvent], end: Position) -> Position {
    let last = page.last().map(|event| event.position);
    if page.len() < PAGE.into() { last.map_or(end, |last| last.max(end)) } else { last.unwrap_or(end) }
}

fn scope_is_wide(scope: &Scope) -> bool {
    !matches!(scope, Scope::Job(_))
}
