//! Jobs that several indexes have in common, newest first.
//!
//! Each index lists the numbers of its jobs. The walk asks every index for its next number at or below the lowest one
//! seen, so that it skips what any of them excludes: it costs about as many reads as the shortest index has jobs.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::{Cursor, JobFilter, Page, SearchTerm, Summary};

use crate::cursor::{EXAMINED_MAX, ListPosition};

/// Numbers that the first read of an index returns. Reads that are used up grow, those that are skipped shrink.
const READ_MIN: usize = 16;
const READ_MAX: usize = 1_024;

/// Numbers that are read for one page, over all indexes. Its cursor continues after them.
const READ_TOTAL_MAX: usize = 40_000;

/// Reads for one page.
const READS_MAX: usize = 2_000;

/// What an index lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listing {
    /// The jobs of the filter's products and stages.
    Stages,
    /// The jobs of the filter's repository.
    Repo,
    /// The jobs with at least one of these terms.
    Terms(Vec<SearchTerm>),
}

/// What the index of terms lacks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unindexed {
    /// Jobs that changed since, in falling order.
    pub(crate) changed: Arc<[i64]>,
    /// All jobs with numbers up to this one: an index that is being built begins with the newest.
    pub(crate) through: i64,
}

/// The next step of the walk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read at most `limit` numbers below `below`, in falling order, from the index with this place.
    Read { index: usize, below: i64, limit: usize },
    /// Every index has this job.
    Found(i64),
    /// There are no more.
    Over,
    /// Enough was read for one page.
    Enough,
}

/// The walk.
#[derive(Debug)]
pub(crate) struct Intersection {
    indexes: Vec<Index>,
    /// The highest number that was not decided yet.
    next: i64,
    reads: usize,
    numbers: usize,
}

#[derive(Debug)]
struct Index {
    listing: Listing,
    unindexed: Unindexed,
    read: VecDeque<i64>,
    /// The index has nothing below what was read.
    is_over: bool,
    limit: usize,
    used: usize,
}

/// Whether a filter needs more than one index, or the index of terms.
pub(crate) fn needs_intersection(filter: &JobFilter) -> bool {
    let of_stages = !filter.products.is_empty() || !filter.stages.is_empty();
    !filter.search.is_empty() || filter.priority.is_some() || (filter.repo.is_some() && of_stages)
}

impl Intersection {
    /// The walk for a filter, over the jobs with numbers below `below`. Without the index of terms, the terms are left
    /// to the comparison with each job.
    pub(crate) fn new(filter: &JobFilter, below: i64, unindexed: Option<&Unindexed>) -> Self {
        let of_stages = !filter.products.is_empty() || !filter.stages.is_empty();
        let columns =
            of_stages.then_some(Listing::Stages).into_iter().chain(filter.repo.as_ref().map(|_| Listing::Repo));
        let exact = columns.map(|listing| Index::new(listing, Unindexed::default()));
        let terms = unindexed.into_iter().flat_map(|unindexed| {
            let groups = filter.term_groups().into_iter();
            groups.map(|group| Index::new(Listing::Terms(group), unindexed.clone()))
        });
        Self { indexes: exact.chain(terms).collect(), next: below.saturating_sub(1), reads: 0, numbers: 0 }
    }

    /// What the index with this place lists.
    pub(crate) fn listing(&self, index: usize) -> Option<&Listing> {
        self.indexes.get(index).map(|index| &index.listing)
    }

    /// Where the walk continues: below this number.
    pub(crate) fn below(&self) -> i64 {
        self.next.saturating_add(1)
    }

    pub(crate) fn step(&mut self) -> Step {
        let mut at = self.next;
        let mut agreeing = 0;
        while at > 0 && agreeing < self.indexes.len() {
            let place = agreeing;
            match self.indexes[place].seek(at) {
                Seek::At(n) if n == at => agreeing += 1,
                Seek::At(n) => (at, agreeing) = (n, 0),
                Seek::Over => return Step::Over,
                Seek::Unread => {
                    self.next = at;
                    if self.reads >= READS_MAX || self.numbers >= READ_TOTAL_MAX {
                        return Step::Enough;
                    }
                    self.reads += 1;
                    return Step::Read {
                        index: place,
                        below: at.saturating_add(1),
                        limit: self.indexes[place].begin_read(),
                    };
                }
            }
        }
        if at <= 0 {
            return Step::Over;
        }
        self.next = at - 1;
        Step::Found(at)
    }

    /// The answer to [`Step::Read`].
    pub(crate) fn supply(&mut self, index: usize, numbers: Vec<i64>) {
        self.numbers += numbers.len();
        let Some(index) = self.indexes.get_mut(index) else { return };
        index.is_over = numbers.len() < index.limit;
        index.read = numbers.into();
    }
}

/// A page that is filled with the jobs that match, of those that the walk found.
#[derive(Debug)]
pub(crate) struct FilteredPage<'f> {
    filter: &'f JobFilter,
    limit: usize,
    items: Vec<Summary>,
    examined: usize,
    /// Found jobs that were not read yet.
    found: Vec<i64>,
}

/// How a page ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageEnd {
    /// It is full; the next page begins after its last job.
    Full,
    /// The list has no more jobs.
    Last,
    /// Enough was examined: the next page begins below the position of the walk.
    Partial,
}

impl<'f> FilteredPage<'f> {
    pub(crate) fn new(filter: &'f JobFilter, limit: usize) -> Self {
        Self { filter, limit, items: Vec::new(), examined: 0, found: Vec::new() }
    }

    /// Notes a found job. Returns whether the walk has to pause, so that the found jobs are read.
    pub(crate) fn note(&mut self, n: i64) -> bool {
        self.found.push(n);
        self.found.len() > self.limit - self.items.len() || self.examined + self.found.len() >= EXAMINED_MAX
    }

    /// The jobs to read.
    pub(crate) fn take_found(&mut self) -> Vec<i64> {
        self.examined += self.found.len();
        std::mem::take(&mut self.found)
    }

    /// Adds the matching ones of the jobs that were read, newest first. Returns whether the page has ended.
    pub(crate) fn add(&mut self, read: Vec<Summary>, step: &Step) -> Option<PageEnd> {
        self.items.extend(read.into_iter().filter(|summary| self.filter.matches(&summary.job)));
        if self.items.len() > self.limit {
            return Some(PageEnd::Full);
        }
        match step {
            Step::Over => Some(PageEnd::Last),
            Step::Enough => Some(PageEnd::Partial),
            Step::Found(_) | Step::Read { .. } => (self.examined >= EXAMINED_MAX).then_some(PageEnd::Partial),
        }
    }

    /// The page. `partial` is the cursor of the walk's position.
    pub(crate) fn finish(mut self, end: PageEnd, partial: Option<Cursor>) -> Page<Summary> {
        self.items.truncate(self.limit);
        let next = match end {
            PageEnd::Full => self.items.last().map(|last| ListPosition::of(&last.job).cursor()),
            PageEnd::Partial => partial,
            PageEnd::Last => None,
        };
        Page { items: self.items, next }
    }
}

enum Seek {
    At(i64),
    Over,
    Unread,
}

impl Index {
    fn new(listing: Listing, unindexed: Unindexed) -> Self {
        // Nothing has a term of an empty group.
        let is_over = listing == Listing::Terms(Vec::new());
        let unindexed = if is_over { Unindexed::default() } else { unindexed };
        Self { listing, unindexed, read: VecDeque::new(), is_over, limit: READ_MIN / 2, used: READ_MIN }
    }

    /// The highest number of the index that is not above `at`.
    fn seek(&mut self, at: i64) -> Seek {
        if at <= self.unindexed.through {
            return Seek::At(at);
        }
        while self.read.front().is_some_and(|n| *n > at) {
            self.read.pop_front();
        }
        let changed = &self.unindexed.changed;
        let changed = changed.get(changed.partition_point(|n| *n > at)).copied().unwrap_or(0);
        if changed == at {
            return Seek::At(at);
        }
        match self.read.front() {
            Some(n) => {
                self.used += usize::from(*n == at);
                Seek::At((*n).max(changed).max(self.unindexed.through))
            }
            None if !self.is_over => Seek::Unread,
            None => match changed.max(self.unindexed.through) {
                0 => Seek::Over,
                n => Seek::At(n),
            },
        }
    }

    /// The size of the next read.
    fn begin_read(&mut self) -> usize {
        self.limit = if self.used * 2 >= self.limit { self.limit * 2 } else { self.limit / 2 };
        self.limit = self.limit.clamp(READ_MIN, READ_MAX);
        self.used = 0;
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(n: i64) -> Listing {
        Listing::Terms(vec![SearchTerm(n)])
    }

    /// Walks lists in falling order; returns the common numbers and how many reads it took.
    fn walk(lists: &[Vec<i64>], unindexed: &Unindexed) -> (Vec<i64>, usize) {
        let indexes = (0..).zip(lists).map(|(n, _)| Index::new(terms(n), unindexed.clone())).collect();
        let mut walk = Intersection { indexes, next: 1_000_000, reads: 0, numbers: 0 };
        let mut found = Vec::new();
        loop {
            match walk.step() {
                Step::Found(n) => found.push(n),
                Step::Over => return (found, walk.reads),
                Step::Enough => panic!("enough after {found:?}"),
                Step::Read { index, below, limit } => {
                    let numbers = lists[index].iter().filter(|n| **n < below).take(limit).copied().collect();
                    walk.supply(index, numbers);
                }
            }
        }
    }

    fn multiples(of: i64) -> Vec<i64> {
        (1..=100_000 / of).rev().map(|n| n * of).collect()
    }

    #[test]
    fn common_numbers_are_found_in_falling_order() {
        let (found, _) = walk(&[multiples(60), multiples(100), multiples(40)], &Unindexed::default());

        assert_eq!(found, multiples(600));
    }

    #[test]
    fn a_short_index_makes_a_long_one_cheap() {
        let (found, reads) = walk(&[multiples(1), multiples(20_000)], &Unindexed::default());

        assert_eq!(found, multiples(20_000));
        assert!(reads < 20, "{reads}");
    }

    #[test]
    fn what_the_index_lacks_is_found_as_well() {
        let unindexed = Unindexed { changed: vec![99_999, 50_001, 7].into(), through: 3 };

        let (found, _) = walk(&[multiples(25_000), multiples(50_000)], &unindexed);

        assert_eq!(found, [100_000, 99_999, 50_001, 50_000, 7, 3, 2, 1]);
    }

    #[test]
    fn indexes_without_common_numbers_stop_after_enough_reads() {
        let indexes = vec![Index::new(terms(0), Unindexed::default()), Index::new(terms(1), Unindexed::default())];
        let mut walk = Intersection { indexes, next: i64::MAX - 1, reads: 0, numbers: 0 };

        // Even and odd numbers.
        let last = loop {
            match walk.step() {
                Step::Read { index, below, limit } => {
                    let odd = i64::try_from(index).unwrap();
                    let first = if (below - 1) % 2 == odd { below - 1 } else { below - 2 };
                    walk.supply(index, (0..i64::try_from(limit).unwrap()).map(|n| first - 2 * n).collect());
                }
                other => break other,
            }
        };

        assert_eq!(last, Step::Enough);
        assert!(walk.below() < i64::MAX - 10_000 && walk.numbers <= READ_TOTAL_MAX + READ_MAX);
    }

    #[test]
    fn an_empty_group_matches_nothing() {
        let unindexed = Unindexed { changed: vec![5].into(), through: 9 };
        let mut index = Index::new(Listing::Terms(Vec::new()), unindexed);

        assert!(matches!(index.seek(8), Seek::Over));
    }
}
