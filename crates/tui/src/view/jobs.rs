//! The page of jobs.

use domain::StageName;
use protocol::JobView;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::table::{self, Align, Cell, Column, Row, Width};
use super::{Emptiness, draw_emptiness};
use crate::look::{Tint, stage_tint, stage_word};
use crate::model::{LinkState, Model};
use crate::times::{running, since};

const COLUMNS: [Column; 9] = [
    Column { title: "", width: Width::Fit(1), priority: 0, align: Align::Left },
    Column { title: "title", width: Width::Flex(20, 3), priority: 0, align: Align::Left },
    Column { title: "stage", width: Width::Fit(11), priority: 6, align: Align::Left },
    Column { title: "where", width: Width::Fit(12), priority: 4, align: Align::Left },
    Column { title: "repo", width: Width::Fit(14), priority: 8, align: Align::Left },
    Column { title: "prio", width: Width::Fit(8), priority: 7, align: Align::Left },
    Column { title: "since", width: Width::Fit(6), priority: 2, align: Align::Right },
    Column { title: "$", width: Width::Fit(7), priority: 5, align: Align::Right },
    Column { title: "why / doing", width: Width::Flex(18, 4), priority: 1, align: Align::Left },
];

pub(super) fn draw(model: &Model, area: Rect, screen: &mut Buffer) {
    let jobs = model.jobs.rows();
    let rows: Vec<Row> = jobs.iter().map(|job| row(model, job)).collect();
    table::draw(model.look, &COLUMNS, &rows, Some(model.jobs.cursor), area, screen);
    if rows.is_empty() {
        let filter = model.jobs.typed.as_ref().unwrap_or(&model.jobs.filter);
        let text = match filter.is_empty() {
            _ if model.jobs.next.is_some() => "searching older jobs …".to_owned(),
            true => "No jobs yet. Submit one: `giga submit job.md`".to_owned(),
            false => format!("No job matches `{}`. Esc clears the filter.", filter.text()),
        };
        let emptiness = Emptiness { is_loaded: model.jobs.is_loaded, error: model.jobs.error.as_deref(), text };
        draw_emptiness(model, &emptiness, Rect { y: area.y + 1, height: area.height - 1, ..area }, screen);
    }
}

fn row(model: &Model, job: &JobView) -> Row {
    let look = model.look;
    let style = |tint| look.style(tint);
    // A job that no longer fits the filter stays until the list is read again.
    let fits = model.jobs.filter.admits(job);
    let plain = style(if fits { Tint::Plain } else { Tint::Faint });
    let stage = style(if fits { stage_tint(job.stage) } else { Tint::Faint });
    let holder = job.holder_factory_id.as_ref().or(job.target_factory_id.as_ref());
    let place = holder.map_or(String::new(), ToString::to_string);
    let why = why(model, job);
    let why_tint = if job.question.is_some() || job.merge_failure.is_some() { Tint::Warn } else { Tint::Faint };
    let priority = if job.priority == domain::Priority::Normal { "" } else { job.priority.name() };
    Row {
        cells: vec![
            Cell::new(look.stage_glyph(job.stage).to_string(), stage),
            Cell::new(&job.title, plain),
            Cell::new(stage_word(job), stage),
            Cell::new(place, plain),
            Cell::new(job.repo.as_ref().map_or("", domain::RepoName::as_str), style(Tint::Faint)),
            Cell::new(priority, plain),
            Cell::new(age(model, job), style(Tint::Faint)),
            Cell::new(cost(model, job).map_or_else(String::new, domain::dollars), plain),
            Cell::new(why, style(why_tint)),
        ],
        is_marked: model.jobs.marks.contains(&job.id),
    }
}

/// How long it runs, or since when it has been like this.
pub(super) fn age(model: &Model, job: &JobView) -> String {
    match job.run.as_ref().map(|run| run.started_at.unwrap_or(run.granted_at)) {
        // The data is of an earlier time: an age would be invented.
        Some(began) if model.link_state() == LinkState::Down => since(model.now, began),
        Some(began) => running(model.now.since(began)),
        None => since(model.now, job.updated_at),
    }
}

/// The cost so far, of ended runs and of the one in progress.
pub(super) fn cost(model: &Model, job: &JobView) -> Option<f64> {
    let current = model.progress.get(&job.id).and_then(|progress| progress.cost_usd);
    match (job.spent.cost_usd, current) {
        (None, None) => None,
        (spent, current) => Some(spent.unwrap_or(0.0) + current.unwrap_or(0.0)),
    }
}

/// What it does, or why it is where it is.
pub(super) fn why(model: &Model, job: &JobView) -> String {
    if let Some(doing) = model.progress.get(&job.id).and_then(|progress| progress.doing.clone()) {
        return doing;
    }
    // The stage may have no column: its meaning is never missing.
    Some(reason(job)).filter(|reason| !reason.is_empty()).unwrap_or_else(|| meaning(job).to_owned())
}

/// What a stage means, for a job without a reason.
fn meaning(job: &JobView) -> &'static str {
    match job.stage {
        StageName::Queued => "waits for a seat",
        StageName::Blocked => "waits for other jobs",
        StageName::Assigned => "about to start",
        StageName::Building => "agent at work",
        StageName::Review => "waits for review",
        StageName::Testing => "ready to ship",
        StageName::Shipped if job.repo.is_none() => "done",
        StageName::Shipped => "merged",
        StageName::Failed | StageName::DeadLetter => stage_word(job),
    }
}

/// The reason for a job's stage; empty if there is none. As `giga jobs` shows it.
pub(super) fn reason(job: &JobView) -> String {
    let message = job.message.as_deref().unwrap_or_default();
    if let Some(question) = &job.question {
        return format!("asks: {question}");
    }
    if let Some(failure) = &job.merge_failure {
        return failure.to_string();
    }
    if let Some(review) = job.review.as_ref().filter(|_| job.stage == StageName::Review) {
        return format!("waits for review, {}", review.progress());
    }
    if let Some(dependency) = job.failed_dependency {
        return format!("dependency {} failed", dependency.short());
    }
    if let Some(waiting) = &job.waiting
        && (waiting.unplaceable || waiting.retry_at.is_some() || message.is_empty())
    {
        return waiting.text.clone();
    }
    match (job.stage, job.reason) {
        (StageName::Testing, _) if message.is_empty() && job.errand == Some(domain::ErrandKind::Ship) => {
            "merging".to_owned()
        }
        (StageName::Testing, _) if message.is_empty() => "ready to ship".to_owned(),
        (StageName::Failed, Some(domain::FailureReason::Cancelled)) | (_, None) => message.to_owned(),
        (_, Some(reason)) if message.is_empty() => reason.to_string(),
        (_, Some(reason)) => format!("{reason}: {message}"),
    }
}
