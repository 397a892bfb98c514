//! Stored documents of every earlier version still load.

use std::sync::Arc;

use domain::{DispatchSeq, Epoch, EventSeq, Job, Priority, StageName, Submission};

// [§9]
#[test]
fn a_job_stored_at_version_one_loads() {
    let submission: Submission = serde_json::from_str(include_str!("golden/job_v1.submission.json")).unwrap();

    let job = Job::from_stored(Arc::new(submission), include_str!("golden/job_v1.state.json")).unwrap();

    let spec = job.spec();
    assert_eq!(job.id().to_string(), "019b76da-a801-7000-8000-000000000001");
    assert_eq!((job.product().as_str(), spec.title.as_str()), ("notes", "Sort the notes"));
    assert_eq!(spec.repo.as_ref().map(|repo| repo.as_str()), Some("acme/notes"));
    assert_eq!((spec.budget.usd, spec.budget.wall_ms, spec.retry.max), (Some(2.5), Some(3_600_000), Some(3)));
    assert_eq!((spec.verify.len(), spec.touches.len(), spec.extra.len()), (1, 1, 1));
    assert_eq!((job.submission().deps.len(), job.submission().idempotency_key.as_deref()), (1, Some("sort-1")));
    assert_eq!((job.stage().name(), job.priority()), (StageName::Building, Priority::High));
    assert_eq!((job.epoch(), job.dispatch_seq(), job.seq()), (Epoch(3), DispatchSeq(2), EventSeq(9)));
    assert_eq!((job.attempts(), job.lost_leases(), job.unaccepted(), job.runs()), (1, 1, 0, 2));
    let lease = job.lease().unwrap();
    assert_eq!((lease.factory.as_str(), lease.epoch, lease.seq), ("forge", Epoch(3), DispatchSeq(2)));
    assert_eq!(job.run().unwrap().n, 2);
    assert_eq!(job.checkpoint().unwrap().git_ref, "aq/wip/019b76da-a801-7000-8000-000000000001-e1");
    assert_eq!(job.pin().or(job.avoid()).map(|factory| factory.as_str()), Some("anvil"));
}

// [§9] [J8]
#[test]
fn a_job_stored_with_artifacts_loads() {
    let submission: Submission = serde_json::from_str(include_str!("golden/job_v1.submission.json")).unwrap();

    let job = Job::from_stored(Arc::new(submission), include_str!("golden/job_v1_artifacts.state.json")).unwrap();

    let artifact = job.artifact(3).unwrap();
    assert_eq!((artifact.name.as_str(), artifact.bytes, artifact.run), ("coverage/report.html", 1_434, 2));
    assert_eq!(artifact.blob(job.id()).file_name(), format!("{}-0909090909090909", artifact.sha256));
    assert_eq!((job.artifacts().len(), job.artifact_bytes(), job.artifact(1)), (1, 1_434, None));
}
