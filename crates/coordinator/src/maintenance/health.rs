//! Why the coordinator is not ready although it answers: a damaged store, or a full disk.

use std::sync::OnceLock;
use std::time::Duration;

use domain::{Collection, CommitError, Expected, Revision, StoreError, Timestamp};
use parking_lot::Mutex;
use protocol::{Alert, AlertCode};
use serde_json::json;
use tokio::sync::Notify;
use tracing::{error, info};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::read::alerts::alert;

/// How often a full disk is polled. Only then; the store is not queried.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// This much more free space is worth a test write.
const GAIN_MIN: u64 = 64 * 1024;

/// A test write runs after this many polls anyway: the store may be on another disk, or have its own limit.
const TRY_EVERY: u32 = 15;

/// The key of the test document in [`Collection::Meta`].
const PROBE_KEY: &str = "space";

/// The health of the store as a whole.
#[derive(Default)]
pub(crate) struct StoreHealth {
    damage: Mutex<Option<HealthProblem>>,
    full_since: Mutex<Option<Timestamp>>,
    became_full: Notify,
    disk: OnceLock<Disk>,
}

/// The disk of the data directory.
pub struct Disk {
    /// Its path, for messages.
    pub path: String,
    /// The free bytes, if known.
    pub free: Box<dyn Fn() -> Option<u64> + Send + Sync>,
}

/// One problem, as shown to users.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HealthProblem {
    since: Timestamp,
    message: String,
}

/// Why the coordinator is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// A check found the store damaged.
    StoreDamaged(String),
    /// Writes fail for lack of space.
    DiskFull(String),
}

impl Coordinator {
    /// Sets the disk to poll while writes fail for lack of space. Once, before the coordinator runs.
    pub fn set_disk(&self, disk: Disk) {
        // A second call would name the same disk.
        let _ = self.health.disk.set(disk);
    }

    /// Reports damage found by a check of the store. It stands until the store is replaced, which takes a restart.
    pub fn report_store_damage(&self, why: &str) {
        error!(
            "The store is damaged ({why}): keep a copy of it, then restore a backup with `giga backup restore FILE`"
        );
        let message = format!(
            "the store is damaged ({why}): stop the coordinator, keep a copy of the database, then `giga backup restore FILE`"
        );
        *self.health.damage.lock() = Some(HealthProblem { since: self.now(), message });
        self.live.note();
    }

    /// Why the coordinator should get no work although it answers; `None` when it is ready. The store is not queried.
    pub fn not_ready(&self) -> Option<NotReady> {
        if let Some(damage) = &*self.health.damage.lock() {
            return Some(NotReady::StoreDamaged(damage.message.clone()));
        }
        self.health.full_since.lock().map(|_| NotReady::DiskFull(self.disk_full_message()))
    }

    /// Reads one small document: whether the store answers. As cheap with many jobs and factories as with none.
    pub async fn ping_store(&self) -> Result<(), Error> {
        self.ports.fleet.document(Collection::Meta, PROBE_KEY).await?;
        Ok(())
    }

    pub(crate) fn health_alerts(&self) -> Vec<Alert> {
        let damage = self.health.damage.lock().clone();
        let damage = damage.map(|damage| alert(AlertCode::StoreDamaged, damage.message, damage.since, None));
        let full = *self.health.full_since.lock();
        let full = full.map(|since| alert(AlertCode::DiskFull, self.disk_full_message(), since, None));
        damage.into_iter().chain(full).collect()
    }

    fn disk_full_message(&self) -> String {
        let place = match self.health.disk.get() {
            Some(disk) => match (disk.free)() {
                Some(free) => format!("the disk of {} ({free} bytes free)", disk.path),
                None => format!("the disk of {}", disk.path),
            },
            None => "the disk of the store".to_owned(),
        };
        format!("no space left on {place}: writes fail until space is freed there")
    }

    /// Detects from the outcomes of writes whether there is space.
    pub(crate) fn note_space<'o>(&self, outcomes: impl Iterator<Item = &'o Result<Revision, CommitError>>) {
        for outcome in outcomes {
            match outcome {
                Ok(_) => self.space_returned(),
                Err(CommitError::Store(StoreError::DiskFull(_))) => self.space_ran_out(),
                Err(_) => {}
            }
        }
    }

    fn space_ran_out(&self) {
        {
            let mut since = self.health.full_since.lock();
            if since.is_some() {
                return;
            }
            *since = Some(self.now());
        }
        error!("Writes fail: {}", self.disk_full_message());
        self.health.became_full.notify_one();
        self.live.note();
    }

    fn space_returned(&self) {
        if self.health.full_since.lock().take().is_none() {
            return;
        }
        info!("Writes work again: disk space is available");
        self.live.note();
        // Failed writes are compared again, and waiting work continues.
        self.mark_suspect();
        self.work.notify_one();
        self.timer.notify_one();
    }

    /// Polls the disk while it is full, and tries a write once space is free.
    pub(crate) async fn run_disk_watch(&self) {
        let watching = async {
            loop {
                self.health.became_full.notified().await;
                self.wait_for_space().await;
            }
        };
        self.stopping.run_until_cancelled(watching).await;
    }

    async fn wait_for_space(&self) {
        let free = || self.health.disk.get().and_then(|disk| (disk.free)());
        let (mut least, mut polls) = (free(), 0_u32);
        while self.health.full_since.lock().is_some() {
            self.ports.clock.sleep(POLL_EVERY).await;
            polls += 1;
            let now = free();
            let has_gained = matches!((least, now), (Some(least), Some(now)) if now >= least.saturating_add(GAIN_MIN));
            if has_gained || polls % TRY_EVERY == 0 {
                self.try_write().await;
            }
            least = match (least, now) {
                (Some(least), Some(now)) => Some(least.min(now)),
                (least, now) => least.or(now),
            };
        }
    }

    async fn try_write(&self) {
        let Ok(there) = self.ports.fleet.document(Collection::Meta, PROBE_KEY).await else { return };
        let expected = there.map_or(Expected::Absent, |there| Expected::At(there.revision));
        let document = json!({ "triedAt": self.now() });
        let written = self.ports.fleet.put(Collection::Meta, PROBE_KEY, expected, Some(document)).await;
        self.note_space(std::iter::once(&written));
    }
}
