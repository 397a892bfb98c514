//! Conformance suite for brokers. [`broker_conformance!`](crate::broker_conformance) runs every function as a test.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod dead_letters;
mod publish;
mod receive;
pub mod sample;

use std::sync::Arc;

use async_trait::async_trait;
use domain::Broker;

pub use dead_letters::{
    a_limited_list_of_dead_letters_has_the_newest, dead_letters_are_listed_newest_last,
    too_many_deliveries_dead_letter_a_message,
};
pub use publish::{
    a_dismissed_factory_leaves_no_messages, a_message_is_delivered_only_to_its_target,
    a_message_waits_for_a_disconnected_factory, a_new_dispatch_of_a_job_is_delivered,
    a_published_message_is_received_once, a_repeated_publish_is_deduplicated,
    a_shadow_message_makes_no_offer_a_duplicate, depth_counts_incomplete_messages,
    first_deliveries_keep_the_publish_order,
};
pub use receive::{
    a_dropped_subscription_requeues_its_messages, a_new_subscription_replaces_the_old_one,
    a_receipt_is_invalid_for_a_later_delivery, a_waiting_receiver_wakes_at_once,
    an_abandoned_message_is_redelivered_with_its_attempt, completing_twice_is_harmless,
};

/// Creates the adapter under test.
#[async_trait]
pub trait Harness: Send {
    /// An empty broker that dead-letters a message after `deliveries_max` deliveries.
    async fn open(&mut self, deliveries_max: u32) -> Arc<dyn Broker>;
}

/// Generates one test per function, each with its own harness: `broker_conformance!(make())` in its own module.
#[macro_export]
macro_rules! broker_conformance {
    ($bench:expr) => {
        $crate::broker_conformance! { @each $bench;
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
            too_many_deliveries_dead_letter_a_message,
            dead_letters_are_listed_newest_last,
            a_limited_list_of_dead_letters_has_the_newest,
        }
    };
    (@each $bench:expr; $($promise:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let mut bench = $bench;
                $crate::conformance::$promise(&mut bench).await;
            }
        )*
    };
}
