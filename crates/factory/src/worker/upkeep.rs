//! Cleans up the disk: on a schedule, and when space runs out [F7][B10].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandbox::free_bytes;
use tracing::{info, warn};
use workspace::{Gc, GcReport};

use super::Worker;
use super::gc::gc;

/// How often free space is checked: an agent can fill a disk within a day, and a check costs nothing.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// A clean-up that freed too little is not worth repeating at once.
const GC_WHEN_SHORT_EVERY: Duration = Duration::from_mins(30);

/// Whether the disk is too full for new work.
#[derive(Debug, Default)]
pub(super) struct DiskUpkeep {
    is_short: AtomicBool,
}

impl Worker {
    /// Cleans up on schedule and when space runs out, until the factory stops.
    pub(super) async fn keep_house(&self) {
        let every = self.settings.housekeeping.every;
        let mut last_when_short: Option<Duration> = None;
        loop {
            self.clock.sleep(every.map_or(LOOK_EVERY, |every| every.min(LOOK_EVERY))).await;
            let now = self.clock.monotonic();
            let is_worth_it = last_when_short.is_none_or(|last| now.saturating_sub(last) >= GC_WHEN_SHORT_EVERY);
            // Counted from what is on the disk: a factory that restarts every day cleans up all the same.
            let is_due = || every.is_some_and(|every| Gc::last_was(self.host.state(), self.clock.now()) >= every);
            if self.is_below_floor() && is_worth_it {
                last_when_short = Some(now);
                self.collect().await;
            } else if is_due() {
                self.collect().await;
            }
            self.ledger.settle().await;
            self.say_whether_short(self.is_below_floor()).await;
        }
    }

    /// The number of seats: none while its disk is too full.
    pub(super) fn seats_offered(&self) -> u32 {
        if self.upkeep.is_short.load(Ordering::Relaxed) { 0 } else { self.settings.seats }
    }

    /// Whether there is less free space than new work needs.
    pub(super) fn is_below_floor(&self) -> bool {
        free_bytes(&self.settings.state).is_some_and(|free| free < self.settings.housekeeping.disk_floor_bytes)
    }

    /// The disk became full during a run. Reported before the job is released.
    pub(super) async fn disk_is_full(&self) {
        self.say_whether_short(true).await;
    }

    /// Reports at once that the disk is full, or has space again: an offer would only wait here.
    async fn say_whether_short(&self, is_short: bool) {
        if self.upkeep.is_short.swap(is_short, Ordering::Relaxed) == is_short {
            return;
        }
        let free = free_bytes(&self.settings.state).unwrap_or(0);
        match is_short {
            true => warn!(disk.free_bytes = free, "The disk is too full for new work: {free} bytes are free"),
            false => {
                info!(disk.free_bytes = free, "There is room for new work again");
                self.freed.notify_one();
            }
        }
        if let Err(error) = self.heartbeat().await {
            warn!(%error, "The coordinator could not be told about the disk");
            // The next check reports it again.
            self.upkeep.is_short.store(!is_short, Ordering::Relaxed);
        }
    }

    async fn collect(&self) {
        let repos = self.settings.all_repos(&self.detected.lock().found_repos);
        let (forge, retention) = (&self.settings.forge, self.settings.housekeeping.retention);
        let gc = gc(self.host.clone(), repos, forge, self.client.clone(), retention);
        match gc.run().await {
            Ok(GcReport { freed_bytes, removed, kept, .. }) => {
                let (gone, left) = (removed.len(), kept.len());
                info!(
                    gc.freed_bytes = freed_bytes,
                    "Cleaned up: {gone} things went, {left} stay, {freed_bytes} bytes are free again"
                );
            }
            Err(error) => warn!(%error, "Could not clean up"),
        }
    }
}
