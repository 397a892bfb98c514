//! Several coordinators on one store that all believe they lead: harmless, because of the offer's compare-and-set, the
//! accept and the fence.

use std::sync::Arc;

use coordinator::Principal;
use domain::{EventKind, ProductId, StageName, TokenId, TokenScope};

use super::{lasting, quick};
use crate::fleet::PLAIN;
use crate::machine::{Machine, Offers};

// [§6]
#[tokio::test]
async fn row_12_three_leading_dispatchers_grant_each_job_once() {
    let builder = Arc::new(quick());
    let fleets = [builder.open().await, builder.open().await, builder.open().await];
    fleets[0].warm_up();
    let mut machines = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let machine = Machine::join_with(&fleets[0], name, Offers { seats: 100, ..Offers::default() }).await;
        for fleet in &fleets[1..] {
            // The first attempt meets the write of another coordinator, and reads it.
            let _ = machine.try_beat(fleet).await;
            machine.beat(fleet).await;
        }
        machines.push(machine);
    }
    let mut jobs = Vec::new();
    for n in 0..300 {
        jobs.push(fleets[n % 3].submit(PLAIN).await);
    }
    for fleet in &fleets {
        fleet.coordinator.sweep().await;
    }
    builder.store.set(|faults| faults.yields_max = 3);

    let rounds = fleets.iter().map(|fleet| fleet.dispatch());
    futures_util::future::join_all(rounds).await;
    for fleet in &fleets {
        fleet.coordinator.sweep().await;
    }

    for (n, job) in jobs.iter().enumerate() {
        let view = fleets[n % 3].job(*job).await;
        let target = view.target_factory_id.clone().expect("each job was offered");
        let machine = machines.iter().find(|machine| machine.id == target).unwrap();
        let claims = fleets.iter().map(|fleet| {
            let claim = machine.claim(fleet, *job, view.dispatch_seq);
            async move { machine.accept(fleet, &claim).await.is_ok() }
        });
        let granted = futures_util::future::join_all(claims).await;
        assert_eq!(granted.into_iter().filter(|is_granted| *is_granted).count(), 1, "job {job}");
    }
    for job in &jobs {
        let view = fleets[0].job(*job).await;
        let grants = fleets[0].count(*job, EventKind::Granted).await;
        assert_eq!((grants, view.dispatch_seq.0), (1, 1), "job {job} was dispatched and granted once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn row_12_dispatchers_on_three_threads_offer_each_job_once() {
    let builder = Arc::new(lasting());
    let first = builder.open().await;
    first.warm_up();
    let machine = Machine::join_with(&first, "mac", Offers { seats: 200, ..Offers::default() }).await;
    let mut jobs = Vec::new();
    for _ in 0..100 {
        jobs.push(first.submit(PLAIN).await);
    }
    let fleets = [first, builder.open().await, builder.open().await];
    for fleet in &fleets[1..] {
        machine.beat(fleet).await;
    }

    let mut rounds = tokio::task::JoinSet::new();
    for fleet in &fleets {
        let coordinator = Arc::clone(&fleet.coordinator);
        rounds.spawn(async move { while coordinator.dispatch_round().await > 0 {} });
    }
    rounds.join_all().await;

    let stories = fleets[0].stories().await;
    for job in jobs {
        assert_eq!(stories[&job], vec![EventKind::Submitted, EventKind::Dispatched]);
    }
}

#[tokio::test]
async fn concurrent_coordinators_all_start_on_an_empty_store() {
    let builder = quick();
    builder.store.set(|faults| faults.yields_max = 3);

    let started = futures_util::future::join_all((0..10).map(|_| builder.start())).await;

    let admin = Principal {
        token: TokenId::from_bytes([1; 16]),
        name: "admin".to_owned(),
        owner: None,
        grant: TokenScope::Admin,
        session: None,
    };
    for (coordinator, _) in started {
        let products: Vec<_> = coordinator.products(&admin).unwrap().items.into_iter().map(|known| known.id).collect();
        assert_eq!(products, vec![ProductId::default_product()]);
    }
}

// [§9]
#[tokio::test]
async fn row_12_a_dispatcher_catches_up_after_a_lost_race() {
    let builder = Arc::new(quick());
    let winner = builder.open().await;
    winner.warm_up();
    let mac = Machine::join(&winner, "mac").await;
    let job = winner.submit(PLAIN).await;
    let loser = builder.open().await;
    mac.beat(&loser).await;
    mac.build(&winner, job).await;

    let sent = loser.dispatch().await;

    assert_eq!((sent, loser.stage(job).await), (0, StageName::Building));
}
