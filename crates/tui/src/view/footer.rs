//! The two lines at the bottom: a message, and what keys do here.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::span;
use crate::look::{Glyph, Tint};
use crate::model::{Focus, Input, InputKind, Model, Overlay, Page, Tab};
use crate::text::{columns, cut, cut_start};
use crate::update::completions;

pub(super) fn draw(model: &Model, area: Rect, screen: &mut Buffer) {
    let look = model.look;
    let line = look.glyph(Glyph::Rule).to_string().repeat(usize::from(area.width));
    screen.set_string(area.x, area.y, line, look.style(Tint::Faint));
    if let Some(note) = &model.note {
        let tint = if note.is_bad { Tint::Bad } else { Tint::Accent };
        let text = cut(&crate::text::one_line(&note.text), usize::from(area.width).saturating_sub(6));
        screen.set_string(area.x + 2, area.y, format!(" {text} "), look.style(tint));
    }
    let bottom = Rect { y: area.y + 1, height: 1, ..area };
    match &model.overlay {
        Some(Overlay::Input(input)) => draw_input(model, input, bottom, screen),
        _ => draw_hints(model, bottom, screen),
    }
}

fn draw_input(model: &Model, input: &Input, area: Rect, screen: &mut Buffer) {
    let look = model.look;
    let sign = match input.kind {
        InputKind::Filter | InputKind::Search => "/",
        InputKind::Command => ":",
    };
    let (before, behind) = input.line.halves();
    let room = usize::from(area.width).saturating_sub(3);
    let before = cut_start(&before, room);
    let mut behind_chars = behind.chars();
    let under = behind_chars.next().map_or_else(|| " ".to_owned(), String::from);
    let mut spans = vec![
        span(sign, look.style(Tint::Strong)),
        Span::raw(before),
        span(under, look.selected()),
        Span::raw(behind_chars.collect::<String>()),
    ];
    let candidates = match input.kind {
        InputKind::Command => completions(model, &input.line.text()),
        InputKind::Filter | InputKind::Search => Vec::new(),
    };
    let words: Vec<&str> = candidates.iter().filter_map(|line| line.split_whitespace().last()).take(12).collect();
    let hint = match (input.kind, words.is_empty()) {
        (InputKind::Command, false) => format!("   Tab: {}", words.join("  ")),
        (InputKind::Filter, _) if model.page == Page::Jobs && input.line.text().is_empty() => {
            "   words, or stage= priority= repo= factory= tag= product=".to_owned()
        }
        _ => String::new(),
    };
    spans.push(span(hint, look.style(Tint::Faint)));
    screen.set_line(area.x, area.y, &Line::from(spans), area.width);
}

/// The most useful first: the last ones give way on a narrow terminal.
fn draw_hints(model: &Model, area: Rect, screen: &mut Buffer) {
    let look = model.look;
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    // Help is the one hint that always stays, where it is a key.
    let help = model.overlay.is_none().then_some(("?", "help"));
    let room = usize::from(area.width).saturating_sub(8);
    let hints = hints(model);
    let fitting = hints.into_iter().take_while(|(key, text)| {
        used += columns(key) + columns(text) + 3;
        used <= room
    });
    for (key, text) in fitting.chain(help) {
        spans.push(span(key, look.style(Tint::Strong)));
        spans.push(span(format!(" {text}  "), look.style(Tint::Faint)));
    }
    screen.set_line(area.x, area.y, &Line::from(spans), area.width);
}

fn hints(model: &Model) -> Vec<(&'static str, &'static str)> {
    match &model.overlay {
        Some(Overlay::Help { .. } | Overlay::Outcomes { .. }) => return vec![("j k", "scroll"), ("Esc", "close")],
        Some(Overlay::Menu(_)) => return vec![("Enter", "choose"), ("j k", "move"), ("Esc", "back")],
        Some(Overlay::Dialog(_)) => return vec![("Enter", "confirm"), ("Esc", "back")],
        Some(Overlay::Input(_)) | None => {}
    }
    if model.focus == Focus::Detail {
        return match model.detail.as_ref().map(|detail| detail.tab) {
            Some(Tab::Log) => vec![
                ("Esc", "back"),
                ("j k", "scroll"),
                ("f", "follow"),
                ("/", "search"),
                ("n N", "matches"),
                ("w", "wrap"),
                ("t", "timeline"),
                ("a", "act"),
            ],
            _ => vec![
                ("Esc", "back"),
                ("a", "act"),
                ("l", "log"),
                ("e", "explain"),
                ("d", "dependencies"),
                ("t", "timeline"),
                ("[ ]", "previous, next"),
                ("y", "copy id"),
            ],
        };
    }
    match model.page {
        Page::Needs => vec![
            ("Enter", "open"),
            ("a", "act"),
            ("/", "filter"),
            ("Space", "mark"),
            (":", "command"),
            ("o", "browser"),
        ],
        Page::Jobs => vec![
            ("Enter", "open"),
            ("/", "filter"),
            ("a", "act"),
            ("l", "log"),
            ("e", "explain"),
            ("Space", "mark"),
            (":", "command"),
            ("d", "dependencies"),
            ("y", "copy id"),
            ("o", "browser"),
        ],
        Page::Factories => vec![("a", "act"), ("/", "filter"), ("y", "copy name"), (":", "command"), ("o", "browser")],
        Page::Money => {
            vec![("a", "pause, set ceiling"), ("/", "filter"), ("y", "copy name"), (":", "command"), ("o", "browser")]
        }
        Page::Dispatch => {
            vec![("a", "act, switch mode"), ("Enter", "open"), ("Space", "mark"), ("/", "filter"), (":", "command")]
        }
        Page::Folder => vec![("Enter", "open job"), ("/", "filter"), ("a", "act"), ("l", "log"), (":", "command")],
    }
}
