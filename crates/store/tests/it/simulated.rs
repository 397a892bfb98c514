//! The store on a weak database keeps every promise of the suite while requests are answered, and the promises that
//! matter when they are not.

mod database;
mod faults;
mod log;

use std::sync::Arc;

use async_trait::async_trait;
use clock::SeededEntropy;
use store::conformance::{Harness, Stores};
use store::document::simulated::{Faults, HastyClock, SimulatedDatabase, SimulatedDocumentStore};

/// A database in memory, and stores that are opened on it.
pub(crate) struct Cloud {
    pub(crate) database: Arc<SimulatedDatabase>,
    pub(crate) clock: Arc<HastyClock>,
}

impl Cloud {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        let database = Arc::new(SimulatedDatabase::new(faults, Arc::new(SeededEntropy::new(seed))));
        Self { database, clock: Arc::default() }
    }

    /// Another process.
    pub(crate) async fn open(&self) -> Arc<SimulatedDocumentStore> {
        let chance = Arc::new(SeededEntropy::new(5));
        Arc::new(
            SimulatedDocumentStore::open(Arc::clone(&self.database), Arc::clone(&self.clock) as _, chance)
                .await
                .unwrap(),
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

/// The same promises while requests are turned away and the feed repeats itself: whoever is answered is answered rightly.
/// Left out are those that count on `changed` to know the very end of the log at once: it answers with what is known.
mod busy {
    use super::{Cloud, Faults};

    const BUSY: Faults = Faults { answers_lost: 0.0, requests_lost: 0.0, ..Faults::BAD_DAY };

    store::store_conformance! { @each Cloud::new(BUSY, 1);
        only_one_of_two_writers_wins,
        a_refused_unit_never_fails_its_neighbours,
        creating_twice_is_stale_the_second_time_and_changes_nothing,
        a_job_and_its_events_are_both_there_or_neither,
        units_of_one_job_in_one_commit_build_on_each_other,
        a_write_whose_caller_left_is_whole_or_absent,
        a_job_comes_back_as_it_was_written,
        runs_come_back_in_order,
        open_lists_exactly_the_jobs_that_are_not_over,
        the_census_follows_every_move,
        a_list_is_stable_while_jobs_are_added,
        a_filter_shows_what_it_names_and_nothing_else,
        a_follower_sees_every_event_exactly_once,
        a_scope_hears_its_own_events_only,
        a_document_is_compared_and_set,
        a_document_is_removed_only_as_it_was_seen,
        what_was_acknowledged_survives_a_restart,
    }
}
