//! A simulated factory: it has a token, a process, seats, and a list of its leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coordinator::{Error, Inbox, Principal};
use domain::{
    Capability, Checkpoint, ClaimNonce, Clock as _, CommitSha, DispatchSeq, EngineHealth, EngineName, Epoch, FactoryId,
    FailureReason, InstanceId, JobId, Message, RepoName, TokenScope,
};
use parking_lot::Mutex;
use protocol::{
    AcceptRequest, AcceptResponse, ClaimRequest, CompletionReport, CompletionResponse, CreateTokenRequest, Directive,
    EnrolRequest, ErrandOutcome, ErrandReport, FailureReport, FailureResponse, Heartbeat, HeartbeatResponse, HeldJob,
    HeldJobProgress, InboxEvent, Patch, QuotaReport, QuotaResponse, ReleaseReport, RenewRequest, RenewResponse,
    StageResponse, StartReport,
};

use crate::fleet::Fleet;

/// One process of a factory.
pub(crate) struct Machine {
    pub(crate) id: FactoryId,
    pub(crate) instance: InstanceId,
    pub(crate) who: Principal,
    pub(crate) token: String,
    pub(crate) offers: Offers,
    held: Mutex<Vec<HeldJob>>,
}

/// The description of a machine.
#[derive(Debug, Clone)]
pub(crate) struct Offers {
    pub(crate) seats: u32,
    pub(crate) capabilities: BTreeSet<Capability>,
    pub(crate) repos: BTreeSet<RepoName>,
    pub(crate) engine_seats: BTreeMap<EngineName, u32>,
    pub(crate) engines: Vec<EngineHealth>,
}

impl Default for Offers {
    fn default() -> Self {
        Self {
            seats: 4,
            capabilities: ["engine:command".parse().unwrap(), "os:linux".parse().unwrap()].into(),
            repos: ["notes".parse().unwrap()].into(),
            engine_seats: BTreeMap::new(),
            engines: Vec::new(),
        }
    }
}

/// A lease on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grip {
    pub(crate) job: JobId,
    pub(crate) epoch: Epoch,
}

impl Machine {
    /// A machine that has enrolled and sent its first heartbeat.
    pub(crate) async fn join(fleet: &Fleet, name: &str) -> Self {
        Self::join_with(fleet, name, Offers::default()).await
    }

    pub(crate) async fn join_with(fleet: &Fleet, name: &str, offers: Offers) -> Self {
        let grant =
            TokenScope::Join { factory: None, products: BTreeSet::new(), capabilities: BTreeSet::new(), pool: None };
        let request =
            CreateTokenRequest { name: "join".to_owned(), grant, ttl_seconds: None, owner: None, forge_login: None };
        let join_token = fleet.coordinator.create_token(&fleet.admin, request).await.unwrap().secret;
        let enroll = EnrolRequest { join_token, factory_id: name.parse().unwrap(), nonce: None };
        let token = fleet.coordinator.enroll(&enroll).await.unwrap().token;
        let machine = Self::process(fleet, name, token, offers, Duration::ZERO);
        machine.beat(fleet).await;
        machine
    }

    /// A machine that has joined a pool and sent its first heartbeat.
    pub(crate) async fn join_pool(fleet: &Fleet, name: &str, offers: Offers) -> Self {
        let (pool, _) = name.split_once('-').unwrap();
        let grant = TokenScope::Join {
            factory: Some(name.parse().unwrap()),
            products: BTreeSet::new(),
            capabilities: BTreeSet::new(),
            pool: Some(pool.parse().unwrap()),
        };
        let request =
            CreateTokenRequest { name: "join".to_owned(), grant, ttl_seconds: None, owner: None, forge_login: None };
        let join_token = fleet.coordinator.create_token(&fleet.admin, request).await.unwrap().secret;
        let enroll = EnrolRequest { join_token, factory_id: name.parse().unwrap(), nonce: None };
        let token = fleet.coordinator.enroll(&enroll).await.unwrap().token;
        let machine = Self::with_token(fleet, name, token, offers);
        machine.beat(fleet).await;
        machine
    }

    /// A machine that has enrolled and sent no heartbeat yet.
    pub(crate) fn with_token(fleet: &Fleet, name: &str, token: String, offers: Offers) -> Self {
        Self::process(fleet, name, token, offers, Duration::ZERO)
    }

    fn process(fleet: &Fleet, name: &str, token: String, offers: Offers, clock_ahead: Duration) -> Self {
        let now = fleet.builder.clock.now().after(clock_ahead);
        Self {
            id: name.parse().unwrap(),
            instance: InstanceId::new(now, fleet.bytes()),
            who: fleet.coordinator.authenticate(&token).unwrap(),
            token,
            offers,
            held: Mutex::default(),
        }
    }

    /// Another process of the same factory, on a machine whose clock is this far ahead.
    pub(crate) fn clone_of(fleet: &Fleet, original: &Self, clock_ahead: Duration) -> Self {
        Self::process(fleet, original.id.as_str(), original.token.clone(), original.offers.clone(), clock_ahead)
    }

    pub(crate) async fn try_beat(&self, fleet: &Fleet) -> Result<HeartbeatResponse, Error> {
        fleet.coordinator.heartbeat(&self.who, self.heartbeat(protocol::PROTOCOL_VERSION)).await
    }

    /// A heartbeat in a version of the protocol.
    pub(crate) fn heartbeat(&self, protocol: u32) -> Heartbeat {
        Heartbeat {
            instance: self.instance,
            capabilities: self.offers.capabilities.clone(),
            repos: self.offers.repos.clone(),
            clones: false,
            unavailable_repos: Default::default(),
            repo_identities: Default::default(),
            seat_limit: self.offers.seats,
            engine_seats: self.offers.engine_seats.clone(),
            repo_seats: BTreeMap::new(),
            cost: 0,
            engines: self.offers.engines.clone(),
            load: 0.0,
            disk_free_bytes: None,
            version: "1".to_owned(),
            protocol,
            leaving: false,
            receives: Default::default(),
            wants_broker_login: false,
            shadows: Vec::new(),
        }
    }

    pub(crate) async fn beat(&self, fleet: &Fleet) -> HeartbeatResponse {
        self.try_beat(fleet).await.unwrap()
    }

    /// Renews all leases, and drops the lost ones.
    pub(crate) async fn renew(&self, fleet: &Fleet) -> RenewResponse {
        let held = self.held();
        let renewed = self.renew_only(fleet, held).await;
        self.held.lock().retain(|held| !renewed.lost.contains(held));
        renewed
    }

    pub(crate) async fn renew_only(&self, fleet: &Fleet, held: Vec<HeldJob>) -> RenewResponse {
        self.renew_showing(fleet, held.into_iter().map(HeldJobProgress::from).collect()).await
    }

    /// Renews, and reports the progress of agents.
    pub(crate) async fn renew_showing(&self, fleet: &Fleet, held: Vec<HeldJobProgress>) -> RenewResponse {
        let request = RenewRequest { instance: self.instance, held, load: 0.0, disk_free_bytes: None };
        fleet.coordinator.renew(&self.who, &self.id, &request).await.unwrap()
    }

    pub(crate) fn held(&self) -> Vec<HeldJob> {
        self.held.lock().clone()
    }

    pub(crate) fn let_go(&self, grip: Grip) {
        self.held.lock().retain(|held| held.job_id != grip.job);
    }

    pub(crate) fn claim(&self, fleet: &Fleet, job: JobId, seq: DispatchSeq) -> AcceptRequest {
        AcceptRequest {
            job_id: job,
            dispatch_seq: seq,
            claim_nonce: ClaimNonce::new(fleet.builder.clock.now(), fleet.bytes()),
            instance: self.instance,
            factory_id: None,
        }
    }

    pub(crate) async fn accept(&self, fleet: &Fleet, claim: &AcceptRequest) -> Result<AcceptResponse, Error> {
        let accepted = fleet.coordinator.accept(&self.who, claim).await?;
        if accepted.assignment.errand.is_none() {
            let held = HeldJob { job_id: claim.job_id, lease_epoch: accepted.lease_epoch };
            let mut list = self.held.lock();
            if !list.contains(&held) {
                list.push(held);
            }
        }
        Ok(accepted)
    }

    /// A claim request with a new nonce.
    pub(crate) fn request(&self, fleet: &Fleet, limit: u32) -> ClaimRequest {
        ClaimRequest {
            factory_id: Some(self.id.clone()),
            instance: self.instance,
            claim_nonce: ClaimNonce::new(fleet.builder.clock.now(), fleet.bytes()),
            limit: Some(limit),
            products: None,
            jobs: None,
            except_products: Vec::new(),
        }
    }

    /// Claims work.
    pub(crate) async fn ask(&self, fleet: &Fleet, request: &ClaimRequest) -> Result<Vec<Grip>, Error> {
        let claimed = fleet.coordinator.claim(&self.who, request).await?;
        let grips = claimed
            .granted
            .iter()
            .map(|granted| Grip { job: granted.accepted.assignment.job_id, epoch: granted.accepted.lease_epoch });
        let grips: Vec<Grip> = grips.collect();
        let mut list = self.held.lock();
        for grip in &grips {
            let held = HeldJob { job_id: grip.job, lease_epoch: grip.epoch };
            if !list.contains(&held) {
                list.push(held);
            }
        }
        Ok(grips)
    }

    /// The jobs that it gets from a claim of this many.
    pub(crate) async fn ask_for(&self, fleet: &Fleet, limit: u32) -> Vec<JobId> {
        let request = self.request(fleet, limit);
        self.ask(fleet, &request).await.unwrap().into_iter().map(|grip| grip.job).collect()
    }

    /// Accepts the open offer of a job.
    pub(crate) async fn try_take(&self, fleet: &Fleet, job: JobId) -> Result<Grip, Error> {
        let claim = self.claim(fleet, job, fleet.job(job).await.dispatch_seq);
        let accepted = self.accept(fleet, &claim).await?;
        Ok(Grip { job, epoch: accepted.lease_epoch })
    }

    /// Dispatches, and accepts the open offer of a job.
    pub(crate) async fn take(&self, fleet: &Fleet, job: JobId) -> Grip {
        fleet.dispatch().await;
        self.try_take(fleet, job).await.unwrap()
    }

    /// [`Machine::take`], and the engine starts.
    pub(crate) async fn build(&self, fleet: &Fleet, job: JobId) -> Grip {
        let grip = self.take(fleet, job).await;
        self.start(fleet, grip).await.unwrap();
        grip
    }

    /// [`Machine::build`], and the run completes without a commit.
    pub(crate) async fn run(&self, fleet: &Fleet, job: JobId) {
        let grip = self.build(fleet, job).await;
        self.complete(fleet, grip, None).await.unwrap();
    }

    pub(crate) async fn start(&self, fleet: &Fleet, grip: Grip) -> Result<StageResponse, Error> {
        let request = StartReport { lease_epoch: grip.epoch, engine: EngineName::command() };
        fleet.coordinator.start(&self.who, grip.job, &request).await
    }

    /// [`Machine::start`] with this engine.
    pub(crate) async fn start_by(&self, fleet: &Fleet, grip: Grip, engine: &str) -> Result<StageResponse, Error> {
        let request = StartReport { lease_epoch: grip.epoch, engine: engine.parse().unwrap() };
        fleet.coordinator.start(&self.who, grip.job, &request).await
    }

    /// The engine has exhausted its quota.
    pub(crate) async fn quota(&self, fleet: &Fleet, request: QuotaReport, job: JobId) -> Result<QuotaResponse, Error> {
        let answer = fleet.coordinator.quota(&self.who, job, &request).await?;
        self.let_go(Grip { job, epoch: request.lease_epoch });
        Ok(answer)
    }

    pub(crate) async fn save(&self, fleet: &Fleet, grip: Grip, sha: &CommitSha) -> Result<StageResponse, Error> {
        let request =
            Patch { lease_epoch: grip.epoch, stage: None, engine: None, checkpoint: Some(checkpoint(grip, sha)) };
        fleet.coordinator.patch(&self.who, grip.job, &request).await
    }

    pub(crate) async fn complete(
        &self,
        fleet: &Fleet,
        grip: Grip,
        sha: Option<CommitSha>,
    ) -> Result<CompletionResponse, Error> {
        let request = CompletionReport { lease_epoch: grip.epoch, sha, ..CompletionReport::default() };
        let completed = fleet.coordinator.complete(&self.who, grip.job, &request).await?;
        self.let_go(grip);
        Ok(completed)
    }

    pub(crate) async fn promote(
        &self,
        fleet: &Fleet,
        grip: Grip,
        outcome: ErrandOutcome,
    ) -> Result<StageResponse, Error> {
        let request = ErrandReport { lease_epoch: grip.epoch, outcome, pull_request: None, conflicts_with: None };
        fleet.coordinator.promote(&self.who, grip.job, &request).await
    }

    pub(crate) async fn fail(
        &self,
        fleet: &Fleet,
        grip: Grip,
        reason: FailureReason,
    ) -> Result<FailureResponse, Error> {
        let request = FailureReport {
            lease_epoch: grip.epoch,
            reason,
            again: domain::Retryability::default(),
            message: None,
            checkpoint: None,
            insights: domain::RunInsights::default(),
            evidence: Vec::new(),
            no_changes: false,
        };
        let failed = fleet.coordinator.fail(&self.who, grip.job, &request).await?;
        self.let_go(grip);
        Ok(failed)
    }

    pub(crate) async fn release(&self, fleet: &Fleet, grip: Grip) -> Result<StageResponse, Error> {
        let request =
            ReleaseReport { lease_epoch: grip.epoch, message: None, checkpoint: None, insights: Default::default() };
        let released = fleet.coordinator.release(&self.who, grip.job, &request).await?;
        self.let_go(grip);
        Ok(released)
    }

    pub(crate) async fn open_inbox(&self, fleet: &Fleet, credit: u32) -> Inbox {
        let mut inbox = fleet.coordinator.inbox(&self.who, &self.id, self.instance, credit).await.unwrap();
        assert!(matches!(inbox.next().await, Some(InboxEvent::Hello { .. })));
        inbox
    }
}

pub(crate) fn checkpoint(grip: Grip, sha: &CommitSha) -> Checkpoint {
    let git_ref = format!("aq/wip/{}", grip.job);
    Checkpoint { git_ref, sha: sha.clone(), session: None, epoch: grip.epoch, repository: None }
}

pub(crate) fn sha(n: u32) -> CommitSha {
    format!("{n:040x}").parse().unwrap()
}

/// The current content of an inbox, without waiting.
pub(crate) async fn drain(inbox: &mut Inbox) -> (Vec<Message>, Vec<Directive>) {
    let (mut messages, mut directives) = (Vec::new(), Vec::new());
    loop {
        let next = tokio::select! {
            biased;
            next = tokio::task::unconstrained(inbox.next()) => next,
            () = std::future::ready(()) => return (messages, directives),
        };
        match next {
            Some(InboxEvent::Dispatch(message)) => messages.push(message),
            Some(InboxEvent::Directive(directive)) => directives.push(directive),
            Some(InboxEvent::Hello { .. } | InboxEvent::Modes(_) | InboxEvent::Announcement(_)) => {}
            None => return (messages, directives),
        }
    }
}
