//! No job waits without a reason shown [I9], and none starts that must not [I10].

use std::time::Duration;

use coordinator::Error;
use domain::{ScoreWeights, StageName};
use protocol::{ActionRequest, AlertCode, ProductSettings};

use super::{lasting, quick};
use crate::fleet::{Fleet, IN_REPO, PLAIN, submit};
use crate::idle::RENEW_EVERY;
use crate::machine::{Machine, Offers};

const NEEDS_XCODE: &str = "---\ntitle: Build the app\ncapabilities: [\"has:xcode\"]\n---\nPlease.\n";

// [I9] [alert: unplaceable]
#[tokio::test]
async fn an_unplaceable_job_names_what_is_missing() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;

    let submitted = fleet.coordinator.submit(&fleet.admin, submit(NEEDS_XCODE, None)).await.unwrap();
    fleet.dispatch().await;

    let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    assert_eq!(alerts.iter().map(|alert| alert.code).collect::<Vec<_>>(), vec![AlertCode::Unplaceable]);
    assert_eq!(alerts[0].job_id, Some(submitted.job.id));
    let explained = fleet.coordinator.explain(&fleet.admin, submitted.job.id).await.unwrap();
    for text in [&alerts[0].message, &submitted.forecast.text, &explained.summary] {
        assert!(text.contains("has:xcode") && text.contains("mac"), "{text}");
    }
    fleet.pass(Duration::from_secs(3_600), &[&mac]).await;
    assert_eq!(fleet.stage(submitted.job.id).await, StageName::Queued);
    let fleet = fleet.restarted().await;
    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, alerts, "also right after a start");
    fleet.act(submitted.job.id, protocol::Action::Cancel).await.unwrap();
    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![]);
}

// [D4]
#[tokio::test]
async fn an_alert_ends_when_its_cause_does() {
    let fleet = Fleet::warm(quick()).await;
    let job = fleet.submit(NEEDS_XCODE).await;
    let mut mac = Machine::join(&fleet, "mac").await;

    mac.offers.capabilities.insert("has:xcode".parse().unwrap());
    mac.beat(&fleet).await;

    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![]);
    mac.run(&fleet, job).await;
}

// [S7]
#[tokio::test]
async fn an_unplaceable_shape_does_not_block_later_jobs() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    for _ in 0..50 {
        fleet.submit(NEEDS_XCODE).await;
    }

    let job = fleet.submit(PLAIN).await;

    mac.run(&fleet, job).await;
}

// [I9]
#[tokio::test]
async fn a_fleet_without_factories_is_reported() {
    let fleet = Fleet::warm(quick()).await;
    fleet.submit(PLAIN).await;

    let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;

    assert_eq!(alerts.iter().map(|alert| alert.code).collect::<Vec<_>>(), vec![AlertCode::NoLiveFactory]);
}

// [I9] [alert: queue_starvation]
#[tokio::test]
async fn a_job_that_waits_long_for_a_seat_is_starving() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 1, ..Offers::default() }).await;
    let first = fleet.submit(PLAIN).await;
    mac.build(&fleet, first).await;
    let waiting = fleet.submit(PLAIN).await;

    fleet.pass(Duration::from_secs(599), &[&mac]).await;
    let before = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items.len();
    fleet.pass(Duration::from_secs(1), &[&mac]).await;
    let after = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;

    assert_eq!(before, 0);
    assert_eq!(after.iter().map(|alert| alert.code).collect::<Vec<_>>(), vec![AlertCode::QueueStarvation]);
    fleet.act(waiting, protocol::Action::Cancel).await.unwrap();
    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![]);
}

// [I10]
#[tokio::test]
async fn jobs_of_a_paused_product_are_not_offered() {
    let fleet = Fleet::warm(quick()).await;
    let other = "other".parse().unwrap();
    fleet.coordinator.put_product(&fleet.admin, &other, ProductSettings::default()).await.unwrap();
    let mac = Machine::join(&fleet, "mac").await;
    fleet.set_product(ProductSettings { paused: Some(true), ..ProductSettings::default() }).await;
    let waits = fleet.submit(PLAIN).await;
    let runs = fleet.submit("---\ntitle: Theirs\nproduct: other\n---\n").await;

    mac.run(&fleet, runs).await;

    assert_eq!((fleet.dispatch().await, fleet.stage(waits).await), (0, StageName::Queued));
}

// [J10]
#[tokio::test]
async fn a_pinned_job_goes_to_its_factory_only() {
    let fleet = Fleet::warm(quick()).await;
    let _mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let pin = |name: Option<&str>| ActionRequest {
        factory_id: name.map(|name| name.parse().unwrap()),
        ..ActionRequest::default()
    };

    fleet.coordinator.act(&fleet.admin, job, protocol::Action::Pin, pin(Some("linux"))).await.unwrap();
    let while_absent = fleet.dispatch().await;
    let linux = Machine::join(&fleet, "linux").await;
    fleet.dispatch().await;

    assert_eq!(while_absent, 0);
    assert_eq!(fleet.job(job).await.target_factory_id, Some(linux.id.clone()));
}

// [I9] [D4] [alert: dispatch_lag]
#[tokio::test]
async fn a_job_that_waits_beside_a_free_seat_is_an_alert() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;

    fleet.builder.clock.advance(fleet.coordinator.settings().accept_within + Duration::from_millis(1));
    let late = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    mac.take(&fleet, job).await;

    assert_eq!(
        late.iter().map(|alert| (alert.code, alert.job_id)).collect::<Vec<_>>(),
        vec![(AlertCode::DispatchLag, Some(job))]
    );
    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![]);
}

// [T1]
#[tokio::test]
async fn a_repository_of_another_product_is_rejected_with_its_owner() {
    let fleet = Fleet::warm(quick()).await;
    let settings = ProductSettings { repos: Some(["notes".parse().unwrap()].into()), ..ProductSettings::default() };
    fleet.coordinator.put_product(&fleet.admin, &"garden".parse().unwrap(), settings).await.unwrap();

    let refused = fleet.try_submit(IN_REPO, None).await.unwrap_err();

    assert!(matches!(&refused, Error::RepoOwned { owner, .. } if owner.as_str() == "garden"), "{refused}");
    assert!(refused.to_string().contains("garden"), "{refused}");
}

// [S2]
#[tokio::test]
async fn a_factory_that_signs_off_gets_no_offers() {
    let fleet = Fleet::warm(quick()).await;
    let leaver = Machine::join(&fleet, "leaver").await;
    let goodbye = protocol::Heartbeat { leaving: true, ..leaver.heartbeat(protocol::PROTOCOL_VERSION) };

    fleet.coordinator.heartbeat(&leaver.who, goodbye).await.unwrap();
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    assert_eq!(fleet.job(job).await.target_factory_id, None);
    let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    let [alert] = alerts.as_slice() else { panic!("one alert: {alerts:?}") };
    assert_eq!(alert.code, protocol::AlertCode::NoLiveFactory);
    assert!(alert.message.contains("every eligible factory is stopped, such as `leaver`"), "{}", alert.message);
    leaver.beat(&fleet).await;
    fleet.dispatch().await;
    assert_eq!(fleet.job(job).await.target_factory_id, Some(leaver.id.clone()));
}

#[tokio::test]
async fn a_stopped_factory_is_listed_and_raises_no_alert() {
    let fleet = Fleet::warm(quick()).await;
    let leaver = Machine::join(&fleet, "leaver").await;
    let goodbye = protocol::Heartbeat { leaving: true, ..leaver.heartbeat(protocol::PROTOCOL_VERSION) };
    fleet.coordinator.heartbeat(&leaver.who, goodbye).await.unwrap();
    let shown = |fleet: &Fleet| {
        let view = fleet.coordinator.factory_view(&fleet.admin, &leaver.id).unwrap();
        (view.presence, view.last_heartbeat_at)
    };
    let stopped = shown(&fleet);

    // Also after a long silence, and after a restart of the coordinator.
    fleet.pass(RENEW_EVERY * 10, &[]).await;
    let alerts_before = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    let before = shown(&fleet);
    let fleet = fleet.restarted().await;
    fleet.pass(RENEW_EVERY * 10, &[]).await;

    assert_eq!(stopped.0, protocol::Presence::Stopped);
    assert!(stopped.1.is_some());
    assert_eq!((before, shown(&fleet)), (stopped, stopped));
    assert_eq!((alerts_before, fleet.coordinator.alerts(&fleet.admin).await.unwrap().items), (vec![], vec![]));
    let pruned = fleet.coordinator.prune(&fleet.admin).await.unwrap();
    assert_eq!(pruned.factories, vec![leaver.id.clone()]);
}

#[tokio::test]
async fn a_manifest_names_a_repository_by_its_identity() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let tracker: domain::RepoName = "tracker".parse().unwrap();
    let identity: domain::RepoIdentity = "github.com/acme/notes".parse().unwrap();
    let beat = mac.heartbeat(protocol::PROTOCOL_VERSION);
    let repo_identities = [(tracker.clone(), identity)].into();
    let beat = protocol::Heartbeat { repos: [tracker.clone()].into(), repo_identities, ..beat };
    fleet.coordinator.heartbeat(&mac.who, beat).await.unwrap();
    let body = |repo: &str| format!("---\ntitle: Work\nrepo: {repo}\n---\nPlease.\n");

    let named = fleet.submit(&body("github.com/acme/notes")).await;
    let unknown = fleet.submit(&body("github.com/acme/other")).await;

    assert_eq!(fleet.job(named).await.repo, Some(tracker));
    assert_eq!(fleet.job(unknown).await.repo, Some("github.com/acme/other".parse().unwrap()));
}

// [S3] [S4]
#[tokio::test]
async fn the_decision_is_explained_as_it_was_taken() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let linux = Machine::join(&fleet, "linux").await;
    let own = |cost| ScoreWeights { cost_fit: Some(cost), ..ScoreWeights::default() };
    fleet.set_product(ProductSettings { score_weights: Some(own(2.0)), ..ProductSettings::default() }).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let target = fleet.job(job).await.target_factory_id.unwrap();
    let (chosen, other) = if target == mac.id { (&mac, &linux) } else { (&linux, &mac) };
    let grip = chosen.try_take(&fleet, job).await.unwrap();
    chosen.start(&fleet, grip).await.unwrap();

    // What is set later changes the decision of a running job no more.
    fleet.set_product(ProductSettings { score_weights: Some(own(0.0)), ..ProductSettings::default() }).await;
    let fleet = fleet.restarted().await;
    let explained = fleet.coordinator.explain(&fleet.admin, job).await.unwrap();

    let decision = explained.decision.unwrap();
    assert_eq!((&decision.factory, decision.engine.clone()), (&chosen.id, Some(domain::EngineName::command())));
    assert_eq!((decision.weights.cost_fit, explained.now.weights.cost_fit), (2.0, 0.0));
    assert_eq!(decision.runners_up.iter().map(|next| &next.factory).collect::<Vec<_>>(), [&other.id]);
    assert!(decision.score.total > 0.0 && decision.score.idleness > 0.0, "{decision:?}");
}

// [S3]
#[tokio::test]
async fn a_weight_outside_its_bounds_is_rejected() {
    let fleet = Fleet::warm(quick()).await;
    let product = domain::ProductId::default_product();

    for weight in [-0.1, 100.1, f64::NAN, f64::INFINITY] {
        let own = ScoreWeights { affinity: Some(weight), ..ScoreWeights::default() };
        let settings = ProductSettings { score_weights: Some(own), ..ProductSettings::default() };
        let refused = fleet.coordinator.put_product(&fleet.admin, &product, settings).await;
        assert!(matches!(refused, Err(Error::Invalid { what: "scoreWeights", .. })), "{weight}: {refused:?}");
    }
}
