//! Conformance of the NATS adapter, on a real server.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use broker::conformance::Harness;
use broker::conformance::sample::{DELIVERIES_MAX, PATIENCE, depth, factory, message, publish, receive};
use broker::{Embedded, Nats, NatsOptions, Settings};
use clock::ManualClock;
use domain::{Broker, BrokerError, MessageId, PublishOutcome};
use testkit::nats_server::NatsServer;
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
