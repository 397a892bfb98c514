//! Tables, aligned by hand.

use super::clean;
use super::palette::{Palette, Tint};
use super::width::{columns, cut};

const GAP: &str = "  ";

/// A column is of no use when it is narrower.
const COLUMN_MIN: usize = 8;

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    /// Columns that give way when the terminal is narrow, the first one first.
    flexible: Vec<usize>,
    rows: Vec<Vec<Cell>>,
}

/// One field of a table: a clean line of text, perhaps in a colour.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    tint: Option<Tint>,
}

impl Cell {
    /// A field in a colour.
    pub(crate) fn tinted(text: impl AsRef<str>, tint: Tint) -> Self {
        Self { tint: Some(tint), ..Self::from(text.as_ref()) }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        let text = clean(text);
        Self { text: if text.is_empty() { "-".to_owned() } else { text }, tint: None }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl Table {
    /// A table whose `flexible` column gives way when the terminal is narrow.
    pub(crate) fn new(headings: &[&'static str], flexible: &str) -> Self {
        let flexible = headings.iter().position(|heading| *heading == flexible).unwrap_or(headings.len() - 1);
        Self { headings: headings.to_vec(), flexible: vec![flexible], rows: Vec::new() }
    }

    /// The same with another column that gives way, after the first.
    pub(crate) fn then_flexible(mut self, heading: &str) -> Self {
        self.flexible.extend(self.headings.iter().position(|known| *known == heading));
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, heading first; none when there is no row.
    pub(super) fn lines(&self, width: Option<usize>, palette: Palette) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let widths = self.widths(width);
        let heading: Vec<Cell> = self.headings.iter().map(|text| Cell::tinted(text, Tint::Faint)).collect();
        std::iter::once(&heading).chain(&self.rows).map(|row| line(row, &widths, palette)).collect()
    }

    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headings.iter().map(|heading| columns(heading)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(columns(&cell.text));
            }
        }
        if let Some(available) = width {
            let total = widths.iter().sum::<usize>() + GAP.len() * (widths.len() - 1);
            let mut excess = total.saturating_sub(available);
            for at in &self.flexible {
                let spare = widths[*at].saturating_sub(COLUMN_MIN).min(excess);
                widths[*at] -= spare;
                excess -= spare;
            }
        }
        widths
    }
}

fn line(row: &[Cell], widths: &[usize], palette: Palette) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = cut(&cell.text, *width);
        let padding = if at + 1 == row.len() { 0 } else { width - columns(&text) + GAP.len() };
        line.push_str(&cell.tint.map_or_else(|| text.clone(), |tint| palette.paint(&text, tint)));
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "TITLE", "STAGE"], "TITLE");
        table.row(vec!["1".into(), "Fix the parser of dates".into(), Cell::tinted("queued", Tint::Warn)]);
        table.row(vec!["22".into(), "構文".into(), "shipped".into()]);
        table
    }

    #[test]
    fn columns_line_up() {
        let expected = [
            "ID  TITLE                    STAGE",
            "1   Fix the parser of dates  queued",
            "22  構文                     shipped",
        ];

        assert_eq!(table().lines(None, Palette::Plain), expected);
    }

    #[test]
    fn a_narrow_terminal_costs_the_title_alone() {
        let expected = ["ID  TITLE       STAGE", "1   Fix the p…  queued", "22  構文        shipped"];

        assert_eq!(table().lines(Some(23), Palette::Plain), expected);
    }

    #[test]
    fn colours_change_nothing_else() {
        let coloured = table().lines(None, Palette::Coloured);

        assert_eq!(coloured[1], "1   Fix the parser of dates  \u{1b}[33mqueued\u{1b}[0m");
    }

    #[test]
    fn a_field_can_neither_break_its_line_nor_the_terminal() {
        let mut table = Table::new(&["TITLE"], "TITLE");
        table.row(vec!["a\u{1b}]52;c;eA==\u{7}\nb".into()]);

        assert_eq!(table.lines(None, Palette::Plain), ["TITLE", "a b"]);
    }
}
