//! Jobs that change their stage: the event log is their queue.

use domain::{EventKind, Job, JobEvent, Scope, StoredEvent, WebhookName};
use protocol::{WebhookJob, WebhookNotice};
use sha2::{Digest, Sha256};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::maintenance::notify::record::Cursor;
use crate::maintenance::notify::{Stop, WebhookTarget, is_outdated};
use crate::submit::sanitize::short;

/// The stored position follows the reached one within this many events that are not for the webhook.
const UNSTORED_MAX: u64 = 2_000;

/// The longest text of a delivery.
const TEXT_CHARS_MAX: usize = 500;

impl Coordinator {
    /// Sends the events up to the end of the log, in order.
    pub(super) async fn send_jobs(
        &self,
        name: &WebhookName,
        target: &WebhookTarget,
        cursor: &mut Cursor,
    ) -> Result<(), Stop> {
        let scope = match target.products.is_empty() {
            true => Scope::Fleet,
            false => Scope::Products(target.products.iter().cloned().collect()),
        };
        loop {
            let end = self.log_end().await?;
            if cursor.reached >= end {
                return Ok(());
            }
            let (events, reached) = self.events_after(&scope, cursor.reached, end).await?;
            for stored in &events {
                if let Some(notice) = self.notice_of_event(name, target, stored).await? {
                    self.deliver(name, target, &notice).await?;
                    cursor.reached = stored.position;
                    let record = cursor.record.clone();
                    self.keep_cursor(name, cursor, record).await?;
                }
                cursor.reached = stored.position;
            }
            cursor.reached = cursor.reached.max(reached);
            if cursor.reached.0.saturating_sub(cursor.record.position.0) >= UNSTORED_MAX {
                let record = cursor.record.clone();
                self.keep_cursor(name, cursor, record).await?;
            }
        }
    }

    async fn notice_of_event(
        &self,
        name: &WebhookName,
        target: &WebhookTarget,
        stored: &StoredEvent,
    ) -> Result<Option<WebhookNotice>, Error> {
        let Ok(event) = serde_json::from_str::<JobEvent>(&stored.json) else { return Ok(None) };
        if !enters_stage(event.kind) || !target.wants_stage(event.stage) {
            return Ok(None);
        }
        if is_outdated(event.at, self.now()) {
            self.note_dropped(name);
            return Ok(None);
        }
        let job = match self.look_up(event.job_id).await {
            Ok(job) => job.value,
            Err(Error::NoSuchJob(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(notice_of(name, &event, &job)))
    }
}

fn notice_of(name: &WebhookName, event: &JobEvent, job: &Job) -> WebhookNotice {
    let text = format!("job {} is {}: {}", job.label(), event.stage, event.sentence());
    WebhookNotice {
        v: 1,
        id: delivery_id(name, event),
        event: format!("job.{}", event.stage),
        at: event.at,
        text: short(&text, TEXT_CHARS_MAX),
        job: Some(WebhookJob {
            id: event.job_id,
            title: job.spec().title.clone(),
            product_id: event.product_id.clone(),
            stage: event.stage,
            repo: job.spec().repo.clone(),
            pull_request: job.pull_request().cloned(),
            item: job.submission().item.clone(),
        }),
        alert: None,
    }
}

/// The same event has the same id, however often it is delivered.
fn delivery_id(name: &WebhookName, event: &JobEvent) -> String {
    let digest = Sha256::digest(format!("{name}/{}/{}", event.job_id, event.seq).as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a job is in another stage after an event of this kind, or in the same one anew.
fn enters_stage(kind: EventKind) -> bool {
    use EventKind as E;
    match kind {
        E::Submitted
        | E::Unblocked
        | E::Granted
        | E::Started
        | E::Completed
        | E::Shipped
        | E::Released
        | E::Reaped
        | E::Preempted
        | E::AttemptFailed
        | E::Failed
        | E::DeadLettered
        | E::Requeued
        | E::Cancelled
        | E::ReviewRequested
        | E::Approved
        | E::ChangesRequested
        | E::Rejected
        | E::Asked
        | E::SubtasksAwaited
        | E::QuotaHit
        | E::Restored => true,
        E::ChildrenAdded
        | E::Dispatched
        | E::DispatchExpired
        | E::DispatchDeclined
        | E::Checkpointed
        | E::Promoted
        | E::ErrandGranted
        | E::ErrandFailed
        | E::ErrandPutOff
        | E::ShipRequested
        | E::PreemptionRequested
        | E::Voted
        | E::Reminded
        | E::Escalated
        | E::Paused
        | E::Resumed
        | E::PriorityChanged
        | E::Pinned
        | E::DependencyFailed
        | E::DependencyRecovered
        | E::Dismissed
        | E::UsageReported
        | E::ArtifactAttached
        | E::ArtifactsRemoved => false,
    }
}
