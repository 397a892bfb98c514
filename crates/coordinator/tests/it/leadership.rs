//! Several coordinators on one store that all believe they lead: harmless, because of the offer's compare-and-set, the
//! accept and the fence.

use std::sync::Arc;
use std::time::Duration;

use coordinator::{Error, Principal};
use domain::{Clock as _, EventKind, Leadership, ProductId, StageName, TokenId, TokenScope};
use parking_lot::Mutex;

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

const LEASE_TTL: Duration = Duration::from_secs(90);

/// A leadership whose proof the test sets.
struct TestLeadership {
    proved_at: Mutex<Duration>,
    was_taken_over: bool,
}

impl TestLeadership {
    fn new(proved_at: Duration, was_taken_over: bool) -> Arc<Self> {
        Arc::new(Self { proved_at: Mutex::new(proved_at), was_taken_over })
    }
}

impl Leadership for TestLeadership {
    fn proved_at(&self) -> Option<Duration> {
        Some(*self.proved_at.lock())
    }

    fn was_taken_over(&self) -> bool {
        self.was_taken_over
    }
}

fn is_not_leading<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::NotLeading))
}

// [D3] [F9] [row 12]
#[tokio::test]
async fn a_coordinator_without_proof_of_its_leadership_extends_no_lease() {
    let builder = Arc::new(quick());
    let proof = TestLeadership::new(builder.clock.monotonic(), false);
    *builder.leadership.lock() = Arc::clone(&proof) as Arc<dyn Leadership>;
    let fleet = builder.open().await;
    fleet.warm_up();
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 2, ..Offers::default() }).await;
    let job = fleet.submit(PLAIN).await;
    let _grip = mac.build(&fleet, job).await;
    let other = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let offer = mac.claim(&fleet, other, fleet.job(other).await.dispatch_seq);
    let renewal = protocol::RenewRequest {
        instance: mac.instance,
        held: mac.held().into_iter().map(|held| protocol::HeldJobProgress { held, progress: None }).collect(),
        load: 0.0,
        disk_free_bytes: None,
    };
    let renew = async || fleet.coordinator.renew(&mac.who, &mac.id, &renewal).await;
    *proof.proved_at.lock() = builder.clock.monotonic();
    builder.clock.advance(LEASE_TTL);
    assert!(renew().await.is_ok(), "an outage of the store shorter than a lease stops nothing");

    builder.clock.advance(Duration::from_millis(1));

    assert!(is_not_leading(&renew().await));
    assert!(is_not_leading(&mac.accept(&fleet, &offer).await));
    assert!(is_not_leading(&fleet.coordinator.claim(&mac.who, &mac.request(&fleet, 1)).await));
    let held = mac.held().remove(0);
    assert!(is_not_leading(&fleet.coordinator.renew_lease(&mac.who, held, mac.instance).await));
    assert!(is_not_leading(&fleet.coordinator.scale(&fleet.admin, None)), "not known is not zero");
    *proof.proved_at.lock() = builder.clock.monotonic();
    assert!(renew().await.is_ok(), "a new proof is enough");
}

/// The former leader is cut off from the store and still answers the factory.
// [D3] [row 12] [I1]
#[tokio::test]
async fn a_new_leader_revokes_no_lease_that_the_former_one_may_have_extended() {
    let builder = Arc::new(quick());
    let cut_off = TestLeadership::new(builder.clock.monotonic(), false);
    *builder.leadership.lock() = Arc::clone(&cut_off) as Arc<dyn Leadership>;
    let former = builder.open().await;
    former.warm_up();
    let mac = Machine::join(&former, "mac").await;
    let job = former.submit(PLAIN).await;
    let _grip = mac.build(&former, job).await;
    // The last proof; a moment later another coordinator leads.
    *cut_off.proved_at.lock() = builder.clock.monotonic();
    *builder.leadership.lock() = TestLeadership::new(Duration::MAX, true) as Arc<dyn Leadership>;
    let next = builder.open().await;
    let renewal = protocol::RenewRequest {
        instance: mac.instance,
        held: mac.held().into_iter().map(|held| protocol::HeldJobProgress { held, progress: None }).collect(),
        load: 0.0,
        disk_free_bytes: None,
    };

    let mut lease_ends = builder.clock.monotonic();
    let mut renewals = 0;
    while next.stage(job).await != StageName::Queued {
        builder.clock.advance(Duration::from_secs(1));
        if former.coordinator.renew(&mac.who, &mac.id, &renewal).await.is_ok() {
            lease_ends = builder.clock.monotonic() + LEASE_TTL;
            renewals += 1;
        }
        next.coordinator.tick().await;
        assert!(renewals < 1_000, "the former leader extends the lease for ever");
    }

    assert!(renewals >= 80, "it answered for about a lease: {renewals}");
    assert!(builder.clock.monotonic() >= lease_ends, "the engine may still run");
    assert!(builder.clock.monotonic() <= lease_ends + LEASE_TTL / 9 * 2, "it does not wait much longer");
}
