//! Where the parts of the screen are.

use ratatui::layout::Rect;

use crate::model::{Focus, Model, Page};

/// The parts of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) header: Rect,
    /// The list, if it is shown.
    pub(crate) list: Option<Rect>,
    /// The detail, if it is shown.
    pub(crate) detail: Option<Rect>,
    pub(crate) footer: Rect,
}

/// The lines below the page: a rule or a note, and the hints.
const FOOTER: u16 = 2;

pub(crate) fn layout(model: &Model) -> Layout {
    let (width, height) = model.size;
    let top = if model.is_folded { 2 } else { 3 };
    let body = Rect::new(0, top, width, height.saturating_sub(top + FOOTER));
    let footer = Rect::new(0, height.saturating_sub(FOOTER), width, FOOTER.min(height));
    let has_detail = model.detail.is_some() || (model.is_wide() && model.page.has_jobs());
    let (list, detail) = match (model.is_wide() && has_detail, model.focus) {
        (true, _) => {
            let left = width * 11 / 20;
            let right = Rect::new(left + 1, body.y, width - left - 1, body.height);
            (Some(Rect { width: left, ..body }), Some(right))
        }
        (false, Focus::Detail) if model.detail.is_some() => (None, Some(body)),
        (false, _) => (Some(body), None),
    };
    Layout { header: Rect::new(0, 0, width, top), list, detail, footer }
}

/// Lines above the rows of a list.
pub(crate) fn lines_above_rows(model: &Model) -> u16 {
    match model.page {
        Page::Needs | Page::Jobs | Page::Factories => 1,
        Page::Money => crate::view::money_summary_len(model) + 1,
        Page::Dispatch => crate::view::dispatch_summary_len(model) + 1,
        Page::Folder => 3,
    }
}

/// The rows of the list that fit.
pub(crate) fn list_height(model: &Model) -> usize {
    let layout = layout(model);
    layout.list.map_or(0, |list| usize::from(list.height.saturating_sub(lines_above_rows(model))))
}
