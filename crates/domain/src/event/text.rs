//! One sentence per event: every surface shows this text and has no wording of its own.

use serde_json::Value;

use super::{Actor, EventKind};
use crate::ids::JobId;
use crate::names::dollars;
use crate::stage::StageName;

/// A message within a sentence: more is in the event's data.
const MESSAGE_CHARS_MAX: usize = 300;

/// Renders an event as a sentence.
pub(crate) fn sentence(kind: EventKind, stage: StageName, by: &Actor, data: &Value) -> String {
    let data = Data(data);
    let actor = actor(by);
    match kind {
        EventKind::Submitted => submitted(stage, &data),
        EventKind::Unblocked if data.has("answer") => format!("question answered by {actor}"),
        EventKind::Unblocked if data.has("subtasks") => "subtasks have ended, queued".to_owned(),
        EventKind::Unblocked => "dependencies met, queued".to_owned(),
        EventKind::ChildrenAdded if data.has("subtaskId") => {
            data.with_message(format!("subtask {} created by the agent{}", data.short_id("subtaskId"), on(by)))
        }
        EventKind::SubtasksAwaited => {
            format!("the agent waits for {}, seat released", data.counted("count", "subtask"))
        }
        EventKind::ChildrenAdded => format!("{} added by {actor}", data.counted("count", "child job")),
        EventKind::Dispatched if data.has("preempted") => {
            let (factory, victim) = (data.text("targetFactoryId"), data.short_id("preempted"));
            format!("offered to {factory}, on the seat that job {victim} gave up")
        }
        EventKind::Dispatched => format!("offered to {}", data.text("targetFactoryId")),
        EventKind::DispatchExpired if data.has("message") => {
            data.with_message(format!("offer to {} withdrawn", data.text("targetFactoryId")))
        }
        EventKind::DispatchExpired => format!("offer to {} expired without an answer", data.text("targetFactoryId")),
        EventKind::DispatchDeclined => {
            data.with_message(format!("{} declined the offer", data.text("targetFactoryId")))
        }
        EventKind::Granted if data.has("factoryId") => {
            format!("lease granted to {} (run {})", data.text("factoryId"), data.text("run"))
        }
        EventKind::Granted => "lease granted".to_owned(),
        EventKind::Started if data.has("engine") => format!("engine {} started{}", data.text("engine"), on(by)),
        EventKind::Started => "engine started".to_owned(),
        EventKind::Checkpointed => format!("checkpoint saved at commit {}", data.commit("sha")),
        EventKind::Completed => completed(&data),
        EventKind::Promoted => match data.0.pointer("/pullRequest/url").and_then(Value::as_str) {
            Some(url) => format!("pull request updated: {url}"),
            None => format!("job branch updated to commit {}", data.commit("sha")),
        },
        EventKind::ErrandGranted => format!("{} assigned to {}", data.errand(), data.text("factoryId")),
        EventKind::ErrandFailed => data.with_message(format!("{} failed{}", data.errand(), on(by))),
        EventKind::ErrandPutOff => data.with_message(format!("{} postponed", data.errand())),
        EventKind::ShipRequested => format!("{actor} requested ship"),
        EventKind::Shipped if data.has("children") => format!("{} shipped", data.counted("children", "child job")),
        EventKind::Shipped => data.with_message("merged".to_owned()),
        EventKind::Released => data.with_message(format!("released by {actor}, requeued")),
        EventKind::Reaped => format!("lease expired: no heartbeat from {}, requeued", data.text("factoryId")),
        EventKind::PreemptionRequested => format!(
            "{} asked to save the work and to release the seat for critical job {} until {}",
            data.text("factoryId"),
            data.short_id("forJobId"),
            data.text("until")
        ),
        EventKind::Preempted if data.has("forJobId") => preempted(&data),
        EventKind::Preempted => format!("preempted on {} by a more urgent job, requeued", data.text("factoryId")),
        EventKind::AttemptFailed => {
            let attempt = data.text("attempts");
            data.with_message(format!("attempt {attempt} failed{} ({}), requeued", on(by), data.text("reason")))
        }
        EventKind::Failed => data.with_message(format!("failed ({})", data.text("reason"))),
        EventKind::DeadLettered => data.with_message(dead_lettered(&data)),
        EventKind::Requeued if data.is("fresh") => {
            data.with_message(format!("requeued by {actor} from the base branch, earlier work discarded"))
        }
        EventKind::Requeued => data.with_message(format!("requeued by {actor}")),
        EventKind::Cancelled => data.with_message(format!("cancelled by {actor}")),
        EventKind::Voted => data.with_message(voted(&data)),
        EventKind::ReviewRequested => {
            data.with_message(format!("{actor} requested a review: {}", approvals_wanted(&data)))
        }
        EventKind::Reminded if data.has("question") => {
            format!("reminder: the question is unanswered since {}", data.text("since"))
        }
        EventKind::Reminded => {
            let (approvals, quorum) = (data.text("approvals"), data.text("quorum"));
            format!("reminder: waits for review since {}, {approvals} of {quorum} approvals", data.text("since"))
        }
        EventKind::Approved => "approved by its reviewers".to_owned(),
        EventKind::ChangesRequested => data.with_message("changes requested, requeued".to_owned()),
        EventKind::Escalated => {
            data.with_message(format!("stopped after {} rounds, needs a maintainer", data.text("rounds")))
        }
        EventKind::Rejected => data.with_message(format!("rejected by {actor}")),
        EventKind::Asked => format!("question: {}", shortened(&data.text("question"))),
        EventKind::QuotaHit => quota_hit(&data),
        EventKind::Paused => data.with_message(format!("paused by {actor}")),
        EventKind::Resumed => format!("resumed by {actor}"),
        EventKind::PriorityChanged => format!("priority set to {} by {actor}", data.text("priority")),
        EventKind::Pinned if data.has("factoryId") => format!("pinned to {} by {actor}", data.text("factoryId")),
        EventKind::Pinned => format!("pin removed by {actor}"),
        EventKind::DependencyFailed => data.with_message("a dependency failed".to_owned()),
        EventKind::DependencyRecovered => "the failed dependency was requeued, waiting for it again".to_owned(),
        EventKind::Dismissed => data.with_message(format!("dismissed by {actor}")),
        EventKind::UsageReported => usage_reported(&data),
        EventKind::ArtifactAttached => {
            format!("artifact {} attached ({})", shortened(&data.text("name")), data.size("bytes"))
        }
        EventKind::ArtifactsRemoved => artifacts_removed(&data, &actor),
        EventKind::Restored => "store restored from a backup, earlier leases and offers revoked".to_owned(),
    }
}

fn artifacts_removed(data: &Data<'_>, actor: &str) -> String {
    let names = data.0.get("names").and_then(Value::as_array);
    let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
    match (data.is("expired"), names.as_slice()) {
        (true, [one]) if data.text("count") == "1" => {
            format!("artifact {} removed after the retention time", shortened(one))
        }
        (true, _) => format!("{} removed after the retention time", data.counted("count", "artifact")),
        (false, names) => format!("artifact {} removed by {actor}", shortened(&names.join(", "))),
    }
}

fn voted(data: &Data<'_>) -> String {
    let person = data.text("person");
    let place = if data.is("onForge") { " on the forge" } else { "" };
    match data.text("decision").as_str() {
        "approve" => {
            format!("approved by {person}{place} ({} of {})", data.text("approvals"), data.text("quorum"))
        }
        "changes" => format!("changes requested by {person}{place}"),
        _ => format!("rejected by {person}{place}"),
    }
}

fn approvals_wanted(data: &Data<'_>) -> String {
    let wanted = match data.text("quorum").as_str() {
        "1" => "1 approval".to_owned(),
        quorum => format!("{quorum} approvals"),
    };
    let names = data.0.get("reviewers").and_then(Value::as_array);
    let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { wanted } else { format!("{wanted} by {}", names.join(", ")) }
}

fn usage_reported(data: &Data<'_>) -> String {
    // A report during the run has its sums so far; a later one what it adds to the ledger.
    let (during, later) = (data.0.get("insights"), data.0.get("usage"));
    let cost = during.or(later).and_then(|usage| usage.get("costUsd")).and_then(Value::as_f64);
    let cost = cost.map_or_else(|| "an unknown amount".to_owned(), dollars);
    let run = data.0.get("run").or_else(|| later?.get("run")).map_or_else(|| "unknown".to_owned(), Value::to_string);
    match later.and_then(|usage| usage.get("id")).and_then(Value::as_str) {
        Some(id) => format!("run {run} has cost {cost} for {}", shortened(id)),
        None => format!("run {run} has cost {cost}"),
    }
}

fn submitted(stage: StageName, data: &Data<'_>) -> String {
    let with = match data.has("profile") {
        true => format!(" with profile {}", data.text("profile")),
        false => String::new(),
    };
    let waits = match stage {
        _ if data.has("waitsFor") => ", waiting for its children",
        StageName::Blocked => ", waiting for its dependencies",
        _ => "",
    };
    format!("submitted{with}{waits}")
}

fn completed(data: &Data<'_>) -> String {
    let result = if data.is("verified") { "completed and verified" } else { "completed, not verified" };
    if data.has("sha") { format!("{result}, commit {}", data.commit("sha")) } else { result.to_owned() }
}

fn dead_lettered(data: &Data<'_>) -> String {
    let counted = |key: &str, one: &str, many: &str| match data.0.get(key).and_then(Value::as_u64) {
        Some(1) => Some(format!("dead-lettered after 1 {one}")),
        Some(count) if count > 1 => Some(format!("dead-lettered after {count} {many}")),
        _ => None,
    };
    let counts = counted("lostLeases", "lost lease", "lost leases")
        .or_else(|| counted("unaccepted", "offer that no factory accepted", "offers that no factory accepted"))
        .or_else(|| counted("attempts", "attempt", "attempts"))
        .unwrap_or_else(|| "dead-lettered".to_owned());
    if data.has("reason") { format!("{counts} ({})", data.text("reason")) } else { counts }
}

fn preempted(data: &Data<'_>) -> String {
    let sentence =
        format!("preempted on {} for critical job {}, requeued", data.text("factoryId"), data.short_id("forJobId"));
    if data.is("revoked") { format!("{sentence}: not released in time, lease revoked") } else { sentence }
}

fn quota_hit(data: &Data<'_>) -> String {
    let limit = format!("usage limit of {} reached, requeued", data.text("engine"));
    if data.has("until") { format!("{limit}; resets at {}", data.text("until")) } else { limit }
}

fn actor(by: &Actor) -> String {
    match by {
        Actor::Person(name) => name.clone(),
        Actor::Factory(factory) => factory.to_string(),
        Actor::Coordinator => "the coordinator".to_owned(),
    }
}

/// Where it happened, if a factory reported it.
fn on(by: &Actor) -> String {
    match by {
        Actor::Factory(factory) => format!(" on {factory}"),
        Actor::Person(_) | Actor::Coordinator => String::new(),
    }
}

/// The particulars of an event.
struct Data<'d>(&'d Value);

impl Data<'_> {
    /// The short form of a job's id.
    fn short_id(&self, key: &str) -> String {
        let id = self.text(key);
        id.parse::<JobId>().map_or(id, |id| id.short().to_string())
    }

    fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| !value.is_null())
    }

    fn is(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool) == Some(true)
    }

    fn text(&self, key: &str) -> String {
        match self.0.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => "unknown".to_owned(),
            Some(value) => value.to_string(),
        }
    }

    fn counted(&self, key: &str, what: &str) -> String {
        let count = self.0.get(key).and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
        crate::names::counted(count.unwrap_or_default(), what)
    }

    fn size(&self, key: &str) -> String {
        crate::artifact::byte_size(self.0.get(key).and_then(Value::as_u64).unwrap_or_default())
    }

    fn commit(&self, key: &str) -> String {
        self.text(key).chars().take(10).collect()
    }

    /// What a factory was assigned besides running the job.
    fn errand(&self) -> &'static str {
        match self.0.get("errand").and_then(Value::as_str) {
            Some("promote") => "promotion",
            _ => "merge",
        }
    }

    fn with_message(&self, sentence: String) -> String {
        match self.0.get("message").and_then(Value::as_str).filter(|message| !message.trim().is_empty()) {
            Some(message) => format!("{sentence}: {}", shortened(message)),
            None => sentence,
        }
    }
}

/// The first line, within bounds.
fn shortened(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let cut: String = first.chars().take(MESSAGE_CHARS_MAX).collect();
    if cut.len() < first.len() || lines.next().is_some() { format!("{cut} …") } else { cut }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn on_west(kind: EventKind, stage: StageName, data: &Value) -> String {
        sentence(kind, stage, &Actor::Factory("west".parse().unwrap()), data)
    }

    #[test]
    fn each_event_reads_as_a_sentence() {
        let admin = Actor::Person("admin".to_owned());
        let failed = json!({ "reason": "verify_failed", "message": "`make` exited with 2\nmore", "attempts": 1 });

        let texts = [
            on_west(EventKind::Granted, StageName::Assigned, &json!({ "factoryId": "west", "run": 1 })),
            on_west(EventKind::AttemptFailed, StageName::Queued, &failed),
            on_west(EventKind::DeadLettered, StageName::DeadLetter, &json!({ "reason": "crash", "attempts": 2 })),
            on_west(EventKind::ErrandFailed, StageName::Testing, &json!({ "errand": "ship", "message": "conflict" })),
            sentence(
                EventKind::Reaped,
                StageName::Queued,
                &Actor::Coordinator,
                &json!({ "factoryId": "west", "lostLeases": 1 }),
            ),
            sentence(EventKind::ShipRequested, StageName::Testing, &admin, &Value::Null),
        ];

        assert_eq!(
            texts,
            [
                "lease granted to west (run 1)",
                "attempt 1 failed on west (verify_failed), requeued: `make` exited with 2 …",
                "dead-lettered after 2 attempts (crash)",
                "merge failed on west: conflict",
                "lease expired: no heartbeat from west, requeued",
                "admin requested ship",
            ]
        );
    }

    #[test]
    fn long_messages_are_cut() {
        let data = json!({ "message": "x".repeat(1_000) });

        let text = on_west(EventKind::Released, StageName::Queued, &data);

        assert!(text.chars().count() < 400 && text.ends_with(" …"), "{text}");
    }
}
