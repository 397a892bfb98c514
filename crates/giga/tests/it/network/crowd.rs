//! A thousand factories that lose their leader, and reconnect at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{Client, ClientError, Endpoint, Trust};
use clock::{Backoff, SystemClock, SystemEntropy};
use domain::{ClaimNonce, Clock, Entropy, FactoryId, InstanceId};
use protocol::{EnrolRequest, EnrolResponse, Heartbeat, HeartbeatResponse, PROTOCOL_VERSION};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::fleet::{NetworkFleet, submit};
use super::history::History;

const CROWD: usize = 1_000;

/// The host of all of them.
const HOST: &str = "crowd";

/// How long they may take to come back, in a build without optimisation on a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(60);

const JOBS: usize = 5;

/// How many enrol at one time.
const ENROL_AT_ONCE: usize = 16;

/// A factory without engines: it connects, and is offered nothing.
struct Member {
    client: Client,
    id: FactoryId,
    instance: InstanceId,
}

fn random() -> [u8; 16] {
    let entropy: &dyn Entropy = &SystemEntropy;
    entropy.bytes()
}

impl Member {
    async fn enrol(admin: &Client, base: &str, number: usize) -> Result<Self, ClientError> {
        let id: FactoryId = format!("crowd-{number}").parse().unwrap();
        let request = serde_json::json!({ "name": id, "grant": { "role": "join", "factory": id } });
        let made: serde_json::Value = admin.post("/tokens", &request).await?;
        let join_token = made["secret"].as_str().unwrap_or_default().to_owned();
        let endpoint = |token: &str| Endpoint {
            base: base.to_owned(),
            token: token.to_owned(),
            product: None,
            trust: Trust::Public,
        };
        let enrol = EnrolRequest { join_token, factory_id: id.clone(), nonce: Some(ClaimNonce::from_bytes(random())) };
        let enrolling = Client::enrolling(endpoint(""), &enrol.join_token)?;
        let enrolled: EnrolResponse = enrolling.post("/factories/enroll", &enrol).await?;
        Ok(Self { client: Client::new(endpoint(&enrolled.token))?, id, instance: InstanceId::from_bytes(random()) })
    }

    /// Connects again whenever the stream ends, as a factory does.
    async fn stay(self, connected: Arc<AtomicUsize>) {
        let mut pauses = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        loop {
            if let Ok(mut inbox) = self.connect().await {
                connected.fetch_add(1, Ordering::SeqCst);
                pauses.reset();
                while let Ok(Some(_)) = inbox.next().await {}
                connected.fetch_sub(1, Ordering::SeqCst);
            }
            SystemClock::new().sleep(pauses.next_pause()).await;
        }
    }

    async fn connect(&self) -> Result<client::EventStream, ClientError> {
        let heartbeat = Heartbeat {
            instance: self.instance,
            capabilities: BTreeSet::new(),
            repos: BTreeSet::new(),
            clones: false,
            unavailable_repos: Default::default(),
            repo_identities: Default::default(),
            seat_limit: 1,
            engine_seats: BTreeMap::new(),
            repo_seats: BTreeMap::new(),
            cost: 0,
            engines: Vec::new(),
            load: 0.0,
            disk_free_bytes: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL_VERSION,
            leaving: false,
            receives: Default::default(),
            wants_broker_login: false,
            shadows: Vec::new(),
        };
        let _: HeartbeatResponse = self.client.post("/factories/heartbeat", &heartbeat).await?;
        self.client.events(&format!("/factories/{}/inbox?instance={}&credit=1", self.id, self.instance), None).await
    }
}

/// All of them, enrolled.
async fn crowd(admin: &Client, bases: &[String; 2]) -> Vec<Member> {
    let (turns, mut enrolling) = (Arc::new(Semaphore::new(ENROL_AT_ONCE)), JoinSet::new());
    for number in 0..CROWD {
        let (admin, turns) = (admin.clone(), Arc::clone(&turns));
        // Half of them ask one coordinator first, half the other one.
        let base = if number % 2 == 0 { bases.join(",") } else { format!("{},{}", bases[1], bases[0]) };
        enrolling.spawn(async move {
            let _turn = turns.acquire_owned().await.unwrap();
            Member::enrol(&admin, &base, number).await.unwrap()
        });
    }
    enrolling.join_all().await
}

/// How long it takes until so many are connected.
async fn until(connected: &AtomicUsize, wanted: impl Fn(usize) -> bool) -> Option<Duration> {
    let clock = SystemClock::new();
    while !wanted(connected.load(Ordering::SeqCst)) {
        if clock.monotonic() > BACK_WITHIN {
            return None;
        }
        clock.sleep(Duration::from_millis(20)).await;
    }
    Some(clock.monotonic())
}

// [D3] [row 12] [I3]
#[test]
fn a_thousand_factories_reconnect_at_once_after_a_takeover() {
    let Some(mut fleet) = NetworkFleet::start(&[HOST]) else { return };
    let (admin, bases, connected) = (fleet.client(), fleet.bases(), Arc::new(AtomicUsize::new(0)));
    // Its threads are at the host of the thread that builds it.
    let runtime = fleet
        .network
        .within(HOST, || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
    let clock = fleet.clock;
    let began = clock.monotonic();
    let mut members = JoinSet::new();
    for member in runtime.block_on(crowd(&admin, &bases)) {
        members.spawn_on(member.stay(Arc::clone(&connected)), runtime.handle());
    }
    let enrolled = clock.monotonic() - began;
    let first = runtime.block_on(until(&connected, |count| count == CROWD));
    let submitted = async |from: usize| {
        let mut jobs = BTreeSet::new();
        for number in from..from + JOBS {
            jobs.extend(submit(&admin, number).await);
        }
        jobs
    };
    let mut jobs = runtime.block_on(submitted(0));

    let leader = fleet.leader().unwrap();
    fleet.kill_coordinator(leader);
    let lost = runtime.block_on(until(&connected, |count| count < CROWD / 10));
    let back = runtime.block_on(until(&connected, |count| count == CROWD));
    jobs.extend(runtime.block_on(submitted(JOBS)));
    fleet.restore();

    println!("{CROWD} factories enrolled in {enrolled:.1?} and connected in {first:.1?}");
    println!("after the leader's death they were gone in {lost:.1?} and connected again {back:.1?} later");
    assert!(back.is_some(), "{} of {CROWD} are connected\n{}", connected.load(Ordering::SeqCst), fleet.logs());
    assert_eq!(jobs.len(), 2 * JOBS, "{}", fleet.logs());
    let shipped = |fleet: &NetworkFleet| fleet.events().matches("\"kind\":\"shipped\"").count();
    fleet.until("the jobs", |fleet| shipped(fleet) >= jobs.len());
    let events = fleet.events();
    let history = History { events: &events, journal: &fleet.journal(), merged: fleet.merged() };
    let violations = history.violations(&jobs);
    assert!(violations.is_empty(), "{}\n{}", violations.join("\n"), fleet.logs());
    drop(members);
    runtime.shutdown_background();
    fleet.end();
}
