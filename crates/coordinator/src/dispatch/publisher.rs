//! Publishing: bounded, concurrent and with a time limit per message. Neither a submit nor the dispatcher waits for the
//! broker.
//!
//! A message that the broker did not accept is remembered until its offer ends: the offer is then withdrawn, and the job
//! does not pay for the broker's outage [I4].

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    BrokerError, Dispatch, FailureReason, Job, JobFilter, JobId, Message, MessageId, PublishOutcome, Stage, StageName,
};
use foldhash::{HashMap, HashSet};
use futures_util::future::{self, BoxFuture, Either};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, error, info, warn};

use crate::coordinator::Coordinator;
use crate::dispatch::{Publish, message};

/// Messages that are published at once.
const AT_ONCE_MAX: usize = 64;

/// Messages that wait to be published. Beyond it a message counts as not published.
const WAITING_MAX: usize = 10_000;

/// How long the broker may take to accept a message.
const PUBLISH_WITHIN: Duration = Duration::from_secs(2);

/// Dead letters that are compared with the broker at the start, and that wait to be mirrored.
const MIRRORED_MAX: u16 = 1_000;

/// Messages on their way to the broker.
#[derive(Default)]
pub(crate) struct Publisher {
    queue: Mutex<PublishQueue>,
    queued: Notify,
    /// Offers that the broker did not accept, until they end.
    failed: Mutex<HashSet<MessageId>>,
    /// Dead letters that the broker did not accept: the sweep retries.
    unmirrored: Mutex<HashMap<JobId, (Message, FailureReason)>>,
}

#[derive(Default)]
struct PublishQueue {
    waiting: VecDeque<Publication>,
    in_flight: usize,
}

/// One message and the request that publishes it.
struct Publication {
    what: Outbound,
    request: BoxFuture<'static, Result<PublishOutcome, BrokerError>>,
}

/// What is published.
enum Outbound {
    Offer { message: Message, time: Publish, label: String },
    Shadow { message: Message },
    DeadLetter { message: Message, reason: FailureReason },
}

impl Publisher {
    /// Whether nothing is on its way, so that a message overtakes no other.
    fn is_idle(&self) -> bool {
        let queue = self.queue.lock();
        queue.waiting.is_empty() && queue.in_flight == 0
    }

    /// Queues a publication; returns what it is about when the queue is full.
    fn enqueue(&self, publication: Publication) -> Option<Outbound> {
        let mut queue = self.queue.lock();
        if queue.waiting.len() >= WAITING_MAX {
            return Some(publication.what);
        }
        queue.waiting.push_back(publication);
        drop(queue);
        self.queued.notify_one();
        None
    }

    fn next(&self) -> Option<Publication> {
        let mut queue = self.queue.lock();
        let next = queue.waiting.pop_front()?;
        queue.in_flight += 1;
        Some(next)
    }

    fn finished(&self) {
        self.queue.lock().in_flight -= 1;
    }

    /// Whether the broker did not accept the message of an open offer.
    pub(crate) fn has_failed(&self, message: MessageId) -> bool {
        self.failed.lock().contains(&message)
    }

    /// An offer ended.
    pub(crate) fn forget(&self, message: MessageId) {
        self.failed.lock().remove(&message);
    }
}

impl Coordinator {
    /// Publishes an offer to the broker, without waiting for it. If that fails, the accept deadline withdraws the offer
    /// (protocol 4).
    pub(crate) fn publish(&self, job: &Job, time: Publish) {
        let Some(dispatch) = job.dispatch() else { return };
        self.send(Outbound::Offer { message: message(job, dispatch), time, label: job.label().to_string() });
    }

    /// Publishes a dead-lettered job to the broker's own channel too, for consumers that watch the broker.
    pub(crate) fn mirror_dead_letter(&self, job: &Job, reason: FailureReason) {
        // A message needs a target: the factory that the job ended on.
        let Some(target) = job.avoid().cloned() else { return };
        let last = Dispatch { seq: job.dispatch_seq(), target, accept_by: job.updated_at(), score: 0.0 };
        self.send(Outbound::DeadLetter { message: message(job, &last), reason });
    }

    /// Publishes a shadow message: it is compared, and never an offer.
    pub(crate) fn publish_shadow(&self, message: Message) {
        self.send(Outbound::Shadow { message });
    }

    fn send(&self, what: Outbound) {
        let mut request = self.request_for(&what);
        // An embedded broker answers at once.
        let answered = if self.publisher.is_idle() { (&mut request).now_or_never() } else { None };
        match answered {
            Some(outcome) => self.note_published(what, outcome),
            None => {
                if let Some(what) = self.publisher.enqueue(Publication { what, request }) {
                    let why = format!("{WAITING_MAX} messages already wait for it");
                    self.note_published(what, Err(BrokerError::Unavailable(why)));
                }
            }
        }
    }

    fn request_for(&self, what: &Outbound) -> BoxFuture<'static, Result<PublishOutcome, BrokerError>> {
        let (broker, clock) = (Arc::clone(&self.ports.broker), Arc::clone(&self.ports.clock));
        let mirrored_for = match what {
            Outbound::Offer { .. } | Outbound::Shadow { .. } => None,
            Outbound::DeadLetter { reason, .. } => Some(*reason),
        };
        let (Outbound::Offer { message, .. } | Outbound::Shadow { message } | Outbound::DeadLetter { message, .. }) =
            what;
        let message = message.clone();
        Box::pin(async move {
            let publishing = async {
                match mirrored_for {
                    None => broker.publish(message).await,
                    Some(reason) => {
                        broker.mirror_dead_letter(message, reason.name()).await.map(|()| PublishOutcome::Accepted)
                    }
                }
            };
            // Tokio's own `select!` may pause a caller that has published many messages.
            match future::select(pin!(publishing), clock.sleep(PUBLISH_WITHIN)).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(_) => Err(BrokerError::Unavailable(format!("no answer within {PUBLISH_WITHIN:?}"))),
            }
        })
    }

    fn note_published(&self, what: Outbound, outcome: Result<PublishOutcome, BrokerError>) {
        match what {
            Outbound::Offer { message, time, label } => self.note_offer_published(&message, time, &label, outcome),
            Outbound::Shadow { message } => match outcome {
                Ok(PublishOutcome::Accepted) => {}
                Ok(PublishOutcome::Duplicate) => self.note_shadow_published(&message, None),
                Err(error) => self.note_shadow_published(&message, Some(error.to_string())),
            },
            Outbound::DeadLetter { message, reason } => {
                if let Err(error) = outcome {
                    warn!(job.id = %message.job_id, %error, "Could not mirror a dead letter, the sweep retries");
                    let mut unmirrored = self.publisher.unmirrored.lock();
                    if unmirrored.len() < usize::from(MIRRORED_MAX) {
                        unmirrored.insert(message.job_id, (message, reason));
                    }
                }
            }
        }
    }

    fn note_offer_published(
        &self,
        message: &Message,
        time: Publish,
        label: &str,
        outcome: Result<PublishOutcome, BrokerError>,
    ) {
        let (id, seq, target) = (message.job_id, message.dispatch_seq, &message.target_factory_id);
        match outcome {
            Ok(PublishOutcome::Accepted) => {
                info!(job.id = %id, dispatch.seq = %seq, factory.id = %target, "Dispatched job {label} to factory `{target}`");
            }
            Ok(PublishOutcome::Duplicate) if time == Publish::Again => {
                debug!(job.id = %id, dispatch.seq = %seq, "The broker already has dispatch {seq} of job {label}");
            }
            Ok(PublishOutcome::Duplicate) => {
                self.counters.duplicate_dispatch(id, self.now());
                error!(job.id = %id, dispatch.seq = %seq, "The broker rejected new dispatch {seq} of job {label} as a duplicate");
            }
            Err(error) => {
                warn!(job.id = %id, %error, "Could not publish dispatch {seq} of job {label}, its deadline withdraws it");
                let mut failed = self.publisher.failed.lock();
                // The offer may have ended meanwhile. Under the lock, so that `forget` comes after this.
                if self.state.lock().is_offered(message.id()) {
                    failed.insert(message.id());
                }
            }
        }
    }

    /// Publishes what waits until the coordinator stops.
    pub(crate) async fn run_publisher(&self) {
        let publishing = async {
            let mut in_flight = FuturesUnordered::new();
            loop {
                while in_flight.len() < AT_ONCE_MAX
                    && let Some(Publication { what, request }) = self.publisher.next()
                {
                    in_flight.push(async move { (what, request.await) });
                }
                tokio::select! {
                    Some((what, outcome)) = in_flight.next() => {
                        self.publisher.finished();
                        self.note_published(what, outcome);
                    }
                    () = self.publisher.queued.notified(), if in_flight.len() < AT_ONCE_MAX => {}
                }
            }
        };
        self.stopping.run_until_cancelled(publishing).await;
    }

    /// Mirrors the dead letters again that the broker did not accept. No store operation.
    pub(crate) fn mirror_again(&self) {
        let unmirrored = std::mem::take(&mut *self.publisher.unmirrored.lock());
        for (message, reason) in unmirrored.into_values() {
            self.send(Outbound::DeadLetter { message, reason });
        }
    }

    /// Mirrors the newest dead letters that the broker lacks: the last process may have ended before it mirrored them,
    /// and an embedded broker has lost them.
    pub(crate) async fn repair_mirror(&self) {
        let dead = JobFilter { stages: vec![StageName::DeadLetter], ..JobFilter::default() };
        let mut dead = match self.ports.history.jobs(&dead, None, MIRRORED_MAX).await {
            Ok(page) => page.items,
            Err(error) => {
                warn!(%error, "Could not read the dead letters, none is mirrored again");
                return;
            }
        };
        dead.retain(|letter| !letter.job.is_dismissed());
        if dead.is_empty() {
            return;
        }
        let asked = tokio::select! {
            biased;
            asked = self.ports.broker.dead_letters(MIRRORED_MAX) => asked,
            () = self.ports.clock.sleep(PUBLISH_WITHIN) => Err(BrokerError::Unavailable("no answer".to_owned())),
        };
        // What the broker does not tell is mirrored again: a copy more is harmless.
        let mirrored: HashSet<JobId> =
            asked.unwrap_or_default().into_iter().map(|(message, _)| message.job_id).collect();
        // Oldest first, as they were.
        for letter in dead.iter().rev().filter(|letter| !mirrored.contains(&letter.job.id())) {
            if let Stage::DeadLetter { reason } = letter.job.stage() {
                self.mirror_dead_letter(&letter.job, *reason);
            }
        }
    }
}
