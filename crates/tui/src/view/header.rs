//! The two lines on top: the connection, the fleet, the pages.

use domain::StageName;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::span;
use crate::look::{Glyph, Tint, stage_tint};
use crate::model::{LinkState, Model, Page};
use crate::text::{columns, cut};
use crate::times::clock_time;

pub(super) fn draw(model: &Model, area: Rect, screen: &mut Buffer) {
    first_line(model, area, screen);
    if !model.is_folded {
        tabs(model, Rect { y: area.y + 1, height: 1, ..area }, screen);
    }
    rule(model, Rect { y: area.bottom().saturating_sub(1), height: 1, ..area }, screen);
}

/// The state of the connection: a shape, a word and a colour.
pub(super) fn state(model: &Model) -> Vec<Span<'static>> {
    let state = model.link_state();
    let (glyph, tint) = match state {
        LinkState::Live => (Glyph::Live, Tint::Good),
        LinkState::Connecting => (Glyph::Waiting, Tint::Faint),
        LinkState::Interrupted => (Glyph::Waiting, Tint::Good),
        LinkState::Reconnecting => (Glyph::Waiting, Tint::Warn),
        LinkState::Polling => (Glyph::Polling, Tint::Warn),
        LinkState::Down | LinkState::SignedOut => (Glyph::Down, Tint::Bad),
    };
    let style = model.look.style(tint);
    vec![span(format!("{} {}", model.look.glyph(glyph), state.word()), style)]
}

/// `as of 12:04:31`, the last time that the coordinator answered.
pub(super) fn as_of(model: &Model) -> String {
    model.link.heard_at.map_or_else(|| "of no time yet".to_owned(), |at| format!("as of {} UTC", clock_time(at)))
}

fn first_line(model: &Model, area: Rect, screen: &mut Buffer) {
    let look = model.look;
    let mut left = vec![Span::raw(" ")];
    left.extend(state(model));
    let mut facts: Vec<(String, Tint)> = Vec::new();
    let name = match (&model.folder, model.link.name.is_empty()) {
        (Some(folder), _) => folder.dir.clone(),
        (None, false) => model.link.name.clone(),
        (None, true) => model.link.api.split("://").last().unwrap_or_default().to_owned(),
    };
    facts.push((cut(&name, 28), Tint::Strong));
    if let Some(modes) = &model.dispatch.modes {
        let own = match modes.products.len() {
            0 => String::new(),
            others => format!(" (+{others})"),
        };
        facts.push((format!("mode {}{own}", modes.mode), Tint::Plain));
    }
    if let Some(metrics) = &model.metrics {
        facts.push((format!("seats {}/{}", metrics.seats_used, metrics.seats), Tint::Plain));
        facts.push((format!("waiting {}", metrics.waiting), Tint::Plain));
        facts.push((format!("lag {}ms", metrics.dispatch_lag_ms), Tint::Plain));
    }
    if model.factories.is_loaded {
        let (live, all) = (model.factories.live(), model.factories.len());
        let tint = if live < all || all == 0 { Tint::Warn } else { Tint::Plain };
        facts.push((format!("factories {live}/{all}"), tint));
    }
    let needs = model.needs.total;
    let right = match (needs, model.needs.is_loaded) {
        (_, false) => String::new(),
        (0, true) => "nothing needs me ".to_owned(),
        (1, true) => "1 needs me ".to_owned(),
        (_, true) => format!("{} need me ", model.needs.total_text()),
    };
    let room = usize::from(area.width).saturating_sub(columns(&right) + 1);
    let mut used: usize = left.iter().map(|part| columns(&part.content)).sum();
    // The later facts give way first.
    for (fact, tint) in facts.into_iter().filter(|(fact, _)| !fact.is_empty()) {
        if used + 2 + columns(&fact) > room {
            break;
        }
        used += 2 + columns(&fact);
        left.extend([Span::raw("  "), span(fact, look.style(tint))]);
    }
    screen.set_line(area.x, area.y, &Line::from(left), area.width);
    let tint = if needs == 0 { Tint::Faint } else { Tint::Warn };
    let x = area.right().saturating_sub(u16::try_from(columns(&right)).unwrap_or(0));
    screen.set_string(x, area.y, &right, look.style(tint));
}

/// The jobs by stage.
pub(super) fn counts(model: &Model) -> Vec<Span<'static>> {
    let Some(metrics) = &model.metrics else { return Vec::new() };
    let shown = StageName::ALL.into_iter().filter_map(|stage| {
        let count = metrics.jobs.get(stage.as_str()).copied().unwrap_or(0);
        (count > 0)
            .then(|| span(format!("{}{count} ", model.look.stage_glyph(stage)), model.look.style(stage_tint(stage))))
    });
    shown.collect()
}

fn tabs(model: &Model, area: Rect, screen: &mut Buffer) {
    let mut spans = Vec::new();
    for (at, page) in model.pages().into_iter().enumerate() {
        let count = match page {
            Page::Needs if model.needs.total > 0 => format!(" {}", model.needs.total_text()),
            _ => String::new(),
        };
        let style = if page == model.page { model.look.selected() } else { model.look.style(Tint::Plain) };
        spans.push(span(format!(" {} {}{count} ", at + 1, page.title()), style));
    }
    let used: usize = spans.iter().map(|part| columns(&part.content)).sum();
    screen.set_line(area.x, area.y, &Line::from(spans), area.width);
    let mut counts = counts(model);
    let width = |counts: &[Span<'static>]| counts.iter().map(|part| columns(&part.content)).sum::<usize>();
    while used + 2 + width(&counts) > usize::from(area.width) && !counts.is_empty() {
        counts.pop();
    }
    let x = usize::from(area.right()).saturating_sub(width(&counts));
    screen.set_line(u16::try_from(x).unwrap_or(0), area.y, &Line::from(counts), area.width);
}

/// Why what is shown may be old, and what happens next.
pub(super) fn outage(model: &Model) -> String {
    let link = &model.link;
    let retry = link.retry_at.map_or_else(String::new, |at| format!(", next attempt {}", clock_time(at)));
    match model.link_state() {
        LinkState::Live | LinkState::Interrupted | LinkState::Connecting => String::new(),
        LinkState::Reconnecting => format!("reconnecting{retry}: {}", link.why),
        LinkState::Polling => format!("no event stream, reading every 5 s ({}): {}", as_of(model), link.why),
        LinkState::Down if link.heard_at.is_none() => format!("down{retry} (r: now): {}", link.why),
        LinkState::Down => format!("down, data {}{retry} (r: now): {}", as_of(model), link.why),
        LinkState::SignedOut => format!("signed out, data {}: {}", as_of(model), link.why),
    }
}

/// The rule below the header; it carries the outage, or the filter.
fn rule(model: &Model, area: Rect, screen: &mut Buffer) {
    let look = model.look;
    let line = look.glyph(Glyph::Rule).to_string().repeat(usize::from(area.width));
    screen.set_string(area.x, area.y, line, look.style(Tint::Faint));
    let state = model.link_state();
    let outage = outage(model);
    let (text, tint) = match state {
        LinkState::Down | LinkState::SignedOut => (outage, Tint::Bad),
        LinkState::Reconnecting | LinkState::Polling => (outage, Tint::Warn),
        LinkState::Live | LinkState::Interrupted | LinkState::Connecting => match model.page_error() {
            Some(error) => (format!("cannot be read: {error}"), Tint::Bad),
            None => (notices(model), Tint::Accent),
        },
    };
    if text.is_empty() {
        return;
    }
    let text = cut(&text, usize::from(area.width).saturating_sub(6));
    screen.set_string(area.x + 2, area.y, format!(" {text} "), look.style(tint));
}

fn notices(model: &Model) -> String {
    let mut notices = Vec::new();
    if !model.filter().is_empty() {
        notices.push(format!("filter: {} (Esc clears)", model.filter().text()));
    }
    let marks = match model.page {
        Page::Jobs => model.jobs.marks.len(),
        Page::Needs => model.needs.marks.len(),
        Page::Dispatch => model.dispatch.marks.len(),
        Page::Factories | Page::Money | Page::Folder => 0,
    };
    if marks > 0 {
        notices.push(format!("{marks} marked (a: act)"));
    }
    if model.page == Page::Jobs && !model.jobs.unseen.is_empty() {
        notices.push(format!("{} new (. shows)", model.jobs.unseen.len()));
    }
    notices.join("  ")
}
