//! Preemption: a critical job without a seat gets the one of a preemptible job [S5].

use std::collections::HashSet;
use std::time::Duration;

use domain::{DispatchModes, EventKind, JobId, Mode, RunOutcome, StageName};
use futures_util::future::join_all;
use protocol::{Action, Directive};

use super::{lasting, quick, share_of};
use crate::fleet::{Fleet, PLAIN, TestFleetBuilder};
use crate::machine::{Grip, Machine, Offers, sha};

const LOW: &str = "---\ntitle: Tidy the shed\npriority: low\npreemptible: true\n---\n";
const CRITICAL: &str = "---\ntitle: Put the fire out\npriority: critical\n---\n";
const GRACE: Duration = Duration::from_secs(20);

async fn preempting(builder: TestFleetBuilder) -> (Fleet, Machine) {
    let fleet = Fleet::warm(builder.with(|settings| {
        settings.preemption = true;
        settings.preemption_grace = GRACE;
    }))
    .await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 1, ..Offers::default() }).await;
    fleet.coordinator.tick().await;
    (fleet, mac)
}

/// A preemptible job at work on the only seat, asked to leave it for a critical one.
async fn asked(fleet: &Fleet, mac: &Machine) -> (Grip, JobId) {
    let grip = mac.build(fleet, fleet.submit(LOW).await).await;
    mac.save(fleet, grip, &sha(7)).await.unwrap();
    let critical = fleet.submit(CRITICAL).await;
    fleet.dispatch().await;
    (grip, critical)
}

async fn summary(fleet: &Fleet, id: JobId) -> String {
    fleet.coordinator.explain(&fleet.admin, id).await.unwrap().summary
}

fn preempt(grip: Grip) -> Directive {
    Directive::Preempt { job_id: grip.job, lease_epoch: grip.epoch }
}

// [S5] [J5]
#[tokio::test]
async fn a_critical_job_gets_the_seat_of_a_preemptible_one() {
    let (fleet, mac) = preempting(quick()).await;
    let (grip, critical) = asked(&fleet, &mac).await;
    let (victim, waits) = (grip.job, fleet.job(critical).await.waiting);
    let explained = [summary(&fleet, victim).await, summary(&fleet, critical).await];

    let told = mac.renew(&fleet).await.directives;
    mac.release(&fleet, grip).await.unwrap();
    mac.let_go(grip);
    let kept = summary(&fleet, critical).await;
    let taken = mac.take(&fleet, critical).await;
    let view = fleet.job(victim).await;

    assert_eq!(told, [preempt(grip)]);
    assert_eq!(waits.map(|wait| wait.code).as_deref(), Some("preempting"));
    let (short, other) = (critical.short().to_string(), victim.short().to_string());
    assert!(explained[0].contains(&format!("release its seat for critical job {short}")), "{explained:?}");
    assert!(explained[1].contains(&format!("job {other} was asked to save its work")), "{explained:?}");
    assert_eq!(kept, format!("job {other} was preempted on `mac` for it: the seat is kept for this job"));
    assert_eq!((view.stage, view.attempts, view.lost_leases), (StageName::Queued, 0, 0));
    assert_eq!(fleet.count(victim, EventKind::Preempted).await, 1);
    assert_eq!(fleet.count(victim, EventKind::Released).await, 0);
    let runs = fleet.coordinator.runs(&fleet.admin, victim, 0, 10).await.unwrap();
    assert_eq!(runs.items[0].outcome, Some(RunOutcome::Preempted));

    mac.start(&fleet, taken).await.unwrap();
    mac.complete(&fleet, taken, None).await.unwrap();
    let again = mac.take(&fleet, victim).await;
    assert!(again.epoch > grip.epoch);
    assert_eq!(fleet.job(victim).await.checkpoint.map(|saved| saved.sha), Some(sha(7)));
    assert_eq!(fleet.count(victim, EventKind::PreemptionRequested).await, 1);
}

// [S5]
#[tokio::test]
async fn a_holder_that_keeps_its_seat_is_fenced_after_the_grace() {
    let (fleet, mac) = preempting(quick()).await;
    let (grip, critical) = asked(&fleet, &mac).await;

    fleet.pass(GRACE / 2, &[&mac]).await;
    let before = fleet.stage(grip.job).await;
    fleet.pass(GRACE, &[&mac]).await;
    let view = fleet.job(grip.job).await;
    let late = mac.complete(&fleet, grip, None).await;

    assert_eq!((before, view.stage), (StageName::Building, StageName::Queued));
    assert_eq!((view.attempts, view.lost_leases), (0, 0));
    assert!(late.is_err());
    mac.take(&fleet, critical).await;
    assert_eq!(fleet.count(grip.job, EventKind::Preempted).await, 1);
}

// [S5]
#[tokio::test]
async fn preemption_is_off_by_default_and_switched_at_run_time() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 1, ..Offers::default() }).await;
    fleet.coordinator.tick().await;
    let (grip, critical) = asked(&fleet, &mac).await;
    let off = fleet.count(grip.job, EventKind::PreemptionRequested).await;

    let on = DispatchModes { preemption: Some(true), ..DispatchModes::default() };
    let shown = fleet.coordinator.put_flags(&fleet.admin, on, None).await.unwrap();
    fleet.dispatch().await;

    assert_eq!((off, shown.value.preemption), (0, Some(true)));
    assert_eq!(fleet.count(grip.job, EventKind::PreemptionRequested).await, 1);
    fleet.act(critical, Action::Cancel).await.unwrap();
    fleet.pass(Duration::from_secs(120), &[&mac]).await;
    assert_eq!(fleet.stage(grip.job).await, StageName::Building, "no critical job waits any more");
}

// [S5]
#[tokio::test]
async fn jobs_that_are_not_preemptible_keep_their_seats() {
    let (fleet, mac) = preempting(quick()).await;
    let grip = mac.build(&fleet, fleet.submit(PLAIN).await).await;
    let critical = fleet.submit(CRITICAL).await;
    fleet.dispatch().await;

    assert_eq!(fleet.count(grip.job, EventKind::PreemptionRequested).await, 0);
    let why = summary(&fleet, critical).await;
    assert!(why.contains("no preemptible job runs on a seat that it could use"), "{why}");
}

// [S5]
#[tokio::test]
async fn a_restarted_coordinator_continues_a_preemption() {
    for is_released in [false, true] {
        let (fleet, mac) = preempting(lasting()).await;
        let (grip, critical) = asked(&fleet, &mac).await;
        if is_released {
            mac.release(&fleet, grip).await.unwrap();
            mac.let_go(grip);
        }
        let fleet = fleet.restarted().await;
        mac.beat(&fleet).await;
        let told = mac.renew(&fleet).await.directives;
        assert_eq!(told, if is_released { Vec::new() } else { vec![preempt(grip)] });
        fleet.warm_up();
        mac.beat(&fleet).await;
        if !is_released {
            // The grace is over.
            fleet.pass(GRACE, &[&mac]).await;
        }

        // Another urgent job does not get the seat.
        let other = fleet.submit("---\ntitle: Other\npriority: critical\nrepo: notes\n---\n").await;
        mac.take(&fleet, critical).await;

        assert_eq!(fleet.stage(grip.job).await, StageName::Queued);
        assert_eq!(fleet.stage(other).await, StageName::Queued);
        assert_eq!(fleet.count(grip.job, EventKind::Preempted).await, 1);
        assert_eq!(fleet.count(grip.job, EventKind::PreemptionRequested).await, 1);
    }
}

// [S5] [D1]
#[tokio::test]
async fn a_polling_factory_gets_the_critical_job_first() {
    let (fleet, mac) = preempting(quick()).await;
    let (grip, critical) = asked(&fleet, &mac).await;
    fleet.switch(Mode::Poll).await;
    fleet.dispatch().await;
    mac.release(&fleet, grip).await.unwrap();
    mac.let_go(grip);

    let first = mac.ask_for(&fleet, 1).await;

    assert_eq!(first, [critical]);
}

// [S5]
#[tokio::test]
async fn a_seat_that_its_job_does_not_take_is_free_again() {
    let (fleet, mac) = preempting(quick()).await;
    let (grip, critical) = asked(&fleet, &mac).await;
    mac.release(&fleet, grip).await.unwrap();
    mac.let_go(grip);
    fleet.switch(Mode::Poll).await;
    fleet.act(critical, Action::Cancel).await.unwrap();

    assert_eq!(mac.ask_for(&fleet, 1).await, [grip.job]);
}

#[tokio::test]
async fn row_15_a_preemption_and_a_completion_never_both_win() {
    const SEATS: usize = 10;
    let fleet = Fleet::warm(quick().with(|settings| {
        settings.preemption = true;
        settings.preemption_grace = GRACE;
    }))
    .await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: SEATS as u32, ..Offers::default() }).await;
    fleet.coordinator.tick().await;
    fleet.ship_everything().await;
    fleet.store().set(|faults| faults.yields_max = 3);
    let races = share_of(10_000);
    let mut completed = HashSet::new();
    let mut raced = HashSet::new();

    for _ in 0..races / SEATS {
        mac.beat(&fleet).await;
        let mut grips = Vec::new();
        for _ in 0..SEATS {
            let job = fleet.submit(LOW).await;
            grips.push(mac.build(&fleet, job).await);
        }
        let mut critical = Vec::new();
        for _ in 0..SEATS {
            critical.push(fleet.submit(CRITICAL).await);
        }
        fleet.dispatch().await;
        mac.renew(&fleet).await;
        fleet.builder.clock.advance(GRACE);
        let completions = join_all(grips.iter().map(|grip| mac.complete(&fleet, *grip, None)));
        let (_, outcomes) = tokio::join!(fleet.coordinator.tick(), completions);
        for (grip, outcome) in grips.iter().zip(outcomes) {
            mac.let_go(*grip);
            raced.insert(grip.job);
            if outcome.is_ok() {
                completed.insert(grip.job);
            } else {
                fleet.act(grip.job, Action::Cancel).await.unwrap();
            }
        }
        for job in critical {
            fleet.act(job, Action::Cancel).await.unwrap();
        }
    }

    let stories = fleet.stories().await;
    for job in &raced {
        let is_outcome = |kind: &&EventKind| [EventKind::Completed, EventKind::Preempted].contains(kind);
        let outcomes: Vec<_> = stories[job].iter().filter(is_outcome).copied().collect();
        let expected = if completed.contains(job) { EventKind::Completed } else { EventKind::Preempted };
        assert_eq!(outcomes, [expected], "job {job}");
    }
    let both = [completed.len(), races - completed.len()];
    assert!(both.iter().all(|wins| *wins > races / 20), "one side nearly always won: {both:?}");
}
