//! Pages of jobs, newest first, each from an index that already has their order.

use std::collections::BTreeSet;

use domain::{JobFilter, JobId, Page, Priority, RepoName, Summary, Timestamp};
use rusqlite::{Connection, Params, Row, params};

use super::row::{job_id, versioned_job};
use crate::cursor::Place;

pub(super) const NEWEST: &str = "\
    SELECT created, id, n FROM fleet_jobs INDEXED BY fleet_jobs_newest
    WHERE (created, id) < (?1, ?2) AND (?4 IS NULL OR priority = ?4) AND (?5 IS NULL OR repo = ?5)
    ORDER BY created DESC, id DESC LIMIT ?3";
pub(super) const NEWEST_OF_REPO: &str = "\
    SELECT created, id, n FROM fleet_jobs INDEXED BY fleet_jobs_newest_of_repo
    WHERE repo = ?5 AND (created, id) < (?1, ?2) AND (?4 IS NULL OR priority = ?4)
    ORDER BY created DESC, id DESC LIMIT ?3";
pub(super) const NEWEST_OF_PRODUCT: &str = "\
    SELECT created, id, n FROM fleet_jobs INDEXED BY fleet_jobs_newest_of_product
    WHERE product = ?6 AND (created, id) < (?1, ?2)
      AND (?4 IS NULL OR priority = ?4) AND (?5 IS NULL OR repo = ?5)
    ORDER BY created DESC, id DESC LIMIT ?3";
pub(super) const NEWEST_IN_STAGE: &str = "\
    SELECT created, id, n FROM fleet_jobs INDEXED BY fleet_jobs_newest_in_stage
    WHERE product = ?6 AND stage = ?7 AND (created, id) < (?1, ?2)
      AND (?4 IS NULL OR priority = ?4) AND (?5 IS NULL OR repo = ?5)
    ORDER BY created DESC, id DESC LIMIT ?3";
pub(super) const PRODUCTS: &str = "SELECT DISTINCT product FROM fleet_counts";
pub(super) const SUMMARY: &str = "\
    SELECT j.rev, j.state, b.submission FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n WHERE j.n = ?1";

/// The page of jobs that comes after a place.
pub(super) fn page(
    connection: &Connection,
    filter: &JobFilter,
    after: Place,
    limit: u16,
) -> rusqlite::Result<Page<Summary>> {
    // One snapshot for the order and for the jobs, so that each job still is what it was chosen for.
    let snapshot = connection.unchecked_transaction()?;
    let limit = usize::from(limit.max(1));
    let mut entries = Selection::new(&snapshot, filter, after, limit + 1).entries()?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| more).map(|entry| entry.place.cursor());
    let items = entries.iter().map(|entry| summary(&snapshot, entry.n)).collect::<rusqlite::Result<_>>()?;
    Ok(Page { items, next })
}

fn summary(connection: &Connection, n: i64) -> rusqlite::Result<Summary> {
    let job = connection.prepare_cached(SUMMARY)?.query_row([n], versioned_job)?;
    Ok(Summary { job: job.value, revision: job.revision })
}

/// A job in a list, before it is read.
struct Entry {
    place: Place,
    n: i64,
}

struct Selection<'a> {
    connection: &'a Connection,
    filter: &'a JobFilter,
    after: Place,
    limit: usize,
}

impl<'a> Selection<'a> {
    fn new(connection: &'a Connection, filter: &'a JobFilter, after: Place, limit: usize) -> Self {
        Self { connection, filter, after, limit }
    }

    /// The first of those that the filter names, in order. Each product and stage has an order of its own in the
    /// index; the first of all are among the first of each.
    fn entries(&self) -> rusqlite::Result<Vec<Entry>> {
        let (created, id) = (self.after.created.as_millis(), self.after.id.as_bytes());
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        let priority = self.filter.priority.map(Priority::name);
        let repo = self.filter.repo.as_ref().map(RepoName::as_str);
        let stages: BTreeSet<_> = self.filter.stages.iter().collect();
        if self.filter.products.is_empty() && stages.is_empty() {
            let sql = if repo.is_some() { NEWEST_OF_REPO } else { NEWEST };
            return self.read(sql, params![created, id, limit, priority, repo]);
        }
        let mut entries = Vec::new();
        for product in self.products()? {
            if stages.is_empty() {
                let params = params![created, id, limit, priority, repo, product];
                entries.extend(self.read(NEWEST_OF_PRODUCT, params)?);
            }
            for stage in &stages {
                let params = params![created, id, limit, priority, repo, product, stage.as_str()];
                entries.extend(self.read(NEWEST_IN_STAGE, params)?);
            }
        }
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.place));
        entries.truncate(self.limit);
        Ok(entries)
    }

    /// The products of the filter, each once; all there are when it names none.
    fn products(&self) -> rusqlite::Result<BTreeSet<String>> {
        if !self.filter.products.is_empty() {
            return Ok(self.filter.products.iter().map(|product| product.as_str().to_owned()).collect());
        }
        self.connection.prepare_cached(PRODUCTS)?.query_map([], |row| row.get(0))?.collect()
    }

    fn read(&self, sql: &str, params: impl Params) -> rusqlite::Result<Vec<Entry>> {
        self.connection.prepare_cached(sql)?.query_map(params, entry)?.collect()
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let (created, id): (i64, JobId) = (row.get(0)?, job_id(row, 1)?);
    Ok(Entry { place: Place { created: Timestamp::from_millis(created), id }, n: row.get(2)? })
}
