//! Event streams: no duplicates, no gaps, and one read for all subscribers near the end (row 24).

use std::sync::Arc;
use std::time::Duration;

use coordinator::{StreamItem, Subscriber};
use domain::{EventKind, JobEvent, JobId, Position, Scope};
use protocol::Action;

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};

/// The next `count` events, or more if they arrive together.
pub(crate) async fn hear(follower: &mut Subscriber, count: usize) -> Vec<(JobId, EventKind)> {
    let mut heard = Vec::new();
    while heard.len() < count {
        let Some(StreamItem::Events(events)) = follower.next().await else { panic!("the log ended, or was reset") };
        let events = events.iter().map(|recorded| serde_json::from_str::<JobEvent>(&recorded.json).unwrap());
        heard.extend(events.map(|event| (event.job_id, event.kind)));
    }
    heard
}

// [J7]
#[tokio::test]
async fn row_24_a_subscriber_far_behind_catches_up_without_a_gap() {
    let fleet = Fleet::warm(lasting()).await;
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

// [J7] [row 24]
#[tokio::test]
async fn a_store_outage_ends_no_stream_and_loses_no_event() {
    let fleet = Fleet::warm(quick()).await;
    let job = fleet.submit(PLAIN).await;
    let mut follower = fleet.coordinator.follow(Scope::Fleet, Some(Position(0))).await.unwrap();
    hear(&mut follower, 1).await;

    fleet.store().set(|faults| faults.is_down = true);
    let outage = async {
        tokio::task::yield_now().await;
        fleet.store().heal();
        fleet.act(job, Action::Cancel).await.unwrap();
        fleet.builder.clock.advance(Duration::from_secs(1));
    };
    let (heard, ()) = tokio::join!(hear(&mut follower, 1), outage);

    assert_eq!(heard, vec![(job, EventKind::Cancelled)]);
}

// [J7]
#[tokio::test]
async fn row_24_a_client_resumes_on_another_coordinator() {
    let builder = Arc::new(quick());
    let fleets = [builder.open().await, builder.open().await];
    let jobs = [fleets[0].submit(PLAIN).await, fleets[0].submit(PLAIN).await];
    let mut follower = fleets[0].coordinator.follow(Scope::Fleet, Some(Position(0))).await.unwrap();
    hear(&mut follower, 2).await;

    let mut moved = fleets[1].coordinator.follow(Scope::Fleet, Some(follower.position())).await.unwrap();
    let cancelled = async { fleets[0].act(jobs[0], Action::Cancel).await.unwrap() };
    let (heard, _) = tokio::join!(hear(&mut moved, 1), cancelled);

    assert_eq!(heard, vec![(jobs[0], EventKind::Cancelled)]);
}
