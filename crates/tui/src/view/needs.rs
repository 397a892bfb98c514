//! The page of what needs an operator.

use protocol::{Need, NeedKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::table::{self, Align, Cell, Column, Row, Width};
use super::{Emptiness, draw_emptiness, draw_lines, paragraph, span};
use crate::look::{Tint, stage_tint};
use crate::model::Model;
use crate::times::since;

const COLUMNS: [Column; 6] = [
    Column { title: "", width: Width::Fit(1), priority: 0, align: Align::Left },
    Column { title: "what", width: Width::Fit(20), priority: 3, align: Align::Left },
    Column { title: "title", width: Width::Flex(18, 3), priority: 0, align: Align::Left },
    Column { title: "since", width: Width::Fit(6), priority: 2, align: Align::Right },
    Column { title: "$", width: Width::Fit(7), priority: 4, align: Align::Right },
    Column { title: "asks", width: Width::Flex(14, 5), priority: 1, align: Align::Left },
];

pub(super) fn draw(model: &Model, area: Rect, screen: &mut Buffer) {
    let items = model.needs.rows();
    let rows: Vec<Row> = items.iter().map(|item| row(model, item)).collect();
    table::draw(model.look, &COLUMNS, &rows, Some(model.needs.cursor), area, screen);
    if rows.is_empty() {
        let building = model.metrics.as_ref().and_then(|metrics| metrics.jobs.get("building").copied()).unwrap_or(0);
        let text = match (model.needs.filter.is_empty(), building) {
            (false, _) => format!("Nothing matches `{}`. Esc clears the filter.", model.needs.filter.text()),
            (true, 0) => "Nothing needs you.".to_owned(),
            (true, 1) => "Nothing needs you. 1 job is building.".to_owned(),
            (true, count) => format!("Nothing needs you. {count} jobs are building."),
        };
        let emptiness = Emptiness { is_loaded: model.needs.is_loaded, error: model.needs.error.as_deref(), text };
        draw_emptiness(model, &emptiness, Rect { y: area.y + 1, height: area.height - 1, ..area }, screen);
    }
}

fn row(model: &Model, item: &Need) -> Row {
    let look = model.look;
    let (glyph, style) = badge(model, item);
    Row {
        cells: vec![
            Cell::new(glyph.to_string(), style),
            Cell::new(word(item.kind), style),
            Cell::new(&item.title, look.style(Tint::Plain)),
            Cell::new(since(model.now, item.at), look.style(Tint::Faint)),
            Cell::new(item.cost_usd.map_or_else(String::new, domain::dollars), look.style(Tint::Plain)),
            Cell::new(&item.text, look.style(Tint::Faint)),
        ],
        is_marked: model.needs.marks.contains(&item.key),
    }
}

fn badge(model: &Model, item: &Need) -> (char, Style) {
    use domain::StageName;
    let look = model.look;
    let stage = |stage| (look.stage_glyph(stage), look.style(stage_tint(stage)));
    match item.kind {
        NeedKind::Question => stage(StageName::Blocked),
        NeedKind::Review => stage(StageName::Review),
        NeedKind::ReadyToShip => stage(StageName::Testing),
        NeedKind::Failed | NeedKind::MergeFailed | NeedKind::PullRequestAbandoned => stage(StageName::Failed),
        NeedKind::DeadLetter => stage(StageName::DeadLetter),
        NeedKind::Unplaceable
        | NeedKind::StaleFactory
        | NeedKind::CredentialExhausted
        | NeedKind::Budget
        | NeedKind::Alert => (look.glyph(crate::look::Glyph::Alert), look.style(Tint::Warn)),
    }
}

fn word(kind: NeedKind) -> String {
    kind.name().replace('_', " ")
}

/// The selected item; returns the lines that it takes.
pub(super) fn draw_selected(model: &Model, area: Rect, screen: &mut Buffer) -> u16 {
    let rows = model.needs.rows();
    let Some(item) = rows.get(model.needs.cursor.selected) else { return 0 };
    let look = model.look;
    let (glyph, style) = badge(model, item);
    let mut lines = vec![Line::from(vec![span(format!(" {glyph} {}", word(item.kind)), style)])];
    lines.extend(paragraph(&item.text, area.width, 3, look.style(Tint::Plain)));
    if !item.remedy.is_empty() {
        lines.extend(paragraph(&format!("→ {}", item.remedy), area.width, 3, look.style(Tint::Accent)));
    }
    if let Some(factory) = &item.factory_id {
        lines.extend(paragraph(&format!("factory {factory}"), area.width, 3, look.style(Tint::Faint)));
    }
    lines.truncate(usize::from(area.height / 2).max(4));
    lines.push(Line::default());
    draw_lines(&lines, 0, area, screen);
    u16::try_from(lines.len()).unwrap_or(area.height)
}
