//! The change feed: the items that changed, in their latest version. It skips versions, repeats itself, has empty
//! pages, has no order across partitions, and never reports a deletion.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::database::Data;
use super::faults::Dice;
use crate::document::{Container, Continuation, FeedPage, Key, Partition};

/// Number of physical partitions. One place in the feed names a place in each.
pub const PHYSICAL_PARTITIONS: usize = 4;

/// The container that has a feed.
const FED: Container = Container::Jobs;

/// A reader's place in each physical partition's changes.
type Places = [u64; PHYSICAL_PARTITIONS];

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

/// The next changes of any one physical partition that has some.
pub(super) fn next_page(data: &Data, dice: &Dice, after: Option<&Continuation>, limit: usize) -> FeedPage {
    let faults = dice.faults();
    let mut places = after.map_or_else(Places::default, read);
    let has_more = |at: &usize| data.feed.changes[*at].range(places[*at] + 1..).next().is_some();
    let waiting: Vec<usize> = (0..PHYSICAL_PARTITIONS).filter(has_more).collect();
    if waiting.is_empty() {
        return FeedPage::NotModified;
    }
    if dice.happens(faults.empty_pages) {
        return FeedPage::Changes(Vec::new(), continuation(places));
    }
    let partition = waiting[dice.any(waiting.len())];
    let (changes, place) = (&data.feed.changes[partition], places[partition]);
    let back = if dice.happens(faults.repeated_pages) { dice.any(limit) } else { 0 };
    let start = changes.range(..=place).rev().nth(back.wrapping_sub(1)).map_or(place, |(lsn, _)| lsn - 1);
    let page: Vec<(&u64, &Key)> = changes.range(start + 1..).take(limit + back).collect();
    places[partition] = page.last().map_or(place, |(lsn, _)| **lsn);
    FeedPage::Changes(page.into_iter().filter_map(|(_, key)| data.item(key)).collect(), continuation(places))
}

fn continuation(places: Places) -> Continuation {
    Continuation(format!("\"{}\"", places.map(|place| format!("{place:x}")).join(".")))
}

/// Invalid text means the beginning.
fn read(continuation: &Continuation) -> Places {
    let mut places = Places::default();
    for (place, text) in places.iter_mut().zip(continuation.0.trim_matches('"').split('.')) {
        *place = u64::from_str_radix(text, 16).unwrap_or(0);
    }
    places
}

fn physical(partition: &Partition) -> usize {
    let mut hasher = DefaultHasher::new();
    partition.hash(&mut hasher);
    usize::try_from(hasher.finish() % PHYSICAL_PARTITIONS as u64).unwrap_or(0)
}
