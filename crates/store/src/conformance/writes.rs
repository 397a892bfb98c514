//! Writes are conditional, atomic and independent of each other.

use domain::{Commit, CommitError, Expected, Position, Priority, Revision, Scope, StoreError};
use tokio::task::JoinSet;

use super::sample::{cancelled, create, dispatched, granted, id, job, replace, seconds};
use super::{Harness, Stores};

// [I2]
/// Two writers decide on the same revision; the loser has to read again and retry.
pub async fn only_one_of_two_writers_wins(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let jobs = &stores.jobs;
    written(jobs.commit(vec![create(job(1))]).await);
    let seen = jobs.job(id(1)).await.unwrap().unwrap();

    let first = jobs.commit(vec![replace(cancelled(seen.value.clone()), seen.revision)]).await;
    let second = jobs.commit(vec![replace(dispatched(seen.value.clone(), seconds(9)), seen.revision)]).await;

    assert_eq!(written(first), [Revision(2)]);
    assert!(matches!(second[..], [Err(CommitError::Stale)]), "{second:?}");
    assert_eq!(jobs.job(id(1)).await.unwrap().unwrap().value.stage(), cancelled(seen.value).stage());
}

// [§9]
/// A stale unit and one that contradicts the log fail alone.
pub async fn a_rejected_unit_does_not_fail_the_others(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let jobs = &stores.jobs;
    written(jobs.commit(vec![create(job(1)), create(job(2))]).await);

    let outcomes = jobs
        .commit(vec![
            create(job(3)),
            replace(cancelled(job(1)), Revision(7)),
            create(job(4)),
            repeating_an_event(2),
            replace(stored(&stores, 1).await, Revision(1)),
        ])
        .await;

    assert!(
        matches!(
            outcomes[..],
            [
                Ok(Revision(1)),
                Err(CommitError::Stale),
                Ok(Revision(1)),
                Err(CommitError::Store(StoreError::Corrupt(_))),
                Ok(Revision(2))
            ]
        ),
        "{outcomes:?}"
    );
    let there = [1, 2, 3, 4].map(id).map(|id| jobs.job(id));
    for (job, revision) in there.into_iter().zip([2, 1, 1, 1]) {
        assert_eq!(job.await.unwrap().unwrap().revision, Revision(revision));
    }
    let log = stores.history.events(&Scope::Fleet, Position(0), 100).await.unwrap();
    let positions: Vec<_> = log.iter().map(|event| event.position.0).collect();
    assert_eq!(positions, [1, 2, 3, 4]);
}

/// "Create if absent" is the whole check of an idempotent submit.
pub async fn creating_a_job_twice_is_stale_and_changes_nothing(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    written(stores.jobs.commit(vec![create(job(1))]).await);
    let before = everything(&stores).await;

    let again = stores.jobs.commit(vec![create(cancelled(job(1)))]).await;

    assert!(matches!(again[..], [Err(CommitError::Stale)]), "{again:?}");
    assert_eq!(everything(&stores).await, before);
}

// [I2] [§9]
/// Neither a conflict nor a contradiction leaves half of a unit behind.
pub async fn a_job_and_its_events_are_written_together_or_not_at_all(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    written(stores.jobs.commit(vec![create(job(1)), create(job(2))]).await);
    let before = everything(&stores).await;

    let lost = stores.jobs.commit(vec![replace(cancelled(job(1)), Revision(9)), repeating_an_event(2)]).await;
    let kept = everything(&stores).await;
    let won = stores.jobs.commit(vec![replace(cancelled(stored(&stores, 1).await), Revision(1))]).await;

    assert!(lost.iter().all(Result::is_err), "{lost:?}");
    assert_eq!(kept, before);
    assert_eq!(written(won), [Revision(2)]);
    let events = stores.history.events(&Scope::Job(id(1)), Position(0), 100).await.unwrap();
    let seqs: Vec<_> = events.iter().map(|event| event.seq.0).collect();
    assert_eq!(seqs, [1, 2]);
}

// [§9]
/// Units are applied in the order given.
pub async fn units_of_one_job_in_one_commit_apply_in_order(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let mut base = job(1);
    let created = create(base.clone());
    base = created.job.clone();
    let offered = replace(dispatched(base, seconds(9)), Revision(1));
    let held = replace(granted(offered.job.clone()), Revision(2));
    let late = replace(cancelled(offered.job.clone()), Revision(2));
    let end = held.job.clone();

    let outcomes = stores.jobs.commit(vec![created, offered, held, late]).await;

    assert!(
        matches!(outcomes[..], [Ok(Revision(1)), Ok(Revision(2)), Ok(Revision(3)), Err(CommitError::Stale)]),
        "{outcomes:?}"
    );
    assert_eq!(stored(&stores, 1).await, end);
}

// [I2]
/// Ten thousand pairs of conditional writes, each pair on one job: one of the two succeeds, completely.
pub async fn of_two_racing_writes_exactly_one_succeeds(bench: &mut dyn Harness) {
    const BATCHES: u32 = 200;
    const PAIRS: u32 = 50;
    let stores = bench.open().await;
    let mut races = JoinSet::new();
    for batch in 0..BATCHES {
        let stores = stores.clone();
        races.spawn(async move {
            let ids = batch * PAIRS..(batch + 1) * PAIRS;
            written(stores.jobs.commit(ids.clone().map(|n| create(job(n))).collect()).await);
            let stops = ids.clone().map(|n| replace(cancelled(clean(n)), Revision(1))).collect::<Vec<_>>();
            let offers =
                ids.clone().map(|n| replace(dispatched(clean(n), seconds(9)), Revision(1))).collect::<Vec<_>>();

            let (stopped, offered) =
                tokio::join!(stores.jobs.commit(stops.clone()), stores.jobs.commit(offers.clone()));

            for (n, (stopped, offered)) in ids.zip(stopped.into_iter().zip(offered)) {
                let place = usize::try_from(n % PAIRS).unwrap();
                let winner = match (&stopped, &offered) {
                    (Ok(Revision(2)), Err(CommitError::Stale)) => &stops[place].job,
                    (Err(CommitError::Stale), Ok(Revision(2))) => &offers[place].job,
                    both => panic!("{both:?}"),
                };
                assert_eq!(stored(&stores, n).await, *winner);
            }
        });
    }
    while let Some(race) = races.join_next().await {
        race.unwrap();
    }

    let end = stores.jobs.changed(Position(0)).await.unwrap();
    assert_eq!(end, Position(u64::from(BATCHES * PAIRS) * 2));
}

// [§9]
/// A caller that is cancelled takes back no write that it submitted, and affects no other caller.
pub async fn an_abandoned_write_is_complete_or_absent(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    for n in 0..50 {
        let leaving = stores.jobs.commit(vec![create(job(n))]);
        // Polled once, then dropped.
        let _ = tokio::time::timeout(std::time::Duration::ZERO, leaving).await;
    }

    let staying = stores.jobs.commit(vec![create(job(50))]).await;

    assert_eq!(written(staying), [Revision(1)]);
    for n in 0..50 {
        let there = stores.jobs.job(id(n)).await.unwrap().is_some();
        let told = stores.history.events(&Scope::Job(id(n)), Position(0), 10).await.unwrap().len();
        assert_eq!(told, usize::from(there));
    }
}

pub(super) fn written(outcomes: Vec<Result<Revision, CommitError>>) -> Vec<Revision> {
    outcomes.into_iter().map(|outcome| outcome.expect("written")).collect()
}

pub(super) async fn stored(stores: &Stores, n: u32) -> domain::Job {
    stores.jobs.job(id(n)).await.unwrap().expect("the job is there").value
}

/// A sample as a store returns it: without pending events.
fn clean(n: u32) -> domain::Job {
    job(n).commit_at(Expected::Absent, None).job
}

/// A change of sample `n` at revision 1 whose event repeats an existing number.
fn repeating_an_event(n: u32) -> Commit {
    let urgent = clean(n).with_priority(Priority::Critical, seconds(1), domain::Actor::Coordinator);
    let mut unit = replace(urgent, Revision(1));
    unit.events[0].seq = domain::EventSeq(1);
    unit
}

/// Everything that a store returns about its jobs.
async fn everything(stores: &Stores) -> impl PartialEq + std::fmt::Debug + use<> {
    let page = stores.history.jobs(&domain::JobFilter::default(), None, 100).await.unwrap();
    let events = stores.history.events(&Scope::Fleet, Position(0), 100).await.unwrap();
    (page, events, stores.history.census().await.unwrap())
}
