//! The manifest of a subtask: title and instructions are its agent's, everything else is its parent's. What runs outside
//! of the agent's sandbox, such as `verify`, is never the agent's choice.

use domain::{Budget, Job, clean_line, clean_lines};
use protocol::NewSubtask;
use serde_json::{Value, json};

/// The manifest of a subtask with this budget.
pub(super) fn manifest_of(parent: &Job, subtask: &NewSubtask, budget: &Budget) -> String {
    let spec = parent.spec();
    // JSON texts are YAML, too.
    let given = [
        ("title", Some(json!(clean_line(&subtask.title).trim()))),
        ("product", Some(json!(parent.product()))),
        ("repo", spec.repo.as_ref().map(|repo| json!(repo))),
        ("base", spec.base.as_ref().map(|base| json!(base))),
        ("profile", spec.profile.as_ref().map(|profile| json!(profile.to_string()))),
        ("capabilities", list(&spec.capabilities)),
        ("engines", list(&spec.engines)),
        ("model", spec.model.as_ref().map(|model| json!(model))),
        ("models", (!spec.models.is_empty()).then(|| json!(spec.models))),
        ("priority", Some(json!(parent.priority()))),
        ("budget", budget_of(budget)),
        ("prepare", list(&spec.prepare)),
        ("verify", list(&spec.verify)),
        ("allowEmpty", (subtask.allow_empty || spec.allow_empty).then(|| json!(true))),
        ("review", spec.review.as_ref().map(|review| json!(review))),
        ("retry", retry_of(parent)),
        ("preemptible", spec.preemptible.then(|| json!(true))),
        ("tags", list(&spec.tags)),
    ];
    let lines: Vec<String> = given.into_iter().filter_map(|(key, value)| Some(format!("{key}: {}", value?))).collect();
    format!("---\n{}\n---\n{}\n", lines.join("\n"), clean_lines(&subtask.instructions).trim())
}

fn list<T: serde::Serialize>(items: &[T]) -> Option<Value> {
    (!items.is_empty()).then(|| json!(items))
}

fn budget_of(budget: &Budget) -> Option<Value> {
    let parts = [
        ("usd", budget.usd.map(|usd| json!(usd))),
        ("wall", budget.wall_ms.map(|ms| json!(format!("{ms}ms")))),
        ("tokens", budget.tokens.map(|tokens| json!(tokens))),
    ];
    let parts: serde_json::Map<String, Value> =
        parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    (!parts.is_empty()).then_some(Value::Object(parts))
}

fn retry_of(parent: &Job) -> Option<Value> {
    let retry = &parent.spec().retry;
    let parts =
        [("max", retry.max.map(|max| json!(max))), ("backoff", retry.backoff_ms.map(|ms| json!(format!("{ms}ms"))))];
    let parts: serde_json::Map<String, Value> =
        parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    (!parts.is_empty()).then_some(Value::Object(parts))
}
