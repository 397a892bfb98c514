//! Shadow mode: the plan of push mode beside polling, which changes nothing and is compared [D1][I13].

use std::time::Duration;

use domain::{Broker as _, DispatchModes, EventKind, Mode};
use protocol::{DivergenceKind, DivergenceReport, ShadowCounts};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Machine, drain};

fn report(fleet: &Fleet) -> DivergenceReport {
    fleet.coordinator.divergence(&fleet.admin, Vec::new()).unwrap()
}

fn counts(fleet: &Fleet) -> ShadowCounts {
    report(fleet).summary.counts
}

// [D1]
#[tokio::test]
async fn a_shadow_plan_writes_no_job_and_its_message_is_no_offer() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    fleet.switch(Mode::Shadow).await;
    let job = fleet.submit(PLAIN).await;
    let (before, operations) = (fleet.job(job).await, fleet.operations());

    let sent = fleet.dispatch().await;
    let waiting = fleet.builder.broker().depths().await.unwrap();
    let received = drain(&mut inbox).await;
    let left = fleet.builder.broker().depths().await.unwrap();

    assert_eq!((sent, received), (0, (vec![], vec![])));
    assert_eq!(fleet.operations(), operations, "the comparison used the store");
    assert_eq!(fleet.job(job).await, before);
    assert_eq!((waiting.get(&mac.id), left.get(&mac.id)), (Some(&1), None), "it was on the factory's own queue");
    assert_eq!(counts(&fleet), ShadowCounts { delivered: 1, ..ShadowCounts::default() });
    assert_eq!(report(&fleet).summary.lag.unwrap().max_ms, 0);
}

// [D1]
#[tokio::test]
async fn a_claim_by_the_planned_or_another_eligible_factory_agrees() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, pc) = (Machine::join(&fleet, "mac").await, Machine::join(&fleet, "pc").await);
    fleet.switch(Mode::Shadow).await;

    for _ in 0..2 {
        fleet.submit(PLAIN).await;
        fleet.dispatch().await;
        assert_eq!(mac.ask_for(&fleet, 1).await.len(), 1);
        fleet.submit(PLAIN).await;
        // Before the dispatcher could plan.
        assert_eq!(pc.ask_for(&fleet, 1).await.len(), 1);
    }

    let found = report(&fleet);
    let ShadowCounts { same, other_eligible, .. } = found.summary.counts;
    assert_eq!((same + other_eligible, found.summary.decisions, found.summary.divergent), (4, 4, 0), "{found:?}");
    assert!(same >= 1, "{found:?}");
    assert_eq!(found.divergences, []);
    assert_eq!(found.summary.verdict.text, "not yet: decisions in 1 of 24 hours; 4 of 1000 decisions");
    assert_eq!((found.products.len(), found.products[0].compared, found.hours.len()), (1, true, 1));
}

// [D1]
#[tokio::test]
async fn a_job_that_no_factory_claims_diverges_once() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    fleet.switch(Mode::Shadow).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    drain(&mut inbox).await;

    let mut seen = Vec::new();
    for _ in 0..3 {
        fleet.pass(Duration::from_secs(301), &[&mac]).await;
        fleet.dispatch().await;
        seen.push(counts(&fleet).only_push);
    }
    assert_eq!(mac.ask_for(&fleet, 1).await, [job]);

    let found = report(&fleet);
    assert_eq!(seen, [0, 1, 1]);
    assert_eq!(
        (found.summary.decisions, found.summary.divergent),
        (1, 1),
        "it is not counted again when it is claimed"
    );
    let [one] = &found.divergences[..] else { panic!("{found:?}") };
    assert_eq!((one.kind, one.job_id, one.factory_id.as_ref()), (DivergenceKind::OnlyPush, job, Some(&mac.id)));
    assert_eq!(one.poll, "no factory claimed it for 600 s, although a seat was free");
    assert!(one.push.starts_with("`mac` (score "), "{}", one.push);
}

// [D1]
#[tokio::test]
async fn a_message_that_does_not_arrive_is_missing() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.switch(Mode::Shadow).await;
    fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    fleet.pass(Duration::from_secs(4), &[&mac]).await;
    let soon = counts(&fleet).missing;
    fleet.pass(Duration::from_secs(2), &[&mac]).await;
    let mut late = mac.open_inbox(&fleet, 4).await;
    let received = drain(&mut late).await;

    let found = report(&fleet);
    assert_eq!((soon, found.summary.counts.missing, found.summary.counts.delivered), (0, 1, 0));
    assert_eq!(found.summary.decisions, 0, "the job itself waits to be claimed");
    assert_eq!(found.divergences[0].kind, DivergenceKind::Missing);
    assert_eq!(found.divergences[0].push, "the message for `mac` did not arrive within 5 s; its inbox is closed");
    assert_eq!(received, (vec![], vec![]));
}

// [D1]
#[tokio::test]
async fn a_factory_that_connects_meanwhile_decides_nothing() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let inbox = mac.open_inbox(&fleet, 4).await;
    fleet.switch(Mode::Shadow).await;
    fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    drop(inbox);
    fleet.pass(Duration::from_secs(6), &[&mac]).await;

    assert_eq!(counts(&fleet), ShadowCounts { unknown: 1, ..ShadowCounts::default() });
}

// [I13] [row 1]
#[tokio::test]
async fn the_first_offer_after_a_comparison_is_no_duplicate() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    fleet.switch(Mode::Shadow).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    fleet.switch(Mode::Push).await;
    let sent = fleet.dispatch().await;
    let (offers, _) = drain(&mut inbox).await;
    mac.run(&fleet, job).await;

    assert_eq!((sent, offers.len(), offers[0].shadow), (1, 1, false));
    assert_eq!(fleet.count(job, EventKind::Granted).await, 1);
    assert_eq!(counts(&fleet).decisions(), 0, "a job that was offered is not compared");
}

// [D1] [I14]
#[tokio::test]
async fn counts_survive_a_restart_and_are_written_only_after_decisions() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.switch(Mode::Shadow).await;
    fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    fleet.pass(Duration::from_secs(6), &[&mac]).await;
    mac.ask_for(&fleet, 1).await;

    fleet.coordinator.save_comparison().await;
    let operations = fleet.operations();
    fleet.coordinator.save_comparison().await;
    let idle = fleet.operations();
    let before = report(&fleet);
    let fleet = fleet.restarted().await;

    assert_eq!(idle, operations);
    assert_eq!(report(&fleet), before);
    assert_eq!((before.summary.decisions, before.summary.counts.missing, before.divergences.len()), (1, 1, 1));
}

// [§12] [D1]
#[tokio::test]
async fn the_setting_compares_every_mode_in_which_factories_poll() {
    let fleet = Fleet::warm(lasting().with(|settings| settings.shadow = true)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let never_set = fleet.coordinator.flags(&fleet.admin).unwrap().value.mode;

    for mode in [Mode::Poll, Mode::Gate, Mode::Push] {
        fleet.switch(mode).await;
        let told = DispatchModes { mode: mode.for_factories(), ..DispatchModes::default() };
        assert_eq!(mac.beat(&fleet).await.modes, told, "factories are not told of the comparison");
        fleet.submit(PLAIN).await;
        fleet.dispatch().await;
        mac.ask_for(&fleet, 1).await;
    }
    let compared = counts(&fleet);
    let fleet = fleet.restarted().await;

    assert_eq!(never_set, Mode::Shadow);
    assert_eq!((compared.same, compared.decisions()), (2, 2));
    assert_eq!(fleet.coordinator.flags(&fleet.admin).unwrap().value.mode, Mode::Push, "what was set stays");
}
