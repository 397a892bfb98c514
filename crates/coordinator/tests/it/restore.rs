//! Row 28: a store restored from a backup fences all requests with newer state.

use std::sync::Arc;
use std::time::Duration;

use coordinator::Error;
use domain::{Epoch, EventCursor, EventKind, FailureReason, Generation, JobId, Position, Refusal, StageName};
use protocol::{AcceptRequest, Action, ErrandOutcome, HeldJob, JobView};

use super::{lasting, share_of};
use crate::fleet::{Backup, Fleet, IN_REPO, PLAIN, TestFleetBuilder};
use crate::machine::{Grip, Machine, drain, sha};

/// A fleet, and a backup of an earlier moment.
struct RestoreScenario {
    fleet: Fleet,
    backup: Option<Backup>,
    folder: tempfile::TempDir,
}

impl RestoreScenario {
    async fn begin() -> Self {
        Self { fleet: Fleet::warm(lasting()).await, backup: None, folder: tempfile::tempdir().unwrap() }
    }

    async fn back_up(&mut self) {
        self.backup = Some(self.fleet.builder.back_up(self.folder.path().join("backup")).await);
    }

    /// The store restored from the backup.
    async fn put_back(&self) -> Arc<TestFleetBuilder> {
        Arc::new(self.fleet.builder.restored(self.backup.as_ref().unwrap()).await)
    }

    /// The fleet restored from the backup. Only machines and brokers know the later events.
    async fn restored(&self) -> Fleet {
        let fleet = self.put_back().await.open().await;
        fleet.warm_up();
        fleet
    }
}

fn is_fenced<T: std::fmt::Debug>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Refused(Refusal::StaleEpoch { .. } | Refusal::NotHolder { .. })))
}

/// Fails unless every request of a holder is refused and leaves the job unchanged.
async fn assert_fenced(fleet: &Fleet, machine: &Machine, grip: Grip) {
    let before = fleet.job(grip.job).await;
    let log = fleet.coordinator.append_log(&machine.who, grip.job, grip.epoch, 0, b"still here").await;
    let held = HeldJob { job_id: grip.job, lease_epoch: grip.epoch };
    let alone = fleet.coordinator.renew_lease(&machine.who, held, machine.instance).await;

    assert!(is_fenced(&machine.start(fleet, grip).await));
    assert!(is_fenced(&machine.save(fleet, grip, &sha(8)).await));
    assert!(is_fenced(&machine.complete(fleet, grip, Some(sha(8))).await));
    assert!(is_fenced(&machine.promote(fleet, grip, ErrandOutcome::Done).await));
    assert!(is_fenced(&machine.fail(fleet, grip, FailureReason::Crash).await));
    assert!(is_fenced(&machine.release(fleet, grip).await));
    assert!(is_fenced(&log), "{log:?}");
    assert!(is_fenced(&alone), "{alone:?}");
    assert_eq!(machine.renew_only(fleet, vec![held]).await.lost, vec![held]);
    // A renewal is a heartbeat: it may change the scheduler's reason, but not the job.
    let after = fleet.job(grip.job).await;
    assert_eq!(JobView { waiting: before.waiting.clone(), ..after }, before);
}

#[tokio::test]
async fn row_28_old_holders_get_409_on_every_request() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    let known = scenario.fleet.submit(IN_REPO).await;
    let known_grip = mac.build(&scenario.fleet, known).await;
    let queued = scenario.fleet.submit(IN_REPO).await;
    scenario.back_up().await;
    let lost_grip = mac.build(&scenario.fleet, queued).await;

    let fleet = scenario.restored().await;
    // A store with faults may refuse the writes of the start: the sweep repeats them.
    fleet.coordinator.sweep().await;

    for grip in [known_grip, lost_grip] {
        assert_fenced(&fleet, &mac, grip).await;
        assert_eq!(fleet.stage(grip.job).await, StageName::Queued);
        assert_eq!(fleet.kinds(grip.job).await.last(), Some(&EventKind::Restored));
        let job = fleet.job(grip.job).await;
        assert_eq!((job.attempts, job.lost_leases), (0, 0));
    }
}

#[tokio::test]
async fn row_28_a_stale_holder_is_fenced_after_equally_many_grants() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    let job = scenario.fleet.submit(IN_REPO).await;
    scenario.back_up().await;
    let lost = mac.build(&scenario.fleet, job).await;

    let fleet = scenario.restored().await;
    mac.beat(&fleet).await;
    let regranted = mac.build(&fleet, job).await;

    assert_eq!((lost.epoch, regranted.epoch), (Epoch(1), Epoch::first_of(fleet.coordinator.generation()).next()));
    assert_fenced(&fleet, &mac, lost).await;
    assert_eq!(fleet.stage(job).await, StageName::Building);
    mac.complete(&fleet, regranted, None).await.unwrap();
    assert_eq!(fleet.stage(job).await, StageName::Testing);
}

#[tokio::test]
async fn row_28_an_accept_from_before_the_restore_is_refused() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    let job = scenario.fleet.submit(IN_REPO).await;
    scenario.back_up().await;
    scenario.fleet.dispatch().await;
    let claim = mac.claim(&scenario.fleet, job, scenario.fleet.job(job).await.dispatch_seq);
    mac.accept(&scenario.fleet, &claim).await.unwrap();

    let fleet = scenario.restored().await;
    mac.beat(&fleet).await;
    let before_dispatch = mac.accept(&fleet, &claim).await;
    fleet.dispatch().await;
    let current = fleet.job(job).await.dispatch_seq;
    let after_dispatch = mac.accept(&fleet, &claim).await;
    let regranted = mac.try_take(&fleet, job).await.unwrap();
    let after_grant = mac.accept(&fleet, &claim).await;

    let superseded = |answer: &Result<_, Error>| {
        matches!(answer, Err(Error::Refused(Refusal::SupersededDispatch { .. } | Refusal::AlreadyGranted)))
    };
    for answer in [&before_dispatch, &after_dispatch, &after_grant] {
        assert!(superseded(answer), "{answer:?}");
    }
    assert!(current > claim.dispatch_seq);
    assert_eq!(fleet.job(job).await.lease_epoch, regranted.epoch);
}

// [I5]
#[tokio::test]
async fn row_28_a_broker_with_old_messages_delivers_new_dispatches() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    let job = scenario.fleet.submit(IN_REPO).await;
    scenario.back_up().await;
    for _ in 0..3 {
        let grip = mac.take(&scenario.fleet, job).await;
        mac.release(&scenario.fleet, grip).await.unwrap();
    }

    let fleet = scenario.restored().await;
    mac.beat(&fleet).await;
    let mut inbox = mac.open_inbox(&fleet, 8).await;
    drain(&mut inbox).await;
    fleet.dispatch().await;
    let (messages, _) = drain(&mut inbox).await;

    let fresh = fleet.job(job).await.dispatch_seq;
    assert_eq!(messages.iter().map(|message| message.dispatch_seq).collect::<Vec<_>>(), [fresh]);
    let metrics = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    assert!(metrics.iter().all(|alert| alert.code != protocol::AlertCode::DuplicateDispatch), "{metrics:?}");
}

#[tokio::test]
async fn row_28_a_requeued_job_moves_to_the_new_generation() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    let job = scenario.fleet.submit(IN_REPO).await;
    scenario.fleet.act(job, Action::Cancel).await.unwrap();
    scenario.back_up().await;
    scenario.fleet.act(job, Action::Requeue).await.unwrap();
    let lost = mac.build(&scenario.fleet, job).await;

    let fleet = scenario.restored().await;
    mac.beat(&fleet).await;
    assert_fenced(&fleet, &mac, lost).await;
    assert_eq!(fleet.count(job, EventKind::Restored).await, 0, "no request has changed it yet");
    fleet.act(job, Action::Requeue).await.unwrap();
    let regranted = mac.build(&fleet, job).await;

    assert_eq!(regranted.epoch.generation(), fleet.coordinator.generation());
    assert_fenced(&fleet, &mac, lost).await;
    let end: Vec<_> = fleet.kinds(job).await.into_iter().skip(2).collect();
    let expected =
        [EventKind::Restored, EventKind::Requeued, EventKind::Dispatched, EventKind::Granted, EventKind::Started];
    assert_eq!(end, expected);
}

#[tokio::test]
async fn row_28_a_resubmitted_job_fences_the_stale_holder() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    scenario.back_up().await;
    let lost_job = scenario.fleet.submit_as("once", IN_REPO).await;
    let lost = mac.build(&scenario.fleet, lost_job).await;

    let fleet = scenario.restored().await;
    mac.beat(&fleet).await;
    let again = fleet.submit_as("once", IN_REPO).await;
    let regranted = mac.build(&fleet, again).await;

    assert_eq!(again, lost_job, "one key is one id, in every future");
    assert_ne!(regranted.epoch, lost.epoch);
    assert_fenced(&fleet, &mac, lost).await;
}

#[tokio::test]
async fn row_28_a_promotion_is_revoked_and_offered_after_a_restore() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    let job = scenario.fleet.submit(IN_REPO).await;
    let grip = mac.build(&scenario.fleet, job).await;
    let promotion = mac.complete(&scenario.fleet, grip, Some(sha(1))).await.unwrap().promote.unwrap();
    scenario.back_up().await;

    let fleet = scenario.restored().await;
    // A store with faults may refuse the writes of the start: the sweep repeats them.
    fleet.coordinator.sweep().await;
    mac.beat(&fleet).await;
    let old = Grip { job, epoch: promotion.lease_epoch };
    let late = mac.promote(&fleet, old, ErrandOutcome::Done).await;
    fleet.dispatch().await;
    let claim = mac.claim(&fleet, job, fleet.job(job).await.dispatch_seq);
    let order = mac.accept(&fleet, &claim).await.unwrap().assignment.errand.unwrap();
    // The branch may have moved after the backup: then the factory finds a commit that this store does not know.
    let moved = ErrandOutcome::Impossible {
        message: "the branch was moved by another writer: it shows 2".to_owned(),
        conflict: None,
    };
    mac.promote(&fleet, Grip { job, epoch: order.lease_epoch }, moved).await.unwrap();
    fleet.pass(Duration::from_secs(600), &[&mac]).await;

    assert!(is_fenced(&late), "{late:?}");
    assert_eq!((order.sha, order.run_epoch), (sha(1), grip.epoch));
    let seen = fleet.job(job).await;
    assert_eq!((seen.stage, seen.errand), (StageName::Testing, None), "it is settled, with a reason");
    assert_eq!(seen.message.as_deref(), Some("the branch was moved by another writer: it shows 2"));
    assert_eq!(fleet.dispatch().await, 0);
}

#[tokio::test]
async fn row_28_the_sweep_lifts_a_job_not_lifted_at_the_start() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    let job = scenario.fleet.submit(IN_REPO).await;
    let other = scenario.fleet.submit(PLAIN).await;
    let grip = mac.build(&scenario.fleet, job).await;
    scenario.back_up().await;

    let builder = scenario.put_back().await;
    builder.store.set(|faults| {
        faults.unwritable.insert(job);
    });
    let fleet = builder.open().await;
    builder.store.heal();
    let completed = mac.complete(&fleet, grip, None).await;
    fleet.coordinator.sweep().await;

    assert!(is_fenced(&completed), "{completed:?}");
    for id in [job, other] {
        assert_eq!(fleet.job(id).await.lease_epoch, Epoch::first_of(fleet.coordinator.generation()));
        assert_eq!(fleet.count(id, EventKind::Restored).await, 1);
    }
}

#[tokio::test]
async fn row_28_a_claim_lifts_a_job_not_lifted_at_the_start() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    let job = scenario.fleet.submit(IN_REPO).await;
    scenario.back_up().await;
    let lost = mac.build(&scenario.fleet, job).await;

    let builder = scenario.put_back().await;
    builder.store.set(|faults| {
        faults.unwritable.insert(job);
    });
    let fleet = builder.open().await;
    fleet.warm_up();
    builder.store.heal();
    mac.beat(&fleet).await;
    let granted = mac.ask(&fleet, &mac.request(&fleet, 1)).await.unwrap();

    assert_eq!(
        granted.iter().map(|grip| (grip.job, grip.epoch)).collect::<Vec<_>>(),
        [(job, Epoch::first_of(fleet.coordinator.generation()).next())]
    );
    assert_fenced(&fleet, &mac, lost).await;
    let told = [EventKind::Submitted, EventKind::Restored, EventKind::Dispatched, EventKind::Granted];
    assert_eq!(fleet.kinds(job).await, told);
}

#[tokio::test]
async fn row_28_a_rewritten_submit_starts_in_this_generation() {
    let mut scenario = RestoreScenario::begin().await;
    scenario.back_up().await;
    let fleet = scenario.restored().await;
    fleet.store().set(|faults| faults.commits_lost = 0.3);

    for _ in 0..40 {
        let job = fleet.submit(PLAIN).await;
        assert_eq!(fleet.job(job).await.lease_epoch, Epoch::first_of(fleet.coordinator.generation()));
    }
}

#[tokio::test]
async fn row_28_a_second_restart_lifts_nothing_again() {
    let mut scenario = RestoreScenario::begin().await;
    let job = scenario.fleet.submit(PLAIN).await;
    scenario.back_up().await;

    let fleet = scenario.restored().await;
    let generation = fleet.coordinator.generation();
    let fleet = fleet.restarted().await;

    assert_eq!((fleet.coordinator.generation(), generation > Generation(0)), (generation, true));
    assert_eq!(fleet.kinds(job).await, [EventKind::Submitted, EventKind::Restored]);
}

#[tokio::test]
async fn row_28_a_cursor_of_an_older_generation_is_invalid() {
    let mut scenario = RestoreScenario::begin().await;
    scenario.fleet.submit(PLAIN).await;
    let mark = scenario.fleet.coordinator.cursor(Position(1));
    scenario.back_up().await;

    let fleet = scenario.restored().await;

    assert_eq!(scenario.fleet.coordinator.position(mark).unwrap(), Position(1));
    assert!(matches!(fleet.coordinator.position(mark), Err(Error::Store(domain::StoreError::BadCursor))));
    let own = EventCursor { generation: fleet.coordinator.generation(), position: Position(1) };
    assert_eq!((fleet.coordinator.cursor(Position(1)), fleet.coordinator.position(own).unwrap()), (own, Position(1)));
}

/// Random runs before and after a restore: an epoch granted after the backup is never granted again.
#[tokio::test]
async fn row_28_no_lost_grant_is_repeated_after_restores() {
    let mut scenario = RestoreScenario::begin().await;
    let mac = Machine::join(&scenario.fleet, "mac").await;
    let mut jobs: Vec<JobId> = Vec::new();
    for n in 0..6 {
        jobs.push(scenario.fleet.submit_as(&format!("job-{n}"), IN_REPO).await);
    }
    let steps = share_of(120).max(24);
    live(&scenario.fleet, &mac, &jobs, steps / 4).await;
    scenario.back_up().await;
    let mut granted = live(&scenario.fleet, &mac, &jobs, steps).await;

    for _ in 0..4 {
        scenario.fleet.builder.clock.advance(Duration::from_secs(3));
        let fleet = scenario.restored().await;
        mac.beat(&fleet).await;
        for claim in live(&fleet, &mac, &jobs, steps).await {
            let is_new = granted.iter().all(|(job, epoch)| (*job, *epoch) != claim);
            assert!(is_new, "{claim:?} was granted in a lost future");
            granted.push(claim);
        }
    }
    assert!(granted.len() > steps, "only {} grants in all", granted.len());
}

/// Random actions on the jobs; returns the grants.
async fn live(fleet: &Fleet, mac: &Machine, jobs: &[JobId], steps: usize) -> Vec<(JobId, Epoch)> {
    let mut granted = Vec::new();
    for _ in 0..steps {
        let job = jobs[fleet.any(jobs.len())];
        fleet.dispatch().await;
        let seen = fleet.job(job).await;
        let claim = AcceptRequest { ..mac.claim(fleet, job, seen.dispatch_seq) };
        if let Ok(accepted) = mac.accept(fleet, &claim).await {
            granted.push((job, accepted.lease_epoch));
        }
        let grip = Grip { job, epoch: fleet.job(job).await.lease_epoch };
        match fleet.any(5) {
            0 => drop(mac.start(fleet, grip).await),
            1 => drop(mac.release(fleet, grip).await),
            2 => drop(mac.fail(fleet, grip, FailureReason::Crash).await),
            3 => drop(fleet.act(job, Action::Cancel).await),
            _ => drop(fleet.act(job, Action::Requeue).await),
        }
        fleet.pass(Duration::from_secs(40), &[mac]).await;
    }
    granted
}
