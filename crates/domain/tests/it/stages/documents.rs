//! Stored documents of jobs.

use std::sync::Arc;

use domain::{Completion, DocumentError, Expected, Job, RunInsights, StageEvent, Submission};
use proptest::prelude::*;

use super::sample::{building, completed, holder, later, queued, sha, situations, then};

fn stored(job: &Job) -> (String, String) {
    (serde_json::to_string(job.submission().as_ref()).unwrap(), job.state_json().unwrap())
}

#[test]
fn a_job_in_every_stage_round_trips_through_the_store() {
    for (situation, job) in situations() {
        let job = job.commit_at(Expected::Absent, None).job;
        let (submission, state) = stored(&job);
        let submission: Submission = serde_json::from_str(&submission).unwrap();

        let read = Job::from_stored(Arc::new(submission), &state).unwrap();

        assert_eq!(read, job, "{situation}");
    }
}

// [§9]
#[test]
fn a_newer_document_version_is_refused_with_its_number() {
    let job = queued();
    let (_, state) = stored(&job);
    let newer = state.replacen("\"v\":1", "\"v\":2", 1);
    assert_ne!(newer, state);

    let error = Job::from_stored(Arc::clone(job.submission()), &newer).unwrap_err();

    assert!(matches!(error, DocumentError::Newer { found: 2 }), "{error}");
}

#[test]
fn a_document_that_is_not_a_job_is_refused() {
    let job = queued();

    let error = Job::from_stored(Arc::clone(job.submission()), "{\"v\":1}").unwrap_err();

    assert!(matches!(error, DocumentError::Malformed(_)), "{error}");
}

#[test]
fn a_commit_contains_each_event_once() {
    let unit = completed(queued()).commit_at(Expected::Absent, None);
    assert_eq!(unit.events.len(), 5);

    let again = unit.job.commit_at(Expected::At(domain::Revision(1)), None);

    assert_eq!((again.events.len(), again.runs.len()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn run_insights_round_trip_through_the_store(cost in 0.0_f64..1_000.0) {
        let job = building(queued());
        let insights = RunInsights { cost_usd: Some(cost), ..RunInsights::default() };
        let completion = Completion { sha: Some(sha(1)), insights, ..Completion::default() };
        let event = StageEvent::Completed { holder: holder(&job), completion, promote_until: later() };
        let job = then(job, event).commit_at(Expected::Absent, None).job;

        let read = Job::from_stored(Arc::clone(job.submission()), &job.state_json().unwrap()).unwrap();

        prop_assert_eq!(read, job);
    }
}
