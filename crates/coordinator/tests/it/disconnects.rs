//! Clients that disconnect in the middle of a request: its change is finished, found again, or never happened.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use domain::{DispatchSeq, EventKind, StageName};

use super::{lasting, quick, share_of};
use crate::fleet::{Fleet, PLAIN, submit};
use crate::machine::{Machine, Offers};

/// Polls a future this often, then drops it, as a server does when its client disconnects.
async fn cut<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = poll_once(future.as_mut()).await {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Submits a job, and disconnects when the job is written and its answer is being sent.
async fn submit_and_hang_up(fleet: &Fleet, key: &str) {
    fleet.store().set(|faults| faults.holds_answers = true);
    let mut submitted = pin!(fleet.coordinator.submit(&fleet.admin, submit(PLAIN, Some(key))));
    while fleet.store().held() == 0 {
        let answer = poll_once(submitted.as_mut()).await;
        assert!(answer.is_pending(), "it was answered");
        tokio::task::yield_now().await;
    }
    fleet.store().heal();
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[tokio::test]
async fn row_05_a_thousand_interrupted_accepts_grant_once_each() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let machine = Machine::join_with(&fleet, "mac", Offers { seats: 10, ..Offers::default() }).await;
    fleet.store().set(|faults| faults.yields_max = 2);
    let mut cut_half_way = 0;

    for _ in 0..share_of(1_000) {
        let job = fleet.submit(PLAIN).await;
        fleet.dispatch().await;
        let claim = machine.claim(&fleet, job, DispatchSeq(1));
        let lost = cut(machine.accept(&fleet, &claim), 1 + fleet.any(8)).await;
        cut_half_way += usize::from(lost.is_none());
        fleet.builder.clock.advance(Duration::from_secs(1));
        let accepted = loop {
            if let Some(accepted) = cut(machine.accept(&fleet, &claim), 1 + fleet.any(8)).await {
                break accepted.unwrap();
            }
        };
        assert_eq!(accepted.lease_epoch.0, 1);
        let expires_at = fleet.coordinator.lease(&fleet.admin, job).await.unwrap().expires_at;
        assert_eq!(expires_at, Some(fleet.coordinator.clock().now().after(Duration::from_secs(90))));
        let grip = crate::machine::Grip { job, epoch: accepted.lease_epoch };
        machine.start(&fleet, grip).await.unwrap();
        machine.complete(&fleet, grip, None).await.unwrap();
        assert_eq!(fleet.count(job, EventKind::Granted).await, 1);
        machine.beat(&fleet).await;
    }

    assert!(cut_half_way > share_of(200), "only {cut_half_way} requests were cut half-way");
}

#[tokio::test]
async fn the_sweep_finds_a_submit_whose_client_disconnected() {
    let builder = Arc::new(quick().answering());
    let fleet = builder.open().await;
    fleet.warm_up();
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 1).await;

    submit_and_hang_up(&fleet, "k").await;
    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });
    let mut offered = 0;
    for _ in 0..10 {
        builder.clock.advance(Duration::from_secs(20));
        mac.renew(&fleet).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        offered += crate::machine::drain(&mut inbox).await.0.len();
    }

    assert!(offered > 0, "it is offered, and again when the factory does not answer");
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [J3]
#[tokio::test]
async fn a_submit_repeated_after_a_disconnect_is_the_same_job() {
    let fleet = Fleet::warm(lasting().answering()).await;
    let mac = Machine::join(&fleet, "mac").await;
    submit_and_hang_up(&fleet, "k").await;

    let again = fleet.coordinator.submit(&fleet.admin, submit(PLAIN, Some("k"))).await.unwrap();

    assert!(!again.created);
    mac.run(&fleet, again.job.id).await;
    assert_eq!(fleet.stage(again.job.id).await, StageName::Shipped);
}

// [I3]
#[tokio::test]
async fn a_thousand_jobs_with_interrupted_requests_end_once_each() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let machine = Machine::join(&fleet, "mac").await;
    fleet.store().set(|faults| faults.yields_max = 1);

    for n in 0..share_of(1_000) {
        let key = format!("job-{n}");
        let job = loop {
            let submitted = fleet.coordinator.submit(&fleet.admin, submit(PLAIN, Some(&key)));
            if let Some(submitted) = cut(submitted, 1 + fleet.any(4)).await {
                break submitted.unwrap().job.id;
            }
        };
        cut(fleet.dispatch(), fleet.any(6)).await;
        fleet.coordinator.sweep().await;
        fleet.dispatch().await;
        let claim = machine.claim(&fleet, job, fleet.job(job).await.dispatch_seq);
        let accepted = loop {
            if let Some(accepted) = cut(machine.accept(&fleet, &claim), 1 + fleet.any(8)).await {
                break accepted.unwrap();
            }
        };
        let grip = crate::machine::Grip { job, epoch: accepted.lease_epoch };
        while cut(machine.start(&fleet, grip), 1 + fleet.any(5)).await.is_none() {}
        // A completion repeated after it has happened is fenced: that is an answer too.
        while cut(machine.complete(&fleet, grip, None), 1 + fleet.any(5)).await.is_none() {}
        fleet.coordinator.sweep().await;

        use EventKind as K;
        let kinds = fleet.kinds(job).await;
        assert_eq!(kinds, vec![K::Submitted, K::Dispatched, K::Granted, K::Started, K::Completed, K::Shipped]);
        machine.renew(&fleet).await;
    }
}
