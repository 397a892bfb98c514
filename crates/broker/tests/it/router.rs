//! Which way a message takes, with two brokers in memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker::conformance::Harness;
use broker::conformance::sample::{depth, factory, message, publish, receive};
use broker::{Embedded, Router, Settings};
use clock::ManualClock;
use domain::{Broker, Receives};

struct TwoBrokers;

#[async_trait]
impl Harness for TwoBrokers {
    async fn open(&mut self, deliveries_max: u32) -> Arc<dyn Broker> {
        let settings = Settings { deliveries_max, ..Settings::default() };
        Arc::new(Routed::new(settings).router)
    }
}

struct Routed {
    router: Router,
    local: Embedded,
    network: Embedded,
    clock: ManualClock,
}

impl Routed {
    fn new(settings: Settings) -> Self {
        let clock = ManualClock::default();
        let embedded = || Embedded::new(settings, Arc::new(clock.clone()));
        let (local, network) = (embedded(), embedded());
        let router = Router::new(Arc::new(local.clone()), Arc::new(network.clone()), Arc::new(clock.clone()));
        Self { router, local, network, clock }
    }
}

// The suite without the dead letters of factories: their inboxes' ones are the coordinator's own.
mod conformance {
    broker::broker_conformance! { @each super::TwoBrokers;
        a_published_message_is_received_once,
        a_repeated_publish_is_deduplicated,
        a_shadow_message_makes_no_offer_a_duplicate,
        a_new_dispatch_of_a_job_is_delivered,
        a_message_is_delivered_only_to_its_target,
        a_message_waits_for_a_disconnected_factory,
        first_deliveries_keep_the_publish_order,
        a_dismissed_factory_leaves_no_messages,
        depth_counts_incomplete_messages,
        an_abandoned_message_is_redelivered_with_its_attempt,
        a_new_subscription_replaces_the_old_one,
        a_dropped_subscription_requeues_its_messages,
        completing_twice_is_harmless,
        a_receipt_is_invalid_for_a_later_delivery,
        a_waiting_receiver_wakes_at_once,
        a_limited_list_of_dead_letters_has_the_newest,
    }
}

// [D6]
#[tokio::test]
async fn a_message_takes_the_way_that_its_target_reported() {
    let fleet = Routed::new(Settings::default());
    fleet.router.receives(&factory("forge"), Receives::Broker);
    publish(&fleet.router, &message(1, 1, "forge")).await;
    publish(&fleet.router, &message(2, 1, "mill")).await;

    fleet.router.receives(&factory("forge"), Receives::Inbox);
    publish(&fleet.router, &message(3, 1, "forge")).await;

    assert_eq!((depth(&fleet.network, "forge").await, depth(&fleet.network, "mill").await), (1, 0));
    assert_eq!((depth(&fleet.local, "forge").await, depth(&fleet.local, "mill").await), (1, 1));
    let inbox = fleet.router.subscribe(&factory("forge")).await.unwrap();
    assert_eq!(receive(&*inbox).await.message, message(3, 1, "forge"));
}

// [I4]
#[tokio::test]
async fn a_failed_broker_is_left_alone_and_offers_go_through_the_inbox() {
    let fleet = Routed::new(Settings { queue_max: 1, ..Settings::default() });
    fleet.router.receives(&factory("forge"), Receives::Broker);
    publish(&fleet.router, &message(1, 1, "forge")).await;

    // Its queue is full, so that it fails.
    publish(&fleet.router, &message(2, 1, "forge")).await;
    fleet.network.dismiss(&factory("forge")).await.unwrap();
    let inbox = fleet.local.subscribe(&factory("forge")).await.unwrap();
    let second = receive(&*inbox).await;
    inbox.complete(&second.receipt).await.unwrap();
    publish(&fleet.router, &message(3, 1, "forge")).await;

    assert_eq!(second.message, message(2, 1, "forge"));
    assert_eq!(receive(&*inbox).await.message, message(3, 1, "forge"));
    fleet.clock.advance(Duration::from_secs(10));
    publish(&fleet.router, &message(4, 1, "forge")).await;
    assert_eq!(depth(&fleet.network, "forge").await, 1);
}

#[tokio::test]
async fn dead_letters_are_mirrored_to_the_network() {
    let fleet = Routed::new(Settings::default());

    fleet.router.mirror_dead_letter(message(1, 1, "forge"), "retries_exhausted").await.unwrap();

    let expected = [(message(1, 1, "forge"), "retries_exhausted".to_owned())];
    assert_eq!(fleet.network.dead_letters(10).await.unwrap(), expected);
    assert_eq!(fleet.router.dead_letters(10).await.unwrap(), expected);
}
