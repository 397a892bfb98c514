//! Feedback of pull requests.

use domain::{Actor, Checkpoint, Completion, EventKind, Expected, PullRequest, StageEvent, StageName};

use super::sample::{NOW, building, completed, holder, later, promoted, queued, sha, then};

fn request() -> PullRequest {
    PullRequest { number: 7, url: "https://forge.example/acme/notes/pull/7".to_owned() }
}

// [J5]
#[test]
fn a_rework_resumes_from_the_completed_commit() {
    let job = building(queued());
    let (git_ref, session) = ("run".to_owned(), Some("s".to_owned()));
    let checkpoint = Checkpoint { git_ref, sha: sha(1), session, epoch: job.epoch(), repository: None };
    let completion = Completion { sha: Some(sha(1)), checkpoint: Some(checkpoint.clone()), ..Completion::default() };
    let event = StageEvent::Completed { holder: holder(&job), completion, promote_until: later() };
    let job = then(job, event);
    let done = StageEvent::ErrandDone { holder: holder(&job) };
    let job = then(job, done);

    let ids = vec!["check:1".to_owned()];
    let job = job.sent_back(ids, "1 failed check".to_owned(), "> no".to_owned(), NOW, Actor::Coordinator).unwrap();

    assert_eq!(
        (job.stage().name(), job.message(), job.changes()),
        (StageName::Queued, Some("1 failed check"), Some("> no"))
    );
    assert_eq!((job.feedback_rounds(), job.has_answered("check:1"), job.has_answered("check:2")), (1, true, false));
    assert_eq!(job.checkpoint(), Some(&checkpoint));
}

#[test]
fn completing_the_work_clears_the_requested_changes() {
    let sent_back = then(promoted(queued()), StageEvent::ChangesRequested { message: Some("smaller".to_owned()) });
    assert_eq!(sent_back.changes(), Some("smaller"));

    let again = completed(sent_back);

    assert_eq!(again.changes(), None);
}

#[test]
fn promotion_clears_the_pull_request_text() {
    let job = building(queued());
    let completion =
        Completion { sha: Some(sha(1)), request_text: Some("Adds it.".to_owned()), ..Completion::default() };
    let event = StageEvent::Completed { holder: holder(&job), completion, promote_until: later() };

    let job = then(job, event);
    let failed = StageEvent::ErrandFailed {
        holder: holder(&job),
        message: "no".to_owned(),
        retry_at: Some(later()),
        conflict: None,
    };
    let waiting = then(job.clone(), failed);
    let done = StageEvent::ErrandDone { holder: holder(&job) };
    let moved = then(job.with_pull_request(request()), done);

    assert_eq!(waiting.request_text(), Some("Adds it."));
    assert_eq!((moved.request_text(), moved.pull_request()), (None, Some(&request())));
    let told = moved.commit_at(Expected::Absent, None).events.pop().unwrap();
    assert_eq!((told.kind, &told.data["pullRequest"]["number"]), (EventKind::Promoted, &serde_json::json!(7)));
}

// [J10]
#[test]
fn a_requeue_resets_the_feedback_rounds() {
    let mut job = promoted(queued());
    for n in 0..3 {
        let ids = vec![format!("check:{n}")];
        job = job.sent_back(ids, "no".to_owned(), "no".to_owned(), NOW, Actor::Coordinator).unwrap();
        job = promoted(job);
    }
    let job = job.escalated(vec!["check:9".to_owned()], "too often".to_owned(), NOW, Actor::Coordinator);
    assert_eq!((job.feedback_rounds(), job.is_escalated(), job.stage().name()), (3, true, StageName::Testing));

    let job = then(job, StageEvent::ChangesRequested { message: None }).with_new_rounds();

    assert_eq!((job.feedback_rounds(), job.is_escalated(), job.has_answered("check:9")), (0, false, true));
}

// [J5]
#[test]
fn a_postponed_errand_counts_no_attempt() {
    let job = completed(queued());
    let put_off =
        StageEvent::ErrandPutOff { holder: holder(&job), message: "checks are running".to_owned(), retry_at: later() };

    let job = then(job, put_off);

    assert_eq!(
        (job.errand().unwrap().tries, job.not_before(), job.message()),
        (0, Some(later()), Some("checks are running"))
    );
}
