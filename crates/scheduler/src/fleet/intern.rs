//! Interning of names.

use std::collections::BTreeMap;

/// Maps a name to a small number while it is in use. Decisions never depend on the number.
#[derive(Debug, Clone)]
pub(crate) struct Interner<T> {
    ids: BTreeMap<T, usize>,
    uses: Vec<u32>,
    free: Vec<usize>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { ids: BTreeMap::new(), uses: Vec::new(), free: Vec::new() }
    }
}

impl<T: Ord + Clone> Interner<T> {
    /// The number of a name in use.
    pub(crate) fn id(&self, name: &T) -> Option<usize> {
        self.ids.get(name).copied()
    }

    /// The number of a name, with one more reference.
    pub(crate) fn take(&mut self, name: &T) -> usize {
        let id = match self.ids.get(name) {
            Some(id) => *id,
            None => {
                let id = self.free.pop().unwrap_or(self.uses.len());
                if id == self.uses.len() {
                    self.uses.push(0);
                }
                self.ids.insert(name.clone(), id);
                id
            }
        };
        self.uses[id] += 1;
        id
    }

    /// Drops a reference. The number of an unused name is reused.
    pub(crate) fn give_back(&mut self, name: &T) {
        let Some(id) = self.id(name) else { return };
        self.uses[id] -= 1;
        if self.uses[id] == 0 {
            self.ids.remove(name);
            self.free.push(id);
        }
    }
}
