//! A factory's inbox: offers from the broker and directives, on one open stream with credit [D6].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Broker, BrokerError, Delivery, DispatchModes, FactoryId, InstanceId, MessageId, ProductId, Subscription, Versioned,
};
use foldhash::HashMap;
use parking_lot::Mutex;
use protocol::{Announcement, Directive, InboxEvent};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;

/// Directives queued for a factory. Further ones arrive only with the next renewal.
const DIRECTIVES_MAX: usize = 256;

/// Announcements queued for a factory. Further ones go to the next factory.
const ANNOUNCEMENTS_MAX: usize = 1_000;

/// The open inboxes.
#[derive(Default)]
pub(crate) struct Inboxes {
    open: Mutex<HashMap<FactoryId, Arc<InboxSlot>>>,
}

/// The coordinator's side of one open inbox.
struct InboxSlot {
    instance: InstanceId,
    subscription: Arc<dyn Subscription>,
    directives: mpsc::Sender<Directive>,
    announcements: mpsc::Sender<Announcement>,
    /// Offers delivered and not answered: each costs one credit, however often it was delivered.
    unanswered: Mutex<HashMap<MessageId, Vec<Delivery>>>,
    /// Deliveries whose offer has ended: the stream completes them at the broker.
    ended: Mutex<Vec<Delivery>>,
    answered: Notify,
    closed: CancellationToken,
}

/// The stream's side of one open inbox.
pub struct Inbox {
    factory: FactoryId,
    state: Arc<InboxSlot>,
    directives: mpsc::Receiver<Directive>,
    announcements: mpsc::Receiver<Announcement>,
    credit: usize,
    greeted: bool,
    modes: watch::Receiver<Versioned<DispatchModes>>,
    /// The products in the factory's scope; all when empty.
    products: BTreeSet<ProductId>,
    /// The dispatch modes that the factory received last.
    told: DispatchModes,
    coordinator: Arc<Coordinator>,
}

impl Coordinator {
    /// Opens a factory's inbox. It replaces the former one; unanswered offers of that one are delivered again.
    pub async fn inbox(
        self: &Arc<Self>,
        who: &Principal,
        factory: &FactoryId,
        instance: InstanceId,
        credit: u32,
    ) -> Result<Inbox, Error> {
        if who.factory()? != factory {
            return Err(Error::Forbidden(format!("a token of factory `{factory}` is needed")));
        }
        self.process(factory, instance)?;
        let known = self.factory(factory)?;
        if known.value.instance != instance {
            return Err(Error::NotReady(
                "another process of this factory registered later: send a heartbeat".to_owned(),
            ));
        }
        let subscription = self.ports.broker.subscribe(factory).await?;
        let (directives, receiver) = mpsc::channel(DIRECTIVES_MAX);
        let (announcements, announced) = mpsc::channel(ANNOUNCEMENTS_MAX);
        let state = Arc::new(InboxSlot {
            instance,
            subscription,
            directives,
            announcements,
            unanswered: Mutex::default(),
            ended: Mutex::default(),
            answered: Notify::new(),
            closed: CancellationToken::new(),
        });
        let former = self.inboxes.open.lock().insert(factory.clone(), Arc::clone(&state));
        if let Some(former) = former {
            former.closed.cancel();
        }
        info!(factory.id = %factory, "Factory `{factory}` opened its inbox");
        self.note_connected(factory);
        // Jobs may be announced here from now on.
        self.work.notify_one();
        Ok(Inbox {
            factory: factory.clone(),
            state,
            directives: receiver,
            announcements: announced,
            credit: credit.max(1) as usize,
            greeted: false,
            modes: self.modes.follow(),
            products: who.products(),
            told: DispatchModes::default(),
            coordinator: Arc::clone(self),
        })
    }
}

impl InboxSlot {
    /// Completes ended deliveries at the broker, so that they are not delivered again.
    async fn complete_ended(&self, factory: &FactoryId) {
        let ended = std::mem::take(&mut *self.ended.lock());
        for delivery in ended {
            match self.subscription.complete(&delivery.receipt).await {
                Ok(()) | Err(BrokerError::Expired | BrokerError::Closed) => {}
                Err(error) => {
                    let message = delivery.message.id();
                    warn!(factory.id = %factory, %error, "Could not complete message `{message}`: it may be redelivered");
                }
            }
        }
    }
}

impl Inboxes {
    /// Completes a factory's messages whose offers have ended.
    pub(crate) async fn complete_ended(&self, factory: &FactoryId) {
        let state = self.open.lock().get(factory).cloned();
        if let Some(state) = state {
            state.complete_ended(factory).await;
        }
    }

    /// An offer ended: its message is completed and its credit returned.
    pub(crate) fn settle(&self, factory: &FactoryId, message: MessageId) {
        let Some(state) = self.open.lock().get(factory).cloned() else { return };
        let Some(deliveries) = state.unanswered.lock().remove(&message) else { return };
        state.ended.lock().extend(deliveries);
        state.answered.notify_one();
    }

    /// Sends a directive to a factory, if its inbox is open. The next renewal repeats it.
    pub(crate) fn direct(&self, factory: &FactoryId, directive: Directive) {
        if let Some(state) = self.open.lock().get(factory)
            && state.directives.try_send(directive).is_err()
        {
            warn!(factory.id = %factory, "Factory `{factory}` is not reading its inbox");
        }
    }

    /// Announces a job to a factory, if its inbox is open. A lost announcement goes to the next factory.
    pub(crate) fn announce(&self, factory: &FactoryId, announcement: Announcement) {
        if let Some(state) = self.open.lock().get(factory)
            && state.announcements.try_send(announcement).is_err()
        {
            debug!(factory.id = %factory, "Factory `{factory}` is not reading its announcements");
        }
    }

    /// Ends a factory's stream.
    pub(crate) fn close(&self, factory: &FactoryId) {
        if let Some(state) = self.open.lock().remove(factory) {
            state.closed.cancel();
        }
    }

    /// Ends a factory's stream if another process than this one reads it.
    pub(crate) fn close_others(&self, factory: &FactoryId, instance: InstanceId) {
        let mut open = self.open.lock();
        if let Some(state) = open.get(factory).filter(|state| state.instance != instance) {
            state.closed.cancel();
            open.remove(factory);
        }
    }

    /// Whether a factory's inbox is open.
    pub(crate) fn is_open(&self, factory: &FactoryId) -> bool {
        self.open.lock().contains_key(factory)
    }
}

impl Inbox {
    /// The next item for the factory; `None` when the stream ends.
    pub async fn next(&mut self) -> Option<InboxEvent> {
        if !self.greeted {
            self.greeted = true;
            self.told = self.modes_now();
            return Some(InboxEvent::Hello { modes: self.told.clone() });
        }
        loop {
            self.state.complete_ended(&self.factory).await;
            let has_credit = self.state.unanswered.lock().len() < self.credit;
            tokio::select! {
                biased;
                () = self.state.closed.cancelled() => return None,
                () = self.coordinator.stopped() => return None,
                directive = self.directives.recv() => return directive.map(InboxEvent::Directive),
                Some(announcement) = self.announcements.recv() => return Some(InboxEvent::Announcement(announcement)),
                Ok(()) = self.modes.changed() => {
                    let modes = self.modes_now();
                    if modes != self.told {
                        self.told = modes.clone();
                        return Some(InboxEvent::Modes(modes));
                    }
                }
                // Runs before the next delivery, so that ended offers are completed at the broker.
                () = self.state.answered.notified() => {}
                delivery = self.state.subscription.receive(), if has_credit => match delivery {
                    Ok(delivery) => match self.deliver(delivery) {
                        Some(event) => return Some(event),
                        None => continue,
                    },
                    Err(error) => {
                        info!(factory.id = %self.factory, %error, "The inbox stream of factory `{}` ended", self.factory);
                        return None;
                    }
                },
            }
        }
    }

    /// The current dispatch modes. Intermediate changes are skipped.
    fn modes_now(&mut self) -> DispatchModes {
        self.modes.borrow_and_update().value.limited_to(&self.products).for_factories()
    }

    /// Delivers an offer, unless it has ended since it was published: the coordinator would refuse the answer. A shadow
    /// message ends here.
    fn deliver(&self, delivery: Delivery) -> Option<InboxEvent> {
        let message = delivery.message.clone();
        if message.shadow {
            self.coordinator.note_shadow_delivered(&self.factory, message.id(), Duration::ZERO);
            self.state.ended.lock().push(delivery);
            return None;
        }
        // Under the same lock as the check of the offer, so that `settle` finds an offer that ends now.
        let mut unanswered = self.state.unanswered.lock();
        if !self.coordinator.state.lock().is_offered(message.id()) {
            self.state.ended.lock().push(delivery);
            return None;
        }
        unanswered.entry(message.id()).or_default().push(delivery);
        Some(InboxEvent::Dispatch(message))
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let is_replaced = {
            let mut open = self.coordinator.inboxes.open.lock();
            let is_ours = open.get(&self.factory).is_some_and(|state| Arc::ptr_eq(state, &self.state));
            if is_ours {
                open.remove(&self.factory);
            }
            open.contains_key(&self.factory)
        };
        if !is_replaced {
            debug!(factory.id = %self.factory, instance = %self.state.instance, "Closed the inbox stream of factory `{}`", self.factory);
            self.coordinator.note_disconnected(&self.factory);
        }
    }
}

/// The number of offers that the broker holds for the factories.
pub(crate) async fn depth(broker: &dyn Broker, factories: &BTreeSet<FactoryId>) -> u64 {
    let depths = broker.depths().await.unwrap_or_default();
    factories.iter().filter_map(|factory| depths.get(factory)).sum()
}
