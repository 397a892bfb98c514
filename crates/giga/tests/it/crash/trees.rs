//! A coordinator that dies between the writes of a tree, of a vote and of a preemption.

use std::collections::BTreeSet;
use std::time::Duration;

use client::{Client, Endpoint, Trust};
use domain::{EventKind, JobId, Priority, StageName, VoteDecision};
use protocol::{Action, ActionRequest, BatchRequest, BatchResponse, EventList, JobView, SubmitRequest, SubmitResponse};
use serde_json::{Value, json};

use super::fleet::{Fleet, KillAt};

/// How long a request may take that kills the coordinator.
const DEADLY: Duration = Duration::from_secs(10);

impl Fleet {
    async fn submit_composite(&self) -> JobId {
        let client = self.client().await;
        let request = SubmitRequest {
            body_md: "---\ntitle: all\nkind: composite\n---\nBoth.\n".to_owned(),
            idempotency_key: Some("all".to_owned()),
            ..SubmitRequest::default()
        };
        let submitted: SubmitResponse = self.insist(async || client.post("/jobs", &request).await.ok()).await;
        submitted.job.id
    }

    /// Adds two children; `None` if there was no answer.
    async fn add_children(&self, parent: JobId) -> Option<BTreeSet<JobId>> {
        let client = self.client().await;
        let child = |number: u32| SubmitRequest {
            body_md: format!("---\ntitle: child {number}\nrepo: work\n---\ndo some work\n"),
            idempotency_key: Some(format!("child-{number}")),
            ..SubmitRequest::default()
        };
        let request = BatchRequest { jobs: vec![child(1), child(2)] };
        let path = format!("/jobs/{parent}/children");
        let added: BatchResponse = answered(client.post(&path, &request)).await?;
        added.outcomes.into_iter().map(|outcome| outcome.id).collect()
    }

    /// Sends an action; `None` if there was no answer.
    async fn act(&self, id: JobId, action: Action, request: &ActionRequest) -> Option<JobView> {
        let client = self.client().await;
        let path = format!("/jobs/{id}/actions/{}", action.name());
        answered(client.post(&path, request)).await
    }

    async fn revive(&mut self) {
        self.until_coordinator_dies().await;
        self.start_coordinator(None);
    }

    /// A client of another person.
    async fn reviewer(&self) -> Client {
        let admin = self.client().await;
        let request = json!({ "name": "grace", "owner": "grace", "grant": { "role": "operator" } });
        let made: Value = self.insist(async || admin.post("/tokens", &request).await.ok()).await;
        let token = made["secret"].as_str().unwrap().to_owned();
        Client::new(Endpoint { base: admin.base().to_owned(), token, product: None, trust: Trust::Public }).unwrap()
    }
}

async fn answered<A, E>(request: impl Future<Output = Result<A, E>>) -> Option<A> {
    tokio::time::timeout(DEADLY, request).await.ok()?.ok()
}

// [J4] [row 19]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_end_of_a_composite_is_decided_and_before_it_is_written() {
    let mut fleet = Fleet::new(1);
    fleet.start_coordinator(Some(KillAt("settle::decided", 1)));
    fleet.ship_by_itself().await;
    fleet.start_factory(0, None).await;
    let root = fleet.submit_composite().await;
    let children = fleet.add_children(root).await.unwrap();

    fleet.revive().await;

    let all = children.iter().copied().chain([root]).collect();
    fleet.until_all_shipped(&all).await;
    fleet.assert_nothing_lost_or_doubled(&children);
    fleet.end();
}

// [J4] [row 19]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_parent_waits_and_before_its_children_are_written() {
    let mut fleet = Fleet::new(1);
    fleet.start_coordinator(Some(KillAt("grow::parent_waits", 1)));
    fleet.ship_by_itself().await;
    let parent = fleet.submit(0, "do some work").await;

    let lost = fleet.add_children(parent).await;
    fleet.revive().await;
    fleet.until_job(parent, |job| job.stage == StageName::Queued).await;
    let children = fleet.insist(async || fleet.add_children(parent).await).await;
    fleet.start_factory(0, None).await;

    assert_eq!(lost, None);
    let all = children.iter().copied().chain([parent]).collect();
    fleet.until_all_shipped(&all).await;
    fleet.assert_nothing_lost_or_doubled(&all);
    let runs = std::fs::read_to_string(fleet.path("journal")).unwrap();
    let last = runs.lines().last().unwrap();
    assert!(last.starts_with(&parent.to_string()), "the parent runs after its children: {runs}");
    fleet.end();
}

// [J4] [row 19]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cancellation_and_before_it_goes_down_the_tree() {
    let mut fleet = Fleet::new(1);
    fleet.start_coordinator(Some(KillAt("descend::cancelled", 1)));
    let root = fleet.submit_composite().await;
    let children = fleet.add_children(root).await.unwrap();

    let lost = fleet.act(root, Action::Cancel, &ActionRequest::default()).await;
    fleet.revive().await;

    assert!(lost.is_none());
    for job in children.into_iter().chain([root]) {
        let cancelled = fleet.until_job(job, |job| job.stage.is_terminal()).await;
        assert_eq!(cancelled.reason, Some(domain::FailureReason::Cancelled));
    }
    fleet.end();
}

// [J4] [row 19]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_priority_is_set_and_before_it_goes_down_the_tree() {
    let mut fleet = Fleet::new(1);
    fleet.start_coordinator(Some(KillAt("descend::prioritised", 1)));
    let root = fleet.submit_composite().await;
    let children = fleet.add_children(root).await.unwrap();

    let high = ActionRequest { priority: Some(Priority::High), ..ActionRequest::default() };
    let lost = fleet.act(root, Action::Priority, &high).await;
    fleet.revive().await;

    assert!(lost.is_none());
    for job in children.into_iter().chain([root]) {
        fleet.until_job(job, |job| job.priority == Priority::High).await;
    }
    fleet.end();
}

async fn a_vote_counts_once_across_a_death_at(step: &'static str) {
    let mut fleet = Fleet::new(1);
    fleet.start_coordinator(Some(KillAt(step, 1)));
    fleet.ship_by_itself().await;
    fleet.start_factory(0, None).await;
    let reviewer = fleet.reviewer().await;
    let job = fleet.submit_with(0, "review: { quorum: 1 }\n", "do some work").await;
    let waiting = fleet.until_job(job, |job| job.stage == StageName::Review && job.errand.is_none()).await;
    let vote = waiting.review.unwrap().vote(VoteDecision::Approve, None);
    let path = format!("/jobs/{job}/review");

    let lost: Option<Value> = answered(reviewer.post(&path, &vote)).await;
    fleet.revive().await;
    fleet
        .insist(async || {
            // A vote that was written needs no repetition, and may be refused: the review is over.
            let _: Option<Value> = answered(reviewer.post(&path, &vote)).await;
            fleet.jobs().await?.into_iter().find(|view| view.id == job && view.stage != StageName::Review)
        })
        .await;

    assert_eq!(lost, None);
    let jobs = BTreeSet::from([job]);
    fleet.until_all_shipped(&jobs).await;
    fleet.assert_nothing_lost_or_doubled(&jobs);
    let client = fleet.client().await;
    let path = format!("/jobs/{job}/events?limit=500");
    let events: EventList = fleet.insist(async || client.get(&path).await.ok()).await;
    let votes = events.items.iter().filter(|event| event.kind == EventKind::Voted).count();
    assert_eq!(votes, 1, "{events:?}");
    fleet.end();
}

// [row 21]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_a_vote_is_written() {
    a_vote_counts_once_across_a_death_at("vote::before_commit").await;
}

// [row 21]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_vote_is_written_and_before_its_answer() {
    a_vote_counts_once_across_a_death_at("vote::committed").await;
}

/// Whether the holder of the seat answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HolderState {
    Connected,
    /// It is stopped until the coordinator has died.
    Frozen,
}

async fn a_critical_job_gets_a_seat_across_a_death_at(step: &'static str, holder: HolderState) {
    let mut fleet = Fleet::new(1);
    if holder == HolderState::Frozen {
        // Shorter than a lease: the seat is revoked before the lease expires.
        let config = std::fs::read_to_string(fleet.path("giga.toml")).unwrap();
        let config = config.replace("lease_ttl = '3s'", "lease_ttl = '3s'\npreemption_grace = '500ms'");
        std::fs::write(fleet.path("giga.toml"), config).unwrap();
    }
    fleet.start_coordinator(Some(KillAt(step, 1)));
    fleet.ship_by_itself().await;
    let client = fleet.client().await;
    fleet.insist(async || client.set_preemption(true).await.ok()).await;
    fleet.start_factory(0, None).await;
    let mut jobs = BTreeSet::new();
    // As many as there are seats.
    for number in 0..3 {
        let more = "priority: low\npreemptible: true\n";
        jobs.insert(fleet.submit_with(number, more, "begin, then wait for the signal").await);
    }
    fleet.until("all runs to begin", || fleet.journal().len() == 3).await;
    if holder == HolderState::Frozen {
        for job in &jobs {
            fleet.until_job(*job, |job| job.stage == StageName::Building).await;
        }
        fleet.freeze_factories();
    }

    let critical = tokio::time::timeout(DEADLY, fleet.submit_with(3, "priority: critical\n", "do some work")).await;
    fleet.revive().await;
    fleet.thaw_factories();
    let critical = match critical {
        Ok(id) => id,
        Err(_) => fleet.submit_with(3, "priority: critical\n", "do some work").await,
    };
    // The others wait for the signal: it runs on a seat that one of them gave up.
    fleet.until_all_shipped(&BTreeSet::from([critical])).await;
    fleet.give_the_signal();

    jobs.insert(critical);
    fleet.until_all_shipped(&jobs).await;
    fleet.assert_nothing_lost_or_doubled(&jobs);
    fleet.end();
}

// [S5]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_a_seat_is_requested() {
    a_critical_job_gets_a_seat_across_a_death_at("preemption::before_request", HolderState::Connected).await;
}

// [S5]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_seat_is_requested_and_before_its_holder_knows() {
    a_critical_job_gets_a_seat_across_a_death_at("preemption::requested", HolderState::Connected).await;
}

// [S5]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_a_seat_is_revoked() {
    a_critical_job_gets_a_seat_across_a_death_at("preemption::before_revoke", HolderState::Frozen).await;
}
