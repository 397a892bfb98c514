//! A change feed that skips, repeats and reorders, between coordinators in processes of their own. On the simulated
//! store only: the embedded ones have no feed.

use std::collections::HashMap;
use std::sync::Arc;

use coordinator::{StreamItem, Subscriber};
use domain::{EventKind, JobEvent, JobId, Position, Scope, StageName};
use store::document::simulated::Faults;

use crate::fleet::{Fleet, PLAIN, TestFleetBuilder};
use crate::machine::Machine;

const LIVES: usize = 60;

/// Every page of the feed repeats earlier entries, and most are empty.
const WILD_FEED: Faults = Faults { empty_pages: 0.7, repeated_pages: 1.0, ..Faults::BAD_DAY };

/// Many reads return the state before the latest write. A store with one coordinator may not do that; a database
/// account shared by several does, unless it is read with strong consistency.
const LAGGING: Faults =
    Faults { throttled: 0.0, refused: 0.0, answers_lost: 0.0, requests_lost: 0.0, stale_reads: 0.2, ..Faults::BAD_DAY };

/// Retries of a step that stale reads may refuse.
const ASKED_MAX: usize = 200;

/// The events of a job from the first to the last.
const LIFE: [EventKind; 6] = [
    EventKind::Submitted,
    EventKind::Dispatched,
    EventKind::Granted,
    EventKind::Started,
    EventKind::Completed,
    EventKind::Shipped,
];

async fn live(fleet: &Fleet, machine: &Machine, lives: usize) -> Vec<JobId> {
    let mut jobs = Vec::new();
    for _ in 0..lives {
        let job = fleet.submit(PLAIN).await;
        machine.run(fleet, job).await;
        jobs.push(job);
    }
    jobs
}

async fn hear(mut follower: Subscriber, count: usize) -> Vec<(Position, JobId, EventKind)> {
    let mut heard = Vec::new();
    while heard.len() < count {
        let Some(StreamItem::Events(events)) = follower.next().await else { panic!("the log ended, or was reset") };
        for recorded in events {
            let event: JobEvent = serde_json::from_str(&recorded.json).unwrap();
            heard.push((recorded.position, event.job_id, event.kind));
        }
    }
    heard
}

fn by_job(heard: &[(Position, JobId, EventKind)]) -> HashMap<JobId, Vec<EventKind>> {
    let mut stories: HashMap<JobId, Vec<EventKind>> = HashMap::new();
    for (_, job, kind) in heard {
        stories.entry(*job).or_default().push(*kind);
    }
    stories
}

#[tokio::test]
async fn row_26_the_last_version_of_a_job_yields_all_its_events() {
    let builder = Arc::new(TestFleetBuilder::weak_with(WILD_FEED));
    let (busy, silent) = (builder.open().await, builder.open().await);
    busy.warm_up();
    busy.ship_everything().await;
    let mac = Machine::join(&busy, "mac").await;
    let jobs = live(&busy, &mac, LIVES).await;

    // No subscriber has read the log so far: the feed has one entry per job, and it says that the job has shipped.
    let follower = silent.coordinator.follow(Scope::Fleet, Some(Position(0))).await.unwrap();
    let heard = hear(follower, LIVES * LIFE.len()).await;

    let whole: HashMap<_, _> = jobs.iter().map(|job| (*job, LIFE.to_vec())).collect();
    assert_eq!(by_job(&heard), whole);
    assert_eq!(busy.stories().await, whole);
    for job in jobs {
        assert_eq!((silent.stage(job).await, silent.kinds(job).await), (StageName::Shipped, LIFE.to_vec()));
    }
}

#[tokio::test]
async fn row_27_a_faulty_feed_yields_one_log_for_all_coordinators() {
    let builder = Arc::new(TestFleetBuilder::weak_with(WILD_FEED));
    let fleets = [builder.open().await, builder.open().await, builder.open().await];
    fleets[0].warm_up();
    fleets[0].ship_everything().await;
    let mac = Machine::join(&fleets[0], "mac").await;
    let mut followers = Vec::new();
    for fleet in &fleets {
        let follower = fleet.coordinator.follow(Scope::Fleet, Some(Position(0))).await.unwrap();
        followers.push(hear(follower, LIVES * LIFE.len()));
    }

    let (jobs, heard) = tokio::join!(live(&fleets[0], &mac, LIVES), futures_util::future::join_all(followers));

    let positions: Vec<u64> = heard[0].iter().map(|(position, ..)| position.0).collect();
    assert_eq!(positions, (1..=(LIVES * LIFE.len()) as u64).collect::<Vec<_>>());
    assert_eq!(by_job(&heard[0]), jobs.into_iter().map(|job| (job, LIFE.to_vec())).collect());
    assert!(heard.iter().all(|log| *log == heard[0]), "they heard different logs");
}

#[tokio::test]
async fn row_32_lost_answers_and_writes_record_each_event_once() {
    let lossy = Faults { answers_lost: 0.2, requests_lost: 0.15, ..Faults::BAD_DAY };
    let fleet = Fleet::warm(TestFleetBuilder::weak_with(lossy)).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;

    let jobs = live(&fleet, &mac, LIVES).await;

    for job in jobs {
        assert_eq!((fleet.kinds(job).await, fleet.job(job).await.lease_epoch.0), (LIFE.to_vec(), 2));
    }
}

// [D3]
#[tokio::test]
async fn stale_reads_never_let_a_step_happen_twice() {
    let fleet = Fleet::warm(TestFleetBuilder::weak_with(LAGGING)).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut refusals = 0;

    for _ in 0..LIVES {
        let job = fleet.submit(PLAIN).await;
        let mut grip = None;
        for _ in 0..ASKED_MAX {
            fleet.dispatch().await;
            match mac.try_take(&fleet, job).await {
                Ok(taken) => {
                    grip = Some(taken);
                    break;
                }
                Err(_) => refusals += 1,
            }
        }
        let grip = grip.expect("a job that is offered is taken in the end");
        for _ in 0..ASKED_MAX {
            match mac.start(&fleet, grip).await {
                Ok(_) => break,
                Err(_) => refusals += 1,
            }
        }
        for _ in 0..ASKED_MAX {
            match mac.complete(&fleet, grip, None).await {
                Ok(_) => break,
                Err(_) => refusals += 1,
            }
        }
        assert_eq!(fleet.kinds(job).await, LIFE, "after {refusals} refusals");
    }

    assert!(fleet.builder.stale_reads() > 0, "nothing lagged behind");
}
