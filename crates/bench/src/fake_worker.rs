//! A factory as the coordinator knows it: the wire protocol without an engine behind it.

use std::collections::{BTreeMap, BTreeSet};

use client::{Client, EventStream};
use clock::SystemEntropy;
use domain::{ClaimNonce, EngineName, Entropy, Epoch, FactoryId, InstanceId, JobId, Message, RunInsights};
use protocol::{
    AcceptRequest, AcceptResponse, ClaimRequest, ClaimResponse, CompletionReport, CompletionResponse, Heartbeat,
    HeartbeatResponse, PROTOCOL_VERSION, StageResponse, StartReport, WorkOperation, WorkRequest, WorkResponse,
};

use crate::Error;
use crate::workload::only_here;

/// The engine that every hand offers and no hand runs.
const ENGINE: &str = "command";

/// One factory's client.
#[derive(Clone)]
pub(crate) struct FakeWorker {
    pub(crate) factory: FactoryId,
    pub(crate) client: Client,
    instance: InstanceId,
    seats: u32,
    /// What each of its runs reports as its cost, in US dollars.
    cost_usd: Option<f64>,
}

impl FakeWorker {
    pub(crate) fn new(factory: FactoryId, client: Client, seats: u32) -> Self {
        Self { factory, client, instance: InstanceId::from_bytes(random()), seats, cost_usd: None }
    }

    /// The same, whose runs cost this much.
    pub(crate) fn with_cost(self, cost_usd: Option<f64>) -> Self {
        Self { cost_usd, ..self }
    }

    /// A sign of life.
    pub(crate) async fn beat(&self) -> Result<HeartbeatResponse, Error> {
        let heartbeat = Heartbeat {
            instance: self.instance,
            capabilities: ["os:linux", "arch:x86_64", "engine:command", &only_here()]
                .iter()
                .filter_map(|c| c.parse().ok())
                .collect(),
            repos: BTreeSet::new(),
            clones: false,
            unavailable_repos: Default::default(),
            repo_identities: Default::default(),
            seat_limit: self.seats,
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
        Ok(self.client.post("/factories/heartbeat", &heartbeat).await?)
    }

    /// The stream of offers.
    pub(crate) async fn inbox(&self) -> Result<Inbox, Error> {
        let path = format!("/factories/{}/inbox?instance={}&credit={}", self.factory, self.instance, self.seats);
        Ok(Inbox(self.client.events(&path, None).await?))
    }

    /// What takes an offer.
    pub(crate) fn accept_of(&self, message: &Message) -> AcceptRequest {
        AcceptRequest {
            job_id: message.job_id,
            dispatch_seq: message.dispatch_seq,
            claim_nonce: ClaimNonce::from_bytes(random()),
            instance: self.instance,
            factory_id: None,
        }
    }

    pub(crate) async fn accept(&self, message: &Message) -> Result<AcceptResponse, Error> {
        Ok(self.client.post("/accept", &self.accept_of(message)).await?)
    }

    pub(crate) async fn start(&self, job: JobId, epoch: Epoch) -> Result<StageResponse, Error> {
        Ok(self.client.post(&format!("/jobs/{job}/start"), &started(epoch)?).await?)
    }

    pub(crate) async fn complete(&self, job: JobId, epoch: Epoch) -> Result<CompletionResponse, Error> {
        Ok(self.client.post(&format!("/jobs/{job}/complete"), &self.completed(epoch)).await?)
    }

    /// The report that the work is done.
    pub(crate) fn completed(&self, epoch: Epoch) -> CompletionReport {
        let insights = RunInsights { cost_usd: self.cost_usd, ..RunInsights::default() };
        CompletionReport { lease_epoch: epoch, insights, ..CompletionReport::default() }
    }

    /// Claims work.
    pub(crate) async fn claim(&self, limit: u32) -> Result<ClaimResponse, Error> {
        let nonce = ClaimNonce::from_bytes(random());
        let claim = ClaimRequest {
            factory_id: None,
            instance: self.instance,
            claim_nonce: nonce,
            limit: Some(limit),
            products: None,
            jobs: None,
            except_products: Vec::new(),
        };
        Ok(self.client.claim(&claim).await?)
    }

    /// Many operations in one request.
    pub(crate) async fn work(&self, operations: Vec<WorkOperation>) -> Result<WorkResponse, Error> {
        Ok(self.client.post("/work", &WorkRequest { operations }).await?)
    }
}

fn random() -> [u8; 16] {
    let entropy: &dyn Entropy = &SystemEntropy;
    entropy.bytes()
}

/// The report that the engine is up.
pub(crate) fn started(epoch: Epoch) -> Result<StartReport, Error> {
    let engine: EngineName = ENGINE.parse().map_err(|error| Error::failed(format!("{error}")))?;
    Ok(StartReport { lease_epoch: epoch, engine })
}

/// The stream of a factory's offers.
pub(crate) struct Inbox(EventStream);

impl Inbox {
    /// The next offer; `None` when the stream is over.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, Error> {
        while let Some(event) = self.0.next().await? {
            if event.event == "dispatch" {
                let message = serde_json::from_str(&event.data);
                return message.map(Some).map_err(|error| Error::failed(format!("an offer makes no sense: {error}")));
            }
        }
        Ok(None)
    }
}
