//! The page of factories.

use domain::Receives;
use protocol::{FactoryView, PoolView, Presence};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::table::{self, Align, Cell, Column, Row, Width};
use super::{Emptiness, draw_emptiness, draw_lines, paragraph, span};
use crate::look::{Glyph, Tint, presence};
use crate::model::Model;
use crate::times::{clock_time, since};

const COLUMNS: [Column; 8] = [
    Column { title: "factory", width: Width::Flex(12, 2), priority: 0, align: Align::Left },
    Column { title: "state", width: Width::Fit(13), priority: 0, align: Align::Left },
    Column { title: "seats", width: Width::Fit(14), priority: 1, align: Align::Left },
    Column { title: "engines", width: Width::Flex(12, 3), priority: 3, align: Align::Left },
    Column { title: "load", width: Width::Fit(5), priority: 5, align: Align::Right },
    Column { title: "disk", width: Width::Fit(8), priority: 6, align: Align::Right },
    Column { title: "version", width: Width::Fit(10), priority: 7, align: Align::Left },
    Column { title: "jobs", width: Width::Flex(12, 4), priority: 2, align: Align::Left },
];

/// Pools that fit above the factories.
const POOLS_MAX: u16 = 4;

pub(super) fn draw(model: &Model, area: Rect, screen: &mut Buffer) {
    let area = draw_pools(model, area, screen);
    let factories = model.factories.rows();
    let rows: Vec<Row> = factories.iter().map(|factory| row(model, factory)).collect();
    table::draw(model.look, &COLUMNS, &rows, Some(model.factories.cursor), area, screen);
    if rows.is_empty() {
        let text = match model.factories.filter.is_empty() {
            true => "No factory yet. Start one: `giga factory run`; on another machine with a token of \
                     `giga token create --join`"
                .to_owned(),
            false => format!("No factory matches `{}`. Esc clears the filter.", model.factories.filter.text()),
        };
        let emptiness =
            Emptiness { is_loaded: model.factories.is_loaded, error: model.factories.error.as_deref(), text };
        draw_emptiness(model, &emptiness, Rect { y: area.y + 1, height: area.height - 1, ..area }, screen);
    }
}

/// One line for each pool; returns the rest of the area.
fn draw_pools(model: &Model, area: Rect, screen: &mut Buffer) -> Rect {
    let pools = &model.factories.pools;
    let count = u16::try_from(pools.len()).unwrap_or(u16::MAX).min(POOLS_MAX).min(area.height / 3);
    let lines: Vec<Line> = pools.iter().take(usize::from(count)).map(|pool| pool_line(model, pool)).collect();
    draw_lines(&lines, 0, Rect { height: count, ..area }, screen);
    Rect { y: area.y + count, height: area.height - count, ..area }
}

fn pool_line(model: &Model, view: &PoolView) -> Line<'static> {
    let (look, scale) = (model.look, &view.scale);
    let (word, tint) = match (view.broken, scale.overdue, scale.starting, scale.live) {
        (true, ..) => ("its factories do not fit".to_owned(), Tint::Bad),
        (_, true, ..) => ("no factory has joined".to_owned(), Tint::Bad),
        (_, _, 1.., _) => (format!("starting {}", scale.starting), Tint::Warn),
        (_, _, 0, 0) => ("idle".to_owned(), Tint::Faint),
        (_, _, 0, _) => ("running".to_owned(), Tint::Good),
    };
    let since = scale.since.map_or_else(String::new, |at| format!(", since {}", since(model.now, at)));
    let waiting = domain::counted(scale.waiting, "job");
    let figures =
        format!("  {} live, {} wanted, {} at most; {waiting} waiting{since}", scale.live, scale.wanted, scale.max);
    Line::from(vec![
        span(format!(" pool {}", view.pool.name), look.style(Tint::Strong)),
        span(format!("  {word}"), look.style(tint)),
        span(figures, look.style(Tint::Faint)),
    ])
}

fn row(model: &Model, factory: &FactoryView) -> Row {
    let look = model.look;
    let (word, tint) = state(factory);
    let jobs: Vec<&str> = factory.seats.iter().map(|seat| seat.title.as_str()).collect();
    Row {
        cells: vec![
            Cell::new(factory.id.as_str(), look.style(Tint::Plain)),
            Cell::new(word, look.style(tint)),
            Cell::new(seats(model, factory), look.style(Tint::Plain)),
            Cell::new(engines(factory), look.style(Tint::Plain)),
            Cell::new(load(factory), look.style(Tint::Faint)),
            Cell::new(factory.disk_free_bytes.map_or_else(String::new, size), look.style(Tint::Faint)),
            Cell::new(&factory.version, look.style(Tint::Faint)),
            Cell::new(jobs.join(", "), look.style(Tint::Faint)),
        ],
        is_marked: false,
    }
}

/// A load that is not known is not shown.
fn load(factory: &FactoryView) -> String {
    if factory.presence == Presence::Live { format!("{:.0}%", factory.load * 100.0) } else { String::new() }
}

fn state(factory: &FactoryView) -> (&'static str, Tint) {
    match factory.draining {
        true if factory.presence == Presence::Live => ("draining", Tint::Warn),
        _ => presence(factory.presence),
    }
}

/// The seats as a bar, and in figures.
fn seats(model: &Model, factory: &FactoryView) -> String {
    let (used, all) = (factory.seats.len(), usize::try_from(factory.seat_limit).unwrap_or(usize::MAX));
    let figures = format!("{used}/{all}");
    if all > 8 {
        return figures;
    }
    let (full, empty) = (model.look.glyph(Glyph::Full), model.look.glyph(Glyph::Empty));
    let bar: String = (0..all.max(used)).map(|at| if at < used { full } else { empty }).collect();
    format!("{bar} {figures}")
}

fn engines(factory: &FactoryView) -> String {
    let engines = factory.engines.iter().map(|engine| match (engine.window_until, engine.is_usable()) {
        (Some(until), _) => format!("{}: window opens {}", engine.name, clock_time(until).get(..5).unwrap_or_default()),
        (None, false) => format!("{}: unusable", engine.name),
        (None, true) => engine.name.to_string(),
    });
    let mut engines: Vec<String> = engines.collect();
    engines.dedup();
    engines.join(", ")
}

fn size(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    if bytes >= GIB { format!("{} GiB", bytes / GIB) } else { format!("{} MiB", bytes >> 20) }
}

/// The selected factory in full.
pub(super) fn draw_selected(model: &Model, area: Rect, screen: &mut Buffer) {
    let rows = model.factories.rows();
    let Some(factory) = rows.get(model.factories.cursor.selected) else { return };
    draw_lines(&lines(model, factory, area.width), 0, area, screen);
}

fn lines(model: &Model, factory: &FactoryView, width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    let (word, tint) = state(factory);
    let mut lines = vec![
        Line::from(vec![
            span(format!(" {}", factory.id), look.style(Tint::Strong)),
            span(format!("  {word}"), look.style(tint)),
        ]),
        Line::default(),
    ];
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            let room = usize::from(width).saturating_sub(15).max(10);
            for (at, part) in crate::text::wrap(&value, room).into_iter().enumerate() {
                let name = if at == 0 { name } else { "" };
                let name = span(format!(" {name:<13}"), look.style(Tint::Faint));
                lines.push(Line::from(vec![name, span(part, look.style(Tint::Plain))]));
            }
        }
    };
    let heartbeat = factory.last_heartbeat_at.filter(|_| factory.presence != Presence::Live);
    fact("heartbeat", heartbeat.map_or_else(String::new, |at| format!("last at {}", since(model.now, at))));
    fact("seats", seats(model, factory));
    fact("load", load(factory));
    fact("health", format!("{:.0}% of recent runs succeeded", factory.health * 100.0));
    let lag = factory.dispatch_lag_ms.map(|lag| format!("{lag} ms, last job"));
    fact("dispatch lag", lag.unwrap_or_default());
    fact("disk free", factory.disk_free_bytes.map_or_else(String::new, size));
    let direct = factory.receives == Receives::Broker;
    fact("offers", if direct { "from the broker".to_owned() } else { String::new() });
    fact("pool", factory.pool.as_ref().map_or_else(String::new, ToString::to_string));
    fact("version", factory.version.clone());
    fact("joined", since(model.now, factory.joined_at));
    let list = |items: Vec<String>| items.join(", ");
    fact("repositories", list(factory.repos.iter().map(ToString::to_string).collect()));
    fact("capabilities", list(factory.capabilities.iter().map(ToString::to_string).collect()));
    lines.push(Line::default());
    if !factory.engines.is_empty() {
        lines.push(Line::from(span(" engines", look.style(Tint::Faint))));
    }
    for engine in &factory.engines {
        let version = engine.version.as_deref().unwrap_or_default();
        let state = match (engine.window_until, &engine.problem) {
            (Some(until), _) => format!("usage window opens {}", clock_time(until)),
            (None, Some(problem)) => problem.clone(),
            (None, None) => String::new(),
        };
        let tint = if state.is_empty() { Tint::Plain } else { Tint::Warn };
        lines.extend(paragraph(&format!("{} {version}  {state}", engine.name), width, 3, look.style(tint)));
    }
    lines.push(Line::default());
    lines.push(Line::from(span(" jobs", look.style(Tint::Faint))));
    for seat in &factory.seats {
        let offered = if seat.dispatched_only { " (offered)" } else { "" };
        lines.extend(paragraph(&format!("{}{offered}", seat.title), width, 3, look.style(Tint::Plain)));
    }
    if factory.seats.is_empty() {
        lines.push(Line::from(span("   none", look.style(Tint::Faint))));
    }
    lines
}
