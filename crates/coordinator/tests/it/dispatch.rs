//! From the offer to the grant: whatever the broker, the dispatcher or the target does, every job is granted once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coordinator::Error;
use domain::{Broker as _, EventKind, JobId, Refusal, StageName};
use protocol::AlertCode;

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Machine, drain};

const ACCEPT_WITHIN: Duration = Duration::from_secs(15);
const LEASE_TTL: Duration = Duration::from_secs(90);

async fn alert_codes(fleet: &Fleet) -> Vec<AlertCode> {
    fleet.coordinator.alerts(&fleet.admin).await.unwrap().items.into_iter().map(|alert| alert.code).collect()
}

// [I5]
#[tokio::test]
async fn row_01_a_redispatch_is_delivered_after_the_first_message() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let (first, _) = drain(&mut inbox).await;
    mac.build(&fleet, job).await;

    fleet.pass(LEASE_TTL * 2, &[]).await;
    mac.beat(&fleet).await;
    fleet.dispatch().await;
    let (second, _) = drain(&mut inbox).await;

    let numbers: Vec<u64> = first.iter().chain(&second).map(|message| message.dispatch_seq.0).collect();
    assert_eq!(numbers, vec![1, 2]);
    mac.run(&fleet, job).await;
    assert_eq!(fleet.count(job, EventKind::Reaped).await, 1);
    assert_eq!(alert_codes(&fleet).await, vec![]);
}

#[tokio::test]
async fn row_02_an_unpublished_offer_expires_and_the_job_runs() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    fleet.builder.broker().set(|faults| faults.is_down = true);
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    fleet.builder.broker().heal();
    assert_eq!(drain(&mut inbox).await.0, vec![]);

    fleet.pass(ACCEPT_WITHIN, &[&mac]).await;
    fleet.dispatch().await;

    let (messages, _) = drain(&mut inbox).await;
    let claim = mac.claim(&fleet, job, messages[0].dispatch_seq);
    mac.accept(&fleet, &claim).await.unwrap();
    let view = fleet.job(job).await;
    assert_eq!((view.stage, view.attempts, view.lost_leases), (StageName::Assigned, 0, 0));
}

#[tokio::test]
async fn row_02_a_restart_publishes_an_unpublished_offer() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.builder.broker().set(|faults| faults.is_down = true);
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    let fleet = fleet.restarted().await;
    mac.beat(&fleet).await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;

    let (messages, _) = drain(&mut inbox).await;
    assert_eq!(messages.iter().map(|message| message.dispatch_seq.0).collect::<Vec<_>>(), vec![1]);
    let claim = mac.claim(&fleet, job, messages[0].dispatch_seq);
    mac.accept(&fleet, &claim).await.unwrap();
    assert_eq!(fleet.count(job, EventKind::Dispatched).await, 1);
}

#[tokio::test]
async fn row_02_republishing_after_a_restart_raises_no_alert() {
    let builder = Arc::new(quick());
    let fleet = builder.open().await;
    fleet.warm_up();
    let _mac = Machine::join(&fleet, "mac").await;
    fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    let other = builder.open().await;
    other.warm_up();
    let codes = alert_codes(&other).await;

    assert!(!codes.contains(&AlertCode::DuplicateDispatch), "{codes:?}");
}

#[tokio::test]
async fn row_03_the_sweep_finds_a_job_whose_wake_up_was_lost() {
    let builder = Arc::new(lasting());
    let fleet = builder.open().await;
    fleet.warm_up();
    let mac = Machine::join(&fleet, "mac").await;
    let elsewhere = builder.open().await;
    let job = elsewhere.submit(PLAIN).await;
    assert_eq!(fleet.dispatch().await, 0);

    fleet.coordinator.sweep().await;

    mac.run(&fleet, job).await;
    assert_eq!(fleet.stage(job).await, StageName::Shipped);
}

// [I7]
#[tokio::test]
async fn row_04_a_late_message_of_a_dead_target_is_refused() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    assert_eq!(fleet.job(job).await.target_factory_id, Some(mac.id.clone()));
    let linux = Machine::join(&fleet, "linux").await;

    fleet.pass(ACCEPT_WITHIN, &[&mac, &linux]).await;
    fleet.dispatch().await;
    assert_eq!(fleet.job(job).await.target_factory_id, Some(linux.id.clone()));
    let grip = linux.build(&fleet, job).await;

    let mut inbox = mac.open_inbox(&fleet, 4).await;
    assert_eq!(drain(&mut inbox).await.0, vec![], "an offer that has ended is not delivered");
    let claim = mac.claim(&fleet, job, domain::DispatchSeq(1));
    let refused = mac.accept(&fleet, &claim).await.unwrap_err();

    assert!(matches!(refused, Error::Refused(Refusal::AlreadyGranted)), "{refused}");
    assert_eq!(fleet.builder.broker().depths().await.unwrap().get(&mac.id), None);
    linux.complete(&fleet, grip, None).await.unwrap();
}

#[tokio::test]
async fn row_16_the_offer_of_a_cancelled_job_is_refused() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let (messages, _) = drain(&mut inbox).await;
    fleet.act(job, protocol::Action::Cancel).await.unwrap();

    let claim = mac.claim(&fleet, job, messages[0].dispatch_seq);
    let refused = mac.accept(&fleet, &claim).await.unwrap_err();

    assert!(matches!(refused, Error::Refused(Refusal::IllegalTransition { .. })), "{refused}");
    assert_eq!(fleet.builder.broker().depths().await.unwrap().get(&mac.id), None);
    assert_eq!(fleet.count(job, EventKind::Granted).await, 0);
}

#[tokio::test]
async fn an_undecided_accept_leaves_its_message_for_redelivery() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let (messages, _) = drain(&mut inbox).await;
    let claim = mac.claim(&fleet, job, messages[0].dispatch_seq);

    fleet.store().set(|faults| faults.is_down = true);
    let undecided = mac.accept(&fleet, &claim).await.unwrap_err();
    fleet.store().heal();
    drop(inbox);
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let (again, _) = drain(&mut inbox).await;

    assert!(matches!(undecided, Error::Store(_)), "{undecided}");
    assert_eq!(again, messages);
    mac.accept(&fleet, &claim).await.unwrap();
    assert_eq!(fleet.builder.broker().depths().await.unwrap().get(&mac.id), None);
}

// [I4]
#[tokio::test]
async fn row_23_a_job_dead_lettered_by_the_broker_still_runs() {
    let fleet = Fleet::warm(lasting().with_broker(|broker| broker.deliveries_max = 1)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    assert_eq!(drain(&mut inbox).await.0.len(), 1);
    // The factory dies without an answer, and the broker dead-letters the message.
    drop(inbox);
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    assert_eq!(drain(&mut inbox).await.0.len(), 0);
    let letters = fleet.coordinator.dead_letters(&fleet.admin, None, 10).await.unwrap();
    assert_eq!(letters.mirrored.iter().map(|message| message.job_id).collect::<Vec<_>>(), vec![job]);

    fleet.pass(ACCEPT_WITHIN, &[&mac]).await;
    fleet.dispatch().await;

    let (messages, _) = drain(&mut inbox).await;
    let claim = mac.claim(&fleet, job, messages[0].dispatch_seq);
    mac.accept(&fleet, &claim).await.unwrap();
    assert_eq!(fleet.stage(job).await, StageName::Assigned);
}

// [I4]
#[tokio::test]
async fn row_27_a_faulty_broker_costs_only_time() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    fleet.builder.broker().set(|faults| {
        (faults.lost, faults.repeated, faults.delayed) = (0.2, 0.5, 0.4);
    });
    let mut machines = Vec::new();
    let mut inboxes = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let machine = Machine::join(&fleet, name).await;
        inboxes.push(machine.open_inbox(&fleet, 8).await);
        machines.push(machine);
    }
    let mut jobs = Vec::new();
    for _ in 0..200 {
        jobs.push(fleet.submit(PLAIN).await);
    }

    let mut rounds = 0;
    while fleet.coordinator.queue_state(&fleet.admin, Vec::new()).unwrap()[0].pending_count > 0 {
        rounds += 1;
        assert!(rounds < 400, "jobs are stuck");
        fleet.dispatch().await;
        if rounds % 3 == 0 {
            fleet.builder.broker().release().await;
        }
        for (machine, inbox) in machines.iter().zip(&mut inboxes) {
            work_off(&fleet, machine, drain(inbox).await.0).await;
        }
        fleet.pass(Duration::from_secs(5), &machines.iter().collect::<Vec<_>>()).await;
    }

    for job in jobs {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for kind in fleet.kinds(job).await {
            match kind {
                EventKind::Granted => *counts.entry("granted").or_default() += 1,
                EventKind::Completed => *counts.entry("completed").or_default() += 1,
                EventKind::Shipped => *counts.entry("shipped").or_default() += 1,
                _ => {}
            }
        }
        assert_eq!(counts, BTreeMap::from([("granted", 1), ("completed", 1), ("shipped", 1)]));
    }
}

/// Accepts every message as if it were new, and completes its job.
async fn work_off(fleet: &Fleet, machine: &Machine, messages: Vec<domain::Message>) {
    for message in messages {
        let claim = machine.claim(fleet, message.job_id, message.dispatch_seq);
        let Ok(accepted) = machine.accept(fleet, &claim).await else { continue };
        let grip = crate::machine::Grip { job: message.job_id, epoch: accepted.lease_epoch };
        machine.start(fleet, grip).await.unwrap();
        machine.complete(fleet, grip, None).await.unwrap();
    }
}

// [D4] [alert: duplicate_dispatch]
#[tokio::test]
async fn a_broker_that_drops_a_new_dispatch_raises_an_alert() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.builder.broker().set(|faults| faults.calls_all_duplicates = true);
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    fleet.builder.broker().heal();

    assert_eq!(alert_codes(&fleet).await, vec![AlertCode::DuplicateDispatch]);
    fleet.pass(ACCEPT_WITHIN, &[&mac]).await;
    mac.run(&fleet, job).await;
    assert_eq!(fleet.stage(job).await, StageName::Shipped);
    fleet.pass(Duration::from_hours(1), &[&mac]).await;
    assert_eq!(alert_codes(&fleet).await, vec![], "it has not happened again for an hour");
}

#[tokio::test]
async fn a_job_that_cannot_be_offered_does_not_block_its_round() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let broken = fleet.submit(PLAIN).await;
    fleet.builder.clock.advance(Duration::from_millis(1));
    let sound = BTreeSet::from([fleet.submit(PLAIN).await, fleet.submit(PLAIN).await]);
    fleet.store().set(|faults| {
        faults.unwritable.insert(broken);
    });

    fleet.dispatch().await;

    let delivered: BTreeSet<JobId> = drain(&mut inbox).await.0.into_iter().map(|message| message.job_id).collect();
    assert_eq!(delivered, sound);
}

// [§6] [alert: dead_letter]
#[tokio::test]
async fn a_job_that_no_factory_accepts_becomes_undeliverable() {
    let fleet = Fleet::warm(quick().with(|settings| settings.retry.unaccepted_max = 3)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;

    for _ in 0..3 {
        fleet.dispatch().await;
        fleet.pass(ACCEPT_WITHIN, &[&mac]).await;
    }

    let view = fleet.job(job).await;
    assert_eq!((view.stage, view.reason), (StageName::DeadLetter, Some(domain::FailureReason::Undeliverable)));
    assert_eq!((view.attempts, view.lost_leases), (0, 0));
    let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    let told: Vec<_> = alerts.iter().map(|alert| (alert.code, alert.since, alert.jobs)).collect();
    assert_eq!(told, vec![(AlertCode::DeadLetter, view.updated_at, Some(1))]);
    assert!(alerts[0].message.starts_with("1 job is dead-lettered: "), "{}", alerts[0].message);
    let letters = fleet.coordinator.dead_letters(&fleet.admin, None, 10).await.unwrap();
    assert_eq!((letters.items.len(), letters.mirrored.len()), (1, 1));
    fleet.act(job, protocol::Action::Requeue).await.unwrap();
    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![]);
}
