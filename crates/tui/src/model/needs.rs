//! The page of what needs an operator.

use std::collections::BTreeSet;

use domain::{FactoryId, JobId, Timestamp};
use serde::Deserialize;

use super::{Cursor, Filter};

/// Items that need an operator, the most urgent first.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NeedsList {
    pub(crate) items: Vec<NeedsItem>,
    pub(crate) total: u64,
}

/// One item.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NeedsItem {
    pub(crate) key: String,
    pub(crate) kind: String,
    pub(crate) title: String,
    /// What is asked, in one sentence.
    #[serde(default)]
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) remedy: String,
    pub(crate) at: Timestamp,
    #[serde(default)]
    pub(crate) job_id: Option<JobId>,
    #[serde(default)]
    pub(crate) factory_id: Option<FactoryId>,
    #[serde(default)]
    pub(crate) credential: Option<String>,
    #[serde(default)]
    pub(crate) cost_usd: Option<f64>,
    #[serde(default)]
    pub(crate) actions: Vec<String>,
}

/// The page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    pub(crate) list: NeedsList,
    pub(crate) is_loaded: bool,
    pub(crate) error: Option<String>,
    pub(crate) filter: Filter,
    pub(crate) cursor: Cursor,
    pub(crate) marks: BTreeSet<String>,
}

impl Needs {
    pub(crate) fn rows(&self) -> Vec<&NeedsItem> {
        let admits = |item: &&NeedsItem| {
            self.filter.admits_text(&[&item.title, &item.text, &item.kind.replace('_', " "), &item.kind])
        };
        self.list.items.iter().filter(admits).collect()
    }

    /// The list as it is now. The cursor stays on its item.
    pub(crate) fn replace(&mut self, list: NeedsList) {
        let selected = self.rows().get(self.cursor.selected).map(|item| item.key.clone());
        self.marks.retain(|key| list.items.iter().any(|item| item.key == *key));
        (self.list, self.is_loaded, self.error) = (list, true, None);
        let rows = self.rows();
        if let Some(row) = selected.and_then(|key| rows.iter().position(|item| item.key == key)) {
            self.cursor.selected = row;
        }
    }
}
