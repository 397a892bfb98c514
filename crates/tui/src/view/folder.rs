//! The page of a folder queue.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::jobs::reason;
use super::table::{self, Align, Cell, Column, Row, Width};
use super::{draw_lines, span};
use crate::look::{Tint, stage_tint, stage_word};
use crate::model::{FolderFile, FolderPage, Model};
use crate::times::since;

const COLUMNS: [Column; 5] = [
    Column { title: "folder", width: Width::Fit(9), priority: 0, align: Align::Left },
    Column { title: "file", width: Width::Flex(18, 3), priority: 0, align: Align::Left },
    Column { title: "stage", width: Width::Fit(11), priority: 2, align: Align::Left },
    Column { title: "changed", width: Width::Fit(7), priority: 3, align: Align::Right },
    Column { title: "why", width: Width::Flex(12, 4), priority: 1, align: Align::Left },
];

pub(super) fn draw(model: &Model, area: Rect, screen: &mut Buffer) {
    let Some(folder) = &model.folder else { return };
    draw_lines(&summary(model, folder), 0, Rect { height: 2.min(area.height), ..area }, screen);
    let list = Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area };
    let rows: Vec<Row> = folder.rows().into_iter().map(|file| row(model, file)).collect();
    table::draw(model.look, &COLUMNS, &rows, Some(folder.cursor), list, screen);
    let text = match (&folder.error, folder.is_loaded, rows.is_empty()) {
        (Some(error), _, _) => format!("cannot be read: {error}"),
        (None, false, _) => "reading …".to_owned(),
        (None, true, true) => format!("No files. Put a job into {}/inbox", folder.dir),
        (None, true, false) => return,
    };
    screen.set_stringn(
        list.x + 2,
        list.y + 2,
        text,
        usize::from(list.width.saturating_sub(2)),
        model.look.style(Tint::Faint),
    );
}

fn summary(model: &Model, folder: &FolderPage) -> Vec<Line<'static>> {
    let look = model.look;
    let counts = FOLDERS.iter().flat_map(|name| {
        let count = folder.count(name);
        let tint = if count == 0 { Tint::Faint } else { Tint::Plain };
        [span(format!(" {name} "), look.style(Tint::Faint)), span(format!("{count} "), look.style(tint))]
    });
    let more = (folder.listing.more > 0)
        .then(|| span(format!(" and {} more files", folder.listing.more), look.style(Tint::Warn)));
    vec![Line::from(counts.chain(more).collect::<Vec<_>>()), Line::default()]
}

const FOLDERS: [&str; 6] = ["inbox", "building", "review", "testing", "shipped", "failed"];

fn row(model: &Model, file: &FolderFile) -> Row {
    let look = model.look;
    let tint = match file.folder {
        "building" => Tint::Busy,
        "review" => Tint::Warn,
        "testing" | "shipped" => Tint::Good,
        "failed" => Tint::Bad,
        _ => Tint::Plain,
    };
    let job = file.job.and_then(|id| model.jobs.get(id));
    let stage = job.map_or(Cell::new("", look.style(Tint::Plain)), |job| {
        Cell::new(stage_word(job), look.style(stage_tint(job.stage)))
    });
    Row {
        cells: vec![
            Cell::new(file.folder, look.style(tint)),
            Cell::new(&file.name, look.style(Tint::Plain)),
            stage,
            Cell::new(file.changed_at.map_or_else(String::new, |at| since(model.now, at)), look.style(Tint::Faint)),
            Cell::new(job.map_or_else(String::new, reason), look.style(Tint::Faint)),
        ],
        is_marked: false,
    }
}
