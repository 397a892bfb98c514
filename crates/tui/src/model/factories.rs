//! The page of factories.

use domain::FactoryId;
use protocol::{FactoryList, FactoryView, PoolView, Presence};

use super::{Cursor, Filter};

/// The page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Factories {
    items: Vec<FactoryView>,
    pub(crate) pools: Vec<PoolView>,
    pub(crate) is_loaded: bool,
    pub(crate) error: Option<String>,
    pub(crate) filter: Filter,
    pub(crate) cursor: Cursor,
}

impl Factories {
    pub(crate) fn rows(&self) -> Vec<&FactoryView> {
        let admits = |factory: &&FactoryView| {
            let capabilities: Vec<String> = factory.capabilities.iter().map(ToString::to_string).collect();
            self.filter.admits_text(&[
                factory.id.as_str(),
                &capabilities.join(" "),
                crate::look::presence(factory.presence).0,
            ])
        };
        self.items.iter().filter(admits).collect()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &FactoryId> {
        self.items.iter().map(|factory| &factory.id)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn live(&self) -> usize {
        self.items.iter().filter(|factory| factory.presence == Presence::Live).count()
    }

    /// The list as it is now, by name. The cursor stays on its factory.
    pub(crate) fn replace(&mut self, list: FactoryList) {
        let selected = self.rows().get(self.cursor.selected).map(|factory| factory.id.clone());
        (self.items, self.is_loaded, self.error) = (list.items, true, None);
        if let Some(row) = selected.and_then(|id| self.rows().iter().position(|factory| factory.id == id)) {
            self.cursor.selected = row;
        }
    }
}
