//! What can go wrong with a document database, decided by a seed.

use std::sync::Arc;
use std::time::Duration;

use domain::Entropy;
use parking_lot::Mutex;

/// How often each thing goes wrong, as parts of one. Nothing does by default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// Requests that are turned away, with a time to wait: too many of them lately.
    pub throttled: f64,
    /// Requests that fail and are known not to have happened.
    pub refused: f64,
    /// Writes that happen, and whose answer is lost.
    pub answers_lost: f64,
    /// Writes that do not happen, and about which nobody says so.
    pub requests_lost: f64,
    /// Reads of one item that show the version before the latest.
    pub stale_reads: f64,
    /// Pages of the change feed that are empty although it goes on.
    pub empty_pages: f64,
    /// Pages of the change feed that begin again somewhere before.
    pub repeated_pages: f64,
    /// Every request gives way to others up to this many times.
    pub yields_max: u32,
}

impl Faults {
    /// Everything that a busy account with session consistency shows on a bad day. Within its session nobody reads what is
    /// older than what was written, so stale reads are not among it: a store promises that it has none.
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

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestFate {
    Fine,
    Throttled(Duration),
    Refused,
    AnswerLost,
    RequestLost,
}

/// The longest time that a throttled caller is told to wait.
const RETRY_AFTER_MAX_MS: u8 = 20;

/// Faults and the chance that decides on them.
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

    /// Whether something happens that happens in this part of all cases. What never happens costs no chance.
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

    /// Lets others go first, as a network does.
    pub(super) async fn give_way(&self) {
        let most = self.faults().yields_max as usize;
        for _ in 0..self.any(most + 1) {
            tokio::task::yield_now().await;
        }
    }
}
