//! Many worker operations in one request.

use domain::{ClaimNonce, DispatchSeq, Epoch, JobId, StageName};
use protocol::{
    AcceptRequest, CompletionReport, FailureReport, StartReport, WorkOperation, WorkOutcome, WorkRequest, WorkResponse,
};

use crate::fleet::{Fleet, code, random};

// [§10]
#[tokio::test]
async fn each_batch_operation_has_the_outcome_of_its_own_route() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let mut held = Vec::new();
    for n in 0..3 {
        fleet.submit(&format!("# Job {n}\n")).await;
        let accepted = factory.take_next(&mut inbox).await;
        held.push((accepted.assignment.job_id, accepted.lease_epoch));
    }
    let unknown = JobId::from_bytes([7; 16]);
    let start = |epoch| StartReport { lease_epoch: epoch, engine: "command".parse().unwrap() };
    let fail = FailureReport {
        lease_epoch: held[2].1,
        reason: domain::FailureReason::Crash,
        again: domain::Retryability::default(),
        message: None,
        checkpoint: None,
        insights: Default::default(),
        evidence: vec![],
        no_changes: false,
    };
    let accept = AcceptRequest {
        job_id: unknown,
        dispatch_seq: DispatchSeq(1),
        claim_nonce: ClaimNonce::from_bytes(random()),
        instance: factory.instance,
        factory_id: None,
    };
    let operations = vec![
        WorkOperation::Start { job_id: held[0].0, request: start(held[0].1) },
        WorkOperation::Start { job_id: held[1].0, request: start(Epoch(99)) },
        WorkOperation::Fail { job_id: held[2].0, request: fail },
        WorkOperation::Complete { job_id: unknown, request: CompletionReport::default() },
        WorkOperation::Accept { request: accept },
    ];

    let answer: WorkResponse = factory.client.post("/work", &WorkRequest { operations }).await.unwrap();

    let told: Vec<_> = answer
        .results
        .iter()
        .map(|result| match &result.outcome {
            WorkOutcome::Stage(answer) => (result.status, answer.stage.as_str().to_owned()),
            WorkOutcome::Failed(failed) => (result.status, failed.stage.as_str().to_owned()),
            WorkOutcome::Problem(problem) => (result.status, problem.code.clone()),
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    let expected = [(200, "building"), (409, "fenced"), (200, "queued"), (404, "no_such_job"), (404, "no_such_job")];
    assert_eq!(told, expected.map(|(status, word)| (status, word.to_owned())));
    assert_eq!(fleet.job(held[1].0).await.job.stage, StageName::Assigned);
}

#[tokio::test]
async fn a_batch_with_too_many_operations_is_rejected() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let operation = WorkOperation::Start {
        job_id: JobId::from_bytes([7; 16]),
        request: StartReport { lease_epoch: Epoch(1), engine: "command".parse().unwrap() },
    };

    let all = WorkRequest { operations: vec![operation.clone(); 1_000] };
    let answer: WorkResponse = factory.client.post("/work", &all).await.unwrap();
    let more = WorkRequest { operations: vec![operation; 1_001] };
    let refused: Result<WorkResponse, _> = factory.client.post("/work", &more).await;

    assert_eq!(answer.results.len(), 1_000);
    assert_eq!(code(refused), "invalid");
}
