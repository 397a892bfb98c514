//! Pages of jobs, newest first, each from an index in that order: jobs are numbered in order of submission.

use std::collections::BTreeSet;

use domain::{JobFilter, Page, Priority, RepoName, StageName, StoreError, Summary};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::pool::Pool;
use super::row::{column, job_id, uuid, versioned_job};
use crate::cursor::{EXAMINED_MAX, ListPosition};
use crate::quarantine::{JOBS, Quarantine};

pub(super) const NUMBER: &str = "SELECT n FROM fleet_jobs WHERE id = $1";
pub(super) const NEWEST: &str = "\
    SELECT j.rev, j.state, b.submission, j.id, j.n
    FROM fleet_bodies b JOIN fleet_jobs j ON j.id = b.id
    WHERE b.n < $1 AND ($3::text IS NULL OR j.priority = $3)
    ORDER BY b.n DESC LIMIT $2";
pub(super) const NEWEST_OF_REPO: &str = "\
    SELECT j.rev, j.state, b.submission, j.id, j.n
    FROM fleet_bodies b JOIN fleet_jobs j ON j.id = b.id
    WHERE b.repo = $4 AND b.n < $1 AND ($3::text IS NULL OR j.priority = $3)
    ORDER BY b.n DESC LIMIT $2";
/// The index is ordered per product and stage; the first of all are among the first of each.
pub(super) const NEWEST_IN_STAGES: &str = "\
    SELECT e.rev, e.state, e.submission, e.id, e.n
    FROM unnest($5::text[]) AS p (product) CROSS JOIN unnest($6::text[]) AS s (stage)
    CROSS JOIN LATERAL (
        SELECT j.rev, j.state, b.submission, j.id, j.n
        FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n
        WHERE j.product = p.product AND j.stage = s.stage AND j.n < $1
          AND ($3::text IS NULL OR j.priority = $3) AND ($4::text IS NULL OR b.repo = $4)
        ORDER BY j.n DESC LIMIT $2
    ) e ORDER BY e.n DESC LIMIT $2";
pub(super) const PRODUCTS: &str = "SELECT DISTINCT product FROM fleet_counts";

/// Jobs that a search reads at once.
const SEARCH_PAGE: usize = 500;

/// The page of jobs after a position. One statement reads it, so that each job still matches the filter.
pub(super) async fn page(
    pool: &Pool,
    quarantine: &Quarantine,
    filter: &JobFilter,
    after: ListPosition,
    limit: u16,
) -> Result<Page<Summary>, StoreError> {
    let limit = usize::from(limit.max(1));
    let mut below = below(pool, after).await?;
    if !filter.search.is_empty() {
        return search(pool, quarantine, filter, below, limit).await;
    }
    loop {
        // One more than requested shows whether another page follows.
        let mut rows = rows(pool, filter, below, limit + 1).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let mut items = Vec::with_capacity(rows.len());
        for row in &rows {
            match summary(row) {
                Ok(summary) => items.push(summary),
                Err(error) => quarantine.add(JOBS, &job_id(row, 3)?.to_string(), &error),
            }
        }
        // A page of unreadable jobs only is not the end of the list.
        if let Some(last) = rows.last().filter(|_| items.is_empty() && more) {
            below = column(last, 4)?;
            continue;
        }
        let next = items.last().filter(|_| more).map(|last| ListPosition::of(&last.job).cursor());
        return Ok(Page { items, next });
    }
}

/// The page of a search: jobs are read in the order of the index until enough match, or enough were read.
async fn search(
    pool: &Pool,
    quarantine: &Quarantine,
    filter: &JobFilter,
    mut below: i64,
    limit: usize,
) -> Result<Page<Summary>, StoreError> {
    let (mut items, mut examined): (Vec<Summary>, usize) = (Vec::new(), 0);
    loop {
        let rows = rows(pool, filter, below, SEARCH_PAGE).await?;
        let Some(last) = rows.last() else { return Ok(Page { items, next: None }) };
        below = column(last, 4)?;
        examined += rows.len();
        let mut last_read = None;
        for row in &rows {
            match summary(row) {
                Ok(summary) => {
                    last_read = Some(ListPosition::of(&summary.job).cursor());
                    items.extend(Some(summary).filter(|summary| filter.search.matches(&summary.job)));
                }
                Err(error) => quarantine.add(JOBS, &job_id(row, 3)?.to_string(), &error),
            }
        }
        if items.len() > limit {
            items.truncate(limit);
            let next = items.last().map(|last| ListPosition::of(&last.job).cursor());
            return Ok(Page { items, next });
        }
        if rows.len() < SEARCH_PAGE {
            return Ok(Page { items, next: None });
        }
        // A page of unreadable jobs has no position to continue from.
        if examined >= EXAMINED_MAX && last_read.is_some() {
            return Ok(Page { items, next: last_read });
        }
    }
}

/// The upper bound of the numbers after a position.
async fn below(pool: &Pool, after: ListPosition) -> Result<i64, StoreError> {
    if after == ListPosition::top() {
        return Ok(i64::MAX);
    }
    let rows = pool.rows(NUMBER, &[&uuid(after.id)]).await?;
    rows.first().map_or(Err(StoreError::BadCursor), |row| column(row, 0))
}

fn summary(row: &Row) -> Result<Summary, StoreError> {
    let job = versioned_job(row)?;
    Ok(Summary { job: job.value, revision: job.revision })
}

async fn rows(pool: &Pool, filter: &JobFilter, below: i64, limit: usize) -> Result<Vec<Row>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let priority = filter.priority.map(Priority::name);
    let repo = filter.repo.as_ref().map(RepoName::as_str);
    let common: [&(dyn ToSql + Sync); 3] = [&below, &limit, &priority];
    let [below, limit, priority] = common;
    if filter.products.is_empty() && filter.stages.is_empty() {
        return match repo {
            None => pool.rows(NEWEST, &common).await,
            Some(repo) => pool.rows(NEWEST_OF_REPO, &[below, limit, priority, &repo]).await,
        };
    }
    let all = StageName::ALL.iter().map(|stage| stage.as_str()).collect();
    let named: BTreeSet<&str> = filter.stages.iter().map(|stage| stage.as_str()).collect();
    let stages: Vec<&str> = if named.is_empty() { all } else { named.into_iter().collect() };
    let products = products(pool, filter).await?;
    pool.rows(NEWEST_IN_STAGES, &[below, limit, priority, &repo, &products, &stages]).await
}

/// The products of the filter, each once; all products if it names none.
async fn products(pool: &Pool, filter: &JobFilter) -> Result<Vec<String>, StoreError> {
    if filter.products.is_empty() {
        return pool.rows(PRODUCTS, &[]).await?.iter().map(|row| column(row, 0)).collect();
    }
    let products: BTreeSet<&str> = filter.products.iter().map(|product| product.as_str()).collect();
    Ok(products.into_iter().map(str::to_owned).collect())
}
