//! Conformance of the NATS adapter, on a real server.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use broker::conformance::Harness;
use broker::conformance::sample::{DELIVERIES_MAX, PATIENCE, depth, factory, message, publish, receive};
use broker::{Embedded, LoginSigner, Nats, NatsConnector, NatsOptions, Settings};
use clock::ManualClock;
use domain::{Broker, BrokerConnector, BrokerError, BrokerLogin, MessageId, PublishOutcome, Timestamp};
use testkit::nats_server::{NatsAccount, NatsServer};
use tokio::task::JoinSet;

/// A server for each broker.
#[derive(Default)]
struct OnServer {
    servers: Vec<NatsServer>,
}

#[async_trait]
impl Harness for OnServer {
    async fn open(&mut self, deliveries_max: u32) -> Arc<dyn Broker> {
        let Some(server) = NatsServer::start("") else {
            // The skip was reported.
            let settings = Settings { deliveries_max, ..Settings::default() };
            return Arc::new(Embedded::new(settings, Arc::new(ManualClock::default())));
        };
        let broker = connect(&server, deliveries_max).await;
        self.servers.push(server);
        Arc::new(broker)
    }
}

async fn connect(server: &NatsServer, deliveries_max: u32) -> Nats {
    let url = format!("nats://{}", server.address()).parse().unwrap();
    Nats::connect(&url, NatsOptions { deliveries_max, ..NatsOptions::default() }).await.unwrap()
}

mod conformance {
    broker::broker_conformance!(super::OnServer::default());
}

// [D2] [I4]
#[tokio::test]
async fn a_server_that_lost_all_data_takes_messages_again() {
    let Some(mut server) = NatsServer::start("") else { return };
    let broker = connect(&server, DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&broker, &message(1, 1, "forge")).await;
    receive(&*forge).await;

    server.kill();
    server.delete_data();
    server.resume();

    let repeated = published(&broker, 1, 2).await;
    assert_eq!(repeated, PublishOutcome::Accepted);
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    assert_eq!(receive(&*forge).await.message, message(1, 2, "forge"));
}

// [I4]
#[tokio::test]
async fn a_publish_without_a_server_fails_in_time() {
    let Some(mut server) = NatsServer::start("") else { return };
    let broker = connect(&server, DELIVERIES_MAX).await;
    publish(&broker, &message(1, 1, "forge")).await;
    server.kill();

    let publish = tokio::time::timeout(2 * domain::PUBLISH_WITHIN, broker.publish(message(2, 1, "forge"))).await;

    assert!(matches!(publish, Ok(Err(BrokerError::Unavailable(_)))), "{publish:?}");
    assert!(matches!(broker.depths().await, Err(BrokerError::Unavailable(_))));
    server.resume();
    published(&broker, 2, 1).await;
    assert_eq!(depth(&broker, "forge").await, 2, "the first one was kept");
}

#[tokio::test]
async fn a_coordinator_starts_while_the_server_is_away() {
    let Some(mut server) = NatsServer::start("") else { return };
    server.kill();
    let broker = connect(&server, DELIVERIES_MAX).await;
    assert!(broker.publish(message(1, 1, "forge")).await.is_err());

    server.resume();

    assert_eq!(published(&broker, 1, 2).await, PublishOutcome::Accepted);
}

#[tokio::test]
async fn a_removed_stream_ends_the_subscription_and_is_created_again() {
    let Some(server) = NatsServer::start("") else { return };
    let broker = connect(&server, DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let client = async_nats::connect(server.address()).await.unwrap();
    let mut waiting = JoinSet::new();
    let receiver = Arc::clone(&forge);
    waiting.spawn(async move { receiver.receive().await.map(drop) });

    async_nats::jetstream::new(client).delete_stream("fleet-dispatch").await.unwrap();

    let told = tokio::time::timeout(PATIENCE, waiting.join_next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(told, Err(BrokerError::Closed)), "{told:?}");
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    publish(&broker, &message(1, 1, "forge")).await;
    assert_eq!(receive(&*forge).await.message, message(1, 1, "forge"));
}

#[tokio::test]
async fn a_cancelled_receive_loses_no_message() {
    let Some(server) = NatsServer::start("") else { return };
    let broker = connect(&server, DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    for seq in 1..=50 {
        // Given up at another moment each time.
        let given_up = tokio::time::timeout(std::time::Duration::from_micros(seq * 40), forge.receive()).await;
        assert!(given_up.is_err(), "{given_up:?}");
        publish(&broker, &message(1, seq, "forge")).await;

        let delivery = receive(&*forge).await;

        assert_eq!((delivery.message, delivery.attempt), (message(1, seq, "forge"), 1));
        forge.complete(&delivery.receipt).await.unwrap();
    }
}

// [D2]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_messages_are_delivered_exactly_once() {
    const PUBLISHERS: u8 = 4;
    const EACH: u64 = 100;
    let Some(server) = NatsServer::start("") else { return };
    let broker = connect(&server, DELIVERIES_MAX).await;
    let forge = broker.subscribe(&factory("forge")).await.unwrap();
    let mut publishers = JoinSet::new();
    for job in 0..PUBLISHERS {
        let broker = broker.clone();
        publishers.spawn(async move {
            for seq in 0..EACH {
                publish(&broker, &message(job, seq, "forge")).await;
            }
        });
    }
    let mut times: BTreeMap<MessageId, u32> = BTreeMap::new();

    for _ in 0..u64::from(PUBLISHERS) * EACH {
        let delivery = receive(&*forge).await;
        forge.complete(&delivery.receipt).await.unwrap();
        *times.entry(delivery.message.id()).or_default() += 1;
    }

    publishers.join_all().await;
    assert_eq!(times.len() as u64, u64::from(PUBLISHERS) * EACH);
    assert_eq!(depth(&broker, "forge").await, 0);
}

#[tokio::test]
async fn factories_whose_names_have_points_have_queues_of_their_own() {
    let Some(server) = NatsServer::start("") else { return };
    let broker = connect(&server, DELIVERIES_MAX).await;
    let (east, branch) =
        (broker.subscribe(&factory("east")).await.unwrap(), broker.subscribe(&factory("east.2")).await.unwrap());

    publish(&broker, &message(1, 1, "east.2")).await;
    publish(&broker, &message(2, 1, "east")).await;

    assert_eq!(receive(&*east).await.message, message(2, 1, "east"));
    assert_eq!(receive(&*branch).await.message, message(1, 1, "east.2"));
    let depths = broker.depths().await.unwrap();
    assert_eq!(depths, BTreeMap::from([(factory("east"), 1), (factory("east.2"), 1)]));
}

/// A server that asks for credentials, and the coordinator's connection to it.
async fn with_account() -> Option<(NatsServer, Nats)> {
    let account = NatsAccount::default();
    let server = NatsServer::start(&account.settings)?;
    let signer = Arc::new(LoginSigner::new(&account.seed, None).unwrap());
    let options =
        NatsOptions { credentials: Some(account.credentials), signer: Some(signer), ..NatsOptions::default() };
    let url = format!("nats://{}", server.address()).parse().unwrap();
    Some((server, Nats::connect(&url, options).await.unwrap()))
}

async fn login(broker: &Nats, name: &str) -> BrokerLogin {
    let now = Timestamp::from_millis(i64::try_from(wall_clock().as_millis()).unwrap());
    broker.login(&factory(name), now).await.unwrap().expect("the coordinator signs logins")
}

fn wall_clock() -> std::time::Duration {
    use domain::Clock as _;
    let now = clock::SystemClock::new().now();
    std::time::Duration::from_millis(u64::try_from(now.as_millis()).unwrap())
}

// [D6]
#[tokio::test]
async fn a_factory_receives_with_its_own_login() {
    let Some((_server, broker)) = with_account().await else { return };
    let forge = NatsConnector.connect(&factory("forge.1"), &login(&broker, "forge.1").await).await.unwrap();
    let queue = forge.subscribe(&factory("forge.1")).await.unwrap();

    publish(&broker, &message(1, 1, "forge.1")).await;
    let first = receive(&*queue).await;
    queue.abandon(&first.receipt).await.unwrap();
    let second = receive(&*queue).await;
    queue.complete(&second.receipt).await.unwrap();
    publish(&broker, &message(2, 1, "forge.1")).await;
    let unreadable = receive(&*queue).await;
    queue.dead_letter(&unreadable.receipt, "cannot be read").await.unwrap();

    assert_eq!((first.message, second.attempt), (message(1, 1, "forge.1"), 2));
    assert_eq!(depth(&broker, "forge.1").await, 0);
    let dead = broker.dead_letters(10).await.unwrap();
    assert_eq!(dead, [(message(2, 1, "forge.1"), "cannot be read".to_owned())]);
}

// [D6] [T3]
#[tokio::test]
async fn a_login_opens_no_other_factorys_queue() {
    let Some((_server, broker)) = with_account().await else { return };
    let forge = NatsConnector.connect(&factory("forge"), &login(&broker, "forge").await).await.unwrap();
    let mill = broker.subscribe(&factory("mill")).await.unwrap();
    publish(&broker, &message(1, 1, "mill")).await;

    let subscribed = forge.subscribe(&factory("mill")).await.map(drop);
    let published = forge.publish(message(2, 1, "mill")).await;
    let published_to_itself = forge.publish(message(2, 1, "forge")).await;
    let dismissed = forge.dismiss(&factory("mill")).await;
    let counted = forge.depths().await;

    for refused in [subscribed, published.map(drop), published_to_itself.map(drop), dismissed, counted.map(drop)] {
        assert!(matches!(refused, Err(BrokerError::Unavailable(_))), "{refused:?}");
    }
    assert_eq!(receive(&*mill).await.message, message(1, 1, "mill"));
    assert_eq!(depth(&broker, "forge").await, 0);
}

#[tokio::test]
async fn without_a_signing_key_there_are_no_logins() {
    let Some(server) = NatsServer::start("") else { return };
    let broker = connect(&server, DELIVERIES_MAX).await;

    assert_eq!(broker.login(&factory("forge"), Timestamp::from_millis(0)).await.unwrap(), None);
}

/// Publishes as soon as the server is back.
async fn published(broker: &Nats, job: u8, seq: u64) -> PublishOutcome {
    let until_it_is_back = async {
        loop {
            if let Ok(outcome) = broker.publish(message(job, seq, "forge")).await {
                return outcome;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, until_it_is_back).await.expect("the server is back")
}
