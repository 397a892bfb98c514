//! Usage limits, progress and evidence, over HTTP.

use domain::{Epoch, StageName};
use protocol::{
    CredentialList, EvidenceResponse, FactoryView, HeldJob, HeldJobProgress, JobExplanation, Progress, ProgressEvent,
    QuotaResponse, RenewRequest, RenewResponse, RunEvidence, WorkOperation, WorkOutcome, WorkRequest, WorkResponse,
};
use serde_json::json;

use crate::fleet::{Fleet, code, next_offer, soon};

// [§10]
#[tokio::test]
async fn an_exhausted_quota_is_reported_awaited_and_resumed() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("---\ntitle: By it\nengine: command\n---\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();

    let hit =
        json!({ "leaseEpoch": epoch, "engine": "command", "window": "five_hour", "resetsAt": "2099-01-01T00:00:00Z" });
    let answer: QuotaResponse = factory.client.post(&format!("/jobs/{id}/quota"), &hit).await.unwrap();

    assert_eq!(answer.stage, StageName::Queued);
    let explained: JobExplanation = fleet.admin.get(&format!("/jobs/{id}/explain")).await.unwrap();
    assert!(explained.summary.starts_with("waiting for command/five_hour to reset at "), "{}", explained.summary);
    let again: Result<QuotaResponse, _> = factory.client.post(&format!("/jobs/{id}/quota"), &hit).await;
    assert_eq!(code(again), "fenced");
    let view: FactoryView = fleet.admin.get("/factories/mac-1").await.unwrap();
    assert!(view.engines[0].window_until.is_some());
    let waiting: CredentialList = fleet.admin.get("/credentials").await.unwrap();
    assert_eq!(waiting.items[0].credential, "mac-1/command");
    let left: CredentialList =
        fleet.admin.post("/credentials/resume", &json!({ "credential": "mac-1/command" })).await.unwrap();
    assert_eq!(left.items, vec![]);
    assert_eq!(next_offer(&mut inbox).await.job_id, id);
}

// [§10]
#[tokio::test]
async fn a_quota_report_can_be_part_of_a_batch() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# One\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let quota = json!({ "op": "quota", "jobId": id, "leaseEpoch": epoch, "engine": "command" });
    let operation: WorkOperation = serde_json::from_value(quota).unwrap();

    let answer: WorkResponse =
        factory.client.post("/work", &WorkRequest { operations: vec![operation.clone(), operation] }).await.unwrap();

    let statuses: Vec<u16> = answer.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    let told = answer.results.into_iter().find(|result| result.status == 200).unwrap().outcome;
    assert!(matches!(told, WorkOutcome::Quota(QuotaResponse { stage: StageName::Queued, until: Some(_) })));
}

// [J7] [§10]
#[tokio::test]
async fn progress_is_streamed_without_a_position() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# One\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let mut stream = fleet.admin.events("/events/stream", None).await.unwrap();
    let hello = soon(stream.next()).await.unwrap().unwrap();

    let progress = Progress { doing: Some("Edit src/lib.rs".to_owned()), turns: Some(2), ..Progress::default() };
    let held = HeldJob { job_id: id, lease_epoch: epoch };
    let renewal = RenewRequest {
        instance: factory.instance,
        held: vec![HeldJobProgress { held, progress: Some(progress.clone()) }],
        load: 0.5,
        disk_free_bytes: None,
    };
    let _: RenewResponse = factory.client.post("/factories/mac-1/renew", &renewal).await.unwrap();

    let event = soon(stream.next()).await.unwrap().unwrap();
    assert_eq!((event.event.as_str(), &event.id), ("progress", &hello.id), "a client resumes where it was");
    let told: ProgressEvent = serde_json::from_str(&event.data).unwrap();
    assert_eq!(told, ProgressEvent { job_id: id, lease_epoch: epoch, progress: progress.clone() });
    assert_eq!(fleet.job(id).await.progress, Some(progress));
    factory.complete(id, epoch, None).await.unwrap();
    assert_eq!(fleet.job(id).await.progress, None);
}

// [§10] [B4]
#[tokio::test]
async fn evidence_is_kept_for_a_run_and_read_by_its_number() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# One\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let path = format!("/jobs/{id}/runs/evidence");

    let shown = json!({ "leaseEpoch": epoch, "diff": "+one\u{1b}[2J\n", "ending": "done" });
    let kept: EvidenceResponse = factory.client.post(&path, &shown).await.unwrap();
    let stale: Result<EvidenceResponse, _> = factory.client.post(&path, &json!({ "leaseEpoch": Epoch(99) })).await;
    factory.complete(id, epoch, None).await.unwrap();

    assert!(kept.length > 0);
    assert_eq!(code(stale), "fenced");
    let told: RunEvidence = fleet.admin.get(&format!("/jobs/{id}/runs/1/evidence")).await.unwrap();
    assert_eq!((told.diff.as_deref(), told.ending.as_deref()), (Some("+one[2J\n"), Some("done")));
    let none: Result<RunEvidence, _> = fleet.admin.get(&format!("/jobs/{id}/runs/2/evidence")).await;
    assert_eq!(code(none), "no_such_run");
    let nonsense: Result<RunEvidence, _> = fleet.admin.get(&format!("/jobs/{id}/runs/first/evidence")).await;
    assert_eq!(code(nonsense), "invalid");
}
