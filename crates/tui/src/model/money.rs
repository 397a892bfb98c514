//! The page of budgets.

use domain::ProductId;
use protocol::{BudgetList, BudgetView};

use super::{Cursor, Filter};

/// The page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Money {
    items: Vec<BudgetView>,
    pub(crate) is_loaded: bool,
    pub(crate) error: Option<String>,
    pub(crate) filter: Filter,
    pub(crate) cursor: Cursor,
}

impl Money {
    pub(crate) fn rows(&self) -> Vec<&BudgetView> {
        self.items.iter().filter(|budget| self.filter.admits_text(&[budget.product_id.as_str()])).collect()
    }

    pub(crate) fn selected(&self) -> Option<&BudgetView> {
        self.rows().get(self.cursor.selected).copied()
    }

    /// The list as it is now, by name. The cursor stays on its product.
    pub(crate) fn replace(&mut self, list: BudgetList) {
        let selected: Option<ProductId> = self.selected().map(|budget| budget.product_id.clone());
        (self.items, self.is_loaded, self.error) = (list.items, true, None);
        if let Some(row) = selected.and_then(|id| self.rows().iter().position(|budget| budget.product_id == id)) {
            self.cursor.selected = row;
        }
    }
}
