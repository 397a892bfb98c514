//! Rows in columns. Columns give way by priority when the screen is narrow.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::look::{Look, Tint};
use crate::model::Cursor;
use crate::text::{columns, cut, one_line};

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) width: Width,
    /// The highest goes first when there is no room; 0 stays.
    pub(super) priority: u8,
    pub(super) align: Align,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// As wide as its widest text, up to this.
    Fit(u16),
    /// At least this; shares what is left with the other flexible ones, by weight.
    Flex(u16, u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A text in a row.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) style: Style,
}

impl Cell {
    pub(super) fn new(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: one_line(text.as_ref()), style }
    }
}

/// A row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    pub(super) is_marked: bool,
}

/// Draws the headings, and the rows from the cursor's offset on.
pub(super) fn draw(
    look: Look,
    columns: &[Column],
    rows: &[Row],
    cursor: Option<Cursor>,
    area: Rect,
    screen: &mut Buffer,
) {
    let widths = widths(columns, rows, area.width);
    let mut x = area.x + 1;
    for (column, width) in columns.iter().zip(&widths) {
        if let Some(width) = width {
            put(column.title, *width, column.align, look.style(Tint::Faint), (x, area.y), screen);
            x += width + GAP;
        }
    }
    let offset = cursor.map_or(0, |cursor| cursor.offset);
    for ((at, row), y) in rows.iter().enumerate().skip(offset).zip(area.y + 1..area.bottom()) {
        let mut x = area.x + 1;
        if row.is_marked {
            screen.set_string(area.x, y, look.glyph(crate::look::Glyph::Mark).to_string(), look.style(Tint::Accent));
        }
        for ((column, width), cell) in columns.iter().zip(&widths).zip(&row.cells) {
            if let Some(width) = width {
                put(&cell.text, *width, column.align, cell.style, (x, y), screen);
                x += width + GAP;
            }
        }
        if cursor.is_some_and(|cursor| cursor.selected == at) {
            screen.set_style(Rect::new(area.x, y, area.width, 1), look.selected());
        }
    }
}

/// Columns between two texts.
const GAP: u16 = 2;

fn put(text: &str, width: u16, align: Align, style: Style, (x, y): (u16, u16), screen: &mut Buffer) {
    let text = cut(text, usize::from(width));
    let used = u16::try_from(columns(&text)).unwrap_or(width);
    let x = if align == Align::Right { x + width.saturating_sub(used) } else { x };
    screen.set_stringn(x, y, text, usize::from(width), style);
}

/// The width of each column; `None` for one that gave way.
fn widths(columns_: &[Column], rows: &[Row], total: u16) -> Vec<Option<u16>> {
    let natural = |at: usize| {
        let texts = rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| columns(&cell.text));
        let widest = texts.max().unwrap_or(0);
        // A column without a text takes no room.
        if widest == 0 && !rows.is_empty() { 0 } else { widest.max(columns(columns_[at].title)) }
    };
    let mut wanted: Vec<Option<u16>> = columns_
        .iter()
        .enumerate()
        .map(|(at, column)| match column.width {
            Width::Fit(max) => {
                u16::try_from(natural(at)).ok().map(|natural| natural.min(max)).filter(|width| *width > 0)
            }
            Width::Flex(min, _) => Some(min),
        })
        .collect();
    let room = total.saturating_sub(2);
    let used = |wanted: &[Option<u16>]| {
        let shown = wanted.iter().flatten().count();
        let gaps = GAP * u16::try_from(shown.saturating_sub(1)).unwrap_or(0);
        wanted.iter().flatten().sum::<u16>() + gaps
    };
    while used(&wanted) > room {
        let shown = (0..columns_.len()).filter(|at| wanted[*at].is_some() && columns_[*at].priority > 0);
        let Some(least) = shown.max_by_key(|at| columns_[*at].priority) else { break };
        wanted[least] = None;
    }
    let left = room.saturating_sub(used(&wanted));
    share(columns_, &mut wanted, left, &natural);
    wanted
}

/// Gives what is left to the flexible columns, no more than they need until all have enough.
fn share(columns_: &[Column], wanted: &mut [Option<u16>], mut left: u16, natural: &dyn Fn(usize) -> usize) {
    loop {
        let hungry: Vec<(usize, u16)> = (0..columns_.len())
            .filter_map(|at| match (columns_[at].width, wanted[at]) {
                (Width::Flex(_, weight), Some(width)) if usize::from(width) < natural(at) => Some((at, weight)),
                _ => None,
            })
            .collect();
        let weights: u16 = hungry.iter().map(|(_, weight)| weight).sum();
        if left == 0 || weights == 0 {
            return;
        }
        let mut given = 0;
        for (at, weight) in hungry {
            let portion = (u32::from(left) * u32::from(weight) / u32::from(weights)).max(1);
            let portion = u16::try_from(portion).unwrap_or(1).min(left - given);
            let Some(width) = &mut wanted[at] else { continue };
            let needed = u16::try_from(natural(at)).unwrap_or(u16::MAX).saturating_sub(*width);
            *width += portion.min(needed);
            given += portion.min(needed);
        }
        left -= given;
    }
}
