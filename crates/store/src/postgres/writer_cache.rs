//! What the writer keeps in its head: where the log and the jobs end, and what the jobs at hand look like.

use std::collections::HashMap;

use domain::{EventSeq, JobId, Position, Revision, StageName};

/// Jobs at hand that are remembered: a few megabytes. More only means that some are looked up again.
const KNOWN_MAX: usize = 32_768;

/// Where the log and the jobs end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LogEnds {
    pub(super) log: Position,
    pub(super) jobs: u64,
}

/// What the next change of a job depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CachedJob {
    pub(super) n: i64,
    pub(super) rev: Revision,
    pub(super) stage: StageName,
    pub(super) latest: Position,
    pub(super) seq: EventSeq,
}

/// The database as it was after the last transaction. Somebody else may have changed it since: whatever is written by it
/// says what it goes by, and the database refuses what does not hold any more.
#[derive(Debug, Default)]
pub(super) struct WriterCache {
    /// `None` until somebody looked.
    pub(super) ends: Option<LogEnds>,
    known: HashMap<JobId, CachedJob>,
}

impl WriterCache {
    /// With what was just read.
    pub(super) fn read(ends: LogEnds, known: HashMap<JobId, CachedJob>) -> Self {
        Self { ends: Some(ends), known }
    }

    pub(super) fn known(&self, id: JobId) -> Option<CachedJob> {
        self.known.get(&id).copied()
    }

    /// What is true after a transaction. Jobs are remembered for as long as they can still change often.
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

    /// Nothing is certain any more.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
