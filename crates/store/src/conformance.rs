//! The conformance suite of the store ports. Each function is named by the sentence it proves;
//! [`store_conformance!`](crate::store_conformance) runs them all.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod documents;
mod durability;
mod lists;
mod log;
mod reads;
pub mod sample;
mod writes;

use std::sync::Arc;

use async_trait::async_trait;
use domain::{FleetStore, JobHistory, JobStore};

pub use documents::{
    a_document_is_compared_and_set, a_document_is_removed_only_at_its_expected_revision,
    documents_are_listed_in_order_of_key,
};
pub use durability::acknowledged_writes_survive_a_restart;
pub use lists::{
    a_filter_returns_exactly_the_matching_jobs, a_foreign_cursor_is_rejected,
    a_list_has_only_the_failures_that_nobody_attended_to, a_list_is_stable_while_jobs_are_added,
    a_search_returns_exactly_the_matching_jobs,
};
pub use log::{
    a_follower_sees_every_event_exactly_once, a_scope_returns_only_its_own_events,
    changed_returns_at_once_when_the_log_is_ahead, positions_grow_in_commit_order_without_gaps,
};
pub use reads::{
    a_body_is_returned_byte_for_byte, a_job_is_read_as_it_was_written, an_unknown_id_is_absent,
    dependents_are_found_by_their_dependency, open_lists_exactly_the_jobs_that_have_not_ended,
    runs_are_listed_in_order, the_census_follows_every_stage_change,
};
pub use writes::{
    a_job_and_its_events_are_written_together_or_not_at_all, a_rejected_unit_does_not_fail_the_others,
    an_abandoned_write_is_complete_or_absent, creating_a_job_twice_is_stale_and_changes_nothing,
    of_two_racing_writes_exactly_one_succeeds, only_one_of_two_writers_wins,
    units_of_one_job_in_one_commit_apply_in_order,
};

/// One store through all of its ports.
#[derive(Clone)]
pub struct Stores {
    /// Job writes and reads.
    pub jobs: Arc<dyn JobStore>,
    /// Queries and the event log.
    pub history: Arc<dyn JobHistory>,
    /// Fleet documents.
    pub fleet: Arc<dyn FleetStore>,
}

impl Stores {
    /// Wraps one adapter.
    pub fn of<S: JobStore + JobHistory + FleetStore + 'static>(store: Arc<S>) -> Self {
        Self { jobs: Arc::clone(&store) as _, history: Arc::clone(&store) as _, fleet: store }
    }
}

/// Opens the adapter under test.
#[async_trait]
pub trait Harness: Send {
    /// Opens an empty store.
    async fn open(&mut self) -> Stores;
    /// Reopens the same store as after a process restart; `None` for a store that is not durable.
    async fn reopen(&mut self) -> Option<Stores>;
}

/// Generates one test per promise, each with a harness of its own: call `store_conformance!(make())` in a module of
/// its own.
#[macro_export]
macro_rules! store_conformance {
    ($bench:expr) => {
        $crate::store_conformance! { @each $bench;
            only_one_of_two_writers_wins,
            a_rejected_unit_does_not_fail_the_others,
            creating_a_job_twice_is_stale_and_changes_nothing,
            a_job_and_its_events_are_written_together_or_not_at_all,
            units_of_one_job_in_one_commit_apply_in_order,
            of_two_racing_writes_exactly_one_succeeds,
            an_abandoned_write_is_complete_or_absent,
            an_unknown_id_is_absent,
            a_job_is_read_as_it_was_written,
            a_body_is_returned_byte_for_byte,
            runs_are_listed_in_order,
            open_lists_exactly_the_jobs_that_have_not_ended,
            dependents_are_found_by_their_dependency,
            the_census_follows_every_stage_change,
            a_list_is_stable_while_jobs_are_added,
            a_filter_returns_exactly_the_matching_jobs,
            a_search_returns_exactly_the_matching_jobs,
            a_list_has_only_the_failures_that_nobody_attended_to,
            a_foreign_cursor_is_rejected,
            positions_grow_in_commit_order_without_gaps,
            a_follower_sees_every_event_exactly_once,
            a_scope_returns_only_its_own_events,
            changed_returns_at_once_when_the_log_is_ahead,
            a_document_is_compared_and_set,
            a_document_is_removed_only_at_its_expected_revision,
            documents_are_listed_in_order_of_key,
            acknowledged_writes_survive_a_restart,
        }
    };
    (@each $bench:expr; $($promise:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $promise() {
                let mut bench = $bench;
                $crate::conformance::$promise(&mut bench).await;
            }
        )*
    };
}
