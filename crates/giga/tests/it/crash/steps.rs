//! A death at every step between two effects. Each test names the step; the process must really have died there.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::Mode;

use super::fleet::{Fleet, KillAt};

/// Enough jobs that others are under way when one of them meets its step.
const JOBS: usize = 5;

/// What it takes to come to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provoke {
    /// Ordinary work.
    Work,
    /// Work that goes on for as long as it takes to be saved.
    LongWork,
    /// An attempt that fails.
    Failure,
    /// A factory that dies and stays away, so that its lease expires.
    SilentFactory,
    /// Factories that are there and accept nothing.
    DeafFactories,
    /// Factories that have to ask for their work.
    Claims,
    /// Less money than jobs: each waits until another returns what it did not spend.
    Money,
}

async fn coordinator_dies_at(step: KillAt, provoke: Provoke) {
    let mut fleet = Fleet::new(2);
    fleet.start_coordinator(None);
    fleet.ship_by_itself().await;
    if provoke == Provoke::Claims {
        fleet.switch(Mode::Poll).await;
    }
    if provoke == Provoke::Money {
        fleet.limit_money(3.0).await;
    }
    for index in 0..fleet.factories() {
        fleet.start_factory(index, None).await;
    }
    fleet.kill_coordinator();
    fleet.start_coordinator(Some(step));
    if provoke == Provoke::DeafFactories {
        fleet.until_all_connected().await;
        fleet.freeze_factories();
    }

    let submitting = submit(&mut fleet, provoke, Who::Coordinator).await;

    fleet.until_all_shipped(&submitting).await;
    fleet.assert_nothing_lost_or_doubled(&submitting);
    fleet.end();
}

async fn factory_dies_at(step: KillAt, provoke: Provoke) {
    let mut fleet = Fleet::new(2);
    fleet.start_coordinator(None);
    fleet.ship_by_itself().await;
    if provoke == Provoke::Claims {
        fleet.switch(Mode::Poll).await;
    }
    fleet.start_factory(0, Some(step)).await;

    let jobs = submit(&mut fleet, provoke, Who::Factory).await;

    fleet.until_all_shipped(&jobs).await;
    fleet.assert_nothing_lost_or_doubled(&jobs);
    fleet.end();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Coordinator,
    Factory,
}

/// Submits the jobs, waits for the death, and starts the dead again.
async fn submit(fleet: &mut Fleet, provoke: Provoke, who: Who) -> BTreeSet<domain::JobId> {
    let prompt = match provoke {
        Provoke::LongWork => "begin, then wait for the signal",
        Provoke::Failure => "fail on your first attempt",
        Provoke::Work | Provoke::SilentFactory | Provoke::DeafFactories | Provoke::Claims | Provoke::Money => {
            "do some work"
        }
    };
    let mut jobs = BTreeSet::new();
    let mut has_died = false;
    for number in 0..JOBS {
        // A submit can kill the coordinator: then there is no response until it is started again.
        let first = tokio::time::timeout(Duration::from_secs(2), fleet.submit(number, prompt)).await.ok();
        let id = match first {
            Some(id) => id,
            None => {
                has_died |= revive(fleet, who, Duration::ZERO).await;
                fleet.submit(number, prompt).await
            }
        };
        jobs.insert(id);
    }
    if provoke == Provoke::SilentFactory {
        fleet.until("a run to begin", || !fleet.journal().is_empty()).await;
        fleet.kill_factory(0);
        fleet.kill_factory(1);
    }
    if !has_died {
        has_died = revive(fleet, who, super::fleet::PATIENCE).await;
    }
    assert!(has_died, "no process died at the step\n{}", fleet.logs());
    match provoke {
        Provoke::SilentFactory => fleet.start_factory(0, None).await,
        Provoke::DeafFactories => fleet.thaw_factories(),
        Provoke::LongWork => fleet.give_the_signal(),
        Provoke::Work | Provoke::Failure | Provoke::Claims | Provoke::Money => {}
    }
    fleet.start_factory(1, None).await;
    jobs
}

/// Waits for a process to die and starts it again; `false` if none died in time.
async fn revive(fleet: &mut Fleet, who: Who, patience: Duration) -> bool {
    let mut left = patience;
    loop {
        let is_dead = match who {
            Who::Coordinator => fleet.is_coordinator_dead(),
            Who::Factory => fleet.is_factory_dead(0),
        };
        if is_dead {
            break;
        }
        if left.is_zero() {
            return false;
        }
        let step = Duration::from_millis(20).min(left);
        fleet.pause(step).await;
        left -= step;
    }
    match who {
        Who::Coordinator => fleet.start_coordinator(None),
        Who::Factory => fleet.start_factory(0, None).await,
    }
    true
}

macro_rules! dies_at {
    ($($name:ident: $who:ident at $step:literal, $nth:literal, $provoke:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $who(KillAt($step, $nth), Provoke::$provoke).await;
            }
        )*
    };
}

dies_at! {
    before_a_submit_is_written: coordinator_dies_at at "submit::before_commit", 3, Work;
    // [row 2]
    after_a_submit_is_written_and_before_its_answer: coordinator_dies_at at "submit::committed", 3, Work;
    after_planning_and_before_the_stamp: coordinator_dies_at at "dispatch::planned", 2, Work;
    // [row 2]
    after_the_stamp_and_before_the_message: coordinator_dies_at at "dispatch::stamped", 2, Work;
    after_the_message: coordinator_dies_at at "dispatch::published", 2, Work;
    after_the_checks_of_an_accept: coordinator_dies_at at "accept::checked", 2, Work;
    after_a_grant_and_before_its_answer: coordinator_dies_at at "accept::committed", 2, Work;
    after_the_pick_of_a_claim: coordinator_dies_at at "claim::picked", 2, Claims;
    // [row 5]
    after_the_grant_of_a_claim_and_before_its_answer: coordinator_dies_at at "claim::committed", 2, Claims;
    // [row 17]
    before_a_budget_is_written: coordinator_dies_at at "budget::before_write", 2, Money;
    // [row 17]
    after_a_budget_is_written_and_before_its_answer: coordinator_dies_at at "budget::written", 2, Money;
    // [row 17]
    after_a_reservation_and_before_the_grant: coordinator_dies_at at "budget::reserved", 2, Money;
    after_a_start_and_before_its_answer: coordinator_dies_at at "start::committed", 2, Work;
    before_a_completion_is_written: coordinator_dies_at at "complete::before_commit", 2, Work;
    after_a_completion_and_before_its_answer: coordinator_dies_at at "complete::committed", 2, Work;
    before_a_promotion_is_written: coordinator_dies_at at "promote::before_commit", 2, Work;
    after_a_promotion_and_before_its_answer: coordinator_dies_at at "promote::committed", 2, Work;
    after_a_failure_and_before_its_answer: coordinator_dies_at at "fail::committed", 2, Failure;
    before_an_expired_lease_is_taken_back: coordinator_dies_at at "reap::before_commit", 1, SilentFactory;
    before_an_offer_that_nobody_accepts_is_taken_back: coordinator_dies_at at "take_back::before_commit", 1, DeafFactories;
    after_the_nonce_is_on_disk: factory_dies_at at "factory::nonce_saved", 2, Work;
    after_the_grant_reached_the_factory: factory_dies_at at "factory::accepted", 2, Work;
    after_the_nonce_of_a_claim_is_on_disk: factory_dies_at at "factory::claim_nonce_saved", 2, Claims;
    after_the_grants_of_a_claim_reached_the_factory: factory_dies_at at "factory::claimed", 2, Claims;
    after_the_worktree_is_made: factory_dies_at at "factory::prepared", 2, Work;
    after_the_engine_started: factory_dies_at at "factory::engine_started", 2, Work;
    after_the_start_is_reported: factory_dies_at at "factory::start_reported", 2, Work;
    // [F4]
    after_a_checkpoint_is_pushed_and_before_it_is_reported: factory_dies_at at "factory::checkpoint_pushed", 2, LongWork;
    after_the_engine_ended: factory_dies_at at "factory::engine_ended", 2, Work;
    after_the_commit_and_before_the_push: factory_dies_at at "factory::committed", 2, Work;
    // [F6]
    after_the_push_and_before_the_report: factory_dies_at at "factory::run_pushed", 2, Work;
    after_the_completion_and_before_the_branch_moves: factory_dies_at at "factory::before_promotion", 2, Work;
    after_the_branch_moved_and_before_the_report: factory_dies_at at "factory::promoted", 2, Work;
    // [F5]
    after_the_merge_and_before_the_report: factory_dies_at at "factory::merged", 2, Work;
}
