//! The page of budgets.

use domain::{RunningWork, counted, dollars};
use protocol::BudgetView;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::table::{self, Align, Cell, Column, Row, Width};
use super::{Emptiness, draw_emptiness, draw_lines, paragraph, span};
use crate::look::Tint;
use crate::model::Model;

const COLUMNS: [Column; 7] = [
    Column { title: "product", width: Width::Flex(12, 2), priority: 0, align: Align::Left },
    Column { title: "state", width: Width::Fit(15), priority: 1, align: Align::Left },
    Column { title: "spent", width: Width::Fit(11), priority: 0, align: Align::Right },
    Column { title: "ceiling", width: Width::Fit(22), priority: 2, align: Align::Left },
    Column { title: "used", width: Width::Fit(5), priority: 3, align: Align::Right },
    Column { title: "left", width: Width::Fit(11), priority: 4, align: Align::Right },
    Column { title: "per merge", width: Width::Fit(10), priority: 5, align: Align::Right },
];

/// The lines about the selected product.
const DETAIL_LEN: u16 = 9;

/// Engines that are listed.
const ENGINES_MAX: usize = 4;

pub(super) fn draw(model: &Model, area: Rect, screen: &mut Buffer) {
    let budgets = model.money.rows();
    let rows: Vec<Row> = budgets.iter().map(|budget| row(model, budget)).collect();
    let below = if rows.is_empty() { 0 } else { summary_len(model).min(area.height.saturating_sub(3)) };
    let list = Rect { height: area.height - below, ..area };
    table::draw(model.look, &COLUMNS, &rows, Some(model.money.cursor), list, screen);
    if rows.is_empty() {
        let text = match model.money.filter.is_empty() {
            true => "No product.".to_owned(),
            false => format!("No product matches `{}`. Esc clears the filter.", model.money.filter.text()),
        };
        let emptiness = Emptiness { is_loaded: model.money.is_loaded, error: model.money.error.as_deref(), text };
        draw_emptiness(model, &emptiness, Rect { y: area.y + 1, height: area.height - 1, ..area }, screen);
        return;
    }
    if let Some(budget) = model.money.selected() {
        let place = Rect { y: area.y + list.height, height: below, ..area };
        draw_lines(&summary(model, budget, area.width), 0, place, screen);
    }
}

/// The lines below the list.
pub(crate) fn summary_len(model: &Model) -> u16 {
    if model.money.selected().is_some() { DETAIL_LEN } else { 0 }
}

fn row(model: &Model, budget: &BudgetView) -> Row {
    let look = model.look;
    let plain = look.style(Tint::Plain);
    let (word, tint) = state(budget);
    let ceiling = budget.ceiling_usd.map(|usd| format!("{} {}", dollars(usd), budget.period.per()));
    let or_nothing = |usd: Option<f64>| usd.map_or_else(String::new, dollars);
    Row {
        cells: vec![
            Cell::new(budget.product_id.as_str(), plain),
            Cell::new(word, look.style(tint)),
            Cell::new(dollars(budget.spent_usd), plain),
            Cell::new(ceiling.unwrap_or_else(|| "no ceiling".to_owned()), look.style(Tint::Faint)),
            Cell::new(budget.used_percent.map_or_else(String::new, |used| format!("{used:.0}%")), plain),
            Cell::new(or_nothing(budget.left_usd), plain),
            Cell::new(or_nothing(budget.cost_per_merged_usd), plain),
        ],
        is_marked: false,
    }
}

fn state(budget: &BudgetView) -> (&'static str, Tint) {
    match (budget.paused, &budget.waiting, budget.used_percent) {
        (true, ..) => ("paused", Tint::Warn),
        (false, Some(_), _) => ("waits for money", Tint::Warn),
        (false, None, Some(used)) if used >= 80.0 => ("nearly spent", Tint::Warn),
        (false, None, _) => ("active", Tint::Plain),
    }
}

fn summary(model: &Model, budget: &BudgetView, width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    let fact = |name: &str, value: String| {
        Line::from(vec![span(format!(" {name:<10}"), look.style(Tint::Faint)), span(value, look.style(Tint::Plain))])
    };
    let mut lines = vec![Line::default()];
    lines.push(fact("rate", rate(budget)));
    if budget.running_usd > 0.0 || budget.reserved_usd > 0.0 {
        let (running, reserved) = (dollars(budget.running_usd), dollars(budget.reserved_usd));
        lines.push(fact("running", format!("{running} spent by running jobs, {reserved} more reserved")));
    }
    let runs = u32::try_from(budget.runs).unwrap_or(u32::MAX);
    let mut text = format!("{}, {} failed, {} merged", counted(runs, "run"), budget.failed_runs, budget.merged);
    if budget.runs_without_cost > 0 {
        text.push_str(&format!(", {} without a known cost", budget.runs_without_cost));
    }
    lines.push(fact("runs", text));
    let engines = budget.by_engine.iter().take(ENGINES_MAX);
    let engines: Vec<String> = engines.map(|share| format!("{} {}", share.name, dollars(share.usd))).collect();
    if !engines.is_empty() {
        lines.push(fact("engines", engines.join(", ")));
    }
    if budget.subscription_usd > 0.0 {
        lines.push(fact("covered", format!("{} by subscriptions", dollars(budget.subscription_usd))));
    }
    if let Some(why) = why_stopped(budget) {
        lines.extend(paragraph(&why, width, 3, look.style(Tint::Warn)));
    }
    lines
}

fn rate(budget: &BudgetView) -> String {
    let projection = budget.projection;
    let rate = format!("{} per hour", dollars(projection.usd_per_hour));
    match (projection.reached_at, projection.at_end_usd) {
        (Some(at), _) if budget.left_usd.is_some_and(|left| left > 0.0) => {
            format!("{rate}, ceiling reached at {}", at.to_the_minute())
        }
        (_, Some(usd)) => format!("{rate}, {} by the end of the period", dollars(usd)),
        _ => rate,
    }
}

/// Why nothing of the product starts, and what happens to running jobs.
fn why_stopped(budget: &BudgetView) -> Option<String> {
    let why = match (budget.paused, &budget.pause, &budget.waiting) {
        (true, Some(pause), _) => {
            let reason = pause.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
            format!("paused by {} since {}{reason}", pause.by, pause.at.to_the_minute())
        }
        (true, None, _) => "paused".to_owned(),
        (false, _, Some(waiting)) => waiting.text(&budget.product_id),
        (false, _, None) => return None,
    };
    let running = match budget.running {
        RunningWork::Finish => "running jobs finish",
        RunningWork::Release => "running jobs save their work and return to the queue",
        RunningWork::Stop => "running jobs are stopped and return to the queue",
    };
    Some(format!("{why}; {running}"))
}
