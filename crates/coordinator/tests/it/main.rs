//! Fault-injection tests of the protocol: crashes, lost answers, repeated and reordered messages, races. Rows are those
//! of the list of flaws that a dispatcher must not have.
//!
//! Every test runs on the embedded stores and, by the macro below, on others; it takes its store from its parent
//! module.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![expect(clippy::duplicate_mod, reason = "one scenario is told on several stores")]

mod faulty_broker;
mod faulty_store;
mod fleet;
mod machine;
mod stores;

use stores::embedded::{lasting, quick, retold, share_of};

mod accept;
mod actions;
mod artifacts;
mod budgets;
mod change_feed;
mod claim;
mod clock_jumps;
mod dependencies;
mod disconnects;
mod dispatch;
mod enrolment;
mod errands;
mod event_stream;
mod evidence;
mod failure_reasons;
mod idle;
mod job_trees;
mod leadership;
mod leases;
mod live;
mod metrics_history;
mod modes;
mod needs;
mod offer_answers;
mod pauses;
mod placement;
mod pools;
mod preemption;
mod profiles;
mod progress;
mod publishing;
mod pull_requests;
mod races;
mod restore;
mod retry_policy;
mod reviews;
mod scheduling_turns;
mod seats;
mod self_select;
mod shadow;
mod store_operations;
mod submit_fast_path;
mod subtasks;
mod usage_limits;
mod webhooks;

/// Repeats test modules on the stores of a module of `stores`.
macro_rules! tests_on {
    ($stores:ident: $($scenario:ident),+) => {
        #[path = "."]
        mod $stores {
            use crate::stores::$stores::{lasting, quick, retold, share_of};

            $(mod $scenario;)+
        }
    };
}

tests_on!(
    simulated: accept, job_trees, offer_answers, submit_fast_path, claim, disconnects, dependencies, dispatch, errands, failure_reasons, event_stream, idle,
    enrolment, clock_jumps,
    retry_policy, leadership, leases, modes, placement, preemption, evidence, races, restore, seats, progress, pools, pull_requests, actions, scheduling_turns,
    artifacts, budgets, needs, pauses, profiles, reviews, self_select, shadow, subtasks, usage_limits
);

// The tests in which the store matters. Not those that count the turns of the only thread: an answer from a server
// takes any number of them.
tests_on!(
    postgres: accept, claim, needs, job_trees, dependencies, dispatch, errands, event_stream, leadership, leases, preemption, races, restore, seats, actions, usage_limits, budgets, profiles, reviews, subtasks, pauses, artifacts
);
