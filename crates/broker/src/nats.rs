//! NATS JetStream: one stream with a subject and a consumer per factory. Messages are hints, so the stream promises no
//! more than the server's defaults: whatever it loses is dispatched again.
//!
//! - The id of a message is its dispatch, so that a repeated publish is dropped and a new dispatch never is.
//! - A new subscription deletes the factory's consumer and creates it again: its predecessor is told, and what was
//!   delivered and not completed is delivered again at once, because the stream is a work queue.
//! - The server has no limit on deliveries: with one, it would leave a message in the queue. Here such a message is copied
//!   to the dead letters and removed.
//! - Streams are created when they are missing. Deleting all data of the server loses no job.

mod dead_letters;
mod error;
mod login;
mod names;
mod pull;
mod subscription;
mod url;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, consumer, context, stream};
use async_nats::{Client, ConnectOptions};
use async_trait::async_trait;
use domain::{
    Broker, BrokerConnector, BrokerError, BrokerLogin, FactoryId, Message, PUBLISH_WITHIN, PublishOutcome,
    Subscription, Timestamp,
};
use futures_util::StreamExt;

use error::{is_missing, unavailable, within};
use names::{DISPATCH_STREAM, DISPATCH_SUBJECTS, consumer_name, dispatch_subject, factory_of};
use subscription::NatsSubscription;

pub use login::LoginSigner;
pub use url::NatsUrl;

/// How long a message may stay in the queue: long after its offer has expired.
const AGE_MAX: Duration = Duration::from_secs(3_600);

/// How long the server remembers ids. Hosted brokers use the same.
const DEDUP_WINDOW: Duration = Duration::from_secs(600);

/// How long a delivery may stay unanswered before it is repeated. Shorter than the deadline to accept an offer.
const ACK_WAIT: Duration = Duration::from_secs(10);

/// Deliveries of one factory that may be unanswered: more than it has seats.
const UNANSWERED_MAX: i64 = 1_000;

/// How long the consumer of a factory that does not connect is kept. Its messages stay in the stream.
const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(3_600);

/// How to use a NATS server.
#[derive(Clone)]
pub struct NatsOptions {
    /// The content of a credentials file (`.creds`), if the server asks for one.
    pub credentials: Option<String>,
    /// Signs logins of factories, so that they can connect. Without one they receive through their inboxes.
    pub signer: Option<Arc<LoginSigner>>,
    /// Maximum number of deliveries before a message is dead-lettered.
    pub deliveries_max: u32,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self { credentials: None, signer: None, deliveries_max: 10 }
    }
}

/// A broker on a NATS server with JetStream.
#[derive(Clone)]
pub struct Nats {
    client: Client,
    context: jetstream::Context,
    /// The address, without credentials.
    address: String,
    signer: Option<Arc<LoginSigner>>,
    deliveries_max: u32,
}

impl Nats {
    /// Connects in the background: a server that is away delays messages, and no start. Fails if the credentials cannot be
    /// read.
    pub async fn connect(url: &NatsUrl, options: NatsOptions) -> Result<Self, BrokerError> {
        Self::connect_with(url, options, ConnectOptions::new()).await
    }

    async fn connect_with(url: &NatsUrl, options: NatsOptions, connect: ConnectOptions) -> Result<Self, BrokerError> {
        let connect = connect
            .name("gigafactory")
            .connection_timeout(PUBLISH_WITHIN)
            .request_timeout(Some(PUBLISH_WITHIN))
            .retry_on_initial_connect();
        let connect = match &options.credentials {
            Some(credentials) => connect.credentials(credentials).map_err(unavailable)?,
            None => connect,
        };
        let client = connect.connect(url.servers()).await.map_err(unavailable)?;
        let context = context::ContextBuilder::new().timeout(PUBLISH_WITHIN).ack_timeout(PUBLISH_WITHIN);
        let context = context.build(client.clone());
        let NatsOptions { signer, deliveries_max, .. } = options;
        Ok(Self { client, context, address: url.to_string(), signer, deliveries_max })
    }

    /// Creates the streams that are missing.
    async fn create_streams(&self) -> Result<(), BrokerError> {
        let dispatch = stream::Config {
            name: DISPATCH_STREAM.to_owned(),
            subjects: vec![DISPATCH_SUBJECTS.to_owned()],
            retention: stream::RetentionPolicy::WorkQueue,
            max_age: AGE_MAX,
            duplicate_window: DEDUP_WINDOW,
            ..stream::Config::default()
        };
        self.context.get_or_create_stream(dispatch).await.map_err(unavailable)?;
        self.context.get_or_create_stream(dead_letters::stream()).await.map_err(unavailable)?;
        Ok(())
    }

    async fn publish_once(&self, message: &Message) -> Result<PublishOutcome, context::PublishError> {
        // Serialisation of such a message cannot fail.
        let payload = serde_json::to_vec(message).unwrap_or_default();
        let publish = jetstream::message::PublishMessage::build()
            .payload(payload.into())
            .message_id(message.id().to_string())
            .expected_stream(DISPATCH_STREAM);
        let sent = self.context.send_publish(dispatch_subject(&message.target_factory_id), publish).await?;
        let answer = sent.await?;
        Ok(if answer.duplicate { PublishOutcome::Duplicate } else { PublishOutcome::Accepted })
    }

    /// Deletes the factory's consumer, whose subscription is told, and creates another one.
    async fn replace_consumer(&self, factory: &FactoryId) -> Result<consumer::Info, BrokerError> {
        let name = consumer_name(factory);
        match self.context.delete_consumer_from_stream(&name, DISPATCH_STREAM).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(unavailable(error)),
        }
        let config = consumer::pull::Config {
            durable_name: Some(name.clone()),
            name: Some(name),
            filter_subject: dispatch_subject(factory),
            ack_policy: consumer::AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: UNANSWERED_MAX,
            inactive_threshold: CONSUMER_IDLE_MAX,
            ..consumer::pull::Config::default()
        };
        let created = self.context.create_consumer_on_stream(config.clone(), DISPATCH_STREAM).await;
        let created = match created {
            Err(error) if is_missing(&error) => {
                self.create_streams().await?;
                self.context.create_consumer_on_stream(config, DISPATCH_STREAM).await
            }
            created => created,
        };
        Ok(created.map_err(unavailable)?.cached_info().clone())
    }
}

#[async_trait]
impl Broker for Nats {
    async fn publish(&self, message: Message) -> Result<PublishOutcome, BrokerError> {
        within(PUBLISH_WITHIN, async {
            match self.publish_once(&message).await {
                Err(error) if error.kind() == context::PublishErrorKind::StreamNotFound => {
                    self.create_streams().await?;
                    self.publish_once(&message).await.map_err(unavailable)
                }
                outcome => outcome.map_err(unavailable),
            }
        })
        .await
    }

    async fn subscribe(&self, factory: &FactoryId) -> Result<Arc<dyn Subscription>, BrokerError> {
        let consumer = within(2 * PUBLISH_WITHIN, self.replace_consumer(factory)).await?;
        Ok(Arc::new(NatsSubscription::new(self.clone(), factory.clone(), consumer)))
    }

    async fn dismiss(&self, factory: &FactoryId) -> Result<(), BrokerError> {
        within(2 * PUBLISH_WITHIN, async {
            match self.context.delete_consumer_from_stream(consumer_name(factory), DISPATCH_STREAM).await {
                Ok(_) => {}
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(unavailable(error)),
            }
            let Ok(stream) = self.context.get_stream(DISPATCH_STREAM).await else { return Ok(()) };
            stream.purge().filter(dispatch_subject(factory)).await.map_err(unavailable)?;
            Ok(())
        })
        .await
    }

    async fn depths(&self) -> Result<BTreeMap<FactoryId, u64>, BrokerError> {
        within(PUBLISH_WITHIN, async {
            let stream = match self.context.get_stream_no_info(DISPATCH_STREAM).await {
                Ok(stream) => stream,
                Err(error) => return Err(unavailable(error)),
            };
            let mut subjects = match stream.info_with_subjects(DISPATCH_SUBJECTS).await {
                Ok(subjects) => subjects,
                Err(error) if is_missing(&error) => return Ok(BTreeMap::new()),
                Err(error) => return Err(unavailable(error)),
            };
            let mut depths = BTreeMap::new();
            while let Some(subject) = subjects.next().await {
                let (subject, count) = subject.map_err(unavailable)?;
                if let Some(factory) = factory_of(&subject) {
                    depths.insert(factory, count as u64);
                }
            }
            Ok(depths)
        })
        .await
    }

    async fn mirror_dead_letter(&self, message: Message, reason: &str) -> Result<(), BrokerError> {
        within(PUBLISH_WITHIN, dead_letters::add(self, &message, reason)).await
    }

    async fn dead_letters(&self, limit: u16) -> Result<Vec<(Message, String)>, BrokerError> {
        within(2 * PUBLISH_WITHIN, dead_letters::newest(self, limit)).await
    }

    /// Also creates the streams: a factory's login cannot.
    async fn login(&self, factory: &FactoryId, now: Timestamp) -> Result<Option<BrokerLogin>, BrokerError> {
        let Some(signer) = &self.signer else { return Ok(None) };
        within(PUBLISH_WITHIN, self.create_streams()).await?;
        signer.login(self.address.clone(), factory, now).map(Some)
    }
}

/// Connects factories to a NATS server.
#[derive(Debug, Clone, Copy, Default)]
pub struct NatsConnector;

#[async_trait]
impl BrokerConnector for NatsConnector {
    async fn connect(&self, factory: &FactoryId, login: &BrokerLogin) -> Result<Arc<dyn Broker>, BrokerError> {
        let url: NatsUrl = login.url.parse().map_err(BrokerError::Unavailable)?;
        let options = NatsOptions { credentials: Some(login.credentials.clone()), ..NatsOptions::default() };
        let connect = ConnectOptions::new().custom_inbox_prefix(login::inbox_prefix(factory));
        Ok(Arc::new(Nats::connect_with(&url, options, connect).await?))
    }
}
