//! What happened to a job: append-only, numbered without gaps [J7].

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
    /// Its place among the job's events, from 1.
    pub seq: EventSeq,
    /// When, by the coordinator's clock.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// The stage that the job was in afterwards.
    pub stage: StageName,
    /// The epoch that the job was at afterwards.
    pub epoch: Epoch,
    /// Who did it.
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
    /// Its place: what a stream's cursor counts.
    pub position: Position,
    /// The event as it was written, in JSON: readers pass it on without reading it.
    pub json: std::sync::Arc<str>,
    /// The job it belongs to.
    pub job: JobId,
    /// The product it belongs to.
    pub product: ProductId,
    /// Its place among the job's events.
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
    /// The job was written down.
    Submitted,
    /// Its dependencies are met, or its question was answered.
    Unblocked,
    /// It was offered to a factory.
    Dispatched,
    /// The target did not accept the offer in time.
    DispatchExpired,
    /// The target declined the offer.
    DispatchDeclined,
    /// A factory holds it.
    Granted,
    /// The engine runs.
    Started,
    /// Work in progress was saved.
    Checkpointed,
    /// The work is done and verified.
    Completed,
    /// The pull request's branch shows the completed commit.
    Promoted,
    /// Promotion or shipping was given to a factory.
    ErrandGranted,
    /// Promotion or shipping did not work out.
    ErrandFailed,
    /// Promotion or shipping has to wait, through nobody's fault.
    ErrandPutOff,
    /// A person or a policy asked for the merge.
    ShipRequested,
    /// The completed commit is merged.
    Shipped,
    /// The holder gave it back.
    Released,
    /// The holder was not heard of in time.
    Reaped,
    /// A more urgent job took the seat.
    Preempted,
    /// An attempt failed and another follows.
    AttemptFailed,
    /// The job failed for good.
    Failed,
    /// The job is out of the running until a person sends it round again.
    DeadLettered,
    /// A person sent it round again.
    Requeued,
    /// A person stopped it.
    Cancelled,
    /// The reviewers agreed.
    Approved,
    /// Somebody asked for changes.
    ChangesRequested,
    /// Its pull request has sent it back too often: a person has to look.
    Escalated,
    /// Somebody said no.
    Rejected,
    /// The agent asked a person.
    Asked,
    /// The engine's usage window is used up.
    QuotaHit,
    /// Somebody changed how urgent it is.
    PriorityChanged,
    /// Somebody tied it to a factory, or let it go.
    Pinned,
    /// A dependency failed, and the job waits for it all the same.
    DependencyFailed,
    /// A failed dependency was requeued: the job waits for it as before.
    DependencyRecovered,
    /// A person took a dead-lettered job off the list of dead letters.
    Dismissed,
    /// The store was put back from a backup: whoever held the job or was offered it has lost it.
    Restored,
}

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "who", content = "name")]
pub enum Actor {
    /// A person or a program, by the name of its token.
    Person(String),
    /// A factory.
    Factory(FactoryId),
    /// The coordinator itself.
    Coordinator,
}
