//! The end of a page of jobs, as opaque text that clients send back.

use domain::{Cursor, Job, JobId, StoreError, Timestamp};

/// Jobs that a page of a search reads at most. Its cursor continues after the last of them.
pub(crate) const EXAMINED_MAX: usize = 5_000;

/// The position of a job in lists: newest first, ties by id. It never changes, so pages stay stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListPosition {
    pub(crate) created: Timestamp,
    pub(crate) id: JobId,
}

/// Sixteen digits of the time, thirty-two of the id.
const CURSOR_LEN: usize = 48;

impl ListPosition {
    pub(crate) fn of(job: &Job) -> Self {
        Self { created: job.created_at(), id: job.id() }
    }

    /// The position before the first job of any list.
    pub(crate) fn top() -> Self {
        Self { created: Timestamp::from_millis(i64::MAX), id: JobId::from_bytes([0xff; 16]) }
    }

    /// The position after which the next page begins.
    pub(crate) fn after(cursor: Option<&Cursor>) -> Result<Self, StoreError> {
        cursor.map_or(Ok(Self::top()), |cursor| Self::read(&cursor.0).ok_or(StoreError::BadCursor))
    }

    pub(crate) fn cursor(self) -> Cursor {
        Cursor(format!("{:016x}{:032x}", self.created.as_millis(), u128::from_be_bytes(*self.id.as_bytes())))
    }

    fn read(text: &str) -> Option<Self> {
        if text.len() != CURSOR_LEN || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let (created, id) = text.split_at_checked(16)?;
        let created = u64::from_str_radix(created, 16).ok()?.cast_signed();
        let id = u128::from_str_radix(id, 16).ok()?;
        Some(Self { created: Timestamp::from_millis(created), id: JobId::from_bytes(id.to_be_bytes()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips() {
        for created in [0, 1_767_225_600_000, -1, i64::MAX, i64::MIN] {
            let place = ListPosition { created: Timestamp::from_millis(created), id: JobId::from_bytes([7; 16]) };

            assert_eq!(ListPosition::read(&place.cursor().0), Some(place));
        }
    }

    #[test]
    fn text_that_is_not_a_cursor_is_rejected() {
        let good = ListPosition::top().cursor().0;

        for bad in ["", "x", &good[1..], &format!("{good}0"), &good.replace('f', "g"), &format!("+{}", &good[1..])] {
            assert_eq!(ListPosition::read(bad), None, "{bad}");
        }
    }
}
