//! Following the log: nothing twice, nothing left out, and one read for all who follow closely (row 24).

use coordinator::{Followed, Follower};
use domain::{EventKind, JobEvent, JobId, Position, Scope};
use futures_util::future::join_all;
use protocol::Action;

use crate::fleet::{Bench, Fleet, PLAIN};

const FOLLOWERS: usize = 20;
const NOISE: usize = 50;

/// The next `count` events, or more if they come together.
async fn hear(follower: &mut Follower, count: usize) -> Vec<(JobId, EventKind)> {
    let mut heard = Vec::new();
    while heard.len() < count {
        let Some(Followed::Events(events)) = follower.next().await else { panic!("the log ended, or was reset") };
        let events = events.iter().map(|recorded| serde_json::from_str::<JobEvent>(&recorded.json).unwrap());
        heard.extend(events.map(|event| (event.job_id, event.kind)));
    }
    heard
}

fn history_reads(fleet: &Fleet) -> u64 {
    let operations = fleet.bench.sqlite.as_ref().unwrap();
    let operations = domain::JobHistory::operations(operations.as_ref());
    operations.into_iter().filter(|(kind, _)| *kind == "history_reads").map(|(_, count)| count).sum()
}

#[tokio::test]
async fn row_24_followers_of_single_jobs_read_nothing_from_the_store_and_hear_of_their_own_job_only() {
    let fleet = Fleet::warm(Bench::sqlite()).await;
    let (mut jobs, mut followers) = (Vec::new(), Vec::new());
    for _ in 0..FOLLOWERS {
        let job = fleet.submit(PLAIN).await;
        followers.push(fleet.coordinator.follow(Scope::Job(job), None).await.unwrap());
        jobs.push(job);
    }
    let before = history_reads(&fleet);

    let noise = async {
        for _ in 0..NOISE {
            fleet.submit(PLAIN).await;
        }
        for job in &jobs {
            fleet.act(*job, Action::Cancel).await.unwrap();
        }
    };
    let (heard, ()) = tokio::join!(join_all(followers.iter_mut().map(|follower| hear(follower, 1))), noise);

    let wanted: Vec<_> = jobs.into_iter().map(|job| vec![(job, EventKind::Cancelled)]).collect();
    assert_eq!(heard, wanted);
    let reads = history_reads(&fleet) - before;
    assert_eq!(reads, 0, "{FOLLOWERS} followers who keep up are served from memory");
}

#[tokio::test]
async fn row_24_a_follower_that_starts_far_behind_catches_up_without_a_gap() {
    let fleet = Fleet::warm(Bench::sqlite()).await;
    let job = fleet.submit(PLAIN).await;
    for _ in 0..600 {
        fleet.submit(PLAIN).await;
    }
    let mut narrow = fleet.coordinator.follow(Scope::Job(job), Some(Position(0))).await.unwrap();
    let mut wide = fleet.coordinator.follow(Scope::Fleet, Some(Position(0))).await.unwrap();

    let mut heard = hear(&mut narrow, 1).await;
    let (late, _) = tokio::join!(hear(&mut narrow, 1), fleet.act(job, Action::Cancel));
    heard.extend(late);
    let everything = hear(&mut wide, 602).await;

    assert_eq!(heard, vec![(job, EventKind::Submitted), (job, EventKind::Cancelled)]);
    assert_eq!(everything, fleet.log().await);
}
