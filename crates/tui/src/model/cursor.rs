//! The selected row of a list, and the first one that is shown.

/// A place in a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) selected: usize,
    pub(crate) offset: usize,
}

impl Cursor {
    /// Moves by rows, within a list of `count`.
    pub(crate) fn step(&mut self, by: isize, count: usize) {
        self.select(self.selected.saturating_add_signed(by), count);
    }

    pub(crate) fn select(&mut self, row: usize, count: usize) {
        self.selected = row.min(count.saturating_sub(1));
    }

    /// Scrolls as little as possible, so that the selected row is among the `height` shown.
    pub(crate) fn reveal(&mut self, count: usize, height: usize) {
        self.selected = self.selected.min(count.saturating_sub(1));
        let height = height.max(1);
        if self.selected < self.offset {
            self.offset = self.selected;
        }
        if self.selected >= self.offset + height {
            self.offset = self.selected + 1 - height;
        }
        self.offset = self.offset.min(count.saturating_sub(height));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_stays_in_view_and_within_the_list() {
        let mut cursor = Cursor::default();

        cursor.step(25, 20);
        cursor.reveal(20, 10);
        assert_eq!(cursor, Cursor { selected: 19, offset: 10 });

        cursor.step(-3, 20);
        cursor.reveal(20, 10);
        assert_eq!(cursor, Cursor { selected: 16, offset: 10 });

        cursor.reveal(4, 10);
        assert_eq!(cursor, Cursor { selected: 3, offset: 0 });
    }
}
