//! A factory as the coordinator knows it: the wire protocol without an engine behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use client::{Client, EventStream};
use clock::SystemEntropy;
use domain::{
    BrokerConnector, BrokerError, ClaimNonce, EngineName, Entropy, Epoch, FactoryId, InstanceId, JobId, Message,
    Receipt, Receives, RunInsights, Subscription,
};
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
    /// Its queue at the broker, if it receives from there.
    queue: Option<Arc<dyn Subscription>>,
}

impl FakeWorker {
    pub(crate) fn new(factory: FactoryId, client: Client, seats: u32) -> Self {
        Self { factory, client, instance: InstanceId::from_bytes(random()), seats, cost_usd: None, queue: None }
    }

    /// The same, whose runs cost this much.
    pub(crate) fn with_cost(self, cost_usd: Option<f64>) -> Self {
        Self { cost_usd, ..self }
    }

    /// The same, which receives its offers from the broker.
    pub(crate) async fn connected(mut self, connector: &dyn BrokerConnector) -> Result<Self, Error> {
        let login = self.beat_with(true).await?.broker_login;
        let login = login.ok_or_else(|| Error::failed("the coordinator gave no login for the broker"))?;
        let broker = connector.connect(&self.factory, &login).await.map_err(|error| of_broker(&error))?;
        self.queue = Some(broker.subscribe(&self.factory).await.map_err(|error| of_broker(&error))?);
        self.beat().await?;
        Ok(self)
    }

    /// A sign of life.
    pub(crate) async fn beat(&self) -> Result<HeartbeatResponse, Error> {
        self.beat_with(false).await
    }

    async fn beat_with(&self, wants_broker_login: bool) -> Result<HeartbeatResponse, Error> {
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
            receives: if self.queue.is_some() { Receives::Broker } else { Receives::Inbox },
            wants_broker_login,
            shadows: Vec::new(),
        };
        Ok(self.client.post("/factories/heartbeat", &heartbeat).await?)
    }

    /// The offers. Through the stream alone, or from the broker; then the stream is open for directives, as that of a real
    /// factory.
    pub(crate) async fn inbox(&self) -> Result<Inbox, Error> {
        let path = format!("/factories/{}/inbox?instance={}&credit={}", self.factory, self.instance, self.seats);
        Ok(Inbox { stream: self.client.events(&path, None).await?, queue: self.queue.clone() })
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

fn of_broker(error: &BrokerError) -> Error {
    Error::failed(format!("the broker: {error}"))
}

/// An offer, and its message at the broker.
pub(crate) struct Offer {
    pub(crate) message: Message,
    source: Option<(Arc<dyn Subscription>, Receipt)>,
}

impl Offer {
    /// The offer was answered, or will be at once: the broker need not deliver it again.
    pub(crate) async fn complete(self) -> Result<Message, Error> {
        if let Some((queue, receipt)) = self.source {
            queue.complete(&receipt).await.map_err(|error| of_broker(&error))?;
        }
        Ok(self.message)
    }
}

/// Where a factory's offers come from.
pub(crate) struct Inbox {
    stream: EventStream,
    queue: Option<Arc<dyn Subscription>>,
}

impl Inbox {
    /// The next offer; `None` when the stream is over.
    pub(crate) async fn next(&mut self) -> Result<Option<Offer>, Error> {
        let Some(queue) = &self.queue else {
            return Ok(from_stream(&mut self.stream).await?.map(|message| Offer { message, source: None }));
        };
        tokio::select! {
            delivery = queue.receive() => {
                let delivery = delivery.map_err(|error| of_broker(&error))?;
                let source = Some((Arc::clone(queue), delivery.receipt));
                Ok(Some(Offer { message: delivery.message, source }))
            }
            other = from_stream(&mut self.stream) => match other? {
                // Every offer has to come from the broker: otherwise something else would be measured.
                Some(message) => Err(Error::failed(format!("offer {} came through the inbox", message.id()))),
                None => Ok(None),
            },
        }
    }
}

/// The next offer of the stream. Events before it are dropped when the call is cancelled; offers are not.
async fn from_stream(stream: &mut EventStream) -> Result<Option<Message>, Error> {
    while let Some(event) = stream.next().await? {
        if event.event == "dispatch" {
            let message = serde_json::from_str(&event.data);
            return message.map(Some).map_err(|error| Error::failed(format!("an offer makes no sense: {error}")));
        }
    }
    Ok(None)
}
