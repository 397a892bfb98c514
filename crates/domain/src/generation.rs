//! Generations of a store. A restore starts a new generation and fences every lease that the lost history granted (row
//! 28).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{DispatchSeq, Epoch, Generation, Position};
use crate::time::Timestamp;

/// Epochs and dispatch numbers store the generation above these bits. A job gets fewer than sixteen million grants
/// between two restores. With [`GENERATION_BITS`] above them the number stays exact in JSON.
const COUNT_BITS: u32 = 24;

/// The rest of the 53 bits that every JSON reader handles exactly.
const GENERATION_BITS: u32 = 53 - COUNT_BITS;

/// 2026-01-01: no store was restored earlier.
const FIRST_STEP_MS: i64 = 1_767_225_600_000;

/// Shorter than the time to restore a store, grant a lease and lose the store again.
const STEP_MS: i64 = 3_000;

/// A clock that is far ahead must not exhaust the generations: it gets at most half of them, 25 years from the first.
const BY_CLOCK_MAX: u64 = 1 << (GENERATION_BITS - 1);

impl Generation {
    /// The generation of a store that is restored from a backup now. It is above the generation of the backup and of
    /// the replaced store. A lost store cannot report its generation, so the result is also at least the number of
    /// three-second steps since 2026.
    pub fn restored(backup: Self, replaced: Option<Self>, now: Timestamp) -> Self {
        let steps = (now.as_millis() - FIRST_STEP_MS).max(0) / STEP_MS;
        let by_clock = Self(u64::try_from(steps).unwrap_or(0).min(BY_CLOCK_MAX));
        backup.max(replaced.unwrap_or_default()).next().max(by_clock)
    }
}

impl Epoch {
    /// The first epoch of a generation, above every epoch of earlier generations.
    pub fn first_of(generation: Generation) -> Self {
        Self(generation.0 << COUNT_BITS)
    }

    /// The generation in which the epoch was granted.
    pub fn generation(self) -> Generation {
        Generation(self.0 >> COUNT_BITS)
    }
}

impl DispatchSeq {
    /// The first dispatch number of a generation. Brokers deduplicate messages of a lost history too [I5].
    pub fn first_of(generation: Generation) -> Self {
        Self(generation.0 << COUNT_BITS)
    }
}

/// A position in the event log of one generation, to resume a stream or a list. The text is opaque to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventCursor {
    /// The generation of the log.
    pub generation: Generation,
    /// The position in the log.
    pub position: Position,
}

/// A text that is not an event cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an event cursor of this coordinator")]
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

/// The restore history of a store, kept as a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StoreGeneration {
    /// 0 until the first restore.
    pub generation: Generation,
    /// When the store was last restored from a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_at: Option<Timestamp>,
    /// When that backup was taken. Events between the two times are lost.
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
    fn an_epoch_without_a_generation_belongs_to_the_first() {
        assert_eq!(Epoch(7).generation(), Generation(0));
        assert_eq!(Epoch::first_of(Generation(0)), Epoch(0));
    }

    // [I2]
    #[test]
    fn epochs_of_a_generation_exceed_all_earlier_ones() {
        let (old, new) = (Epoch((1 << COUNT_BITS) - 1), Epoch::first_of(Generation(1)));

        assert!(new > old);
        assert_eq!((old.generation(), new.next().generation()), (Generation(0), Generation(1)));
    }

    #[test]
    fn a_restore_exceeds_the_backup_and_the_replaced_store() {
        let restored = |backup, replaced| Generation::restored(Generation(backup), replaced, NOW);

        assert_eq!(restored(0, None), Generation(1));
        assert_eq!(restored(2, Some(Generation(5))), Generation(6));
        assert_eq!(restored(5, Some(Generation(2))), Generation(6));
    }

    #[test]
    fn restoring_a_backup_twice_gives_two_generations() {
        let first = Generation::restored(Generation(0), None, NOW.after(Duration::from_mins(1)));
        let second = Generation::restored(Generation(0), None, NOW.after(Duration::from_secs(63)));

        assert_eq!((first, second), (Generation(20), Generation(21)));
    }

    #[test]
    fn an_event_cursor_round_trips_and_an_old_one_is_read() {
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
    fn a_clock_far_ahead_keeps_epochs_exact_in_json() {
        let far = Timestamp::from_millis(i64::MAX / 2);

        let once = Generation::restored(Generation(0), None, far);
        let again = Generation::restored(once, None, far);

        assert_eq!(again, once.next());
        assert!(Epoch::first_of(again).0 < 1 << 53);
    }
}
