//! What every broker must do. Each function is named by the sentence it proves; [`broker_conformance!`](crate::broker_conformance) runs them all.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod dead_letters;
mod publishing;
mod receiving;
pub mod sample;

use std::sync::Arc;

use async_trait::async_trait;
use domain::Broker;

pub use dead_letters::{
    a_short_list_of_dead_letters_shows_the_newest, dead_letters_are_listed_newest_last,
    too_many_deliveries_end_in_the_dead_letters,
};
pub use publishing::{
    a_message_waits_for_a_factory_that_is_not_there, a_new_dispatch_is_delivered_although_the_former_one_was,
    a_published_message_is_received_once, depth_counts_what_is_not_completed,
    first_deliveries_keep_the_order_of_publishing, messages_go_to_their_target_only,
    the_same_message_published_again_collapses,
};
pub use receiving::{
    a_dropped_subscription_leaves_its_messages_to_the_next, a_receipt_is_of_no_use_for_a_later_delivery,
    a_replaced_subscription_is_closed_and_its_messages_come_to_the_new_one, a_waiting_receiver_wakes_at_once,
    an_abandoned_message_comes_again_and_says_so, completing_twice_is_harmless,
};

/// Where an adapter under test comes from.
#[async_trait]
pub trait Harness: Send {
    /// A broker without messages that dead-letters after so many deliveries.
    async fn open(&mut self, deliveries_max: u32) -> Arc<dyn Broker>;
}

/// One test per promise, each on a bench of its own: `broker_conformance!(make())` in a module of its own.
#[macro_export]
macro_rules! broker_conformance {
    ($bench:expr) => {
        $crate::broker_conformance! { @each $bench;
            a_published_message_is_received_once,
            the_same_message_published_again_collapses,
            a_new_dispatch_is_delivered_although_the_former_one_was,
            messages_go_to_their_target_only,
            a_message_waits_for_a_factory_that_is_not_there,
            first_deliveries_keep_the_order_of_publishing,
            depth_counts_what_is_not_completed,
            an_abandoned_message_comes_again_and_says_so,
            a_replaced_subscription_is_closed_and_its_messages_come_to_the_new_one,
            a_dropped_subscription_leaves_its_messages_to_the_next,
            completing_twice_is_harmless,
            a_receipt_is_of_no_use_for_a_later_delivery,
            a_waiting_receiver_wakes_at_once,
            too_many_deliveries_end_in_the_dead_letters,
            dead_letters_are_listed_newest_last,
            a_short_list_of_dead_letters_shows_the_newest,
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
