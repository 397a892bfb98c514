//! Workers that poll for work, by their mode or because offers do not get through.

use std::fs;
use std::time::Duration;

use domain::{ClaimNonce, InstanceId, Mode, RunOutcome, StageName};
use factory::{PollWhen, Polling};
use protocol::{ClaimRequest, HeartbeatResponse, PROTOCOL_VERSION};
use testkit::host::{TestRemote, eventually};

use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, wait_for};
use super::{LONG, pr_branch};

const OFTEN: Polling = Polling { every: Duration::from_millis(100), when: PollWhen::Told, gated: false };

/// Completes jobs in one mode, after the worker was started in another.
async fn works_after_a_switch_to(mode: Mode) {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let mut settings = settings("asking", &forge, "echo done > done.md");
    settings.polling = OFTEN;
    let plant = Plant::start(settings, fleet.enrol("asking", &line).await);
    let pushed = fleet.submit("").await;
    fleet.until(pushed, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    assert!(!forge.path("asking").join("claim.json").exists(), "it was not told to ask");

    fleet.switch(mode).await;
    let jobs = [fleet.submit("").await, fleet.submit("").await, fleet.submit("").await];

    for job in jobs {
        fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
        assert_eq!(forge.shows(&pr_branch(job)), fleet.first_run(job).await.sha);
    }
    assert!(forge.path("asking").join("claim.json").exists());
    fleet.switch(Mode::Push).await;
    let last = fleet.submit("").await;
    fleet.until(last, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    plant.stop().await;
}

// [D1]
#[tokio::test]
async fn a_station_that_is_told_to_poll_claims_its_work() {
    works_after_a_switch_to(Mode::Poll).await;
}

// [D1]
#[tokio::test]
async fn a_station_that_is_told_to_gate_claims_its_work_when_there_is_some() {
    works_after_a_switch_to(Mode::Gate).await;
}

// [D1]
#[tokio::test]
async fn a_factory_polls_while_it_is_compared() {
    works_after_a_switch_to(Mode::Shadow).await;
}

// [D1]
#[tokio::test]
async fn a_factory_claims_jobs_that_are_announced() {
    works_after_a_switch_to(Mode::SelfSelect).await;
}

// [D1] [§12]
#[tokio::test]
async fn a_station_with_the_fallback_asks_whatever_the_mode_is() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let mut settings = settings("fallback", &forge, "echo done > done.md");
    settings.polling = Polling { when: PollWhen::Always, ..OFTEN };
    let plant = Plant::start(settings, fleet.enrol("fallback", &line).await);

    eventually("a claim", || forge.path("fallback").join("claim.json").exists()).await;

    let job = fleet.submit("").await;
    fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    plant.stop().await;
}

// [F6]
#[tokio::test]
async fn a_claimed_run_is_given_back_by_the_next_process_of_a_station_that_was_killed() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let gate = forge.path("gate");
    let engine = format!("{}; echo done > done.md", wait_for(&gate));
    let mut settings = settings("mortal", &forge, &engine);
    settings.polling = OFTEN;
    let client = fleet.enrol("mortal", &line).await;
    fleet.switch(Mode::Poll).await;
    let plant = Plant::start(settings.clone(), client.clone());
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Building).await;

    plant.kill().await;
    fs::write(&gate, "").unwrap();
    let plant = Plant::start(settings, client);

    let view = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let first = fleet.first_run(job).await;
    assert_eq!((first.outcome, view.lost_leases), (Some(RunOutcome::Released), 0));
    plant.stop().await;
}

#[tokio::test]
async fn row_05_what_was_claimed_and_never_heard_of_is_given_back_by_the_next_process() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let mut settings = settings("deaf", &forge, "echo done > done.md");
    settings.polling = OFTEN;
    let client = fleet.enrol("deaf", &line).await;
    fleet.switch(Mode::Poll).await;
    let (instance, nonce) = (InstanceId::from_bytes([5; 16]), ClaimNonce::from_bytes([6; 16]));
    let beat = serde_json::json!({
        "instance": instance, "capabilities": ["os:linux", "engine:command"], "repos": ["notes"], "seatLimit": 1,
        "protocol": PROTOCOL_VERSION,
    });
    let _: HeartbeatResponse = client.post("/factories/heartbeat", &beat).await.unwrap();
    let job = fleet.submit("").await;
    fs::create_dir_all(&settings.state).unwrap();
    let note = serde_json::json!({ "v": 1, "instance": instance, "nonce": nonce });
    fs::write(settings.state.join("claim.json"), note.to_string()).unwrap();
    let claim = ClaimRequest {
        factory_id: None,
        instance,
        claim_nonce: nonce,
        limit: None,
        products: None,
        jobs: None,
        except_products: Vec::new(),
    };
    assert_eq!(client.claim(&claim).await.unwrap().granted.len(), 1);

    let plant = Plant::start(settings, client);

    let view = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let first = fleet.first_run(job).await;
    assert_eq!((first.outcome, view.lost_leases), (Some(RunOutcome::Released), 0));
    plant.stop().await;
}
