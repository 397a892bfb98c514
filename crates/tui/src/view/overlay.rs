//! Boxes over a page: help, menus, questions.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

use super::{draw_lines, help, paragraph, span};
use crate::look::Tint;
use crate::model::{Dialog, Field, Menu, Model, Overlay};
use crate::text::{columns, cut, cut_start};
use crate::update::button;

pub(super) fn draw(model: &Model, screen: &mut Buffer) {
    match &model.overlay {
        Some(Overlay::Help { scroll }) => {
            let lines = help::lines(model);
            text_box(model, " Help ", &lines, *scroll, screen);
        }
        Some(Overlay::Outcomes { title, lines, scroll }) => {
            let width = screen.area().width.saturating_sub(10);
            let lines: Vec<Line<'static>> =
                lines.iter().flat_map(|line| paragraph(line, width, 1, model.look.style(Tint::Plain))).collect();
            text_box(model, &format!(" {title} "), &lines, *scroll, screen);
        }
        Some(Overlay::Menu(menu)) => draw_menu(model, menu, screen),
        Some(Overlay::Dialog(dialog)) => draw_dialog(model, dialog, screen),
        Some(Overlay::Input(_)) | None => {}
    }
}

/// A frame in the middle; returns its inside.
fn frame(model: &Model, title: &str, width: u16, height: u16, screen: &mut Buffer) -> Rect {
    let area = *screen.area();
    let (width, height) = (width.min(area.width.saturating_sub(4)), height.min(area.height.saturating_sub(2)));
    let outer = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    Clear.render(outer, screen);
    let title = cut(title, usize::from(width.saturating_sub(4)));
    let mut block = Block::bordered().title(title).border_style(model.look.style(Tint::Accent));
    if model.look.ascii {
        block = block.border_set(ASCII);
    }
    let inner = block.inner(outer);
    block.render(outer, screen);
    inner
}

const ASCII: ratatui::symbols::border::Set<'static> = ratatui::symbols::border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

fn text_box(model: &Model, title: &str, lines: &[Line<'static>], scroll: usize, screen: &mut Buffer) {
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let inner = frame(model, title, 76, height, screen);
    draw_lines(lines, scroll, inner, screen);
    let shown = usize::from(inner.height);
    if lines.len() > shown {
        let below = lines.len() - shown - scroll.min(lines.len() - shown);
        let text = if below == 0 { " end ".to_owned() } else { format!(" {below} more lines: j ") };
        screen.set_string(inner.x + 1, inner.bottom(), text, model.look.style(Tint::Accent));
    }
}

fn draw_menu(model: &Model, menu: &Menu, screen: &mut Buffer) {
    let look = model.look;
    let widest = menu.items.iter().map(|item| columns(&item.label) + 5).chain([columns(&menu.title) + 4]).max();
    let width = u16::try_from(widest.unwrap_or(20) + 4).unwrap_or(60).max(30);
    let height = u16::try_from(menu.items.len()).unwrap_or(20) + 2;
    let inner = frame(model, &format!(" {} ", menu.title), width, height, screen);
    let first = menu.selected.saturating_sub(usize::from(inner.height.saturating_sub(1)));
    for ((at, item), y) in menu.items.iter().enumerate().skip(first).zip(inner.y..inner.bottom()) {
        let line =
            Line::from(vec![span(format!(" {}  ", item.key), look.style(Tint::Strong)), Span::raw(item.label.clone())]);
        screen.set_line(inner.x, y, &line, inner.width);
        if at == menu.selected {
            screen.set_style(Rect::new(inner.x, y, inner.width, 1), look.selected());
        }
    }
}

fn draw_dialog(model: &Model, dialog: &Dialog, screen: &mut Buffer) {
    let look = model.look;
    let width = 72.min(screen.area().width.saturating_sub(4));
    let room = width.saturating_sub(2);
    let mut lines = Vec::new();
    if let Some(quote) = &dialog.quote {
        lines.extend(paragraph(quote, room, 1, look.style(Tint::Warn)).into_iter().take(8));
        lines.push(Line::default());
    }
    if dialog.targets.len() > 1 {
        let names: Vec<String> = dialog.targets.iter().map(crate::message::Target::label).collect();
        lines.extend(paragraph(&names.join(", "), room, 1, look.style(Tint::Faint)).into_iter().take(4));
    }
    lines.extend(paragraph(&dialog.consequence, room, 1, look.style(Tint::Plain)));
    lines.push(Line::default());
    if let Field::Optional(label) | Field::Required(label) = dialog.field {
        let optional = if matches!(dialog.field, Field::Optional(_)) { " (optional)" } else { "" };
        lines.push(Line::from(span(format!(" {label}{optional}"), look.style(Tint::Faint))));
        lines.push(field(model, dialog, usize::from(room)));
        lines.push(Line::default());
    }
    if let Some(problem) = &dialog.problem {
        lines.push(Line::from(span(format!(" {problem}"), look.style(Tint::Bad))));
    }
    let verb = cut(&button(&dialog.act, &dialog.targets), usize::from(room).saturating_sub(24));
    lines.push(Line::from(vec![
        span(" Enter ", look.selected()),
        span(format!(" {verb}   "), look.style(Tint::Strong)),
        span("Esc", look.style(Tint::Strong)),
        span(" back", look.style(Tint::Faint)),
    ]));
    let height = u16::try_from(lines.len()).unwrap_or(10) + 2;
    let title = format!(" {} ", button(&dialog.act, &dialog.targets));
    let inner = frame(model, &title, width, height, screen);
    draw_lines(&lines, 0, inner, screen);
}

/// The text with its cursor, scrolled so that the cursor shows.
fn field(model: &Model, dialog: &Dialog, room: usize) -> Line<'static> {
    let (before, behind) = dialog.line.halves();
    let before = cut_start(&before, room.saturating_sub(6));
    let mut behind = behind.chars();
    let under = behind.next().map_or_else(|| " ".to_owned(), String::from);
    Line::from(vec![
        span(" > ", model.look.style(Tint::Strong)),
        Span::raw(before),
        span(under, model.look.selected()),
        Span::raw(behind.collect::<String>()),
    ])
}
