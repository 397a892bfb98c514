//! Jobs and factories, one line each.

use domain::{clean_line, dollars};
use protocol::{BudgetView, FactoryView, JobView};

/// The longest part of a line that people or agents wrote.
const PART_CHARS_MAX: usize = 300;

/// Id, stage, title and what the job waits for or ended with.
pub(super) fn job_line(job: &JobView) -> String {
    let mut line = format!("{}  {}  {}", job.id, job.stage, short(&job.title));
    if let Some(reason) = reason(job) {
        line.push_str(&format!("  ({})", short(&reason)));
    }
    line
}

/// What a job waits for, asks, or ended with.
fn reason(job: &JobView) -> Option<String> {
    if let Some(question) = &job.question {
        return Some(format!("asks: {question}"));
    }
    if let Some(failure) = &job.merge_failure {
        return Some(failure.to_string());
    }
    if let Some(dependency) = job.failed_dependency {
        return Some(format!("dependency {dependency} failed"));
    }
    let waiting = job.waiting.as_ref().map(|waiting| waiting.text.clone());
    match (job.reason, job.message.clone().or(waiting)) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (Some(reason), None) => Some(reason.to_string()),
        (None, message) => message,
    }
}

/// Name, presence, seats, repositories and capabilities.
pub(super) fn factory_line(factory: &FactoryView) -> String {
    let state = match (serde_json::to_value(factory.presence), factory.draining) {
        (Ok(presence), false) => presence.as_str().unwrap_or_default().to_owned(),
        (Ok(presence), true) => format!("{}, draining", presence.as_str().unwrap_or_default()),
        (Err(_), _) => String::new(),
    };
    let list = |names: Vec<String>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let repos = list(factory.repos.iter().map(ToString::to_string).collect());
    let capabilities = list(factory.capabilities.iter().map(ToString::to_string).collect());
    let (used, all) = (factory.seats.len(), factory.seat_limit);
    format!("{}  {state}  {used} of {all} seats used  repositories: {repos}  capabilities: {capabilities}", factory.id)
}

/// Name, what was spent, what is left, and why nothing starts.
pub(super) fn budget_line(budget: &BudgetView) -> String {
    let id = &budget.product_id;
    let mut line = format!("{id}  spent {} ", dollars(budget.spent_usd));
    match (budget.ceiling_usd, budget.left_usd) {
        (Some(ceiling), Some(left)) => {
            let (ceiling, per, left) = (dollars(ceiling), budget.period.per(), dollars(left));
            line.push_str(&format!("of {ceiling} {per}, {left} left"));
        }
        _ => line.push_str(&format!("{}, no ceiling", budget.period.per())),
    }
    if budget.paused {
        let reason = budget.pause.as_ref().and_then(|pause| pause.reason.as_deref());
        line.push_str(&format!("  paused{}", reason.map_or_else(String::new, |reason| format!(": {}", short(reason)))));
    }
    if let Some(waiting) = &budget.waiting {
        line.push_str(&format!("  {}", waiting.text(id)));
    }
    line
}

/// Lines, or what stands for none.
pub(super) fn lines(lines: impl IntoIterator<Item = String>, none: &str, next: Option<&str>) -> String {
    let mut lines: Vec<String> = lines.into_iter().collect();
    if lines.is_empty() {
        lines.push(none.to_owned());
    }
    if let Some(next) = next {
        lines.push(format!("more: next = {next}"));
    }
    lines.join("\n")
}

fn short(text: &str) -> String {
    let text = clean_line(text);
    match text.char_indices().nth(PART_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
