//! The writer's cache: the ends of the log and of the jobs, and the columns of recent jobs.

use std::collections::HashMap;

use domain::{EventSeq, JobId, Position, Revision, StageName};

/// Number of cached jobs: a few megabytes. Others are read from the table.
const KNOWN_MAX: usize = 32_768;

/// The latest log position and the latest job number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LogEnds {
    pub(super) log: Position,
    pub(super) jobs: u64,
}

/// The columns of a job that its next change depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CachedJob {
    pub(super) n: i64,
    pub(super) rev: Revision,
    pub(super) stage: StageName,
    pub(super) latest: Position,
    pub(super) seq: EventSeq,
}

/// The database as of the last transaction. Another process may have changed it since: each write states the values it
/// depends on, and the database rejects a mismatch.
#[derive(Debug, Default)]
pub(super) struct WriterCache {
    /// `None` until the log's row was read.
    pub(super) ends: Option<LogEnds>,
    known: HashMap<JobId, CachedJob>,
}

impl WriterCache {
    /// A cache of freshly read rows.
    pub(super) fn read(ends: LogEnds, known: HashMap<JobId, CachedJob>) -> Self {
        Self { ends: Some(ends), known }
    }

    pub(super) fn known(&self, id: JobId) -> Option<CachedJob> {
        self.known.get(&id).copied()
    }

    /// Updates the cache after a transaction. Jobs are cached while they are likely to change.
    pub(super) fn settle(&mut self, ends: LogEnds, jobs: impl Iterator<Item = (JobId, CachedJob)>) {
        self.ends = Some(ends);
        for (id, known) in jobs {
            if known.stage.is_terminal() {
                self.known.remove(&id);
                continue;
            }
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
            self.known.insert(id, known);
        }
    }

    /// Clears the cache after an unknown outcome.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
