//! Preemption over HTTP: a critical job gets the seat of a preemptible one [S5].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clock::ManualClock;
use domain::{Epoch, EventKind, JobId, StageName, Timestamp};
use protocol::{Directive, EventList, JobExplanation, StageResponse};
use serde_json::json;
use server::Options;

use crate::fleet::{Fleet, StoreKind, Worker, code, soon};

const LOW: &str = "---\ntitle: Tidy the shed\npriority: low\npreemptible: true\n---\nTidy it.\n";
const CRITICAL: &str = "---\ntitle: Put the fire out\npriority: critical\n---\nUse water.\n";

/// A factory whose eight seats are taken by preemptible jobs, and the offers that follow.
async fn busy(fleet: &Fleet) -> (Worker, client::EventStream, BTreeMap<JobId, Epoch>) {
    let mac = fleet.factory("mac").await;
    let (mut inbox, mut held) = (mac.inbox().await, BTreeMap::new());
    for _ in 0..8 {
        let id = fleet.submit(LOW).await;
        let epoch = mac.take_next(&mut inbox).await.lease_epoch;
        mac.start(id, epoch).await.unwrap();
        held.insert(id, epoch);
    }
    (mac, inbox, held)
}

async fn next_directive(inbox: &mut client::EventStream) -> Directive {
    loop {
        let event = soon(inbox.next()).await.unwrap().expect("the inbox ended");
        if event.event == "directive" {
            return serde_json::from_str(&event.data).unwrap();
        }
    }
}

async fn summary(fleet: &Fleet, id: JobId) -> String {
    fleet.admin.get::<JobExplanation>(&format!("/jobs/{id}/explain")).await.unwrap().summary
}

async fn sentence(fleet: &Fleet, id: JobId, kind: EventKind) -> String {
    let events: EventList = fleet.admin.get(&format!("/jobs/{id}/events")).await.unwrap();
    let found: Vec<_> = events.items.iter().filter(|event| event.kind == kind).collect();
    assert_eq!(found.len(), 1, "{kind:?}: {events:?}");
    found[0].sentence()
}

// [S5] [I9] [§10]
#[tokio::test]
async fn a_critical_job_gets_a_seat_and_both_jobs_say_why() {
    preemption_story_on(StoreKind::Sqlite).await;
}

pub(crate) async fn preemption_story_on(kind: StoreKind) {
    let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
    let fleet = Fleet::on_store_with(kind, Options::default(), Arc::new(clock.clone())).await;
    // A coordinator that has just started knows too little of its factories to take a seat from a job.
    clock.advance(Duration::from_secs(31));
    let (mac, mut inbox, held) = busy(&fleet).await;
    let critical = fleet.submit(CRITICAL).await;
    let waiting = summary(&fleet, critical).await;

    fleet.admin.set_preemption(true).await.unwrap();
    let Directive::Preempt { job_id: victim, lease_epoch } = next_directive(&mut inbox).await else {
        panic!("another directive")
    };
    let explained = [summary(&fleet, critical).await, summary(&fleet, victim).await];
    let checkpoint = json!({ "sha": "7".repeat(40), "ref": format!("aq/wip/{victim}"), "epoch": lease_epoch });
    let report = json!({ "leaseEpoch": lease_epoch, "checkpoint": checkpoint });
    let path = format!("/jobs/{victim}/lease/release");
    let released: StageResponse = mac.client.post(&path, &report).await.unwrap();
    let taken = mac.take_next(&mut inbox).await;
    let late = mac.complete(victim, lease_epoch, None).await;

    assert!(!waiting.contains("asked to save"), "preemption is off until it is switched on: {waiting}");
    assert_eq!(held.get(&victim), Some(&lease_epoch));
    let (one, other) = (critical.short(), victim.short());
    assert!(explained[0].contains(&format!("job {other} was asked to save its work")), "{explained:?}");
    assert!(explained[1].contains(&format!("release its seat for critical job {one}")), "{explained:?}");
    assert_eq!((released.stage, taken.assignment.job_id), (StageName::Queued, critical));
    assert_eq!(code(late), "fenced");
    let view = fleet.job(victim).await.job;
    assert_eq!((view.stage, view.attempts, view.lost_leases), (StageName::Queued, 0, 0));
    let asked = sentence(&fleet, victim, EventKind::PreemptionRequested).await;
    assert!(
        asked.starts_with(&format!("mac asked to save the work and to release the seat for critical job {one}")),
        "{asked}"
    );
    let evicted = sentence(&fleet, victim, EventKind::Preempted).await;
    assert!(evicted.contains(&one.to_string()), "{evicted}");

    // The evicted job continues from its saved work once there is a seat.
    mac.start(critical, taken.lease_epoch).await.unwrap();
    mac.complete(critical, taken.lease_epoch, None).await.unwrap();
    let again = mac.take_next(&mut inbox).await;
    assert_eq!(again.assignment.job_id, victim);
    assert!(again.lease_epoch > lease_epoch);
    let saved = fleet.job(victim).await.job.checkpoint.expect("it was saved");
    assert_eq!(saved.sha.as_str(), "7".repeat(40));
}
