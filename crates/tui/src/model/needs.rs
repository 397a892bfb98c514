//! The page of what needs an operator.

use std::collections::BTreeSet;

use protocol::{Need, NeedList};

use super::{Cursor, Filter};

/// The page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    items: Vec<Need>,
    /// The number of items, also of those that were not read.
    pub(crate) total: u64,
    /// There are more failures than the coordinator counts.
    is_partial: bool,
    pub(crate) is_loaded: bool,
    pub(crate) error: Option<String>,
    pub(crate) filter: Filter,
    pub(crate) cursor: Cursor,
    pub(crate) marks: BTreeSet<String>,
}

impl Needs {
    pub(crate) fn rows(&self) -> Vec<&Need> {
        let admits = |item: &&Need| {
            let kind = item.kind.name();
            self.filter.admits_text(&[&item.title, &item.text, &kind.replace('_', " "), kind])
        };
        self.items.iter().filter(admits).collect()
    }

    /// The number of items, as shown: `1000+` if there are more.
    pub(crate) fn total_text(&self) -> String {
        format!("{}{}", self.total, if self.is_partial { "+" } else { "" })
    }

    /// The item about a job.
    pub(crate) fn of_job(&self, id: domain::JobId) -> Option<&Need> {
        self.items.iter().find(|item| item.job_id == Some(id))
    }

    /// The list as it is now. The cursor stays on its item.
    pub(crate) fn replace(&mut self, list: NeedList) {
        let selected = self.rows().get(self.cursor.selected).map(|item| item.key.clone());
        self.marks.retain(|key| list.items.iter().any(|item| item.key == *key));
        self.is_partial = !list.is_exact;
        (self.items, self.total, self.is_loaded, self.error) = (list.items, list.total, true, None);
        let rows = self.rows();
        if let Some(row) = selected.and_then(|key| rows.iter().position(|item| item.key == key)) {
            self.cursor.selected = row;
        }
    }
}
