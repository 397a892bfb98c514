//! Pages of jobs, newest first, each from an index in that order.

use std::collections::BTreeSet;

use domain::{JobFilter, Page, Priority, RepoName, StageName, Summary};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::row::{is_unreadable, job_id, versioned_job};
use crate::cursor::{EXAMINED_MAX, ListPosition};
use crate::quarantine::{JOBS, Quarantine};

pub(super) const NUMBER: &str = "SELECT n FROM fleet_jobs WHERE id = ?1";
pub(super) const ID: &str = "SELECT id FROM fleet_jobs WHERE n = ?1";
pub(super) const NEWEST: &str = "\
    SELECT n FROM fleet_jobs WHERE n < ?1 AND (?3 IS NULL OR priority = ?3) ORDER BY n DESC LIMIT ?2";
pub(super) const NEWEST_OF_REPO: &str = "\
    SELECT n FROM fleet_jobs INDEXED BY fleet_jobs_of_repo
    WHERE repo = ?4 AND n < ?1 AND (?3 IS NULL OR priority = ?3) ORDER BY n DESC LIMIT ?2";
pub(super) const NEWEST_IN_STAGE: &str = "\
    SELECT n FROM fleet_jobs INDEXED BY fleet_jobs_in_stage
    WHERE product = ?5 AND stage = ?6 AND n < ?1 AND (?3 IS NULL OR priority = ?3) AND (?4 IS NULL OR repo = ?4)
    ORDER BY n DESC LIMIT ?2";
pub(super) const PRODUCTS: &str = "SELECT DISTINCT product FROM fleet_counts";
pub(super) const SUMMARY: &str = "\
    SELECT j.rev, j.state, b.submission FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n WHERE j.n = ?1";

/// Jobs that a search reads at once.
const SEARCH_PAGE: usize = 500;

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
    if !filter.search.is_empty() {
        return search(&snapshot, quarantine, filter, below, limit).map(Some);
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

/// The page of a search: jobs are read in the order of the index until enough match, or enough were read.
fn search(
    snapshot: &Connection,
    quarantine: &Quarantine,
    filter: &JobFilter,
    mut below: i64,
    limit: usize,
) -> rusqlite::Result<Page<Summary>> {
    let (mut items, mut examined): (Vec<Summary>, usize) = (Vec::new(), 0);
    loop {
        let numbers = Selection { connection: snapshot, filter, below, limit: SEARCH_PAGE }.numbers()?;
        let Some(last) = numbers.last() else { return Ok(Page { items, next: None }) };
        below = *last;
        examined += numbers.len();
        let read = summaries(snapshot, quarantine, &numbers)?;
        let last_read = read.last().map(|summary| ListPosition::of(&summary.job).cursor());
        items.extend(read.into_iter().filter(|summary| filter.search.matches(&summary.job)));
        if items.len() > limit {
            items.truncate(limit);
            let next = items.last().map(|last| ListPosition::of(&last.job).cursor());
            return Ok(Page { items, next });
        }
        if numbers.len() < SEARCH_PAGE {
            return Ok(Page { items, next: None });
        }
        // A page of unreadable jobs has no position to continue from.
        if examined >= EXAMINED_MAX && last_read.is_some() {
            return Ok(Page { items, next: last_read });
        }
    }
}

fn summaries(connection: &Connection, quarantine: &Quarantine, numbers: &[i64]) -> rusqlite::Result<Vec<Summary>> {
    let mut items = Vec::with_capacity(numbers.len());
    for n in numbers {
        match summary(connection, *n) {
            Ok(summary) => items.push(summary),
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
    /// The first numbers that match the filter, in order. The index is ordered per product and stage; the first of all
    /// are among the first of each.
    fn numbers(&self) -> rusqlite::Result<Vec<i64>> {
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        let priority = self.filter.priority.map(Priority::name);
        let repo = self.filter.repo.as_ref().map(RepoName::as_str);
        if self.filter.products.is_empty() && self.filter.stages.is_empty() {
            return match repo {
                Some(repo) => self.read(NEWEST_OF_REPO, params![self.below, limit, priority, repo]),
                None => self.read(NEWEST, params![self.below, limit, priority]),
            };
        }
        let all = StageName::ALL.iter().collect();
        let named: BTreeSet<_> = self.filter.stages.iter().collect();
        let stages = if named.is_empty() { all } else { named };
        let mut numbers = Vec::new();
        for product in self.products()? {
            for stage in &stages {
                let params = params![self.below, limit, priority, repo, product, stage.as_str()];
                numbers.extend(self.read(NEWEST_IN_STAGE, params)?);
            }
        }
        numbers.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        numbers.truncate(self.limit);
        Ok(numbers)
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
