//! Following the log of events: replay from any position, then live, without gaps or repeats (row 24).

use std::collections::VecDeque;
use std::sync::Arc;

use domain::{Position, Scope, StoreError, StoredEvent};
use parking_lot::Mutex;
use protocol::ProgressEvent;
use tokio::sync::watch;
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::maintenance::sweep::TRY_AGAIN_AFTER;

/// Events kept in memory for those who follow closely; everybody else reads from the store.
const KEPT_MAX: usize = 16_384;

/// Events read or handed out at once.
const PAGE: u16 = 512;

/// A reader further behind than this starts over from a snapshot: replaying would take longer than asking.
const BEHIND_MAX: u64 = 200_000;

/// The end of the log, kept in memory and shared by all who follow.
#[derive(Default)]
pub(crate) struct EventTail {
    kept: Mutex<VecDeque<StoredEvent>>,
    filling: tokio::sync::Mutex<()>,
}

/// One reader of the log.
pub struct Subscriber {
    coordinator: Arc<Coordinator>,
    scope: Scope,
    /// The last event handed out, or skipped because it concerns others.
    position: Position,
    /// How far the log reached when it was last asked.
    seen: Position,
    reset: bool,
    /// Wakes when an agent does something else.
    progress: watch::Receiver<u64>,
    /// What agents are doing, as far as it was handed out.
    heard: u64,
}

/// What a reader of the log gets.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// The next events, in order; at least one.
    Events(Vec<StoredEvent>),
    /// What agents are doing now, the latest of each job: it has no position, and whoever misses it misses nothing.
    Progress(Vec<ProgressEvent>),
    /// The position is unknown or too far behind: read the state afresh, then go on from here.
    Reset(Position),
}

impl Coordinator {
    /// Follows events after `after`, or from now on.
    pub async fn follow(self: &Arc<Self>, scope: Scope, after: Option<Position>) -> Result<Subscriber, Error> {
        let end = self.log_end().await?;
        let position = after.unwrap_or(end);
        let is_unknown = position > end && !self.has_reached(position).await?;
        let is_far_behind = scope_is_wide(&scope) && end.0.saturating_sub(position.0) > BEHIND_MAX;
        let reset = is_unknown || is_far_behind;
        let position = if reset { end } else { position };
        let progress = self.progress.listen();
        let heard = *progress.borrow();
        Ok(Subscriber { coordinator: Arc::clone(self), scope, position, seen: position, reset, progress, heard })
    }

    /// Where the log ends now.
    pub(crate) async fn log_end(&self) -> Result<Position, Error> {
        // Nothing is before position 0, so this answers at once unless the log is empty.
        let end = tokio::select! {
            biased;
            // Not even a task that has used up its turn may be told here to come back later.
            end = tokio::task::unconstrained(self.ports.jobs.changed(Position(0))) => end?,
            () = std::future::ready(()) => Position(0),
        };
        Ok(end)
    }

    /// Whether the log has come to a position: another coordinator on the same store may know more of it than this one.
    async fn has_reached(&self, position: Position) -> Result<bool, Error> {
        let before = Position(position.0.saturating_sub(1));
        Ok(!self.ports.history.events(&Scope::Fleet, before, 1).await?.is_empty())
    }

    /// Events after a position, from memory where they are recent enough, and how far that looked. The log is known to
    /// reach to `end`.
    async fn events_after(
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
        // Whoever is this close reads for all who follow: the others find it in memory.
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
    /// What memory has after a position, if it reaches back that far and has anything newer.
    fn after(&self, scope: &Scope, after: Position) -> Option<(Vec<StoredEvent>, Position)> {
        let kept = self.kept.lock();
        let first = kept.front()?.position;
        let last = kept.back()?.position;
        if after.0 + 1 < first.0 || after >= last {
            return None;
        }
        let start = kept.partition_point(|event| event.position <= after);
        let mut events = Vec::new();
        let mut reached = after;
        for event in kept.iter().skip(start).take(PAGE.into()) {
            reached = event.position;
            if scope.covers(event) {
                events.push(event.clone());
            }
        }
        Some((events, reached))
    }

    /// Adds what was read behind what is kept. A gap starts it over.
    fn keep(&self, events: &[StoredEvent]) {
        let mut kept = self.kept.lock();
        for event in events {
            match kept.back().map(|last| last.position) {
                Some(last) if event.position <= last => continue,
                Some(last) if event.position.0 != last.0 + 1 => kept.clear(),
                Some(_) | None => {}
            }
            kept.push_back(event.clone());
        }
        while kept.len() > KEPT_MAX {
            kept.pop_front();
        }
    }
}

impl Subscriber {
    /// Waits for the next events. `None` when the coordinator is stopping.
    pub async fn next(&mut self) -> Option<StreamItem> {
        if std::mem::take(&mut self.reset) {
            return Some(StreamItem::Reset(self.position));
        }
        loop {
            self.seen = self.coordinator.log_end().await.unwrap_or(self.seen);
            if self.seen <= self.position {
                let news = self.progress_news();
                if !news.is_empty() {
                    return Some(StreamItem::Progress(news));
                }
                self.wait().await?;
                continue;
            }
            match self.coordinator.events_after(&self.scope, self.position, self.seen).await {
                Ok((events, reached)) => {
                    self.position = reached;
                    if !events.is_empty() {
                        return Some(StreamItem::Events(events));
                    }
                }
                Err(error) => {
                    warn!(%error, "Could not read events, looking again soon");
                    self.pause().await?;
                }
            }
        }
    }

    /// What agents have begun to do since this was last asked.
    fn progress_news(&mut self) -> Vec<ProgressEvent> {
        if *self.progress.borrow_and_update() == self.heard {
            return Vec::new();
        }
        let (news, heard) = self.coordinator.progress.after(self.heard, &self.scope);
        self.heard = heard;
        news
    }

    /// Waits for the log to grow, or for an agent to do something else. `None` when the coordinator is stopping.
    async fn wait(&mut self) -> Option<()> {
        let Self { coordinator, progress, .. } = self;
        let grown = tokio::select! {
            () = coordinator.stopped() => return None,
            _ = progress.changed() => return Some(()),
            grown = coordinator.ports.jobs.changed(self.seen.max(self.position)) => grown,
        };
        match grown {
            Ok(_) => Some(()),
            Err(error) => {
                warn!(%error, "Could not wait for events, looking again soon");
                self.pause().await
            }
        }
    }

    /// Lets a store that did not answer come back. `None` when the coordinator is stopping.
    async fn pause(&self) -> Option<()> {
        tokio::select! {
            () = self.coordinator.stopped() => None,
            () = self.coordinator.ports.clock.sleep(TRY_AGAIN_AFTER) => Some(()),
        }
    }

    /// Where the reader is.
    pub fn position(&self) -> Position {
        self.position
    }
}

/// How far a page looked: a page that is not full has seen everything that was there.
fn reached(page: &[StoredEvent], end: Position) -> Position {
    let last = page.last().map(|event| event.position);
    if page.len() < PAGE.into() { last.map_or(end, |last| last.max(end)) } else { last.unwrap_or(end) }
}

fn scope_is_wide(scope: &Scope) -> bool {
    !matches!(scope, Scope::Job(_))
}
