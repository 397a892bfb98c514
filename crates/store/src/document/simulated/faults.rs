//! Faults of a document database, decided by a seed.

use std::sync::Arc;
use std::time::Duration;

use domain::Entropy;
use parking_lot::Mutex;

/// The probability of each fault. None by default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// Requests that are rate-limited, with a time to wait.
    pub throttled: f64,
    /// Requests that fail and are known not to have been executed.
    pub refused: f64,
    /// Writes that are executed and whose response is lost.
    pub answers_lost: f64,
    /// Writes that are not executed and time out.
    pub requests_lost: f64,
    /// Reads of one item that return the version before the latest.
    pub stale_reads: f64,
    /// Pages of the change feed that are empty although more follow.
    pub empty_pages: f64,
    /// Pages of the change feed that start again at an earlier position.
    pub repeated_pages: f64,
    /// Every request yields to other tasks up to this many times.
    pub yields_max: u32,
}

impl Faults {
    /// Everything that a busy account with session consistency does on a bad day. Stale reads are not included:
    /// session consistency excludes them, and a store must have none.
    pub const BAD_DAY: Self = Self {
        throttled: 0.04,
        refused: 0.02,
        answers_lost: 0.03,
        requests_lost: 0.02,
        stale_reads: 0.0,
        empty_pages: 0.3,
        repeated_pages: 0.3,
        yields_max: 1,
    };
}

/// The outcome of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestFate {
    Fine,
    Throttled(Duration),
    Refused,
    AnswerLost,
    RequestLost,
}

/// Maximum `retry after` of a throttled request.
const RETRY_AFTER_MAX_MS: u8 = 20;

/// The faults and the entropy that decides on them.
pub(super) struct Dice {
    faults: Mutex<Faults>,
    chance: Arc<dyn Entropy>,
}

impl Dice {
    pub(super) fn new(faults: Faults, chance: Arc<dyn Entropy>) -> Self {
        Self { faults: Mutex::new(faults), chance }
    }

    pub(super) fn set(&self, faults: Faults) {
        *self.faults.lock() = faults;
    }

    pub(super) fn faults(&self) -> Faults {
        *self.faults.lock()
    }

    /// Returns true with this probability. A probability of zero uses no entropy.
    pub(super) fn happens(&self, part: f64) -> bool {
        part > 0.0 && self.chance.fraction() < part
    }

    /// A number from 0 to `below` − 1.
    pub(super) fn any(&self, below: usize) -> usize {
        if below < 2 {
            return 0;
        }
        usize::try_from(u64::from_le_bytes(self.chance.bytes()) % below as u64).unwrap_or(0)
    }

    pub(super) fn of_read(&self) -> RequestFate {
        let faults = self.faults();
        if self.happens(faults.throttled) {
            let [millis] = self.chance.bytes();
            return RequestFate::Throttled(Duration::from_millis(u64::from(millis % RETRY_AFTER_MAX_MS) + 1));
        }
        if self.happens(faults.refused) { RequestFate::Refused } else { RequestFate::Fine }
    }

    pub(super) fn of_write(&self) -> RequestFate {
        let faults = self.faults();
        match self.of_read() {
            RequestFate::Fine if self.happens(faults.answers_lost) => RequestFate::AnswerLost,
            RequestFate::Fine if self.happens(faults.requests_lost) => RequestFate::RequestLost,
            fate => fate,
        }
    }

    /// Yields to other tasks, as a network does.
    pub(super) async fn yield_now(&self) {
        let most = self.faults().yields_max as usize;
        for _ in 0..self.any(most + 1) {
            tokio::task::yield_now().await;
        }
    }
}
