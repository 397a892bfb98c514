//! The store on a simulated document database passes the conformance suite while requests are answered, and its safety
//! properties when they are not.

mod database;
mod faults;
mod log;
mod requests;

use std::sync::Arc;

use async_trait::async_trait;
use clock::SeededEntropy;
use store::conformance::{Harness, Stores};
use store::document::DocumentStore;
use store::document::simulated::{Faults, HastyClock, SimulatedDatabase};

/// A database in memory, and the stores that are opened on it.
pub(crate) struct Cloud {
    pub(crate) database: Arc<SimulatedDatabase>,
    pub(crate) clock: Arc<HastyClock>,
}

impl Cloud {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        let database = Arc::new(SimulatedDatabase::new(faults, Arc::new(SeededEntropy::new(seed))));
        Self { database, clock: Arc::default() }
    }

    /// Opens a store, as another process would.
    pub(crate) async fn open(&self) -> Arc<DocumentStore> {
        let chance = Arc::new(SeededEntropy::new(5));
        Arc::new(
            DocumentStore::open(Arc::clone(&self.database) as _, Arc::clone(&self.clock) as _, chance).await.unwrap(),
        )
    }
}

#[async_trait]
impl Harness for Cloud {
    async fn open(&mut self) -> Stores {
        Stores::of(Cloud::open(self).await)
    }

    async fn reopen(&mut self) -> Option<Stores> {
        Some(Stores::of(Cloud::open(self).await))
    }
}

store::store_conformance!(Cloud::new(Faults::default(), 0));

/// The suite with throttling and a repeating feed: every answer is correct. Tests that expect `changed` to know the
/// exact end of the log at once are left out: it returns the known end.
mod busy {
    use super::{Cloud, Faults};

    const BUSY: Faults = Faults { answers_lost: 0.0, requests_lost: 0.0, ..Faults::BAD_DAY };

    store::store_conformance! { @each Cloud::new(BUSY, 1);
        only_one_of_two_writers_wins,
        a_rejected_unit_does_not_fail_the_others,
        creating_a_job_twice_is_stale_and_changes_nothing,
        a_job_and_its_events_are_written_together_or_not_at_all,
        units_of_one_job_in_one_commit_apply_in_order,
        an_abandoned_write_is_complete_or_absent,
        a_job_is_read_as_it_was_written,
        runs_are_listed_in_order,
        open_lists_exactly_the_jobs_that_have_not_ended,
        the_census_follows_every_stage_change,
        a_list_is_stable_while_jobs_are_added,
        a_filter_returns_exactly_the_matching_jobs,
        a_follower_sees_every_event_exactly_once,
        a_scope_returns_only_its_own_events,
        a_document_is_compared_and_set,
        a_document_is_removed_only_at_its_expected_revision,
        acknowledged_writes_survive_a_restart,
    }
}
