//! Pages of jobs, newest first, each from an index in that order.

use std::collections::BTreeSet;

use domain::{Cursor, JobFilter, JobId, Page, RepoName, SearchTerm, StageName, Summary, Timestamp};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::row::{is_unreadable, job_id, versioned_job};
use super::search_index;
use crate::cursor::ListPosition;
use crate::intersection::{FilteredPage, Intersection, Listing, PageEnd, Step, needs_intersection};
use crate::quarantine::{JOBS, Quarantine};

pub(super) const NUMBER: &str = "SELECT n FROM fleet_jobs WHERE id = ?1";
pub(super) const ID: &str = "SELECT id FROM fleet_jobs WHERE n = ?1";
pub(super) const LAST: &str = "SELECT ifnull(max(n), 0) FROM fleet_jobs";
pub(super) const NOT_BELOW: &str = "SELECT id, created FROM fleet_jobs WHERE n >= ?1 ORDER BY n LIMIT 1";
pub(super) const NEWEST: &str = "SELECT n FROM fleet_jobs WHERE n < ?1 ORDER BY n DESC LIMIT ?2";
pub(super) const NEWEST_OF_REPO: &str = "\
    SELECT n FROM fleet_jobs INDEXED BY fleet_jobs_of_repo WHERE repo = ?3 AND n < ?1 ORDER BY n DESC LIMIT ?2";
pub(super) const NEWEST_IN_STAGE: &str = "\
    SELECT n FROM fleet_jobs INDEXED BY fleet_jobs_in_stage
    WHERE product = ?3 AND stage = ?4 AND n < ?1 ORDER BY n DESC LIMIT ?2";
pub(super) const NEWEST_WITH_TERM: &str =
    "SELECT n FROM fleet_terms WHERE term = ?3 AND n < ?1 ORDER BY n DESC LIMIT ?2";
pub(super) const PRODUCTS: &str = "SELECT DISTINCT product FROM fleet_counts";
pub(super) const SUMMARY: &str = "\
    SELECT j.rev, j.state, b.submission FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n WHERE j.n = ?1";

/// The page of jobs after a cursor. `None` for an invalid cursor.
pub(super) fn page(
    connection: &Connection,
    quarantine: &Quarantine,
    filter: &JobFilter,
    after: ListPosition,
    limit: u16,
) -> rusqlite::Result<Option<Page<Summary>>> {
    // One snapshot for the order and for the jobs, so that each job still matches the filter.
    let snapshot = connection.unchecked_transaction()?;
    let Some(mut below) = below(&snapshot, after)? else { return Ok(None) };
    let limit = usize::from(limit.max(1));
    if needs_intersection(filter) {
        return filtered(&snapshot, quarantine, filter, below, limit).map(Some);
    }
    loop {
        let mut numbers = Selection { connection: &snapshot, filter, below, limit: limit + 1 }.numbers()?;
        let more = numbers.len() > limit;
        numbers.truncate(limit);
        let items = summaries(&snapshot, quarantine, &numbers)?;
        // A page of unreadable jobs only is not the end of the list.
        if let Some(last) = numbers.last().filter(|_| items.is_empty() && more) {
            below = *last;
            continue;
        }
        let next = items.last().filter(|_| more).map(|last| ListPosition::of(&last.job).cursor());
        return Ok(Some(Page { items, next }));
    }
}

/// A page of jobs that several indexes have in common.
fn filtered(
    snapshot: &Connection,
    quarantine: &Quarantine,
    filter: &JobFilter,
    below: i64,
    limit: usize,
) -> rusqlite::Result<Page<Summary>> {
    let last: i64 = snapshot.prepare_cached(LAST)?.query_row([], |row| row.get(0))?;
    let unindexed = search_index::unindexed(snapshot)?;
    let mut walk = Intersection::new(filter, below.min(last.saturating_add(1)), unindexed.as_ref());
    let mut page = FilteredPage::new(filter, limit);
    loop {
        let step = walk.step();
        match &step {
            Step::Read { index, below, limit } => {
                let selection = Selection { connection: snapshot, filter, below: *below, limit: *limit };
                let numbers = walk.listing(*index).map_or(Ok(Vec::new()), |listing| selection.listed(listing))?;
                walk.supply(*index, numbers);
                continue;
            }
            Step::Found(n) if !page.note(*n) => continue,
            Step::Found(_) | Step::Over | Step::Enough => {}
        }
        let read = summaries(snapshot, quarantine, &page.take_found())?;
        if let Some(end) = page.add(read, &step) {
            let partial = if end == PageEnd::Partial { cursor_above(snapshot, walk.below())? } else { None };
            return Ok(page.finish(end, partial));
        }
    }
}

/// The cursor after which the jobs with numbers below `below` follow.
fn cursor_above(connection: &Connection, below: i64) -> rusqlite::Result<Option<Cursor>> {
    let place = |id: JobId, created: i64| ListPosition { created: Timestamp::from_millis(created), id };
    let mut statement = connection.prepare_cached(NOT_BELOW)?;
    let found = statement.query_row([below], |row| Ok(place(job_id(row, 0)?, row.get(1)?))).optional()?;
    Ok(found.map(ListPosition::cursor))
}

fn summaries(connection: &Connection, quarantine: &Quarantine, numbers: &[i64]) -> rusqlite::Result<Vec<Summary>> {
    let mut items = Vec::with_capacity(numbers.len());
    for n in numbers {
        match summary(connection, *n) {
            Ok(summary) => items.push(summary),
            // An operator removed the row.
            Err(rusqlite::Error::QueryReturnedNoRows) => {}
            Err(error) if is_unreadable(&error) => {
                let id = connection.prepare_cached(ID)?.query_row([n], |row| job_id(row, 0))?;
                quarantine.add(JOBS, &id.to_string(), &error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(items)
}

/// The upper bound of the numbers after a position: jobs are numbered in order of submission.
fn below(connection: &Connection, after: ListPosition) -> rusqlite::Result<Option<i64>> {
    if after == ListPosition::top() {
        return Ok(Some(i64::MAX));
    }
    connection.prepare_cached(NUMBER)?.query_row([after.id.as_bytes()], |row| row.get(0)).optional()
}

fn summary(connection: &Connection, n: i64) -> rusqlite::Result<Summary> {
    let job = connection.prepare_cached(SUMMARY)?.query_row([n], versioned_job)?;
    Ok(Summary { job: job.value, revision: job.revision })
}

struct Selection<'a> {
    connection: &'a Connection,
    filter: &'a JobFilter,
    below: i64,
    limit: usize,
}

impl Selection<'_> {
    /// The first numbers that match the filter's products and stages, or its repository, in order.
    fn numbers(&self) -> rusqlite::Result<Vec<i64>> {
        if !self.filter.products.is_empty() || !self.filter.stages.is_empty() {
            return self.listed(&Listing::Stages);
        }
        match &self.filter.repo {
            Some(_) => self.listed(&Listing::Repo),
            None => self.read(NEWEST, params![self.below, self.limit()]),
        }
    }

    /// The first numbers of an index, in order.
    fn listed(&self, listing: &Listing) -> rusqlite::Result<Vec<i64>> {
        match listing {
            Listing::Stages => self.in_stages(),
            Listing::Repo => {
                let repo = self.filter.repo.as_ref().map(RepoName::as_str);
                self.read(NEWEST_OF_REPO, params![self.below, self.limit(), repo])
            }
            Listing::Terms(terms) => self.with_terms(terms),
        }
    }

    /// The index is ordered per product and stage; the first of all are among the first of each.
    fn in_stages(&self) -> rusqlite::Result<Vec<i64>> {
        let all = StageName::ALL.iter().collect();
        let named: BTreeSet<_> = self.filter.stages.iter().collect();
        let stages = if named.is_empty() { all } else { named };
        let mut numbers = Vec::new();
        for product in self.products()? {
            for stage in &stages {
                let params = params![self.below, self.limit(), product, stage.as_str()];
                numbers.extend(self.read(NEWEST_IN_STAGE, params)?);
            }
        }
        Ok(self.first_of(numbers))
    }

    fn with_terms(&self, terms: &[SearchTerm]) -> rusqlite::Result<Vec<i64>> {
        let mut numbers = Vec::new();
        for term in terms {
            numbers.extend(self.read(NEWEST_WITH_TERM, params![self.below, self.limit(), term.0])?);
        }
        Ok(self.first_of(numbers))
    }

    fn first_of(&self, mut numbers: Vec<i64>) -> Vec<i64> {
        numbers.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        numbers.dedup();
        numbers.truncate(self.limit);
        numbers
    }

    fn limit(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(i64::MAX)
    }

    /// The products of the filter, each once; all products if it names none.
    fn products(&self) -> rusqlite::Result<BTreeSet<String>> {
        if !self.filter.products.is_empty() {
            return Ok(self.filter.products.iter().map(|product| product.as_str().to_owned()).collect());
        }
        self.connection.prepare_cached(PRODUCTS)?.query_map([], |row| row.get(0))?.collect()
    }

    fn read(&self, sql: &str, params: impl Params) -> rusqlite::Result<Vec<i64>> {
        self.connection.prepare_cached(sql)?.query_map(params, |row| row.get(0))?.collect()
    }
}
