//! The embedded store's operations, counted exactly. On that store only: the number of requests per operation differs
//! between stores.

use std::sync::Arc;
use std::time::Duration;

use domain::{Clock as _, EventKind, IndexProgress, Mode, Scope, StageName};
use futures_util::future::join_all;
use protocol::{Action, Presence, QuotaReport};

use super::lasting;
use crate::event_stream::hear;
use crate::fleet::{Fleet, PLAIN};
use crate::idle::{RENEW_EVERY, settle};
use crate::machine::{Machine, Offers};
use crate::progress::{next_progress, showing};

const FOLLOWERS: usize = 20;
const NOISE: usize = 50;

fn history_reads(fleet: &Fleet) -> u64 {
    let operations = domain::JobHistory::operations(fleet.builder.sqlite_file());
    operations.into_iter().filter(|(kind, _)| *kind == "history_reads").map(|(_, count)| count).sum()
}

/// The search index has every job: the indexer has nothing to add any more.
async fn index_everything(fleet: &Fleet) {
    while domain::JobHistory::index_jobs(fleet.builder.sqlite_file()).await.unwrap() == IndexProgress::Behind {}
}

// [I14]
#[tokio::test]
async fn a_hundred_idle_factories_cost_no_store_operation_in_an_hour() {
    let fleet = Fleet::warm(lasting()).await;
    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });
    let mut machines = Vec::new();
    let mut inboxes = Vec::new();
    for n in 0..100 {
        let machine = Machine::join(&fleet, &format!("factory-{n}")).await;
        inboxes.push(machine.open_inbox(&fleet, 4).await);
        machines.push(machine);
    }
    settle().await;
    let sqlite = fleet.builder.sqlite_file();
    let before = sqlite.operations();

    for _ in 0..120 {
        fleet.builder.clock.advance(RENEW_EVERY);
        for machine in &machines {
            machine.beat(&fleet).await;
            machine.renew(&fleet).await;
        }
        settle().await;
    }

    assert_eq!(sqlite.operations(), before);
    let views = fleet.coordinator.factories(&fleet.admin).unwrap().items;
    let live = views.iter().filter(|view| view.presence == Presence::Live && view.connected).count();
    assert_eq!((live, views.len()), (100, 100));
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [I14] [§6]
#[tokio::test]
async fn renewing_leases_costs_no_store_operation() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    mac.build(&fleet, job).await;
    let sqlite = fleet.builder.sqlite_file();
    let before = sqlite.operations();

    fleet.pass(Duration::from_secs(3_600), &[&mac]).await;

    assert_eq!(sqlite.operations(), before);
    assert_eq!(fleet.stage(job).await, StageName::Building);
}

// [J7]
#[tokio::test]
async fn row_24_subscribers_of_single_jobs_cost_no_store_read() {
    let fleet = Fleet::warm(lasting()).await;
    let (mut jobs, mut followers) = (Vec::new(), Vec::new());
    for _ in 0..FOLLOWERS {
        let job = fleet.submit(PLAIN).await;
        followers.push(fleet.coordinator.follow(Scope::Job(job), None).await.unwrap());
        jobs.push(job);
    }
    let before = history_reads(&fleet);

    let noise = async {
        for _ in 0..NOISE {
            fleet.submit(PLAIN).await;
        }
        for job in &jobs {
            fleet.act(*job, Action::Cancel).await.unwrap();
        }
    };
    let (heard, ()) = tokio::join!(join_all(followers.iter_mut().map(|follower| hear(follower, 1))), noise);

    let wanted: Vec<_> = jobs.into_iter().map(|job| vec![(job, EventKind::Cancelled)]).collect();
    assert_eq!(heard, wanted);
    let reads = history_reads(&fleet) - before;
    assert_eq!(reads, 0, "{FOLLOWERS} followers who keep up are served from memory");
}

// [I14]
#[tokio::test]
async fn claiming_from_an_empty_queue_costs_no_store_operation() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.switch(Mode::Poll).await;
    let mac = Machine::join(&fleet, "mac").await;
    let done = fleet.submit(PLAIN).await;
    fleet.act(done, Action::Cancel).await.unwrap();
    let sqlite = fleet.builder.sqlite_file();
    let before = sqlite.operations();

    for _ in 0..1_000 {
        assert_eq!(mac.ask_for(&fleet, 4).await, []);
    }

    assert_eq!(sqlite.operations(), before);
}

// [I14]
#[tokio::test]
async fn a_paused_credential_and_its_reset_cost_no_store_operation() {
    let fleet = Fleet::warm(lasting()).await;
    let capabilities = ["engine:command".parse().unwrap()].into();
    let mac = Machine::join_with(&fleet, "mac", Offers { capabilities, ..Offers::default() }).await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    let resets_at = Some(fleet.builder.clock.now().after(Duration::from_mins(30)));
    let used_up = QuotaReport {
        lease_epoch: grip.epoch,
        engine: domain::EngineName::command(),
        credential: String::new(),
        window: None,
        resets_at,
        exhausted: false,
        message: None,
        checkpoint: None,
        insights: domain::RunInsights::default(),
    };
    mac.quota(&fleet, used_up, job).await.unwrap();
    fleet.act(job, Action::Cancel).await.unwrap();
    index_everything(&fleet).await;
    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });
    settle().await;
    let sqlite = fleet.builder.sqlite_file();
    let before = sqlite.operations();

    for _ in 0..120 {
        fleet.builder.clock.advance(RENEW_EVERY);
        mac.renew(&fleet).await;
        settle().await;
    }

    assert_eq!(sqlite.operations(), before);
    assert_eq!(fleet.coordinator.credentials(&fleet.admin).unwrap().items, vec![]);
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [I14]
#[tokio::test]
async fn the_progress_of_a_hundred_agents_costs_no_store_operation() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 100, ..Offers::default() }).await;
    for _ in 0..100 {
        let job = fleet.submit(PLAIN).await;
        mac.build(&fleet, job).await;
    }
    let mut follower = fleet.coordinator.follow(Scope::Fleet, None).await.unwrap();
    let sqlite = fleet.builder.sqlite_file();
    let before = sqlite.operations();

    for round in 0..20 {
        mac.renew_showing(&fleet, showing(&mac, &format!("step {round}"))).await;
        fleet.builder.clock.advance(Duration::from_secs(5));
        fleet.coordinator.tick().await;
    }
    assert_eq!(sqlite.operations(), before);
    assert_eq!(next_progress(&mut follower).await.len(), 100);
}
