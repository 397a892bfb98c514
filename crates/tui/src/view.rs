//! The screen, drawn from the model alone.

mod detail;
mod dispatch;
mod explain;
mod factories;
mod folder;
mod footer;
mod header;
mod help;
mod jobs;
mod log;
mod money;
mod needs;
mod overlay;
mod table;
mod tree;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::layout::layout;
use crate::look::{Glyph, Look, Tint};
use crate::model::{Focus, LinkState, Model, Page};
use crate::text;

pub(crate) use dispatch::summary_len as dispatch_summary_len;
pub(crate) use money::summary_len as money_summary_len;

/// Draws the model.
pub(crate) fn view(model: &Model, screen: &mut Buffer) {
    screen.reset();
    if model.is_too_small() {
        too_small(model, screen);
    } else {
        let layout = layout(model);
        header::draw(model, layout.header, screen);
        if let Some(area) = layout.list {
            list(model, area, screen);
        }
        if let Some(area) = layout.detail {
            if layout.list.is_some() {
                bar(model.look, area, screen);
            }
            beside(model, area, screen);
        }
        footer::draw(model, layout.footer, screen);
        overlay::draw(model, screen);
    }
    if model.look.ascii {
        to_ascii(screen);
    }
}

fn list(model: &Model, area: Rect, screen: &mut Buffer) {
    match model.page {
        Page::Needs => needs::draw(model, area, screen),
        Page::Jobs => jobs::draw(model, area, screen),
        Page::Factories => factories::draw(model, area, screen),
        Page::Money => money::draw(model, area, screen),
        Page::Dispatch => dispatch::draw(model, area, screen),
        Page::Folder => folder::draw(model, area, screen),
    }
    // What may be out of date is dim.
    if is_outdated(model) {
        screen.set_style(area, model.look.style(Tint::Faint));
    }
}

/// The detail beside the list, or instead of it.
fn beside(model: &Model, area: Rect, screen: &mut Buffer) {
    let has_focus = model.focus == Focus::Detail;
    match (model.page, &model.detail) {
        (Page::Factories, None) => factories::draw_selected(model, area, screen),
        (Page::Needs, detail) if !has_focus => {
            let used = needs::draw_selected(model, area, screen);
            let rest = Rect { y: area.y + used, height: area.height.saturating_sub(used), ..area };
            if let Some(detail) = detail {
                detail::draw(model, detail, rest, screen);
            }
        }
        (_, Some(detail)) => detail::draw(model, detail, area, screen),
        (_, None) => {}
    }
    if is_outdated(model) {
        screen.set_style(area, model.look.style(Tint::Faint));
    }
}

fn is_outdated(model: &Model) -> bool {
    matches!(model.link_state(), LinkState::Down | LinkState::SignedOut)
}

/// The line between a list and its detail.
fn bar(look: Look, area: Rect, screen: &mut Buffer) {
    for y in area.y..area.bottom() {
        screen.set_string(area.x - 1, y, look.glyph(Glyph::Bar).to_string(), look.style(Tint::Faint));
    }
}

/// Too small for a page: what matters most.
fn too_small(model: &Model, screen: &mut Buffer) {
    let area = *screen.area();
    let (smallest, state) = (crate::model::SMALLEST, model.link_state());
    let mut lines = vec![
        Line::from(header::state(model)),
        Line::from(header::counts(model)),
        Line::from(format!("{} need me", model.needs.total_text())),
        Line::from(format!("too small: {}x{} is the least", smallest.0, smallest.1)),
    ];
    if !state.is_current() {
        lines.insert(1, Line::from(header::outage(model)));
    }
    for (line, y) in lines.iter().zip(area.y..area.bottom()) {
        screen.set_line(area.x, y, line, area.width);
    }
}

/// What a list says that has no rows.
pub(super) struct Emptiness<'e> {
    pub(super) is_loaded: bool,
    pub(super) error: Option<&'e str>,
    /// What it means that there is nothing.
    pub(super) text: String,
}

/// Draws why there are no rows. Nothing is called empty unless the coordinator said so just now.
pub(super) fn draw_emptiness(model: &Model, emptiness: &Emptiness<'_>, area: Rect, screen: &mut Buffer) {
    let state = model.link_state();
    let (text, tint) = match (emptiness.error, emptiness.is_loaded, state.is_current()) {
        (Some(error), _, _) => (format!("cannot be read: {error}"), Tint::Bad),
        (None, true, true) => (emptiness.text.clone(), Tint::Faint),
        (None, true, false) => (format!("nothing {}, but that may have changed", header::as_of(model)), Tint::Warn),
        (None, false, true) => ("reading …".to_owned(), Tint::Faint),
        (None, false, false) if state == LinkState::Connecting => ("connecting …".to_owned(), Tint::Faint),
        (None, false, false) => ("nothing was read yet: the coordinator does not answer".to_owned(), Tint::Warn),
    };
    let lines = text::wrap(&text, usize::from(area.width.saturating_sub(4)));
    for (line, y) in lines.iter().zip(area.y + 1..area.bottom()) {
        screen.set_stringn(area.x + 2, y, line, usize::from(area.width.saturating_sub(2)), model.look.style(tint));
    }
}

/// Draws lines from the one at `scroll` on; the last ones if there are fewer behind it.
pub(super) fn draw_lines(lines: &[Line<'_>], scroll: usize, area: Rect, screen: &mut Buffer) {
    let height = usize::from(area.height);
    let first = scroll.min(lines.len().saturating_sub(height));
    for (line, y) in lines.iter().skip(first).zip(area.y..area.bottom()) {
        screen.set_line(area.x, y, line, area.width);
    }
}

/// A text in a style.
pub(super) fn span(text: impl Into<String>, style: Style) -> Span<'static> {
    Span::styled(text.into(), style)
}

/// Lines of a text within a width, all in one style, behind an indent.
pub(super) fn paragraph(text: &str, width: u16, indent: usize, style: Style) -> Vec<Line<'static>> {
    let width = usize::from(width).saturating_sub(indent).max(10);
    let pad = " ".repeat(indent);
    text::wrap(text, width).into_iter().map(|line| Line::from(span(format!("{pad}{line}"), style))).collect()
}

/// No character that a terminal of another encoding would show as several.
fn to_ascii(screen: &mut Buffer) {
    let area = *screen.area();
    for y in area.y..area.bottom() {
        for x in area.x..area.right() {
            let Some(cell) = screen.cell_mut((x, y)) else { continue };
            let symbol = cell.symbol();
            if symbol.is_ascii() {
                continue;
            }
            let replaced = match symbol {
                "…" => "~",
                "·" | "─" => "-",
                "│" | "├" | "└" => "|",
                _ => "?",
            };
            cell.set_symbol(replaced);
        }
    }
}
