//! Operators' actions on jobs, their effect on the holder, and repeated submits.

use std::collections::HashSet;
use std::time::Duration;

use coordinator::{Error, Settings};
use domain::{Checkpoint, EventKind, FailureReason, JobId, Refusal, StageName};
use protocol::{Action, ActionRequest, Directive, Heartbeat, HeldJob, ReleaseReport};

use super::{lasting, quick};
use crate::fleet::{Fleet, IN_REPO, PLAIN, submit};
use crate::machine::{Machine, checkpoint, drain, sha};

// [J10]
#[tokio::test]
async fn a_cancellation_reaches_the_inbox_and_the_next_renewal() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    drain(&mut inbox).await;

    let view = fleet.act(job, Action::Cancel).await.unwrap();

    assert_eq!((view.stage, view.reason), (StageName::Failed, Some(FailureReason::Cancelled)));
    let (_, directives) = drain(&mut inbox).await;
    assert_eq!(directives, vec![Directive::Cancel { job_id: job, lease_epoch: grip.epoch }]);
    assert_eq!(mac.renew(&fleet).await.lost, vec![HeldJob { job_id: job, lease_epoch: grip.epoch }]);
    let late = mac.complete(&fleet, grip, None).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::StaleEpoch { .. })), "{late}");
}

#[tokio::test]
async fn row_29_ids_are_never_reused() {
    let fleet = Fleet::warm(quick()).await;
    let mut ids: HashSet<JobId> = HashSet::new();

    for _ in 0..2_000 {
        let id = fleet.submit(PLAIN).await;
        assert_eq!(id.as_bytes()[6] >> 4, 7, "{id} is not a UUID of version 7");
        ids.insert(id);
    }

    assert_eq!(ids.len(), 2_000);
}

#[tokio::test]
async fn row_29_a_key_refers_to_its_job_after_the_job_has_ended() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit_as("once", PLAIN).await;
    mac.run(&fleet, job).await;

    let again = fleet.coordinator.submit(&fleet.admin, submit(PLAIN, Some("once"))).await.unwrap();
    let other = fleet.try_submit("# Another gate\n", Some("once")).await.unwrap_err();

    assert_eq!((again.job.id, again.job.stage, again.created), (job, StageName::Shipped, false));
    assert!(matches!(other, Error::IdempotencyConflict { job: found, .. } if found == job), "{other}");
}

// [J3]
#[tokio::test]
async fn fifty_concurrent_submits_with_one_key_are_one_job() {
    // A client that does not learn the outcome of its submit finds the same job on retry, whichever request wrote it.
    let fleet = Fleet::warm(lasting().answering()).await;
    fleet.store().set(|faults| faults.yields_max = 3);

    let submits = (0..50).map(|_| fleet.coordinator.submit(&fleet.admin, submit(PLAIN, Some("k"))));
    let outcomes = futures_util::future::join_all(submits).await;

    let ids: HashSet<JobId> = outcomes.iter().map(|outcome| outcome.as_ref().unwrap().job.id).collect();
    let created = outcomes.iter().filter(|outcome| outcome.as_ref().unwrap().created).count();
    assert_eq!((ids.len(), created), (1, 1));
}

#[tokio::test]
async fn a_failed_submit_is_a_store_error_and_not_a_missing_job() {
    let fleet = Fleet::warm(quick()).await;
    fleet.store().set(|faults| faults.commits_lost = 1.0);

    let refused = fleet.try_submit(PLAIN, None).await.unwrap_err();

    assert!(matches!(refused, Error::Store(_)), "{refused}");
}

#[tokio::test]
async fn row_32_a_submit_that_timed_out_is_retried() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let first = fleet.submit_as("first", PLAIN).await;
    fleet.store().set(|faults| faults.commits_lost = 0.2);

    for _ in 0..100 {
        let job = fleet.submit("---\ntitle: Later\ndeps: [\"key:first\"]\n---\n").await;
        assert_eq!(fleet.kinds(job).await, vec![EventKind::Submitted]);
        assert_eq!(fleet.stage(job).await, StageName::Blocked);
    }

    fleet.store().heal();
    mac.run(&fleet, first).await;
}

// [J10]
#[tokio::test]
async fn a_requeue_resumes_from_the_checkpoint_unless_fresh() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    mac.save(&fleet, grip, &sha(1)).await.unwrap();
    fleet.act(job, Action::Cancel).await.unwrap();

    let kept = fleet.act(job, Action::Requeue).await.unwrap();
    fleet.act(job, Action::Cancel).await.unwrap();
    let fresh = ActionRequest { fresh: true, ..ActionRequest::default() };
    let dropped = fleet.coordinator.act(&fleet.admin, job, Action::Requeue, fresh).await.unwrap();

    assert_eq!(kept.checkpoint.map(|saved| saved.sha), Some(sha(1)));
    assert_eq!(dropped.checkpoint, None);
}

// [J10]
#[tokio::test]
async fn an_empty_change_is_rejected() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    let nothing = protocol::Patch { lease_epoch: grip.epoch, stage: None, engine: None, checkpoint: None };

    let refused = fleet.coordinator.patch(&mac.who, job, &nothing).await.unwrap_err();

    assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
}

// [§12]
#[tokio::test]
async fn contradicting_settings_are_clamped() {
    let asked = |settings: &mut Settings| {
        settings.lease_ttl = Duration::from_secs(30);
        settings.renew_every = Duration::from_secs(60);
    };

    let fleet = Fleet::warm(quick().with(asked)).await;

    assert_eq!(fleet.coordinator.settings().renew_every, Duration::from_secs(10));
    let mac = Machine::join(&fleet, "mac").await;
    let answer = mac.beat(&fleet).await;
    assert_eq!((answer.renew_every_ms, answer.lease_ttl_ms), (10_000, 30_000));
}

// [D4]
#[tokio::test]
async fn refusals_are_counted_as_conflicts() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    fleet.act(job, Action::Cancel).await.unwrap();
    let before = fleet.coordinator.metrics_snapshot().conflicts;

    mac.complete(&fleet, grip, None).await.unwrap_err();

    assert_eq!(fleet.coordinator.metrics_snapshot().conflicts, before + 1);
}

// [J10] [attack: terminal escapes]
#[tokio::test]
async fn user_text_is_truncated_and_escaped_for_terminals() {
    let fleet = Fleet::warm(quick()).await;
    let job = fleet.submit(PLAIN).await;
    let message = Some(format!("\u{1b}[2J{}", "x".repeat(100_000)));

    let request = ActionRequest { message, ..ActionRequest::default() };
    fleet.coordinator.act(&fleet.admin, job, Action::Cancel, request).await.unwrap();

    let events = fleet.coordinator.events(&fleet.admin, job, domain::Position(0), 100).await.unwrap();
    let written = serde_json::to_string(&events).unwrap();
    assert!(written.contains("[2Jxxx") && written.len() < 5_000 && !written.contains("u001b"), "{written}");
}

// [J10]
#[tokio::test]
async fn finished_work_that_no_longer_merges_can_be_redone() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(crate::fleet::IN_REPO).await;
    let grip = mac.build(&fleet, job).await;
    mac.save(&fleet, grip, &sha(1)).await.unwrap();
    mac.complete(&fleet, grip, Some(sha(2))).await.unwrap();
    assert_eq!(fleet.stage(job).await, StageName::Testing);

    let afresh = ActionRequest { fresh: true, ..ActionRequest::default() };
    let view = fleet.coordinator.act(&fleet.admin, job, Action::Requeue, afresh).await.unwrap();

    assert_eq!((view.stage, view.checkpoint), (StageName::Queued, None));
}

// [J1]
#[tokio::test]
async fn a_job_without_a_repository_warns_that_nothing_is_kept() {
    let fleet = Fleet::warm(quick()).await;

    let plain = fleet.coordinator.submit(&fleet.admin, submit(PLAIN, None)).await.unwrap();
    let in_repo = fleet.coordinator.submit(&fleet.admin, submit(crate::fleet::IN_REPO, None)).await.unwrap();

    assert!(plain.warnings[0].message.contains("its files are deleted afterwards"), "{:?}", plain.warnings);
    assert_eq!(in_repo.warnings, vec![]);
}

#[tokio::test]
async fn a_checkpoint_in_another_repository_needs_a_fresh_requeue() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let offer = async |identity: &str| {
        let repo_identities = [("notes".parse().unwrap(), identity.parse().unwrap())].into();
        let beat = Heartbeat { repo_identities, ..mac.heartbeat(protocol::PROTOCOL_VERSION) };
        fleet.coordinator.heartbeat(&mac.who, beat).await.unwrap();
    };
    offer("github.com/acme/notes").await;
    let job = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, job).await;
    let saved = Checkpoint { repository: Some("github.com/acme/notes".parse().unwrap()), ..checkpoint(grip, &sha(7)) };
    let release =
        ReleaseReport { lease_epoch: grip.epoch, message: None, checkpoint: Some(saved), insights: Default::default() };
    fleet.coordinator.release(&mac.who, job, &release).await.unwrap();
    mac.let_go(grip);
    offer("github.com/other/notes").await;
    fleet.dispatch().await;

    let command = format!("`giga requeue --fresh {}`", job.short());
    let explained = fleet.coordinator.explain(&fleet.admin, job).await.unwrap();
    let alert = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items.remove(0);
    for text in [&explained.summary, &explained.now.text, &alert.message, &explained.job.waiting.unwrap().text] {
        let names_both = text.contains("github.com/acme/notes") && text.contains("`github.com/other/notes`");
        assert!(names_both && text.contains(&command), "{text}");
    }
    let plain = fleet.act(job, Action::Requeue).await.unwrap_err();
    assert!(matches!(plain, Error::Refused(Refusal::IllegalTransition { .. })), "{plain}");
    let fresh = async || {
        let request = ActionRequest { fresh: true, ..ActionRequest::default() };
        fleet.coordinator.act(&fleet.admin, job, Action::Requeue, request).await.unwrap()
    };
    let first = fresh().await;
    let again = fresh().await;

    assert_eq!((first.stage, first.checkpoint.clone()), (StageName::Queued, None));
    assert_eq!(again.rev, first.rev, "there is nothing left to discard");
    assert_eq!(fleet.kinds(job).await.last(), Some(&EventKind::Requeued));
    mac.take(&fleet, job).await;
}
