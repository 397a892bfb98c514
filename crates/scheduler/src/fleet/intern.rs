//! Short names for long ones.

use std::collections::BTreeMap;

/// Gives a name a small number while it is in use. Decisions never depend on the number.
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
    /// The number of a name that is in use.
    pub(crate) fn id(&self, name: &T) -> Option<usize> {
        self.ids.get(name).copied()
    }

    /// The number of a name, in use once more.
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

    /// The name is in use once less; its number is given to another when it is not in use any more.
    pub(crate) fn give_back(&mut self, name: &T) {
        let Some(id) = self.id(name) else { return };
        self.uses[id] -= 1;
        if self.uses[id] == 0 {
            self.ids.remove(name);
            self.free.push(id);
        }
    }
}
