//! The page of the dispatcher.

use domain::grouped;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::table::{self, Align, Cell, Column, Row, Width};
use super::{Emptiness, draw_emptiness, draw_lines, span};
use crate::look::Tint;
use crate::model::{DispatchRow, Model};
use crate::times::{clock_time, since};
use crate::update::mode_text;

const COLUMNS: [Column; 6] = [
    Column { title: "", width: Width::Fit(1), priority: 0, align: Align::Left },
    Column { title: "what", width: Width::Flex(18, 3), priority: 0, align: Align::Left },
    Column { title: "reason", width: Width::Fit(22), priority: 2, align: Align::Left },
    Column { title: "attempts", width: Width::Fit(8), priority: 4, align: Align::Right },
    Column { title: "since", width: Width::Fit(6), priority: 3, align: Align::Right },
    Column { title: "message", width: Width::Flex(14, 4), priority: 1, align: Align::Left },
];

/// Products with a mode of their own that are listed.
const MODES_MAX: usize = 6;

/// Purposes of store operations that are named, those with the most first.
const PURPOSES_SHOWN: usize = 4;

pub(super) fn draw(model: &Model, area: Rect, screen: &mut Buffer) {
    draw_lines(&summary(model), 0, area, screen);
    let used = summary_len(model).min(area.height);
    let list = Rect { y: area.y + used, height: area.height - used, ..area };
    let rows: Vec<Row> = model.dispatch.rows().into_iter().map(|row| table_row(model, row)).collect();
    table::draw(model.look, &COLUMNS, &rows, Some(model.dispatch.cursor), list, screen);
    if rows.is_empty() && list.height > 1 {
        let text = match model.dispatch.filter.is_empty() {
            true => "No dead letters, no paused credentials.".to_owned(),
            false => format!("Nothing matches `{}`. Esc clears the filter.", model.dispatch.filter.text()),
        };
        let error = model.dispatch.error.as_deref();
        let emptiness = Emptiness { is_loaded: model.dispatch.is_loaded, error, text };
        draw_emptiness(model, &emptiness, Rect { y: list.y + 1, height: list.height - 1, ..list }, screen);
    }
}

/// The lines above the list.
pub(crate) fn summary_len(model: &Model) -> u16 {
    u16::try_from(summary(model).len()).unwrap_or(u16::MAX)
}

fn summary(model: &Model) -> Vec<Line<'static>> {
    let look = model.look;
    let fact = |name: &str, value: String, tint| {
        Line::from(vec![span(format!(" {name:<15}"), look.style(Tint::Faint)), span(value, look.style(tint))])
    };
    let mut lines = Vec::new();
    match &model.dispatch.modes {
        Some(modes) => {
            lines.push(fact("mode", format!("{}: {}", modes.mode, mode_text(modes.mode)), Tint::Strong));
            for (product, mode) in modes.products.iter().take(MODES_MAX) {
                lines.push(fact("", format!("{product}: {mode}"), Tint::Plain));
            }
            if modes.products.len() > MODES_MAX {
                lines.push(fact("", format!("and {} more products", modes.products.len() - MODES_MAX), Tint::Faint));
            }
            match modes.preemption {
                Some(true) => {
                    let text = "on: a critical job without a seat takes that of a preemptible one";
                    lines.push(fact("preemption", text.to_owned(), Tint::Plain));
                }
                Some(false) => lines.push(fact("preemption", "off".to_owned(), Tint::Plain)),
                None => {}
            }
        }
        None => lines.push(fact("mode", "not read yet".to_owned(), Tint::Faint)),
    }
    if let Some(report) = model.dispatch.divergence.as_ref().filter(|report| !report.products.is_empty()) {
        let summary = &report.summary;
        let tint = if summary.verdict.safe { Tint::Good } else { Tint::Warn };
        lines.push(fact("cut over", summary.verdict.text.clone(), tint));
        let lag = summary.lag.map_or_else(String::new, |lag| format!(" · messages within {} ms", lag.p99_ms));
        let text = format!(
            "{} compared with push, {} divergent, {} missing{lag}",
            domain::counted(summary.decisions, "claim"),
            summary.divergent,
            domain::counted(summary.counts.missing, "message"),
        );
        lines.push(fact("", text, Tint::Plain));
        if let Some(last) = report.divergences.first() {
            let text = format!("last, {}: {} | push: {}", last.kind, last.poll, last.push);
            lines.push(fact("", text, Tint::Plain));
        }
    }
    if let Some(metrics) = &model.metrics {
        lines.push(fact(
            "queue",
            format!("{} waiting for a seat, {} offered and not accepted", metrics.waiting, metrics.depth),
            Tint::Plain,
        ));
        let hour = model.dispatch.utilisation.map_or_else(String::new, |hour| {
            format!(" · last hour: {} % on average, {} % at most", hour.mean, hour.most)
        });
        let percent = protocol::percent_in_use(metrics.seats_used, metrics.seats);
        let seats = format!("{} of {} in use ({percent} %){hour}", metrics.seats_used, metrics.seats);
        lines.push(fact("seats", seats, Tint::Plain));
        lines.push(fact("dispatch lag", format!("{} ms, last job", metrics.dispatch_lag_ms), Tint::Plain));
        lines.push(fact(
            "conflicts",
            format!("{} refused as fenced or superseded", grouped(metrics.conflicts)),
            Tint::Plain,
        ));
        let operations = metrics.store_operations.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        lines.push(fact("store", format!("{} operations since the start", grouped(operations)), Tint::Plain));
        let mut purposes: Vec<_> = metrics.store_use.iter().map(|(name, of)| (of.read + of.write, name)).collect();
        purposes.sort_unstable_by(|a, b| b.cmp(a));
        let most = purposes.iter().take(PURPOSES_SHOWN);
        let most: Vec<_> =
            most.map(|(count, name)| format!("{} {}", name.replace('_', " "), grouped(*count))).collect();
        if !most.is_empty() {
            lines.push(fact("", format!("most for: {}", most.join(" · ")), Tint::Plain));
        }
    }
    lines.push(Line::default());
    lines
}

fn table_row(model: &Model, row: DispatchRow<'_>) -> Row {
    let look = model.look;
    match row {
        DispatchRow::Credential(credential) => {
            let until = credential.until.map_or_else(
                || "until an operator resumes it".to_owned(),
                |at| format!("until {} UTC", clock_time(at)),
            );
            let message = credential.message.clone().unwrap_or_default();
            Row {
                cells: vec![
                    Cell::new("!", look.style(Tint::Warn)),
                    Cell::new(
                        format!("credential {} ({})", credential.credential, credential.engine),
                        look.style(Tint::Plain),
                    ),
                    Cell::new(
                        if credential.exhausted { "no credit left" } else { "usage window" },
                        look.style(Tint::Warn),
                    ),
                    Cell::new("", look.style(Tint::Plain)),
                    Cell::new(since(model.now, credential.since), look.style(Tint::Faint)),
                    Cell::new(format!("paused {until} {message}"), look.style(Tint::Faint)),
                ],
                is_marked: false,
            }
        }
        DispatchRow::DeadLetter(letter) => {
            let job = &letter.job;
            let bad = look.style(Tint::Bad);
            Row {
                cells: vec![
                    Cell::new(look.stage_glyph(job.stage).to_string(), bad),
                    Cell::new(&job.title, look.style(Tint::Plain)),
                    Cell::new(letter.reason.name(), bad),
                    Cell::new(job.attempts.to_string(), look.style(Tint::Plain)),
                    Cell::new(since(model.now, job.updated_at), look.style(Tint::Faint)),
                    Cell::new(job.message.as_deref().unwrap_or_default(), look.style(Tint::Faint)),
                ],
                is_marked: model.dispatch.marks.contains(&job.id),
            }
        }
    }
}
