//! Dispatch modes: switched at run time, sent at once, without effect on running work [D1][I13].

use std::time::Duration;

use coordinator::Error;
use domain::{DispatchModes, Mode, ProductId, StageName};
use protocol::{AlertCode, InboxEvent, ProductSettings};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN, submit};
use crate::machine::{Machine, drain};

fn product(name: &str) -> ProductId {
    name.parse().unwrap()
}

async fn register(fleet: &Fleet, name: &str) {
    fleet.coordinator.put_product(&fleet.admin, &product(name), ProductSettings::default()).await.unwrap();
}

// [I13]
#[tokio::test]
async fn switching_back_to_push_wakes_the_dispatcher() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    register(&fleet, "notes").await;
    let flags = DispatchModes {
        mode: Mode::Push,
        products: [(product("notes"), Mode::Gate)].into(),
        ..DispatchModes::default()
    };
    fleet.coordinator.put_flags(&fleet.admin, flags, None).await.unwrap();
    let mut of_notes = submit(PLAIN, None);
    of_notes.product_id = Some(product("notes"));

    let claimed = fleet.coordinator.submit(&fleet.admin, of_notes).await.unwrap().job.id;
    let pushed = fleet.submit(PLAIN).await;
    let sent = fleet.dispatch().await;
    let target = async |job| fleet.job(job).await.target_factory_id;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = std::sync::Arc::clone(&fleet.coordinator);
    assert_eq!((sent, target(claimed).await, target(pushed).await), (1, None, Some(mac.id.clone())));
    tasks.spawn(async move { coordinator.run().await });
    fleet.switch(Mode::Push).await;

    let offered = async {
        loop {
            match inbox.next().await {
                Some(InboxEvent::Dispatch(message)) if message.job_id == claimed => return,
                Some(_) => {}
                None => panic!("the inbox ended"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), offered).await.unwrap();
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [I13]
#[tokio::test]
async fn an_open_offer_survives_a_mode_switch() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (taken, left) = (fleet.submit(PLAIN).await, fleet.submit(PLAIN).await);
    fleet.dispatch().await;

    for mode in [Mode::Poll, Mode::Gate, Mode::Push, Mode::Poll] {
        fleet.switch(mode).await;
    }
    let claimed = mac.ask_for(&fleet, 4).await;
    mac.try_take(&fleet, taken).await.unwrap();
    fleet.pass(Duration::from_secs(20), &[&mac]).await;

    assert_eq!(claimed, []);
    assert_eq!(fleet.stage(taken).await, StageName::Assigned);
    assert_eq!(fleet.dispatch().await, 0, "an offer that expired is not made again");
    assert_eq!(mac.ask_for(&fleet, 4).await, [left]);
}

// [D1]
#[tokio::test]
async fn a_mode_switch_reaches_the_inbox_and_every_heartbeat() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;

    fleet.switch(Mode::Gate).await;
    fleet.switch(Mode::Poll).await;

    let poll = DispatchModes { mode: Mode::Poll, ..DispatchModes::default() };
    assert_eq!(inbox.next().await, Some(InboxEvent::Modes(poll.clone())));
    assert_eq!((mac.beat(&fleet).await.modes, mac.renew(&fleet).await.modes), (poll.clone(), poll.clone()));
    fleet.switch(Mode::Gate).await;
    fleet.switch(Mode::Poll).await;
    assert_eq!(drain(&mut inbox).await, (vec![], vec![]), "nothing is different from what it was told");
    let mut next = fleet.coordinator.inbox(&mac.who, &mac.id, mac.instance, 1).await.unwrap();
    assert_eq!(next.next().await, Some(InboxEvent::Hello { modes: poll }));
}

// [I13]
#[tokio::test]
async fn the_modes_survive_a_restart() {
    let fleet = Fleet::warm(lasting()).await;
    register(&fleet, "notes").await;
    let flags = DispatchModes {
        mode: Mode::Gate,
        products: [(product("notes"), Mode::Push)].into(),
        preemption: Some(false),
        ..DispatchModes::default()
    };
    let put = fleet.coordinator.put_flags(&fleet.admin, flags.clone(), None).await.unwrap();

    let fleet = fleet.restarted().await;

    assert_eq!(fleet.coordinator.flags(&fleet.admin).unwrap(), put);
    assert_eq!(put.value, flags);
}

#[tokio::test]
async fn a_mode_change_over_an_outdated_revision_is_rejected() {
    let fleet = Fleet::warm(lasting()).await;
    let seen = fleet.coordinator.flags(&fleet.admin).unwrap().revision;
    fleet.switch(Mode::Gate).await;

    let poll = DispatchModes { mode: Mode::Poll, ..DispatchModes::default() };
    let refused = fleet.coordinator.put_flags(&fleet.admin, poll, Some(seen)).await.unwrap_err();

    assert!(matches!(refused, Error::Outdated), "{refused}");
    assert_eq!(fleet.coordinator.flags(&fleet.admin).unwrap().value.mode, Mode::Gate);
}

// [D1]
#[tokio::test]
async fn modes_of_unknown_products_are_rejected() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let put = |flags: DispatchModes| {
        let fleet = &fleet;
        async move { fleet.coordinator.put_flags(&fleet.admin, flags, None).await.unwrap_err() }
    };

    let unknown = put(DispatchModes {
        mode: Mode::Push,
        products: [(product("unknown"), Mode::Poll)].into(),
        ..DispatchModes::default()
    })
    .await;
    let by_a_factory = fleet.coordinator.put_flags(&mac.who, DispatchModes::default(), None).await.unwrap_err();

    assert!(matches!(unknown, Error::UnknownProduct { .. }), "{unknown}");
    assert!(matches!(by_a_factory, Error::Forbidden(_)), "{by_a_factory}");
    assert!(matches!(fleet.coordinator.flags(&mac.who), Err(Error::Forbidden(_))));
}

// [I9]
#[tokio::test]
async fn claimable_jobs_are_no_lag_and_unplaceable_ones_alert() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.switch(Mode::Poll).await;
    let waiting = fleet.submit(PLAIN).await;
    fleet.submit("---\ntitle: Build the app\ncapabilities: [\"has:xcode\"]\n---\n").await;
    let codes = || async {
        let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
        alerts.into_iter().map(|alert| alert.code).collect::<Vec<_>>()
    };

    fleet.pass(Duration::from_secs(60), &[&mac]).await;
    let soon = codes().await;
    let explained = fleet.coordinator.explain(&fleet.admin, waiting).await.unwrap();
    fleet.pass(Duration::from_secs(600), &[&mac]).await;

    assert_eq!(soon, [AlertCode::Unplaceable]);
    assert_eq!(explained.summary, "waiting for a factory to poll (poll mode); best match: mac");
    assert!(codes().await.contains(&AlertCode::DispatchLag), "no factory claims the job, and no alert reports it");
}
