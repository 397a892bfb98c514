//! What keeps the coordinator from being ready although it answers: a damaged store.

use domain::Timestamp;
use parking_lot::Mutex;
use protocol::{Alert, AlertCode};
use tracing::error;

use crate::alerts::alert;
use crate::coordinator::Coordinator;

/// What is wrong with the store as a whole.
#[derive(Default)]
pub(crate) struct StoreHealth {
    damage: Mutex<Option<Trouble>>,
}

/// One thing that is wrong, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    since: Timestamp,
    message: String,
}

/// Why the coordinator is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// A check found the store damaged.
    StoreDamaged(String),
}

impl Coordinator {
    /// Reports damage that a check of the store has found. It stands until the store was replaced, which takes a restart.
    pub fn report_store_damage(&self, why: &str) {
        error!("The store is damaged ({why}): keep a copy of it, then restore a backup with `giga restore FILE`");
        let message = format!(
            "the store is damaged ({why}): stop the coordinator, keep a copy of the database, then `giga restore FILE`"
        );
        *self.health.damage.lock() = Some(Trouble { since: self.now(), message });
    }

    /// Why the coordinator should get no work although it answers; `None` when it is ready. Nothing is asked of the store.
    pub fn not_ready(&self) -> Option<NotReady> {
        self.health.damage.lock().as_ref().map(|damage| NotReady::StoreDamaged(damage.message.clone()))
    }

    pub(crate) fn health_alerts(&self) -> Vec<Alert> {
        let damage = self.health.damage.lock().clone();
        Vec::from_iter(damage.map(|damage| alert(AlertCode::StoreDamaged, damage.message, damage.since, None)))
    }
}
