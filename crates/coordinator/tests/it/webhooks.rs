//! Outgoing webhooks: what is delivered, how often, and after which failures [T6][D4].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use coordinator::WebhookTarget;
use domain::{ProductId, WebhookDelivery, WebhookError, WebhookFormat, WebhookName, WebhookReceiver, WebhookTopic};
use parking_lot::Mutex;
use protocol::{Action, AlertCode, WebhookNotice};
use tokio::task::JoinSet;

use super::quick;
use crate::fleet::{Fleet, PLAIN};
use crate::idle::settle;
use crate::machine::Machine;

/// A receiver that fails as it is told to.
#[derive(Default)]
struct FakeReceiver {
    taken: Mutex<Vec<WebhookDelivery>>,
    faults: Mutex<VecDeque<Fault>>,
}

#[derive(Clone, Copy)]
enum Fault {
    /// It takes nothing.
    Away,
    /// It takes the delivery, and its answer is lost.
    LostAnswer,
    /// It rejects the message.
    Rejecting,
}

#[async_trait]
impl WebhookReceiver for FakeReceiver {
    async fn deliver(&self, delivery: &WebhookDelivery) -> Result<(), WebhookError> {
        let fault = self.faults.lock().pop_front();
        if !matches!(fault, Some(Fault::Away | Fault::Rejecting)) {
            self.taken.lock().push(delivery.clone());
        }
        match fault {
            None => Ok(()),
            Some(Fault::Rejecting) => Err(WebhookError::Rejected("the receiver rejected the message (400)".to_owned())),
            Some(Fault::Away | Fault::LostAnswer) => {
                Err(WebhookError::Retryable { message: "connection refused".to_owned(), wait: None })
            }
        }
    }

    fn address(&self) -> String {
        "https://hooks.example".to_owned()
    }
}

impl FakeReceiver {
    fn fail(&self, fault: Fault, times: usize) {
        self.faults.lock().extend(std::iter::repeat_n(fault, times));
    }

    fn taken(&self) -> Vec<WebhookDelivery> {
        self.taken.lock().clone()
    }

    /// The events that were taken: `job.queued`, `alert.raised no_live_factory`.
    fn events(&self) -> Vec<String> {
        let event = |delivery: WebhookDelivery| {
            let notice: WebhookNotice = serde_json::from_str(&delivery.body).unwrap();
            assert_eq!((&notice.id, &notice.event), (&delivery.id, &delivery.event));
            notice.alert.map_or(notice.event.clone(), |alert| format!("{} {}", notice.event, alert.code))
        };
        self.taken().into_iter().map(event).collect()
    }

    fn ids(&self) -> Vec<String> {
        self.taken().into_iter().map(|delivery| delivery.id).collect()
    }
}

fn name(text: &str) -> WebhookName {
    text.parse().unwrap()
}

fn target(receiver: &Arc<FakeReceiver>, topics: &[&str]) -> WebhookTarget {
    WebhookTarget {
        receiver: Arc::clone(receiver) as Arc<dyn WebhookReceiver>,
        format: WebhookFormat::Json,
        topics: topics.iter().map(|topic| topic.parse::<WebhookTopic>().unwrap()).collect(),
        products: BTreeSet::new(),
        is_signed: true,
    }
}

/// A fleet whose tasks run, and that sends webhooks to these receivers.
struct Running {
    fleet: Fleet,
    tasks: JoinSet<()>,
}

impl Running {
    async fn start(fleet: Fleet, targets: impl IntoIterator<Item = (&str, WebhookTarget)>) -> Self {
        let targets: BTreeMap<_, _> = targets.into_iter().map(|(text, target)| (name(text), target)).collect();
        fleet.coordinator.set_webhooks(targets);
        let mut tasks = JoinSet::new();
        let coordinator = Arc::clone(&fleet.coordinator);
        tasks.spawn(async move { coordinator.run().await });
        let running = Self { fleet, tasks };
        running.pass(2).await;
        running
    }

    /// Lets this many seconds pass.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds * 4 {
            self.fleet.builder.clock.advance(Duration::from_millis(250));
            settle().await;
        }
    }

    async fn stop(mut self) -> Fleet {
        self.fleet.coordinator.stop();
        while self.tasks.join_next().await.is_some() {}
        self.fleet
    }
}

// [T6]
#[tokio::test]
async fn the_stages_of_a_job_are_delivered_once_and_in_order() {
    let receiver = Arc::default();
    let running = Running::start(Fleet::warm(quick()).await, [("ops", target(&receiver, &["jobs"]))]).await;

    let job = running.fleet.submit(PLAIN).await;
    running.pass(2).await;
    running.fleet.act(job, Action::Cancel).await.unwrap();
    running.pass(200).await;

    assert_eq!(receiver.events(), ["job.queued", "job.failed"]);
    let notice: WebhookNotice = serde_json::from_str(&receiver.taken()[1].body).unwrap();
    assert!(notice.text.contains("\"Mend the gate\" is failed: cancelled by"), "{}", notice.text);
    assert_eq!(notice.job.unwrap().id, job);
}

// [T6]
#[tokio::test]
async fn only_the_configured_stages_and_products_are_delivered() {
    let receiver = Arc::default();
    let mut other = target(&receiver, &["jobs", "alerts"]);
    other.products = BTreeSet::from(["elsewhere".parse::<ProductId>().unwrap()]);
    let failed = Arc::default();
    let targets = [("other", other), ("failed", target(&failed, &["job.failed"]))];
    let running = Running::start(Fleet::warm(quick()).await, targets).await;

    let job = running.fleet.submit(PLAIN).await;
    running.pass(2).await;
    running.fleet.act(job, Action::Cancel).await.unwrap();
    running.pass(5).await;

    assert_eq!((receiver.events(), failed.events()), (vec![], vec!["job.failed".to_owned()]));
}

// [T6] [J7]
#[tokio::test]
async fn what_was_not_delivered_before_a_restart_is_delivered_after_it() {
    let receiver: Arc<FakeReceiver> = Arc::default();
    let hook = || [("ops", target(&receiver, &["jobs"]))];
    let running = Running::start(Fleet::warm(quick()).await, hook()).await;
    let job = running.fleet.submit(PLAIN).await;
    running.pass(2).await;
    let fleet = running.stop().await;

    // Nothing sends while this happens.
    fleet.act(job, Action::Cancel).await.unwrap();
    fleet.act(job, Action::Requeue).await.unwrap();
    let running = Running::start(fleet.restarted().await, hook()).await;
    running.pass(2).await;
    let fleet = running.stop().await;
    let running = Running::start(fleet.restarted().await, hook()).await;
    running.pass(2).await;

    assert_eq!(receiver.events(), ["job.queued", "job.failed", "job.queued"]);
    let ids: BTreeSet<String> = receiver.ids().into_iter().collect();
    assert_eq!(ids.len(), 3);
}

// [T6] [attack: forged or repeated webhook]
#[tokio::test]
async fn a_failed_delivery_is_repeated_with_its_id_and_blocks_nothing_else() {
    let (receiver, other) = (Arc::<FakeReceiver>::default(), Arc::<FakeReceiver>::default());
    let targets = [("ops", target(&receiver, &["jobs"])), ("other", target(&other, &["jobs"]))];
    let running = Running::start(Fleet::warm(quick()).await, targets).await;
    receiver.fail(Fault::LostAnswer, 1);
    receiver.fail(Fault::Away, 1);

    let job = running.fleet.submit(PLAIN).await;
    running.pass(4).await;
    assert_eq!((receiver.ids().len(), other.ids().len()), (1, 1));
    let listed = running.fleet.coordinator.webhooks(&running.fleet.admin).unwrap().items;
    let failing = listed.iter().find(|webhook| webhook.name == name("ops")).unwrap();
    assert_eq!((failing.failures, failing.error.as_deref()), (1, Some("connection refused")));
    assert!(failing.retry_at.is_some());
    running.fleet.act(job, Action::Cancel).await.unwrap();
    running.pass(20).await;

    let (ids, events) = (receiver.ids(), receiver.events());
    assert_eq!(events, ["job.queued", "job.queued", "job.failed"]);
    assert_eq!(ids[0], ids[1]);
}

// [T6]
#[tokio::test]
async fn a_rejected_message_and_old_news_are_dropped() {
    let receiver: Arc<FakeReceiver> = Arc::default();
    let running = Running::start(Fleet::warm(quick()).await, [("ops", target(&receiver, &["jobs"]))]).await;
    receiver.fail(Fault::Rejecting, 1);
    let job = running.fleet.submit(PLAIN).await;
    running.pass(2).await;
    let fleet = running.stop().await;
    fleet.act(job, Action::Cancel).await.unwrap();
    fleet.builder.clock.advance(Duration::from_hours(25));

    let running = Running::start(fleet.restarted().await, [("ops", target(&receiver, &["jobs"]))]).await;
    running.fleet.act(job, Action::Requeue).await.unwrap();
    running.pass(2).await;

    assert_eq!(receiver.events(), ["job.queued"]);
    let listed = running.fleet.coordinator.webhooks(&running.fleet.admin).unwrap().items;
    assert_eq!((listed[0].dropped, listed[0].delivered), (1, 1));
}

// [T6] [D4]
#[tokio::test]
async fn an_alert_is_told_once_when_it_is_raised_and_once_when_it_ends() {
    let receiver: Arc<FakeReceiver> = Arc::default();
    let running = Running::start(Fleet::warm(quick()).await, [("ops", target(&receiver, &["alerts"]))]).await;

    let job = running.fleet.submit(PLAIN).await;
    running.pass(200).await;
    assert_eq!(receiver.events(), ["alert.raised no_live_factory"]);
    let second = running.fleet.submit(PLAIN).await;
    running.pass(200).await;
    running.fleet.act(job, Action::Cancel).await.unwrap();
    running.pass(200).await;
    assert_eq!(receiver.events().len(), 1, "another example of the same alert");
    running.fleet.act(second, Action::Cancel).await.unwrap();
    running.pass(200).await;

    assert_eq!(receiver.events(), ["alert.raised no_live_factory", "alert.cleared no_live_factory"]);
    let ids = receiver.ids();
    assert_eq!(ids[1], format!("{}-cleared", ids[0]));
}

// [T6] [D4] [I14]
#[tokio::test]
async fn a_restart_repeats_no_alert_and_an_alert_that_ended_meanwhile_is_cleared() {
    let receiver: Arc<FakeReceiver> = Arc::default();
    let hook = || [("ops", target(&receiver, &["alerts"]))];
    let running = Running::start(Fleet::warm(quick()).await, hook()).await;
    let job = running.fleet.submit(PLAIN).await;
    running.pass(5).await;
    let fleet = running.stop().await;

    // While factories may be reconnecting, no alert about them is known.
    let running = Running::start(fleet.restarted().await, hook()).await;
    running.pass(40).await;
    assert_eq!(receiver.events(), ["alert.raised no_live_factory"]);
    let fleet = running.stop().await;
    fleet.act(job, Action::Cancel).await.unwrap();
    let running = Running::start(fleet.restarted().await, hook()).await;
    running.pass(40).await;

    assert_eq!(receiver.events(), ["alert.raised no_live_factory", "alert.cleared no_live_factory"]);
}

// [T6] [D4]
#[tokio::test]
async fn an_alert_that_ended_before_it_was_told_is_not_told() {
    let receiver: Arc<FakeReceiver> = Arc::default();
    let running = Running::start(Fleet::warm(quick()).await, [("ops", target(&receiver, &["alerts"]))]).await;
    receiver.fail(Fault::Away, 1);

    let job = running.fleet.submit(PLAIN).await;
    running.pass(2).await;
    running.fleet.act(job, Action::Cancel).await.unwrap();
    running.pass(30).await;

    assert_eq!(receiver.events(), Vec::<String>::new());
}

// [T6] [D4] [alert: webhook_failing]
#[tokio::test]
async fn a_receiver_that_fails_raises_an_alert_until_it_takes_a_delivery() {
    let (receiver, other) = (Arc::<FakeReceiver>::default(), Arc::<FakeReceiver>::default());
    let targets = [("ops", target(&receiver, &["jobs", "alerts"])), ("other", target(&other, &["alerts"]))];
    let running = Running::start(Fleet::warm(quick()).await, targets).await;
    let machine = Machine::join(&running.fleet, "mac").await;
    let codes = || async {
        machine.renew(&running.fleet).await;
        let alerts = running.fleet.coordinator.alerts(&running.fleet.admin).await.unwrap().items;
        alerts.into_iter().map(|alert| (alert.code, alert.subject)).collect::<Vec<_>>()
    };
    receiver.fail(Fault::Away, 3);

    running.fleet.submit(PLAIN).await;
    running.pass(18).await;
    assert_eq!(codes().await, [(AlertCode::WebhookFailing, Some("ops".to_owned()))]);
    running.pass(2).await;
    assert_eq!(other.events(), ["alert.raised webhook_failing"]);
    running.pass(20).await;

    assert_eq!(codes().await, []);
    running.pass(2).await;
    assert_eq!(other.events(), ["alert.raised webhook_failing", "alert.cleared webhook_failing"]);
    assert!(receiver.events().iter().all(|event| event.starts_with("job.")), "{:?}", receiver.events());
}

// [I14] [P4]
#[tokio::test]
async fn webhooks_of_an_idle_fleet_cost_nothing() {
    let receiver: Arc<FakeReceiver> = Arc::default();
    let fleet = Fleet::warm(quick()).await;
    let running = Running::start(fleet, [("ops", target(&receiver, &["jobs", "alerts"]))]).await;
    running.pass(60).await;
    let operations = running.fleet.operations();

    running.pass(1_200).await;

    assert_eq!(running.fleet.operations(), operations);
}

// [T6] [I12]
#[tokio::test]
async fn a_test_is_delivered_at_once_and_only_for_an_admin() {
    let receiver: Arc<FakeReceiver> = Arc::default();
    let running = Running::start(Fleet::warm(quick()).await, [("ops", target(&receiver, &["jobs"]))]).await;
    let (coordinator, admin) = (&running.fleet.coordinator, &running.fleet.admin);
    receiver.fail(Fault::Away, 1);

    let failed = coordinator.test_webhook(admin, &name("ops")).await.unwrap();
    let sent = coordinator.test_webhook(admin, &name("ops")).await.unwrap();
    let unknown = coordinator.test_webhook(admin, &name("nobody")).await;
    let viewer =
        coordinator::Principal { grant: domain::TokenScope::Viewer { products: BTreeSet::new() }, ..admin.clone() };

    assert_eq!((failed.delivered, failed.error.as_deref()), (false, Some("connection refused")));
    assert_eq!((sent.delivered, receiver.events()), (true, vec!["test".to_owned()]));
    assert!(matches!(unknown, Err(coordinator::Error::NoSuchWebhook(_))));
    assert!(coordinator.webhooks(&viewer).is_err());
    assert!(coordinator.test_webhook(&viewer, &name("ops")).await.is_err());
    assert_eq!(coordinator.webhooks(admin).unwrap().items[0].failures, 0);
}
