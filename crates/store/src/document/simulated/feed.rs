//! The change feed: the items that changed, in their latest version. It skips versions, repeats itself, has empty
//! pages, has no order across partitions, and never reports a deletion.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::database::{Item, Key, RequestError, SimulatedDatabase};

/// Number of physical partitions; each has its own feed.
pub const PHYSICAL_PARTITIONS: usize = 4;

/// The container that has a feed.
pub(super) const FED: &str = "jobs";

/// A reader's position in one physical partition's feed. Opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Continuation(u64);

impl Continuation {
    /// Serialises the position.
    pub fn text(self) -> String {
        format!("\"{:x}\"", self.0)
    }

    /// Parses a position; invalid text means the beginning.
    pub fn read(text: &str) -> Self {
        Self(u64::from_str_radix(text.trim_matches('"'), 16).unwrap_or(0))
    }
}

/// A response of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedPage {
    /// Some items, possibly none although more follow, and the next position.
    Changes(Vec<Item>, Continuation),
    /// Nothing has changed since. Only this response reports the end.
    NotModified,
}

/// The changes by physical partition. An item occurs once, at its latest change.
#[derive(Default, Clone)]
pub(super) struct Feed {
    end: u64,
    changes: [BTreeMap<u64, Key>; PHYSICAL_PARTITIONS],
    places: HashMap<Key, u64>,
}

impl Feed {
    pub(super) fn note(&mut self, key: &Key) {
        if key.container != FED {
            return;
        }
        self.end += 1;
        let changes = &mut self.changes[physical(&key.partition)];
        if let Some(former) = self.places.insert(key.clone(), self.end) {
            changes.remove(&former);
        }
        changes.insert(self.end, key.clone());
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }
}

impl SimulatedDatabase {
    /// Reads the next changes of one physical partition.
    pub async fn changes(&self, partition: usize, after: Continuation, limit: usize) -> Result<FeedPage, RequestError> {
        self.begin("feed").await?;
        let faults = self.dice.faults();
        let data = self.data.lock();
        let changes = &data.feed.changes[partition % PHYSICAL_PARTITIONS];
        if changes.range(after.0 + 1..).next().is_none() {
            return Ok(FeedPage::NotModified);
        }
        if self.dice.happens(faults.empty_pages) {
            return Ok(FeedPage::Changes(Vec::new(), after));
        }
        let back = if self.dice.happens(faults.repeated_pages) { self.dice.any(limit) } else { 0 };
        let start = changes.range(..=after.0).rev().nth(back.wrapping_sub(1)).map_or(after.0, |(lsn, _)| lsn - 1);
        let page: Vec<(&u64, &Key)> = changes.range(start + 1..).take(limit + back).collect();
        let reached = page.last().map_or(after, |(lsn, _)| Continuation(**lsn));
        Ok(FeedPage::Changes(page.into_iter().filter_map(|(_, key)| data.item(key)).collect(), reached))
    }
}

fn physical(partition: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    partition.hash(&mut hasher);
    usize::try_from(hasher.finish() % PHYSICAL_PARTITIONS as u64).unwrap_or(0)
}
