//! Accept: idempotent per nonce, refused when anything has changed since the offer [I6].

use std::time::Duration;

use coordinator::Error;
use domain::{DispatchSeq, EventKind, JobId, Refusal, StageName};
use protocol::{DrainRequest, ProductSettings};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Machine, Offers};

const LEASE_TTL: Duration = Duration::from_secs(90);
const ACCEPT_WITHIN: Duration = Duration::from_secs(15);

// [I6]
#[tokio::test]
async fn row_05_a_nonce_repeats_its_answer_and_another_is_refused() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let claim = mac.claim(&fleet, job, DispatchSeq(1));

    let first = mac.accept(&fleet, &claim).await.unwrap();
    let again = mac.accept(&fleet, &claim).await.unwrap();
    let other = mac.accept(&fleet, &mac.claim(&fleet, job, DispatchSeq(1))).await.unwrap_err();

    assert_eq!(first, again);
    assert!(matches!(other, Error::Refused(Refusal::AlreadyGranted)), "{other}");
    assert_eq!(first.assignment.body_md, PLAIN);
}

#[tokio::test]
async fn row_05_a_lease_counts_from_the_received_answer() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let claim = mac.claim(&fleet, job, DispatchSeq(1));
    mac.accept(&fleet, &claim).await.unwrap();

    fleet.builder.clock.advance(Duration::from_secs(40));
    mac.accept(&fleet, &claim).await.unwrap();

    let expires_at = fleet.coordinator.lease(&fleet.admin, job).await.unwrap().expires_at;
    assert_eq!(expires_at, Some(fleet.coordinator.clock().now().after(LEASE_TTL)));
}

// [I6]
#[tokio::test]
async fn only_the_target_can_accept_an_offer() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let linux = Machine::join(&fleet, "linux").await;

    let stolen = linux.accept(&fleet, &linux.claim(&fleet, job, DispatchSeq(1))).await.unwrap_err();
    let forged = mac.accept(&fleet, &mac.claim(&fleet, job, DispatchSeq(7))).await.unwrap_err();
    let mut borrowed = linux.claim(&fleet, job, DispatchSeq(1));
    borrowed.factory_id = Some(mac.id.clone());
    let borrowed = linux.accept(&fleet, &borrowed).await.unwrap_err();

    assert!(matches!(&stolen, Error::Refused(Refusal::NotTarget { target }) if *target == mac.id), "{stolen}");
    assert!(matches!(forged, Error::Refused(Refusal::SupersededDispatch { .. })), "{forged}");
    assert!(matches!(borrowed, Error::Forbidden(_)), "{borrowed}");
    assert_eq!(fleet.stage(job).await, StageName::Queued);
}

// [I10]
#[tokio::test]
async fn an_open_offer_of_a_paused_product_is_not_granted() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let pause = |paused| ProductSettings { paused: Some(paused), ..ProductSettings::default() };

    fleet.set_product(pause(true)).await;
    let refused = mac.try_take(&fleet, job).await.unwrap_err();
    fleet.pass(ACCEPT_WITHIN * 3, &[&mac]).await;
    let sent_while_paused = fleet.dispatch().await;
    let view = fleet.job(job).await;
    fleet.set_product(pause(false)).await;

    assert!(matches!(refused, Error::NotReady(_)), "{refused}");
    assert_eq!((sent_while_paused, view.stage, view.attempts), (0, StageName::Queued, 0));
    mac.run(&fleet, job).await;
}

#[tokio::test]
async fn a_draining_factory_gets_no_offers_and_cannot_accept() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let drain = |draining| DrainRequest { draining };

    fleet.coordinator.drain(&fleet.admin, &mac.id, &drain(true)).await.unwrap();
    let refused = mac.try_take(&fleet, job).await.unwrap_err();
    fleet.pass(ACCEPT_WITHIN, &[&mac]).await;

    assert!(matches!(refused, Error::NotReady(_)), "{refused}");
    assert_eq!(fleet.dispatch().await, 0);
    assert_eq!(mac.renew(&fleet).await.directives, vec![protocol::Directive::Drain]);
    fleet.coordinator.drain(&fleet.admin, &mac.id, &drain(false)).await.unwrap();
    mac.run(&fleet, job).await;
}

// [I6]
#[tokio::test]
async fn a_full_factory_cannot_accept_another_job() {
    let fleet = Fleet::warm(quick()).await;
    let mut mac = Machine::join_with(&fleet, "mac", Offers { seats: 2, ..Offers::default() }).await;
    let jobs = [fleet.submit(PLAIN).await, fleet.submit(PLAIN).await];
    fleet.dispatch().await;
    mac.try_take(&fleet, jobs[0]).await.unwrap();

    mac.offers.seats = 1;
    mac.beat(&fleet).await;
    let refused = mac.try_take(&fleet, jobs[1]).await.unwrap_err();

    assert!(matches!(refused, Error::NotReady(_)), "{refused}");
}

// [I6]
#[tokio::test]
async fn row_20_a_reopened_dependency_blocks_its_dependent_job() {
    let fleet = Fleet::warm(quick().with(|settings| settings.retry.unaccepted_max = 3)).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let dep = fleet.submit_as("dep", PLAIN).await;
    let child = fleet.submit("---\ntitle: Paint it\ndeps: [\"key:dep\"]\nonDepFailure: ignore\n---\n").await;
    fleet.act(dep, protocol::Action::Cancel).await.unwrap();
    fleet.dispatch().await;
    assert!(fleet.job(child).await.target_factory_id.is_some());

    fleet.act(dep, protocol::Action::Requeue).await.unwrap();
    let refused = mac.try_take(&fleet, child).await.unwrap_err();

    assert!(matches!(refused, Error::Refused(Refusal::DepsUnmet(id)) if id == dep), "{refused}");
    let grip = mac.build(&fleet, dep).await;
    for _ in 0..10 {
        fleet.dispatch().await;
        fleet.pass(Duration::from_secs(60), &[&mac]).await;
    }
    assert_eq!(fleet.stage(child).await, StageName::Queued);
    mac.complete(&fleet, grip, None).await.unwrap();
    fleet.pass(Duration::from_secs(120), &[&mac]).await;
    mac.run(&fleet, child).await;
    assert_eq!(fleet.stage(child).await, StageName::Shipped);
}

#[tokio::test]
async fn row_32_a_commit_with_a_lost_answer_is_read_before_a_retry() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.ship_everything().await;
    let machine = Machine::join(&fleet, "mac").await;
    fleet.store().set(|faults| (faults.answers_lost, faults.commits_lost) = (0.3, 0.2));

    let mut jobs = Vec::new();
    for n in 0..150 {
        let key = format!("job-{n}");
        let job = loop {
            match fleet.try_submit(PLAIN, Some(&key)).await {
                Ok(view) => break view.id,
                Err(error) => assert!(matches!(error, Error::Store(_)), "{error}"),
            }
        };
        live(&fleet, &machine, job).await;
        jobs.push(job);
    }

    use EventKind as K;
    for job in jobs {
        let kinds = fleet.kinds(job).await;
        assert_eq!(kinds, vec![K::Submitted, K::Dispatched, K::Granted, K::Started, K::Completed, K::Shipped]);
        assert_eq!(fleet.job(job).await.lease_epoch.0, 2);
    }
}

/// One run; every undecided request is repeated.
async fn live(fleet: &Fleet, machine: &Machine, job: JobId) {
    for _ in 0..100 {
        fleet.coordinator.sweep().await;
        if fleet.dispatch().await > 0 || fleet.job(job).await.target_factory_id.is_some() {
            break;
        }
    }
    let claim = machine.claim(fleet, job, fleet.job(job).await.dispatch_seq);
    let accepted = machine.accept(fleet, &claim).await.unwrap();
    let grip = crate::machine::Grip { job, epoch: accepted.lease_epoch };
    machine.start(fleet, grip).await.unwrap();
    machine.complete(fleet, grip, None).await.unwrap();
}

#[tokio::test]
async fn row_32_a_document_with_a_lost_answer_can_be_rewritten() {
    let fleet = Fleet::warm(quick()).await;
    let mut mac = Machine::join(&fleet, "mac").await;

    for seats in 1..60 {
        mac.offers.seats = seats;
        fleet.store().set(|faults| (faults.answers_lost, faults.commits_lost) = (0.4, 0.2));
        let mut tries = 0;
        while mac.try_beat(&fleet).await.is_err() {
            tries += 1;
            assert!(tries < 50, "the factory can never register again");
        }
        fleet.store().heal();
        let view = fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap();
        assert_eq!(view.seat_limit, seats);
    }
}

#[tokio::test]
async fn row_32_a_lost_document_write_is_retried_without_a_conflict() {
    let fleet = Fleet::warm(quick()).await;
    fleet.store().set(|faults| faults.commits_lost = 0.2);

    for weight in 1..=100 {
        fleet.set_product(ProductSettings { weight: Some(weight), ..ProductSettings::default() }).await;
    }

    let product = fleet.coordinator.product(&fleet.admin, &domain::ProductId::default_product()).unwrap();
    assert_eq!(product.weight, 100);
}

// [I6] [S6]
#[tokio::test]
async fn concurrent_accepts_do_not_share_the_last_seat() {
    let fleet = Fleet::warm(quick()).await;
    fleet.store().set(|faults| faults.yields_max = 3);

    for n in 0..50 {
        let mut mac = Machine::join(&fleet, &format!("mac-{n}")).await;
        let jobs = [fleet.submit(PLAIN).await, fleet.submit(PLAIN).await];
        fleet.dispatch().await;
        mac.offers.seats = 1;
        mac.beat(&fleet).await;
        let claims = jobs.map(|job| mac.claim(&fleet, job, DispatchSeq(1)));

        let (first, second) = tokio::join!(mac.accept(&fleet, &claims[0]), mac.accept(&fleet, &claims[1]));

        assert_eq!([first.is_ok(), second.is_ok()].into_iter().filter(|is_ok| *is_ok).count(), 1);
        fleet.coordinator.deregister(&fleet.admin, &mac.id).await.unwrap();
        for job in jobs {
            fleet.act(job, protocol::Action::Cancel).await.unwrap();
        }
    }
}
