//! Offers that end without a lease: their credit comes back, and a factory that takes none is reported (row 33).

use std::time::Duration;

use domain::{EventKind, FailureReason, StageName};
use protocol::{AlertCode, DeclineReason, DeclineRequest};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Machine, drain};

const ACCEPT_WITHIN: Duration = Duration::from_secs(15);

fn decline(mac: &Machine, message: &domain::Message, reason: DeclineReason) -> DeclineRequest {
    let text = Some("it cannot write its state directory: No space left on device".to_owned());
    DeclineRequest {
        job_id: message.job_id,
        dispatch_seq: message.dispatch_seq,
        instance: mac.instance,
        reason,
        message: text.filter(|_| reason == DeclineReason::Fault),
    }
}

async fn alerts(fleet: &Fleet) -> Vec<(AlertCode, String)> {
    let items = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    items.into_iter().map(|alert| (alert.code, alert.message)).collect()
}

#[tokio::test]
async fn row_33_unanswered_offers_return_their_credit() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 2).await;
    let jobs = [fleet.submit(PLAIN).await, fleet.submit(PLAIN).await];
    fleet.dispatch().await;
    assert_eq!(drain(&mut inbox).await.0.len(), 2);

    fleet.pass(ACCEPT_WITHIN, &[&mac]).await;
    fleet.dispatch().await;

    let (again, _) = drain(&mut inbox).await;
    assert_eq!(again.len(), 2, "the credit of the offers that expired is back");
    for message in again {
        mac.accept(&fleet, &mac.claim(&fleet, message.job_id, message.dispatch_seq)).await.unwrap();
    }
    for job in jobs {
        assert_eq!(fleet.stage(job).await, StageName::Assigned);
    }
}

#[tokio::test]
async fn row_33_a_cancelled_offer_returns_its_credit() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 1).await;
    let first = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    assert_eq!(drain(&mut inbox).await.0.len(), 1);
    let second = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    assert_eq!(drain(&mut inbox).await.0.len(), 0, "the only credit is in use");

    fleet.act(first, protocol::Action::Cancel).await.unwrap();

    let (messages, _) = drain(&mut inbox).await;
    assert_eq!(messages.iter().map(|message| message.job_id).collect::<Vec<_>>(), vec![second]);
}

// [D4] [alert: unresponsive_factory]
#[tokio::test]
async fn row_33_a_factory_that_ignores_offers_is_reported_and_reset() {
    let fleet = Fleet::warm(quick().with(|settings| settings.retry.unaccepted_max = 2)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;

    let mut resets = 0;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    for _ in 0..5 {
        fleet.dispatch().await;
        drain(&mut inbox).await;
        fleet.pass(ACCEPT_WITHIN, &[&mac]).await;
        if inbox_has_ended(&mut inbox).await {
            resets += 1;
            inbox = mac.open_inbox(&fleet, 4).await;
        }
        fleet.pass(Duration::from_secs(30), &[&mac]).await;
    }

    assert_eq!(resets, 2);
    let view = fleet.job(job).await;
    assert_eq!((view.stage, view.reason), (StageName::Queued, None), "it is not the job that is at fault");
    let (code, message) = alerts(&fleet).await.remove(0);
    assert_eq!(code, AlertCode::UnresponsiveFactory);
    assert!(message.starts_with("factory `mac` leaves offers unanswered (5 times in a row)"), "{message}");

    fleet.dispatch().await;
    let (messages, _) = drain(&mut inbox).await;
    let claim = mac.claim(&fleet, job, messages[0].dispatch_seq);
    mac.accept(&fleet, &claim).await.unwrap();
    assert_eq!(alerts(&fleet).await, vec![]);
}

/// Whether the coordinator closed the stream.
async fn inbox_has_ended(inbox: &mut coordinator::Inbox) -> bool {
    tokio::select! {
        biased;
        next = tokio::task::unconstrained(inbox.next()) => next.is_none(),
        () = std::future::ready(()) => false,
    }
}

#[tokio::test]
async fn row_33_a_declined_job_goes_to_another_factory_at_once() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let (messages, _) = drain(&mut inbox).await;
    let linux = Machine::join(&fleet, "linux").await;

    fleet.coordinator.decline(&mac.who, &decline(&mac, &messages[0], DeclineReason::Stopping)).await.unwrap();
    fleet.dispatch().await;

    let view = fleet.job(job).await;
    assert_eq!((view.target_factory_id, view.attempts), (Some(linux.id.clone()), 0));
    assert_eq!(fleet.count(job, EventKind::DispatchDeclined).await, 1);
    assert_eq!(alerts(&fleet).await, vec![]);
}

#[tokio::test]
async fn row_33_a_factory_that_declines_gets_fewer_offers() {
    let fleet = Fleet::warm(quick().with(|settings| settings.retry.unaccepted_max = 2)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let job = fleet.submit(PLAIN).await;

    let mut offers = 0;
    for _ in 0..60 {
        fleet.dispatch().await;
        for message in drain(&mut inbox).await.0 {
            offers += 1;
            fleet.coordinator.decline(&mac.who, &decline(&mac, &message, DeclineReason::Fault)).await.unwrap();
        }
        fleet.pass(Duration::from_secs(1), &[&mac]).await;
    }

    assert!((5..10).contains(&offers), "{offers} offers in a minute");
    let view = fleet.job(job).await;
    assert_eq!((view.stage, view.reason, view.attempts), (StageName::Queued, None, 0));
    let found = alerts(&fleet).await;
    let text = "factory `mac` declines offers: it cannot take work: it cannot write its state directory: No space left";
    assert!(found.iter().any(|(code, message)| *code == AlertCode::UnresponsiveFactory && message.starts_with(text)));
    let explained = fleet.coordinator.explain(&fleet.admin, job).await.unwrap();
    let text = serde_json::to_string(&explained).unwrap();
    assert!(text.contains("declines offers"), "{text}");
}

#[tokio::test]
async fn row_34_only_the_target_declines_an_offer() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let (messages, _) = drain(&mut inbox).await;
    let linux = Machine::join(&fleet, "linux").await;

    let foreign = decline(&linux, &messages[0], DeclineReason::Busy);
    let borrowed = decline(&mac, &messages[0], DeclineReason::Busy);
    assert!(fleet.coordinator.decline(&linux.who, &foreign).await.is_err());
    assert!(fleet.coordinator.decline(&linux.who, &borrowed).await.is_err());

    assert_eq!(fleet.job(job).await.target_factory_id, Some(mac.id.clone()));
}

// [row 33]
#[tokio::test]
async fn offers_to_an_offline_factory_make_a_job_undeliverable() {
    let fleet = Fleet::warm(quick().with(|settings| settings.retry.unaccepted_max = 2)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;

    for _ in 0..2 {
        fleet.dispatch().await;
        fleet.pass(ACCEPT_WITHIN, &[&mac]).await;
    }

    assert_eq!(fleet.job(job).await.reason, Some(FailureReason::Undeliverable));
}
