//! The progress of agents is visible while they run, and costs no store operation.

use std::time::Duration;

use coordinator::{StreamItem, Subscriber};
use domain::{Epoch, JobId, Scope};
use protocol::{HeldJobProgress, Progress, ProgressEvent};

use super::quick;
use crate::fleet::{Fleet, PLAIN};
use crate::machine::Machine;

fn doing(what: &str) -> Progress {
    Progress { doing: Some(what.to_owned()), tool_calls: Some(3), ..Progress::default() }
}

/// All leases of a machine, with the progress of their agents.
pub(crate) fn showing(mac: &Machine, what: &str) -> Vec<HeldJobProgress> {
    let held = mac.held().into_iter();
    held.map(|held| HeldJobProgress { held, progress: Some(doing(&format!("{what} for {}", held.job_id))) }).collect()
}

/// The next progress item.
pub(crate) async fn next_progress(follower: &mut Subscriber) -> Vec<ProgressEvent> {
    let next = async {
        loop {
            match follower.next().await {
                Some(StreamItem::Progress(news)) => return news,
                Some(StreamItem::Events(_) | StreamItem::Live(_)) => {}
                Some(StreamItem::Reset(_)) | None => panic!("the log ended, or was reset"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), next).await.unwrap()
}

async fn shown(fleet: &Fleet, job: JobId) -> Option<Progress> {
    fleet.coordinator.job(&fleet.admin, job).await.unwrap().progress
}

#[tokio::test]
async fn an_agents_progress_is_shown_until_its_run_ends() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    let of_job = |what: &str| doing(&format!("{what} for {job}"));
    assert_eq!(shown(&fleet, job).await, None);

    mac.renew_showing(&fleet, showing(&mac, "Read")).await;
    assert_eq!(shown(&fleet, job).await, Some(of_job("Read")));
    mac.renew(&fleet).await;
    assert_eq!(shown(&fleet, job).await, Some(of_job("Read")), "silence is no news");
    let held = mac.held();
    mac.complete(&fleet, grip, None).await.unwrap();
    assert_eq!(shown(&fleet, job).await, None);

    let late = held.into_iter().map(|held| HeldJobProgress { held, progress: Some(of_job("Edit")) }).collect();
    mac.renew_showing(&fleet, late).await;
    assert_eq!(shown(&fleet, job).await, None, "only the holder of the job has progress to show");
}

// [J7]
#[tokio::test]
async fn subscribers_get_the_latest_progress_in_their_scope() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (first, second) = (fleet.submit(PLAIN).await, fleet.submit(PLAIN).await);
    for job in [first, second] {
        mac.build(&fleet, job).await;
    }
    let mut of_all = fleet.coordinator.follow(Scope::Fleet, None).await.unwrap();
    let mut of_one = fleet.coordinator.follow(Scope::Job(second), None).await.unwrap();
    let foreign = Scope::Products(vec!["another".parse().unwrap()]);
    let mut of_others = fleet.coordinator.follow(foreign, None).await.unwrap();

    for what in ["Read", "Edit", "Edit"] {
        mac.renew_showing(&fleet, showing(&mac, what)).await;
    }

    let event =
        |job: JobId| ProgressEvent { job_id: job, lease_epoch: Epoch(1), progress: doing(&format!("Edit for {job}")) };
    let mut heard = next_progress(&mut of_all).await;
    heard.sort_by_key(|event| event.job_id);
    assert_eq!(heard, vec![event(first), event(second)]);
    assert_eq!(next_progress(&mut of_one).await, vec![event(second)]);
    let silence = tokio::time::timeout(Duration::from_millis(50), next_progress(&mut of_others)).await;
    assert!(silence.is_err());
    let position = of_all.position();
    mac.renew_showing(&fleet, showing(&mac, "Bash")).await;
    next_progress(&mut of_all).await;
    // Late log entries keep arriving meanwhile.
    if fleet.builder.has_one_order() {
        assert_eq!(of_all.position(), position, "progress has no place in the log");
    }
}
