//! Messages for tests.

use std::time::Duration;

use domain::{
    Broker, Delivery, DispatchSeq, FactoryId, JobId, Message, Priority, ProductId, PublishOutcome, Subscription,
};

/// More deliveries than any test causes by accident.
pub const DELIVERIES_MAX: u32 = 10;

/// Timeout of a test. Reached only on failure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A factory by its name.
pub fn factory(name: &str) -> FactoryId {
    name.parse().unwrap()
}

/// A dispatch of a job to a factory.
pub fn message(job: u8, seq: u64, target: &str) -> Message {
    Message {
        job_id: JobId::from_bytes([job; 16]),
        dispatch_seq: DispatchSeq(seq),
        product_id: ProductId::default_product(),
        repo: Some("notes".parse().unwrap()),
        caps: vec!["os:linux".parse().unwrap()],
        priority: Priority::High,
        target_factory_id: factory(target),
        shadow: false,
    }
}

/// Publishes a message that was not published before.
pub async fn publish(broker: &dyn Broker, message: &Message) {
    assert_eq!(broker.publish(message.clone()).await.unwrap(), PublishOutcome::Accepted);
}

/// Waits for the next delivery; fails on timeout.
pub async fn receive(subscription: &dyn Subscription) -> Delivery {
    let next = tokio::time::timeout(PATIENCE, subscription.receive()).await;
    next.expect("a message comes").unwrap()
}

/// The number of a factory's messages that are not completed.
pub async fn depth(broker: &dyn Broker, name: &str) -> u64 {
    broker.depths().await.unwrap().get(&factory(name)).copied().unwrap_or(0)
}
