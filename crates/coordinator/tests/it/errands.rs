//! Promotions and merges: short, fenced, and never stuck with a factory that is gone [F5].

use std::time::Duration;

use coordinator::Error;
use domain::{Clock as _, ErrandKind, EventKind, Evidence, JobId, MergeConflict, Refusal, StageName};
use protocol::{Action, AlertCode, CompletionReport, ErrandOutcome, ErrandReport, PromoteOrder};

use super::{lasting, quick};
use crate::fleet::{Fleet, IN_REPO, PLAIN};
use crate::machine::{Grip, Machine, sha};

const ERRAND_WITHIN: Duration = Duration::from_secs(120);

/// A completed job; its holder may move the branch.
async fn completed(fleet: &Fleet, machine: &Machine) -> (JobId, PromoteOrder) {
    let job = fleet.submit(IN_REPO).await;
    let grip = machine.build(fleet, job).await;
    let order = machine.complete(fleet, grip, Some(sha(1))).await.unwrap().promote.unwrap();
    (job, order)
}

/// A job whose branch has the work.
async fn promoted(fleet: &Fleet, machine: &Machine) -> JobId {
    let (job, order) = completed(fleet, machine).await;
    machine.promote(fleet, Grip { job, epoch: order.lease_epoch }, ErrandOutcome::Done).await.unwrap();
    job
}

/// Accepts the offered errand.
async fn take_errand(fleet: &Fleet, machine: &Machine, job: JobId) -> (Grip, PromoteOrder) {
    let claim = machine.claim(fleet, job, fleet.job(job).await.dispatch_seq);
    let accepted = machine.accept(fleet, &claim).await.unwrap();
    (Grip { job, epoch: accepted.lease_epoch }, accepted.assignment.errand.unwrap())
}

async fn target(fleet: &Fleet, job: JobId) -> Option<String> {
    fleet.job(job).await.target_factory_id.map(String::from)
}

fn is_fenced(error: &Error) -> bool {
    matches!(error, Error::Refused(Refusal::StaleEpoch { .. }))
}

// [I15]
#[tokio::test]
async fn automatic_shipping_ships_the_completed_commit() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = promoted(&fleet, &mac).await;

    fleet.dispatch().await;
    let (grip, order) = take_errand(&fleet, &mac, job).await;
    let answer = mac.promote(&fleet, grip, ErrandOutcome::Done).await.unwrap();

    assert_eq!((order.kind, order.sha), (ErrandKind::Ship, sha(1)));
    assert_eq!(answer.stage, StageName::Shipped);
    use EventKind as K;
    let ending = fleet.kinds(job).await.split_off(4);
    assert_eq!(ending, vec![K::Completed, K::Promoted, K::ShipRequested, K::Dispatched, K::ErrandGranted, K::Shipped]);
}

// [J6]
#[tokio::test]
async fn a_run_ends_after_its_branch_has_the_work() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (job, order) = completed(&fleet, &mac).await;
    let before = fleet.coordinator.runs(&fleet.admin, job, 0, 1_000).await.unwrap().items;

    mac.promote(&fleet, Grip { job, epoch: order.lease_epoch }, ErrandOutcome::Done).await.unwrap();

    let after = fleet.coordinator.runs(&fleet.admin, job, 0, 1_000).await.unwrap().items;
    assert_eq!(before.iter().map(|run| run.ended_at.is_some()).collect::<Vec<_>>(), vec![false]);
    assert_eq!(after.iter().map(|run| run.ended_at.is_some()).collect::<Vec<_>>(), vec![true]);
}

// [F5]
#[tokio::test]
async fn a_promotion_of_a_dead_factory_goes_to_another() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (job, first) = completed(&fleet, &mac).await;
    let linux = Machine::join(&fleet, "linux").await;

    fleet.pass(ERRAND_WITHIN, &[&linux]).await;
    fleet.dispatch().await;
    let (grip, order) = take_errand(&fleet, &linux, job).await;
    let late = mac.promote(&fleet, Grip { job, epoch: first.lease_epoch }, ErrandOutcome::Done).await.unwrap_err();
    linux.promote(&fleet, grip, ErrandOutcome::Done).await.unwrap();

    assert!(is_fenced(&late), "{late}");
    assert_eq!((order.kind, order.sha, order.run_epoch), (ErrandKind::Promote, sha(1), domain::Epoch(1)));
    assert_eq!(fleet.job(job).await.promoted_sha, Some(sha(1)));
}

#[tokio::test]
async fn a_merge_that_times_out_goes_to_another_factory() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let linux = Machine::join(&fleet, "linux").await;
    let job = fleet.submit(IN_REPO).await;
    fleet.dispatch().await;
    let (first, second) =
        if target(&fleet, job).await.as_deref() == Some("mac") { (&mac, &linux) } else { (&linux, &mac) };
    let grip = first.build(&fleet, job).await;
    let order = first.complete(&fleet, grip, Some(sha(1))).await.unwrap().promote.unwrap();
    first.promote(&fleet, Grip { job, epoch: order.lease_epoch }, ErrandOutcome::Done).await.unwrap();
    fleet.act(job, Action::Ship).await.unwrap();
    fleet.dispatch().await;
    let slow = if target(&fleet, job).await == Some(first.id.to_string()) { first } else { second };
    let quick = if slow.id == first.id { second } else { first };
    let (held, _) = take_errand(&fleet, slow, job).await;

    fleet.pass(ERRAND_WITHIN, &[&mac, &linux]).await;
    fleet.dispatch().await;

    assert_eq!(target(&fleet, job).await, Some(quick.id.to_string()));
    let (grip, _) = take_errand(&fleet, quick, job).await;
    let late = slow.promote(&fleet, held, ErrandOutcome::Done).await.unwrap_err();
    assert!(is_fenced(&late), "{late}");
    assert_eq!(quick.promote(&fleet, grip, ErrandOutcome::Done).await.unwrap().stage, StageName::Shipped);
}

#[tokio::test]
async fn a_failed_promotion_is_retried_after_a_pause() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (job, order) = completed(&fleet, &mac).await;
    let failed = ErrandOutcome::Failed { message: "the forge is down".to_owned() };

    mac.promote(&fleet, Grip { job, epoch: order.lease_epoch }, failed).await.unwrap();
    let at_once = fleet.dispatch().await;
    fleet.pass(Duration::from_secs(30), &[&mac]).await;
    fleet.dispatch().await;

    assert_eq!(at_once, 0);
    let (grip, _) = take_errand(&fleet, &mac, job).await;
    mac.promote(&fleet, grip, ErrandOutcome::Done).await.unwrap();
    assert_eq!(fleet.job(job).await.promoted_sha, Some(sha(1)));
}

#[tokio::test]
async fn an_impossible_promotion_ends_with_its_reason() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let (job, order) = completed(&fleet, &mac).await;
    let impossible =
        ErrandOutcome::Impossible { message: "another writer moved the branch".to_owned(), conflict: None };

    mac.promote(&fleet, Grip { job, epoch: order.lease_epoch }, impossible).await.unwrap();

    assert_eq!(fleet.dispatch().await, 0);
    let explained = fleet.coordinator.explain(&fleet.admin, job).await.unwrap();
    assert_eq!((explained.job.stage, explained.job.errand), (StageName::Testing, None));
    assert!(explained.summary.contains("another writer moved the branch"), "{}", explained.summary);
    let run = fleet.coordinator.runs(&fleet.admin, job, 0, 1_000).await.unwrap().items.remove(0);
    assert!(run.ended_at.is_some());
}

#[tokio::test]
async fn a_held_promotion_is_not_revoked_during_warm_up() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (job, order) = completed(&fleet, &mac).await;
    fleet.builder.clock.advance(ERRAND_WITHIN * 2);

    let fleet = fleet.restarted().await;
    fleet.coordinator.tick().await;
    fleet.dispatch().await;

    mac.promote(&fleet, Grip { job, epoch: order.lease_epoch }, ErrandOutcome::Done).await.unwrap();
    assert_eq!(fleet.job(job).await.promoted_sha, Some(sha(1)));
}

#[tokio::test]
async fn a_superseded_process_cannot_accept_an_errand() {
    let fleet = Fleet::warm(quick()).await;
    let old = Machine::join(&fleet, "mac").await;
    let job = promoted(&fleet, &old).await;
    fleet.act(job, Action::Ship).await.unwrap();
    fleet.dispatch().await;
    let new = Machine::clone_of(&fleet, &old, Duration::ZERO);
    new.beat(&fleet).await;

    let claim = old.claim(&fleet, job, fleet.job(job).await.dispatch_seq);
    let refused = old.accept(&fleet, &claim).await.unwrap_err();

    assert!(matches!(refused, Error::Refused(Refusal::NotHolder { .. })), "{refused}");
    let (grip, _) = take_errand(&fleet, &new, job).await;
    assert_eq!(new.promote(&fleet, grip, ErrandOutcome::Done).await.unwrap().stage, StageName::Shipped);
}

#[tokio::test]
async fn a_repeated_completion_returns_the_same_order() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, job).await;

    let first = mac.complete(&fleet, grip, Some(sha(1))).await.unwrap();
    let again = mac.complete(&fleet, grip, Some(sha(1))).await.unwrap();

    assert_eq!(first, again);
    assert_eq!(fleet.count(job, EventKind::Completed).await, 1);
}

// [I9]
#[tokio::test]
async fn a_promotion_without_an_eligible_factory_is_an_alert() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (job, _) = completed(&fleet, &mac).await;

    fleet.pass(ERRAND_WITHIN, &[]).await;

    let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    let about: Vec<_> = alerts.iter().map(|alert| (alert.code, alert.job_id)).collect();
    assert_eq!(about, vec![(AlertCode::Unplaceable, Some(job)), (AlertCode::StaleFactory, None)]);
    assert!(alerts[0].message.contains("notes"), "{}", alerts[0].message);
    let waiting = fleet.job(job).await.waiting.unwrap();
    assert!(waiting.unplaceable && waiting.text.contains("no live factory has `notes`"), "{waiting:?}");
}

// [F5]
#[tokio::test]
async fn merges_into_one_repository_are_serialized() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let linux = Machine::join(&fleet, "linux").await;
    let mut jobs = Vec::new();
    for _ in 0..6 {
        let job = fleet.submit(IN_REPO).await;
        fleet.dispatch().await;
        let machine = if target(&fleet, job).await.as_deref() == Some("mac") { &mac } else { &linux };
        let grip = machine.build(&fleet, job).await;
        let order = machine.complete(&fleet, grip, Some(sha(1))).await.unwrap().promote.unwrap();
        machine.promote(&fleet, Grip { job, epoch: order.lease_epoch }, ErrandOutcome::Done).await.unwrap();
        jobs.push(job);
    }
    for job in &jobs {
        fleet.act(*job, Action::Ship).await.unwrap();
    }

    for _ in 0..6 {
        assert_eq!(fleet.dispatch().await, 1);
        let mut offered = None;
        for job in &jobs {
            if let Some(name) = target(&fleet, *job).await {
                offered = Some((*job, name));
            }
        }
        let (job, name) = offered.unwrap();
        let machine = if name == "mac" { &mac } else { &linux };
        let (grip, _) = take_errand(&fleet, machine, job).await;
        assert_eq!(fleet.dispatch().await, 0);
        machine.promote(&fleet, grip, ErrandOutcome::Done).await.unwrap();
    }

    for job in jobs {
        assert_eq!(fleet.stage(job).await, StageName::Shipped);
    }
}

#[tokio::test]
async fn an_errand_uses_no_seat() {
    let fleet = Fleet::warm(quick()).await;
    let offers = crate::machine::Offers { seats: 1, ..Default::default() };
    let mac = Machine::join_with(&fleet, "mac", offers).await;
    completed(&fleet, &mac).await;

    let next = fleet.submit(IN_REPO).await;

    mac.build(&fleet, next).await;
}

#[tokio::test]
async fn an_impossible_merge_is_not_retried_automatically() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = promoted(&fleet, &mac).await;
    fleet.dispatch().await;
    let (grip, _) = take_errand(&fleet, &mac, job).await;

    let conflict = ErrandOutcome::Impossible { message: "it conflicts".to_owned(), conflict: None };
    let answer = mac.promote(&fleet, grip, conflict).await.unwrap();
    fleet.dispatch().await;

    assert_eq!(answer.stage, StageName::Testing);
    let view = fleet.job(job).await;
    assert_eq!((view.errand, view.message.as_deref()), (None, Some("it conflicts")));
    assert_eq!(fleet.count(job, EventKind::ShipRequested).await, 1);
}

/// [I9]: the base was rewritten, the branch was moved, or the commit is gone: an alert asks an operator to act.
// [D4] [alert: merge_failed]
#[tokio::test]
async fn an_abandoned_merge_is_an_alert() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = promoted(&fleet, &mac).await;
    let codes = async || {
        let items = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
        items.into_iter().map(|alert| (alert.code, alert.job_id)).collect::<Vec<_>>()
    };
    assert_eq!(codes().await, []);

    fleet.act(job, Action::Ship).await.unwrap();
    fleet.dispatch().await;
    let (grip, _) = take_errand(&fleet, &mac, job).await;
    let message = "merging into `main` conflicts in a.md".to_owned();
    mac.promote(&fleet, grip, ErrandOutcome::Impossible { message: message.clone(), conflict: None }).await.unwrap();

    assert_eq!(codes().await, [(AlertCode::MergeFailed, Some(job))]);
    let items = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    assert!(items[0].message.contains(&message) && items[0].message.contains("merge failed"), "{}", items[0].message);
    fleet.act(job, Action::Ship).await.unwrap();
    assert_eq!(codes().await, [], "it is tried again");
}

// [I9]
#[tokio::test]
async fn an_abandoned_promotion_is_an_alert() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (job, order) = completed(&fleet, &mac).await;

    let outcome = ErrandOutcome::Impossible { message: "the branch was moved".to_owned(), conflict: None };
    mac.promote(&fleet, Grip { job, epoch: order.lease_epoch }, outcome).await.unwrap();

    let items = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    assert_eq!(
        items.iter().map(|alert| (alert.code, alert.job_id)).collect::<Vec<_>>(),
        [(AlertCode::MergeFailed, Some(job))]
    );
    assert!(items[0].message.contains("push failed: the branch was moved"), "{}", items[0].message);
}

/// [I9]: the job shows what failed, which job it conflicts with, and how often it is retried.
#[tokio::test]
async fn a_failed_merge_is_shown_on_the_job_until_its_retry() {
    let fleet = Fleet::warm(quick().with(|settings| settings.conflict_rounds_max = 0)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let other = promoted(&fleet, &mac).await;
    let job = promoted(&fleet, &mac).await;
    fleet.act(job, Action::Ship).await.unwrap();
    fleet.dispatch().await;
    let (grip, _) = take_errand(&fleet, &mac, job).await;

    mac.promote(&fleet, grip, ErrandOutcome::Failed { message: "the remote is down".to_owned() }).await.unwrap();
    let retrying = fleet.job(job).await.merge_failure.unwrap();
    let explained = fleet.coordinator.explain(&fleet.admin, job).await.unwrap().summary;

    assert_eq!(retrying.to_string(), "merge failed: the remote is down, 7 tries left");
    assert_eq!((retrying.given_up, explained), (false, format!("{retrying}; the coordinator tries again")));

    fleet.pass(Duration::from_secs(600), &[&mac]).await;
    fleet.dispatch().await;
    let (grip, _) = take_errand(&fleet, &mac, job).await;
    assert_eq!(fleet.job(job).await.merge_failure, Some(retrying), "until the next try has ended");
    let conflict = MergeConflict { base: "main".parse().unwrap(), base_sha: sha(9), files: vec!["a.txt".to_owned()] };
    let outcome = ErrandOutcome::Impossible { message: "it conflicts".to_owned(), conflict: Some(conflict) };
    let conflicts_with = Some(other);
    let report = ErrandReport { lease_epoch: grip.epoch, outcome, pull_request: None, conflicts_with };
    fleet.coordinator.promote(&mac.who, job, &report).await.unwrap();

    let given_up = fleet.job(job).await.merge_failure.unwrap();
    let sentence = format!("merge failed: conflict in a.txt with job {} \"Mend the gate\"", other.short());
    assert_eq!((given_up.to_string(), given_up.given_up, given_up.tries_left), (sentence.clone(), true, 0));
    let explained = fleet.coordinator.explain(&fleet.admin, job).await.unwrap().summary;
    assert!(explained.starts_with(&sentence), "{explained}");
    fleet.act(job, Action::Ship).await.unwrap();
    assert_eq!(fleet.job(job).await.merge_failure, None, "it is tried anew");
}

#[tokio::test]
async fn enabling_automatic_shipping_ships_ready_jobs_only() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let ready = promoted(&fleet, &mac).await;
    let failed = promoted(&fleet, &mac).await;
    fleet.act(failed, Action::Ship).await.unwrap();
    fleet.dispatch().await;
    let (grip, _) = take_errand(&fleet, &mac, failed).await;
    let impossible = ErrandOutcome::Impossible { message: "it conflicts".to_owned(), conflict: None };
    mac.promote(&fleet, grip, impossible).await.unwrap();

    fleet.ship_everything().await;

    assert_eq!(fleet.job(ready).await.errand, Some(ErrandKind::Ship));
    assert_eq!(fleet.job(failed).await.errand, None);
}

#[tokio::test]
async fn a_job_without_a_repository_is_done_and_cannot_ship() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let submitted = fleet.coordinator.submit(&fleet.admin, crate::fleet::submit(PLAIN, None)).await.unwrap();
    let job = submitted.job.id;
    let grip = mac.build(&fleet, job).await;

    let completed = mac.complete(&fleet, grip, None).await.unwrap();
    let refused = fleet.act(job, Action::Ship).await.unwrap_err();

    assert!(submitted.warnings[0].message.contains("its files are deleted afterwards"), "{:?}", submitted.warnings);
    assert_eq!(completed.stage, StageName::Shipped);
    assert!(matches!(refused, Error::Refused(Refusal::NothingToShip)), "{refused}");
    let explained = fleet.coordinator.explain(&fleet.admin, job).await.unwrap().summary;
    assert_eq!(explained, "done, not verified; it has no repository");
}

// [I9]
#[tokio::test]
async fn work_is_verified_only_if_verify_commands_ran() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let with_verify = "---\ntitle: Mend the gate\nrepo: notes\nverify: [make test]\n---\nIt squeaks.\n";
    let proof = Evidence { command: "make test".to_owned(), exit: Some(0), took_ms: 1, ..Evidence::default() };
    let mut verified = Vec::new();
    for (body, evidence) in [(IN_REPO, vec![]), (with_verify, vec![]), (with_verify, vec![proof])] {
        let job = fleet.submit(body).await;
        let grip = mac.build(&fleet, job).await;
        let request =
            CompletionReport { lease_epoch: grip.epoch, sha: Some(sha(1)), evidence, ..CompletionReport::default() };
        fleet.coordinator.complete(&mac.who, job, &request).await.unwrap();
        verified.push(fleet.job(job).await.verified);
    }

    assert_eq!(verified, [false, false, true]);
}

fn conflict() -> ErrandOutcome {
    let conflict = MergeConflict { base: "main".parse().unwrap(), base_sha: sha(9), files: vec!["a.md".to_owned()] };
    ErrandOutcome::Impossible { message: conflict.to_string(), conflict: Some(conflict) }
}

#[tokio::test]
async fn a_conflict_is_reworked_once_and_then_needs_an_operator() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = promoted(&fleet, &mac).await;
    fleet.act(job, Action::Ship).await.unwrap();
    fleet.dispatch().await;
    let (grip, _) = take_errand(&fleet, &mac, job).await;

    let answer = mac.promote(&fleet, grip, conflict()).await.unwrap();
    assert_eq!(answer.stage, StageName::Queued);
    fleet.dispatch().await;
    let claim = mac.claim(&fleet, job, fleet.job(job).await.dispatch_seq);
    let accepted = mac.accept(&fleet, &claim).await.unwrap();
    let told = accepted.assignment.conflict.unwrap();
    assert_eq!((told.base_sha, told.files, accepted.assignment.changes), (sha(9), vec!["a.md".to_owned()], None));
    let grip = Grip { job, epoch: accepted.lease_epoch };
    mac.start(&fleet, grip).await.unwrap();
    let order = mac.complete(&fleet, grip, Some(sha(2))).await.unwrap().promote.unwrap();
    let promoted = Grip { job, epoch: order.lease_epoch };
    mac.promote(&fleet, promoted, ErrandOutcome::Done).await.unwrap();

    fleet.dispatch().await;
    let (grip, order) = take_errand(&fleet, &mac, job).await;
    assert_eq!((order.kind, order.sha), (ErrandKind::Ship, sha(2)), "the merge is requested again");
    let answer = mac.promote(&fleet, grip, conflict()).await.unwrap();

    assert_eq!(answer.stage, StageName::Testing);
    assert_eq!(fleet.count(job, EventKind::ChangesRequested).await, 1);
    let items = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    assert_eq!(items.iter().map(|alert| alert.code).collect::<Vec<_>>(), [AlertCode::MergeFailed]);
}

#[tokio::test]
async fn a_requeue_after_a_conflict_passes_the_conflict_on() {
    let fleet = Fleet::warm(lasting().with(|settings| settings.conflict_rounds_max = 0)).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = promoted(&fleet, &mac).await;
    fleet.act(job, Action::Ship).await.unwrap();
    fleet.dispatch().await;
    let (grip, _) = take_errand(&fleet, &mac, job).await;
    assert_eq!(mac.promote(&fleet, grip, conflict()).await.unwrap().stage, StageName::Testing);

    fleet.act(job, Action::Requeue).await.unwrap();

    fleet.dispatch().await;
    let claim = mac.claim(&fleet, job, fleet.job(job).await.dispatch_seq);
    let told = mac.accept(&fleet, &claim).await.unwrap().assignment;
    assert_eq!((told.conflict.is_some(), told.changes), (true, None));
}

#[tokio::test]
async fn a_merge_postponed_repeatedly_is_retried_less_often() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (job, order) = completed(&fleet, &mac).await;
    let mut grip = Grip { job, epoch: order.lease_epoch };
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let put_off = ErrandOutcome::PutOff { message: "not yet".to_owned(), retry_after_ms: 0 };
        mac.promote(&fleet, grip, put_off).await.unwrap();
        let until = fleet.job(job).await.not_before.unwrap();
        let pause = until.since(fleet.builder.clock.now());
        pauses.push(pause.as_secs());
        fleet.pass(pause, &[&mac]).await;
        fleet.dispatch().await;
        grip = take_errand(&fleet, &mac, job).await.0;
    }

    assert_eq!(pauses, [1, 2, 4, 8]);
}
