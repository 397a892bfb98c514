//! Two brokers as one: the coordinator's own for factories that receive through their inbox, and one on the network for
//! those that are connected to it. If that one is away, everything goes through the inboxes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Broker, BrokerError, BrokerLogin, Clock, FactoryId, Message, PublishOutcome, Receives, Subscription, Timestamp,
};
use parking_lot::Mutex;
use tracing::warn;

/// How long the network's broker is left alone after it failed: a queue of offers does not wait for it one by one.
const REST: Duration = Duration::from_secs(10);

/// How long the network's broker may take for a message. Of [`PUBLISH_WITHIN`](domain::PUBLISH_WITHIN), the rest is left to
/// send it through the inbox.
const NETWORK_WITHIN: Duration = Duration::from_secs(1);

/// Routes each message by how its target receives.
pub struct Router {
    local: Arc<dyn Broker>,
    network: Arc<dyn Broker>,
    clock: Arc<dyn Clock>,
    routes: Mutex<Routes>,
}

#[derive(Default)]
struct Routes {
    /// The factories that are connected to the network's broker. They keep their inboxes open, too.
    direct: BTreeSet<FactoryId>,
    /// Until when the network's broker is left alone.
    rests_until: Option<Duration>,
}

impl Router {
    /// Routes between the coordinator's own broker and one on the network.
    pub fn new(local: Arc<dyn Broker>, network: Arc<dyn Broker>, clock: Arc<dyn Clock>) -> Self {
        Self { local, network, clock, routes: Mutex::default() }
    }

    fn is_direct(&self, factory: &FactoryId) -> bool {
        self.is_up() && self.routes.lock().direct.contains(factory)
    }

    /// Whether the network's broker did not fail just now.
    fn is_up(&self) -> bool {
        let now = self.clock.monotonic();
        self.routes.lock().rests_until.is_none_or(|until| until <= now)
    }

    fn failed(&self, error: &BrokerError) {
        warn!(%error, "The broker is not available: offers go through the inboxes for {} s", REST.as_secs());
        self.routes.lock().rests_until = Some(self.clock.monotonic() + REST);
    }
}

#[async_trait]
impl Broker for Router {
    async fn publish(&self, message: Message) -> Result<PublishOutcome, BrokerError> {
        if self.is_direct(&message.target_factory_id) {
            let published = tokio::time::timeout(NETWORK_WITHIN, self.network.publish(message.clone())).await;
            match published {
                Ok(Ok(outcome)) => return Ok(outcome),
                // It may have been published all the same: a factory answers each offer once.
                Ok(Err(error)) => self.failed(&error),
                Err(_) => self.failed(&BrokerError::Unavailable("a publish took too long".to_owned())),
            }
        }
        self.local.publish(message).await
    }

    /// The coordinator subscribes for an inbox; a connected factory subscribes at the network's broker itself.
    async fn subscribe(&self, factory: &FactoryId) -> Result<Arc<dyn Subscription>, BrokerError> {
        self.local.subscribe(factory).await
    }

    async fn dismiss(&self, factory: &FactoryId) -> Result<(), BrokerError> {
        let was_direct = self.routes.lock().direct.remove(factory);
        self.local.dismiss(factory).await?;
        if was_direct { self.network.dismiss(factory).await } else { Ok(()) }
    }

    async fn depths(&self) -> Result<BTreeMap<FactoryId, u64>, BrokerError> {
        let mut depths = self.local.depths().await?;
        if self.is_up() && !self.routes.lock().direct.is_empty() {
            match self.network.depths().await {
                Ok(others) => {
                    for (factory, depth) in others {
                        *depths.entry(factory).or_default() += depth;
                    }
                }
                Err(error) => self.failed(&error),
            }
        }
        Ok(depths)
    }

    /// To both, so that they are listed while the network's broker is away.
    async fn mirror_dead_letter(&self, message: Message, reason: &str) -> Result<(), BrokerError> {
        self.local.mirror_dead_letter(message.clone(), reason).await?;
        self.network.mirror_dead_letter(message, reason).await
    }

    async fn dead_letters(&self, limit: u16) -> Result<Vec<(Message, String)>, BrokerError> {
        if self.is_up() {
            match self.network.dead_letters(limit).await {
                Ok(letters) => return Ok(letters),
                Err(error) => self.failed(&error),
            }
        }
        self.local.dead_letters(limit).await
    }

    fn receives(&self, factory: &FactoryId, how: Receives) {
        let mut routes = self.routes.lock();
        match how {
            Receives::Broker => drop(routes.direct.insert(factory.clone())),
            Receives::Inbox => drop(routes.direct.remove(factory)),
        }
    }

    async fn login(&self, factory: &FactoryId, now: Timestamp) -> Result<Option<BrokerLogin>, BrokerError> {
        if !self.is_up() {
            return Ok(None);
        }
        let login = self.network.login(factory, now).await;
        if let Err(error) = &login {
            self.failed(error);
        }
        login
    }
}
