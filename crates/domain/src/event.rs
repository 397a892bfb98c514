//! The event log of a job: append-only, numbered without gaps [J7].

mod text;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{Epoch, EventSeq, JobId, Position};
use crate::names::{FactoryId, ProductId};
use crate::stage::StageName;
use crate::time::Timestamp;

pub(crate) use text::sentence;

/// One thing that happened to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobEvent {
    /// The job.
    pub job_id: JobId,
    /// The job's product.
    pub product_id: ProductId,
    /// Sequence number within the job, from 1.
    pub seq: EventSeq,
    /// Time of the event by the coordinator's clock.
    pub at: Timestamp,
    /// The kind of event.
    pub kind: EventKind,
    /// The job's stage after the event.
    pub stage: StageName,
    /// The job's epoch after the event.
    pub epoch: Epoch,
    /// The actor that caused the event.
    pub by: Actor,
    /// The event as a sentence: what every surface shows. Events of earlier versions were stored without it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The particulars.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub data: serde_json::Value,
}

impl JobEvent {
    /// The event as a sentence, also of one that was stored without it.
    pub fn sentence(&self) -> String {
        if self.text.is_empty() { sentence(self.kind, self.stage, &self.by, &self.data) } else { self.text.clone() }
    }
}

/// An event with its place in the store's commit order.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// Position in the commit order, used as stream cursor.
    pub position: Position,
    /// The event as stored JSON. Readers forward it without parsing.
    pub json: std::sync::Arc<str>,
    /// The job it belongs to.
    pub job: JobId,
    /// The product it belongs to.
    pub product: ProductId,
    /// Sequence number within the job.
    pub seq: EventSeq,
}

impl StoredEvent {
    /// The event in JSON, with its sentence also where it was stored without one.
    pub fn json_with_text(&self) -> std::sync::Arc<str> {
        if self.json.contains("\"text\":\"") {
            return self.json.clone();
        }
        let Ok(mut event) = serde_json::from_str::<JobEvent>(&self.json) else { return self.json.clone() };
        event.text = event.sentence();
        serde_json::to_string(&event).map_or_else(|_| self.json.clone(), Into::into)
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The job was submitted.
    Submitted,
    /// The dependencies are met, or the question was answered.
    Unblocked,
    /// Children were added to the job.
    ChildrenAdded,
    /// The agent waits for its subtasks, without a seat.
    SubtasksAwaited,
    /// The job was offered to a factory.
    Dispatched,
    /// The factory did not accept the offer in time.
    DispatchExpired,
    /// The factory declined the offer.
    DispatchDeclined,
    /// A lease was granted.
    Granted,
    /// The engine started.
    Started,
    /// Work in progress was saved.
    Checkpointed,
    /// The work is done and verified.
    Completed,
    /// The pull request's branch shows the completed commit.
    Promoted,
    /// A promotion or merge was assigned to a factory.
    ErrandGranted,
    /// A promotion or merge failed.
    ErrandFailed,
    /// A promotion or merge was postponed. This does not count as a failure.
    ErrandPutOff,
    /// A user or a policy requested the merge.
    ShipRequested,
    /// The completed commit is merged.
    Shipped,
    /// The holder released the job.
    Released,
    /// The lease expired: no heartbeat from the holder.
    Reaped,
    /// The coordinator asked the holder to give up its seat for a critical job.
    PreemptionRequested,
    /// The seat was given up for a critical job.
    Preempted,
    /// An attempt failed and will be retried.
    AttemptFailed,
    /// The job failed and is not retried.
    Failed,
    /// The job was dead-lettered.
    DeadLettered,
    /// A user requeued the job.
    Requeued,
    /// A user cancelled the job.
    Cancelled,
    /// A reviewer voted on the completed work.
    Voted,
    /// An operator requested a review.
    ReviewRequested,
    /// A review or a question has waited for long.
    Reminded,
    /// The review quorum was reached.
    Approved,
    /// A reviewer requested changes.
    ChangesRequested,
    /// The pull request used up its feedback rounds; a maintainer has to act.
    Escalated,
    /// A reviewer rejected the work.
    Rejected,
    /// The agent asked a question.
    Asked,
    /// The engine's usage window is exhausted.
    QuotaHit,
    /// A user paused the job.
    Paused,
    /// A user ended the pause.
    Resumed,
    /// A user changed the priority.
    PriorityChanged,
    /// A user pinned the job to a factory, or removed the pin.
    Pinned,
    /// A dependency failed. The job stays blocked on it.
    DependencyFailed,
    /// A failed dependency was requeued. The job waits for it as before.
    DependencyRecovered,
    /// An operator dismissed the failure.
    Dismissed,
    /// The store was restored from a backup, which revoked the job's lease or offer.
    Restored,
    /// A factory reported what a run has cost, apart from its result.
    UsageReported,
    /// A run left a file.
    ArtifactAttached,
    /// Artifacts were removed: by an operator, or after the retention time.
    ArtifactsRemoved,
}

/// The actor that caused an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "who", content = "name")]
pub enum Actor {
    /// A user or a program, by the name of its token.
    Person(String),
    /// A factory.
    Factory(FactoryId),
    /// The coordinator itself.
    Coordinator,
}
