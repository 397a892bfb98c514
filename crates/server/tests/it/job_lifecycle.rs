//! A job from submit to ship, over HTTP.

use std::time::Duration;

use bytes::Bytes;
use domain::{CommitSha, ErrandKind, StageName};
use protocol::{
    Action, ActionRequest, AppendLogResponse, ErrandOutcome, EventList, FactoryView, HeldJob, JobExplanation, JobView,
    LeaseView, Metrics, RenewRequest, RenewResponse, RunList,
};
use serde_json::json;

use crate::fleet::{Fleet, code, next_offer, soon};

const MANIFEST: &str = "---\ntitle: Fix the typo\nrepo: notes\n---\nThere is a typo in the first line.\n";

fn sha() -> CommitSha {
    "0123456789abcdef0123456789abcdef01234567".parse().unwrap()
}

// [D6] [§10]
#[tokio::test]
async fn a_job_goes_from_submit_to_shipped() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;

    let id = fleet.submit(MANIFEST).await;
    let accepted = factory.take_next(&mut inbox).await;
    let epoch = accepted.lease_epoch;
    assert_eq!(accepted.assignment.body_md, MANIFEST);
    assert_eq!(factory.start(id, epoch).await.unwrap().stage, StageName::Building);

    let path = format!("/jobs/{id}/logs?leaseEpoch={epoch}&offset=0");
    let appended: AppendLogResponse = factory.client.post_bytes(&path, Bytes::from_static(b"hello\n")).await.unwrap();
    assert_eq!(appended, AppendLogResponse { length: 6 });

    let completed = factory.complete(id, epoch, Some(sha())).await.unwrap();
    assert_eq!(completed.stage, StageName::Testing);
    let order = completed.promote.expect("the branch is its holder's to move");
    assert_eq!((order.kind, order.sha), (ErrandKind::Promote, sha()));
    factory.report(id, order.lease_epoch, ErrandOutcome::Done).await.unwrap();

    let _: JobView = fleet.admin.post(&format!("/jobs/{id}/actions/ship"), &json!({})).await.unwrap();
    let merge = factory.take_next(&mut inbox).await;
    let order = merge.assignment.errand.expect("a merge is an errand");
    assert_eq!((order.kind, order.sha), (ErrandKind::Ship, sha()));
    factory.report(id, merge.lease_epoch, ErrandOutcome::Done).await.unwrap();

    let job = fleet.job(id).await;
    assert_eq!(job.job.stage, StageName::Shipped);
    assert_eq!(job.job.promoted_sha, Some(sha()));
    assert_eq!(job.body_md, MANIFEST);
    let runs: RunList = fleet.admin.get(&format!("/jobs/{id}/runs")).await.unwrap();
    assert_eq!(runs.items.len(), 1);
    assert_eq!(fleet.admin.get_text(&format!("/jobs/{id}/logs")).await.unwrap(), "hello\n");
    let events: EventList = fleet.admin.get(&format!("/jobs/{id}/events")).await.unwrap();
    let seqs: Vec<_> = events.items.iter().map(|event| event.seq.0).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "events are numbered without gaps");
}

// [J9]
#[tokio::test]
async fn a_log_is_followed_while_the_engine_prints() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit(MANIFEST).await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();

    let mut log = fleet.admin.bytes(&format!("/jobs/{id}/logs?follow=true")).await.unwrap();
    let mut seen = Vec::new();
    for (offset, chunk) in [(0, "one\n"), (4, "two\n"), (8, "three\n")] {
        let path = format!("/jobs/{id}/logs?leaseEpoch={epoch}&offset={offset}");
        let _: AppendLogResponse =
            factory.client.post_bytes(&path, Bytes::from_static(chunk.as_bytes())).await.unwrap();
        seen.extend_from_slice(&soon(log.next()).await.unwrap().expect("the run goes on"));
    }
    factory.complete(id, epoch, None).await.unwrap();

    assert_eq!(String::from_utf8(seen).unwrap(), "one\ntwo\nthree\n");
    assert_eq!(soon(log.next()).await.unwrap(), None, "the log ends with its run");
}

// [J9]
#[tokio::test]
async fn an_empty_log_can_be_followed() {
    let fleet = Fleet::start().await;
    let id = fleet.submit(MANIFEST).await;
    let mut log = fleet.admin.bytes(&format!("/jobs/{id}/logs?follow=true")).await.unwrap();

    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let path = format!("/jobs/{id}/logs?leaseEpoch={epoch}&offset=0");
    let _: AppendLogResponse = factory.client.post_bytes(&path, Bytes::from_static(b"hello\n")).await.unwrap();

    assert_eq!(soon(log.next()).await.unwrap(), Some(Bytes::from_static(b"hello\n")));
}

// [§10]
#[tokio::test]
async fn a_lease_is_shown_renewed_and_released() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit(MANIFEST).await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;

    let lease: LeaseView = fleet.admin.get(&format!("/jobs/{id}/lease")).await.unwrap();
    assert_eq!((lease.lease_epoch, lease.holder_factory_id), (epoch, Some(factory.id.clone())));

    let renewal = RenewRequest {
        instance: factory.instance,
        held: vec![HeldJob { job_id: id, lease_epoch: epoch }.into()],
        load: 0.5,
        disk_free_bytes: None,
    };
    let renewed: RenewResponse =
        factory.client.post(&format!("/factories/{}/renew", factory.id), &renewal).await.unwrap();
    assert_eq!(renewed.lost, vec![]);

    let one = json!({ "leaseEpoch": epoch, "instance": factory.instance });
    let renewed: LeaseView = factory.client.post(&format!("/jobs/{id}/lease/renew"), &one).await.unwrap();
    assert!(renewed.expires_at >= lease.expires_at);
    let stale = json!({ "leaseEpoch": 0, "instance": factory.instance });
    let refused: Result<LeaseView, _> = factory.client.post(&format!("/jobs/{id}/lease/renew"), &stale).await;
    assert_eq!(code(refused), "fenced");

    let release = json!({ "leaseEpoch": epoch });
    let _: serde_json::Value = factory.client.post(&format!("/jobs/{id}/lease/release"), &release).await.unwrap();
    let offer = next_offer(&mut inbox).await;
    assert_eq!(offer.job_id, id, "a released job is offered again");
}

// [§10]
#[tokio::test]
async fn a_retryable_failure_waits_for_its_backoff() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit(MANIFEST).await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();

    let failure = json!({ "jobId": id, "leaseEpoch": epoch, "reason": "crash", "message": "it fell over" });
    let failed: protocol::FailureResponse = factory.client.post("/fail", &failure).await.unwrap();

    assert_eq!(failed.stage, StageName::Queued);
    assert!(failed.not_before.is_some());
    let again: Result<protocol::FailureResponse, _> = factory.client.post("/fail", &failure).await;
    assert_eq!(code(again), "fenced", "the same report changes nothing the second time");
    let explained: JobExplanation = fleet.admin.get(&format!("/jobs/{id}/explain")).await.unwrap();
    assert!(explained.summary.contains("it fell over"), "{}", explained.summary);
}

#[tokio::test]
async fn a_cancelled_job_is_taken_from_its_holder_at_once() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit(MANIFEST).await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;

    let request = ActionRequest { message: Some("not needed".to_owned()), ..ActionRequest::default() };
    let job: JobView = fleet.admin.post(&format!("/jobs/{id}/actions/cancel"), &request).await.unwrap();

    assert_eq!(job.stage, StageName::Failed);
    let event = soon(async {
        loop {
            let event = inbox.next().await.unwrap().expect("the inbox ended");
            if event.event == "directive" {
                return event;
            }
        }
    })
    .await;
    let directive: serde_json::Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!(directive, json!({ "op": "cancel", "jobId": id, "leaseEpoch": epoch }));
    assert_eq!(code(factory.complete(id, epoch, None).await), "fenced");
    assert_eq!(serde_json::to_value(Action::Cancel).unwrap(), "cancel");
}

// [§10]
#[tokio::test]
async fn a_factory_is_listed_drained_and_removed() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let _inbox = factory.inbox().await;

    let view: FactoryView = fleet.admin.post("/factories/mac-1/drain", &json!({})).await.unwrap();
    assert!(view.draining && view.connected);
    let gone: Result<(), _> = fleet.admin.call(http::Method::DELETE, "/factories/mac-1", None::<&()>).await;
    gone.unwrap();

    let missing: Result<FactoryView, _> = fleet.admin.get("/factories/mac-1").await;
    assert_eq!(code(missing), "no_such_factory");
    assert_eq!(code(soon(factory.beat()).await), "unauthenticated", "its token went with it");
}

// [§10]
#[tokio::test]
async fn a_rotated_token_works_beside_the_old_one() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;

    let rotated: protocol::RotateTokenResponse =
        factory.client.post("/factories/mac-1/token/rotate", &json!({})).await.unwrap();

    let renewed = fleet.client(&rotated.token);
    let view: FactoryView = renewed.get("/factories/mac-1").await.unwrap();
    assert_eq!(view.id, factory.id);
    tokio::time::timeout(Duration::from_secs(5), factory.beat()).await.unwrap().unwrap();
}

#[tokio::test]
async fn runs_are_read_a_page_at_a_time() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit(MANIFEST).await;
    for _ in 0..2 {
        let epoch = factory.take_next(&mut inbox).await.lease_epoch;
        let release = json!({ "leaseEpoch": epoch });
        let _: serde_json::Value = factory.client.post(&format!("/jobs/{id}/lease/release"), &release).await.unwrap();
    }
    factory.take_next(&mut inbox).await;

    let page = async |query: &str| {
        let page: RunList = fleet.admin.get(&format!("/jobs/{id}/runs{query}")).await.unwrap();
        (page.items.iter().map(|run| run.n).collect::<Vec<_>>(), page.next)
    };

    assert_eq!(page("?limit=1").await, (vec![1], Some("1".to_owned())));
    assert_eq!(page("?limit=1&cursor=1").await, (vec![2], Some("2".to_owned())));
    assert_eq!(page("?limit=2").await, (vec![1, 2], Some("2".to_owned())));
    assert_eq!(page("?limit=1&cursor=2").await, (vec![3], None), "the one that is going on");
    assert_eq!(page("").await, (vec![1, 2, 3], None));
    assert_eq!(fleet.admin.runs(id).await.unwrap().len(), 3);
}

// [D4]
#[tokio::test]
async fn every_store_operation_of_a_job_has_a_purpose() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit(MANIFEST).await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let before: Metrics = fleet.admin.get("/metrics").await.unwrap();

    factory.complete(id, epoch, Some(sha())).await.unwrap();

    let after: Metrics = fleet.admin.get("/metrics").await.unwrap();
    let writes = |metrics: &Metrics, purpose: &str| metrics.store_use.get(purpose).map_or(0, |used| used.write);
    for purpose in ["submit", "work"] {
        assert!(writes(&before, purpose) > 0, "{purpose}: {:?}", before.store_use);
    }
    assert!(before.store_use["start"].read > 0, "{:?}", before.store_use);
    assert!(after.store_use["query"].read > before.store_use["query"].read, "{:?}", after.store_use);
    assert_eq!(writes(&after, "work"), writes(&before, "work") + 1, "the report: {:?}", after.store_use);
    assert_eq!(writes(&after, "submit"), writes(&before, "submit"));
    assert_eq!(after.store_use.get("other"), None, "{:?}", after.store_use);
}
