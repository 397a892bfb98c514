//! Which life of a store something belongs to: a restored store begins another one, and fences everybody who knew the
//! future that it lost (row 28).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{DispatchSeq, Epoch, Generation, Position};
use crate::time::Timestamp;

/// An epoch and a dispatch's number carry the generation above these bits: no job is granted sixteen million times between
/// two restores, and with [`GENERATION_BITS`] above them the whole is a number that JSON can carry.
const COUNT_BITS: u32 = 24;

/// What is left of the 53 bits that every reader of JSON understands.
const GENERATION_BITS: u32 = 53 - COUNT_BITS;

/// 2026-01-01: no store was restored before.
const FIRST_STEP_MS: i64 = 1_767_225_600_000;

/// Less than it takes to restore a store, grant something and lose the store again.
const STEP_MS: i64 = 3_000;

/// A clock that is far ahead must leave room above it: half of all generations, twenty-five years from the first.
const BY_CLOCK_MAX: u64 = 1 << (GENERATION_BITS - 1);

impl Generation {
    /// The generation of a store that is put back from a backup now: above the backup's, above that of the store which it
    /// replaces, and, because a store that is gone cannot say how often it was restored, not below the number of steps of
    /// three seconds since 2026.
    pub fn restored(backup: Self, replaced: Option<Self>, now: Timestamp) -> Self {
        let steps = (now.as_millis() - FIRST_STEP_MS).max(0) / STEP_MS;
        let by_clock = Self(u64::try_from(steps).unwrap_or(0).min(BY_CLOCK_MAX));
        backup.max(replaced.unwrap_or_default()).next().max(by_clock)
    }
}

impl Epoch {
    /// Where epochs of a generation begin: above every epoch of those before it.
    pub fn first_of(generation: Generation) -> Self {
        Self(generation.0 << COUNT_BITS)
    }

    /// The generation in which it was given.
    pub fn generation(self) -> Generation {
        Generation(self.0 >> COUNT_BITS)
    }
}

impl DispatchSeq {
    /// Where the numbers of a generation's dispatches begin: brokers remember those of a lost future too [I5].
    pub fn first_of(generation: Generation) -> Self {
        Self(generation.0 << COUNT_BITS)
    }
}

/// A place in the log of one generation: what a stream or a list is resumed behind. As text it is opaque to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventCursor {
    /// Whose log.
    pub generation: Generation,
    /// Where in it.
    pub position: Position,
}

/// A text that is no bookmark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a place in the log that was given out here")]
pub struct EventCursorError(String);

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            Generation(0) => self.position.fmt(f),
            generation => write!(f, "{generation}.{}", self.position),
        }
    }
}

impl FromStr for EventCursor {
    type Err = EventCursorError;

    fn from_str(text: &str) -> Result<Self, EventCursorError> {
        let (generation, position) = text.split_once('.').unwrap_or(("0", text));
        match (generation.parse(), position.parse()) {
            (Ok(generation), Ok(position)) => {
                Ok(Self { generation: Generation(generation), position: Position(position) })
            }
            _ => Err(EventCursorError(crate::names::escape_for_terminal(text))),
        }
    }
}

impl TryFrom<String> for EventCursor {
    type Error = EventCursorError;

    fn try_from(text: String) -> Result<Self, EventCursorError> {
        text.parse()
    }
}

impl From<EventCursor> for String {
    fn from(mark: EventCursor) -> Self {
        mark.to_string()
    }
}

/// What a store knows about its own past, kept as a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StoreGeneration {
    /// 0 until the first restore.
    pub generation: Generation,
    /// When it was last put back from a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_at: Option<Timestamp>,
    /// When that backup was taken: what happened between the two is not known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Timestamp>,
}

impl StoreGeneration {
    /// The key of the document in [`crate::Collection::Meta`].
    pub const KEY: &str = "lineage";
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(FIRST_STEP_MS);

    #[test]
    fn an_epoch_without_a_generation_is_of_the_first_one() {
        assert_eq!(Epoch(7).generation(), Generation(0));
        assert_eq!(Epoch::first_of(Generation(0)), Epoch(0));
    }

    #[test]
    fn every_epoch_of_a_generation_is_above_all_those_before_it() {
        let (old, new) = (Epoch((1 << COUNT_BITS) - 1), Epoch::first_of(Generation(1)));

        assert!(new > old);
        assert_eq!((old.generation(), new.next().generation()), (Generation(0), Generation(1)));
    }

    #[test]
    fn a_restored_store_is_above_the_backup_and_above_what_it_replaces() {
        let restored = |backup, replaced| Generation::restored(Generation(backup), replaced, NOW);

        assert_eq!(restored(0, None), Generation(1));
        assert_eq!(restored(2, Some(Generation(5))), Generation(6));
        assert_eq!(restored(5, Some(Generation(2))), Generation(6));
    }

    #[test]
    fn a_second_restore_of_one_backup_onto_an_empty_disk_is_another_generation() {
        let first = Generation::restored(Generation(0), None, NOW.after(Duration::from_mins(1)));
        let second = Generation::restored(Generation(0), None, NOW.after(Duration::from_secs(63)));

        assert_eq!((first, second), (Generation(20), Generation(21)));
    }

    #[test]
    fn a_bookmark_leads_back_to_its_place_and_an_old_one_is_of_the_first_generation() {
        let mark =
            |generation, position| EventCursor { generation: Generation(generation), position: Position(position) };

        assert_eq!(mark(3, 7).to_string().parse(), Ok(mark(3, 7)));
        assert_eq!(mark(0, 7).to_string(), "7");
        assert_eq!("7".parse(), Ok(mark(0, 7)));
        for bad in ["", ".", "1.", "x.7", "1.2.3", "-1"] {
            assert!(bad.parse::<EventCursor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_clock_that_is_centuries_ahead_leaves_room_for_numbers_that_json_can_carry() {
        let far = Timestamp::from_millis(i64::MAX / 2);

        let once = Generation::restored(Generation(0), None, far);
        let again = Generation::restored(once, None, far);

        assert_eq!(again, once.next());
        assert!(Epoch::first_of(again).0 < 1 << 53);
    }
}
