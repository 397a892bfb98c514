//! The output of a job's engine.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::span;
use crate::look::Tint;
use crate::model::{Detail, Log, Model};
use crate::text::{cut, wrap};

pub(super) fn draw(model: &Model, detail: &Detail, area: Rect, screen: &mut Buffer) {
    let Some(log) = &detail.log else { return };
    let look = model.look;
    let bottom = area.bottom().saturating_sub(1);
    let has_run = detail.view().is_none_or(|job| job.runs > 0);
    let (status, tint) = status(log, has_run);
    screen.set_stringn(area.x + 1, bottom, status, usize::from(area.width.saturating_sub(2)), look.style(tint));
    let height = usize::from(area.height.saturating_sub(1));
    let room = usize::from(area.width.saturating_sub(2));
    // From the last line up, as many as fit.
    let last = log.lines().len().saturating_sub(log.back);
    let mut shown: Vec<Line<'static>> = Vec::new();
    for text in log.lines().iter().take(last).rev() {
        let parts = match log.is_wrapped {
            true => wrap(text, room),
            false => vec![cut(text, room)],
        };
        let parts = if parts.is_empty() { vec![String::new()] } else { parts };
        for part in parts.into_iter().rev() {
            shown.push(highlighted(model, log, part));
        }
        if shown.len() >= height {
            break;
        }
    }
    shown.truncate(height);
    for (line, y) in shown.iter().rev().zip(area.y..bottom) {
        screen.set_line(area.x + 1, y, line, area.width.saturating_sub(2));
    }
}

fn status(log: &Log, has_run: bool) -> (String, Tint) {
    let search = match log.search.is_empty() {
        true => String::new(),
        false => format!("  `{}`: {} lines match", log.search, log.matches()),
    };
    match (&log.error, log.is_loaded, log.lines().is_empty()) {
        (Some(error), _, _) => (format!("cannot be read: {error}"), Tint::Bad),
        (None, false, _) if !has_run => ("no output yet: it has not run".to_owned(), Tint::Faint),
        (None, false, _) => ("reading …".to_owned(), Tint::Faint),
        (None, true, true) => ("no output yet".to_owned(), Tint::Faint),
        (None, true, false) if !log.is_following() => {
            (format!("{} lines below, f follows{search}", log.back), Tint::Accent)
        }
        (None, true, false) if log.has_ended => (format!("end of the output{search}"), Tint::Faint),
        (None, true, false) => (format!("following{search}"), Tint::Good),
    }
}

/// The line with what is searched for in reverse video.
fn highlighted(model: &Model, log: &Log, line: String) -> Line<'static> {
    if log.search.is_empty() || !line.is_ascii() || !log.search.is_ascii() {
        return Line::from(line);
    }
    let (lower, text) = (line.to_ascii_lowercase(), log.search.to_ascii_lowercase());
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(found) = lower[at..].find(&text) {
        let start = at + found;
        spans.push(Span::raw(line[at..start].to_owned()));
        spans.push(span(&line[start..start + text.len()], model.look.selected()));
        at = start + text.len();
    }
    spans.push(span(&line[at..], model.look.style(Tint::Plain)));
    Line::from(spans)
}
