//! What every store must do. Each function is named by the sentence it proves; [`store_conformance!`](crate::store_conformance) runs them all.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod documents;
mod following;
mod listing;
mod reading;
mod restarting;
pub mod sample;
mod writing;

use std::sync::Arc;

use async_trait::async_trait;
use domain::{FleetStore, JobHistory, JobStore};

pub use documents::{
    a_document_is_compared_and_set, a_document_is_removed_only_as_it_was_seen, documents_are_listed_in_order_of_key,
};
pub use following::{
    a_follower_sees_every_event_exactly_once, a_scope_hears_its_own_events_only,
    changed_answers_at_once_when_the_log_is_further, positions_grow_in_commit_order_without_gaps,
};
pub use listing::{
    a_cursor_from_elsewhere_is_refused, a_filter_shows_what_it_names_and_nothing_else,
    a_list_is_stable_while_jobs_are_added,
};
pub use reading::{
    a_body_comes_back_byte_for_byte, a_job_comes_back_as_it_was_written, dependents_are_found_from_what_they_wait_for,
    open_lists_exactly_the_jobs_that_are_not_over, runs_come_back_in_order, the_census_follows_every_move,
    what_was_never_written_is_absent,
};
pub use restarting::what_was_acknowledged_survives_a_restart;
pub use writing::{
    a_job_and_its_events_are_both_there_or_neither, a_refused_unit_never_fails_its_neighbours,
    a_write_whose_caller_left_is_whole_or_absent, creating_twice_is_stale_the_second_time_and_changes_nothing,
    of_two_racing_writes_exactly_one_happens, only_one_of_two_writers_wins,
    units_of_one_job_in_one_commit_build_on_each_other,
};

/// One store through all of its ports.
#[derive(Clone)]
pub struct Stores {
    /// The truth.
    pub jobs: Arc<dyn JobStore>,
    /// What people read.
    pub history: Arc<dyn JobHistory>,
    /// What the fleet is.
    pub fleet: Arc<dyn FleetStore>,
}

impl Stores {
    /// The ports of one adapter.
    pub fn of<S: JobStore + JobHistory + FleetStore + 'static>(store: Arc<S>) -> Self {
        Self { jobs: Arc::clone(&store) as _, history: Arc::clone(&store) as _, fleet: store }
    }
}

/// Where an adapter under test comes from.
#[async_trait]
pub trait Harness: Send {
    /// A store with nothing in it.
    async fn open(&mut self) -> Stores;
    /// The same store after its process ended and began again; `None` where nothing is meant to survive that.
    async fn reopen(&mut self) -> Option<Stores>;
}

/// One test per promise, each on a bench of its own: `store_conformance!(make())` in a module of its own.
#[macro_export]
macro_rules! store_conformance {
    ($bench:expr) => {
        $crate::store_conformance! { @each $bench;
            only_one_of_two_writers_wins,
            a_refused_unit_never_fails_its_neighbours,
            creating_twice_is_stale_the_second_time_and_changes_nothing,
            a_job_and_its_events_are_both_there_or_neither,
            units_of_one_job_in_one_commit_build_on_each_other,
            of_two_racing_writes_exactly_one_happens,
            a_write_whose_caller_left_is_whole_or_absent,
            what_was_never_written_is_absent,
            a_job_comes_back_as_it_was_written,
            a_body_comes_back_byte_for_byte,
            runs_come_back_in_order,
            open_lists_exactly_the_jobs_that_are_not_over,
            dependents_are_found_from_what_they_wait_for,
            the_census_follows_every_move,
            a_list_is_stable_while_jobs_are_added,
            a_filter_shows_what_it_names_and_nothing_else,
            a_cursor_from_elsewhere_is_refused,
            positions_grow_in_commit_order_without_gaps,
            a_follower_sees_every_event_exactly_once,
            a_scope_hears_its_own_events_only,
            changed_answers_at_once_when_the_log_is_further,
            a_document_is_compared_and_set,
            a_document_is_removed_only_as_it_was_seen,
            documents_are_listed_in_order_of_key,
            what_was_acknowledged_survives_a_restart,
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
