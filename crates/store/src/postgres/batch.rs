//! What becomes of many changes at once, decided in memory over rows that nobody else can change meanwhile.

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::{CommitError, Expected, JobId, ProductId, Revision, StageName};

use super::change::Change;

/// A row as it was found and locked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) revision: Revision,
    pub(super) stage: StageName,
}

/// What becomes of each change, in their order, when they are done one after the other.
pub(super) struct Verdicts<'a> {
    /// Whether each is written.
    pub(super) written: Vec<bool>,
    /// The last one that is written of each job, in order of id: what its row will show. Rows are always written in
    /// this order, so that two transactions never wait for each other.
    pub(super) last: BTreeMap<JobId, &'a Change>,
}

impl<'a> Verdicts<'a> {
    /// Over these rows; a job that is not among them is not there.
    pub(super) fn over(found: &HashMap<JobId, Found>, changes: &[&'a Change]) -> Self {
        let mut current: HashMap<JobId, Revision> = HashMap::with_capacity(changes.len());
        let mut last = BTreeMap::new();
        let decide = |change: &&'a Change| {
            let there = current.get(&change.id).or(found.get(&change.id).map(|found| &found.revision));
            let expected = match change.expected {
                Expected::Absent => None,
                Expected::At(revision) => Some(revision),
            };
            let is_written = there.copied() == expected;
            if is_written {
                current.insert(change.id, change.expected.next());
                last.insert(change.id, *change);
            }
            is_written
        };
        Self { written: changes.iter().map(decide).collect(), last }
    }

    pub(super) fn outcomes(&self, changes: &[&Change]) -> Vec<Result<Revision, CommitError>> {
        let outcome = |(change, written): (&&Change, &bool)| match written {
            true => Ok(change.expected.next()),
            false => Err(CommitError::Stale),
        };
        changes.iter().zip(&self.written).map(outcome).collect()
    }

    /// The changes that are written, in order.
    pub(super) fn written<'b>(&'b self, changes: &'b [&'a Change]) -> impl Iterator<Item = &'a Change> + 'b {
        changes.iter().zip(&self.written).filter(|(_, written)| **written).map(|(change, _)| *change)
    }

    /// By how much the number of each product's jobs in each stage changes.
    pub(super) fn moved(&self, found: &HashMap<JobId, Found>) -> BTreeMap<(&'a ProductId, StageName), i64> {
        let mut moved = BTreeMap::new();
        for (id, change) in &self.last {
            *moved.entry((&change.facts.product, change.facts.stage)).or_default() += 1;
            if let Some(found) = found.get(id) {
                *moved.entry((&change.facts.product, found.stage)).or_default() -= 1;
            }
        }
        moved.retain(|_, by| *by != 0);
        moved
    }
}

/// The jobs whose rows have to be there, in order of id.
pub(super) fn expected(changes: &[&Change]) -> Vec<JobId> {
    let ids = changes.iter().filter(|change| change.expected != Expected::Absent).map(|change| change.id);
    let mut ids: Vec<_> = ids.collect::<HashSet<_>>().into_iter().collect();
    ids.sort_unstable();
    ids
}
