//! The topological order of the jobs in a batch.

use std::collections::{BTreeSet, VecDeque};

/// Jobs of one batch, by index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TopologicalOrder {
    /// Each job comes after its dependencies, except in cycles.
    pub(crate) sorted: Vec<usize>,
    /// Jobs in a cycle, or between two cycles.
    pub(crate) cyclic: BTreeSet<usize>,
}

/// Sorts jobs by their dependencies, in one pass over all dependencies.
pub(crate) fn toposort(waits_for: &[BTreeSet<usize>]) -> TopologicalOrder {
    let mut awaited_by = vec![BTreeSet::new(); waits_for.len()];
    for (job, deps) in waits_for.iter().enumerate() {
        for dep in deps {
            awaited_by[*dep].insert(job);
        }
    }
    let everybody: BTreeSet<usize> = (0..waits_for.len()).collect();
    let before = peel(waits_for, &awaited_by, &everybody);
    let stuck = without(&everybody, &before);
    let cyclic = without(&stuck, &peel(&awaited_by, waits_for, &stuck));
    let after = peel(waits_for, &awaited_by, &without(&stuck, &cyclic));
    TopologicalOrder { sorted: before.into_iter().chain(after).collect(), cyclic }
}

/// Repeatedly removes the jobs without dependencies left in `jobs`; returns them in that order.
fn peel(waits_for: &[BTreeSet<usize>], awaited_by: &[BTreeSet<usize>], jobs: &BTreeSet<usize>) -> Vec<usize> {
    let mut left: Vec<usize> = waits_for.iter().map(|deps| deps.intersection(jobs).count()).collect();
    let mut free: VecDeque<usize> = jobs.iter().copied().filter(|job| left[*job] == 0).collect();
    let mut taken = Vec::with_capacity(jobs.len());
    while let Some(job) = free.pop_front() {
        taken.push(job);
        for waiter in awaited_by[job].intersection(jobs) {
            left[*waiter] -= 1;
            if left[*waiter] == 0 {
                free.push_back(*waiter);
            }
        }
    }
    taken
}

fn without(jobs: &BTreeSet<usize>, taken: &(impl IntoIterator<Item = usize> + Clone)) -> BTreeSet<usize> {
    let taken: BTreeSet<usize> = taken.clone().into_iter().collect();
    jobs.difference(&taken).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // [J4]
    #[test]
    fn dependents_come_later_and_only_cycles_are_cyclic() {
        // 0 and 1 wait for each other, 2 for 1, 3 for 2, 4 for none, 5 for 4 and 6, 6 for 4, 7 for itself.
        let waits_for = [vec![1], vec![0], vec![1], vec![2], vec![], vec![4, 6], vec![4], vec![7]];
        let waits_for: Vec<BTreeSet<usize>> = waits_for.into_iter().map(|deps| deps.into_iter().collect()).collect();

        let order = toposort(&waits_for);

        assert_eq!(order, TopologicalOrder { sorted: vec![4, 6, 5, 2, 3], cyclic: [0, 1, 7].into() });
    }
}
