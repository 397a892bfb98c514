//! Pages of jobs, newest first, each from an index in that order: jobs are numbered in order of submission.

use std::collections::BTreeSet;

use domain::{Cursor, JobFilter, JobId, Page, RepoName, SearchTerm, StageName, StoreError, Summary, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::pool::Pool;
use super::row::{column, job_id, uuid, versioned_job};
use super::search_index;
use crate::cursor::ListPosition;
use crate::intersection::{FilteredPage, Intersection, Listing, PageEnd, Step, needs_intersection};
use crate::quarantine::{JOBS, Quarantine};

pub(super) const NUMBER: &str = "SELECT n FROM fleet_jobs WHERE id = $1";
pub(super) const LAST: &str = "SELECT jobs FROM fleet_log";
pub(super) const NOT_BELOW: &str = "\
    SELECT j.id, j.created FROM (SELECT id, n FROM fleet_bodies WHERE n >= $1 ORDER BY n LIMIT 1) b
    JOIN fleet_jobs j ON j.id = b.id";
pub(super) const NEWEST: &str = "\
    SELECT j.rev, j.state, b.submission, j.id, j.n
    FROM fleet_bodies b JOIN fleet_jobs j ON j.id = b.id
    WHERE b.n < $1 ORDER BY b.n DESC LIMIT $2";
pub(super) const NEWEST_OF_REPO: &str = "\
    SELECT j.rev, j.state, b.submission, j.id, j.n
    FROM fleet_bodies b JOIN fleet_jobs j ON j.id = b.id
    WHERE b.repo = $3 AND b.n < $1 ORDER BY b.n DESC LIMIT $2";
/// The index is ordered per product and stage; the first of all are among the first of each.
pub(super) const NEWEST_IN_STAGES: &str = "\
    SELECT e.rev, e.state, e.submission, e.id, e.n
    FROM unnest($3::text[]) AS p (product) CROSS JOIN unnest($4::text[]) AS s (stage)
    CROSS JOIN LATERAL (
        SELECT j.rev, j.state, b.submission, j.id, j.n
        FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n
        WHERE j.product = p.product AND j.stage = s.stage AND j.n < $1
        ORDER BY j.n DESC LIMIT $2
    ) e ORDER BY e.n DESC LIMIT $2";
/// These only list the numbers.
pub(super) const NUMBERS_OF_REPO: &str =
    "SELECT n FROM fleet_bodies WHERE repo = $3 AND n < $1 ORDER BY n DESC LIMIT $2";
pub(super) const NUMBERS_IN_STAGES: &str = "\
    SELECT e.n FROM unnest($3::text[]) AS p (product) CROSS JOIN unnest($4::text[]) AS s (stage)
    CROSS JOIN LATERAL (
        SELECT j.n FROM fleet_jobs j WHERE j.product = p.product AND j.stage = s.stage AND j.n < $1
        ORDER BY j.n DESC LIMIT $2
    ) e ORDER BY e.n DESC LIMIT $2";
pub(super) const NUMBERS_WITH_TERMS: &str = "\
    SELECT e.n FROM unnest($3::bigint[]) AS t (term)
    CROSS JOIN LATERAL (
        SELECT i.n FROM fleet_terms i WHERE i.term = t.term AND i.n < $1 ORDER BY i.n DESC LIMIT $2
    ) e ORDER BY e.n DESC LIMIT $2";
pub(super) const JOBS_BY_NUMBER: &str = "\
    SELECT j.rev, j.state, b.submission, j.id, j.n
    FROM fleet_bodies b JOIN fleet_jobs j ON j.id = b.id WHERE b.n = ANY ($1::bigint[])";
pub(super) const PRODUCTS: &str = "SELECT DISTINCT product FROM fleet_counts";

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
    if needs_intersection(filter) {
        return filtered(pool, quarantine, filter, below, limit).await;
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

/// A page of jobs that several indexes have in common. Each read sees a later snapshot, and a job that changes in between
/// is compared as it was read last.
async fn filtered(
    pool: &Pool,
    quarantine: &Quarantine,
    filter: &JobFilter,
    below: i64,
    limit: usize,
) -> Result<Page<Summary>, StoreError> {
    let last: i64 = pool.rows(LAST, &[]).await?.first().map_or(Ok(0), |row| column(row, 0))?;
    let unindexed = search_index::unindexed(pool).await?;
    let products = products(pool, filter).await?;
    let mut walk = Intersection::new(filter, below.min(last.saturating_add(1)), unindexed.as_ref());
    let mut page = FilteredPage::new(filter, limit);
    loop {
        let step = walk.step();
        match &step {
            Step::Read { index, below, limit } => {
                let numbers = match walk.listing(*index) {
                    Some(listing) => numbers(pool, filter, &products, listing, *below, *limit).await?,
                    None => Vec::new(),
                };
                walk.supply(*index, numbers);
                continue;
            }
            Step::Found(n) if !page.note(*n) => continue,
            Step::Found(_) | Step::Over | Step::Enough => {}
        }
        let read = by_number(pool, quarantine, &page.take_found()).await?;
        if let Some(end) = page.add(read, &step) {
            let partial = if end == PageEnd::Partial { cursor_above(pool, walk.below()).await? } else { None };
            return Ok(page.finish(end, partial));
        }
    }
}

/// The first numbers of an index, in order.
async fn numbers(
    pool: &Pool,
    filter: &JobFilter,
    products: &[String],
    listing: &Listing,
    below: i64,
    limit: usize,
) -> Result<Vec<i64>, StoreError> {
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = match listing {
        Listing::Stages => pool.rows(NUMBERS_IN_STAGES, &[&below, &most, &products, &stages(filter)]).await?,
        Listing::Repo => {
            let repo = filter.repo.as_ref().map(RepoName::as_str);
            pool.rows(NUMBERS_OF_REPO, &[&below, &most, &repo]).await?
        }
        Listing::Terms(terms) => {
            let terms: Vec<i64> = terms.iter().map(|SearchTerm(term)| *term).collect();
            pool.rows(NUMBERS_WITH_TERMS, &[&below, &most, &terms]).await?
        }
    };
    // A job with two of the terms is listed twice: full reads stay full, because that decides whether more follow.
    rows.iter().map(|row| column(row, 0)).collect()
}

/// The readable jobs with these numbers, newest first.
async fn by_number(pool: &Pool, quarantine: &Quarantine, numbers: &[i64]) -> Result<Vec<Summary>, StoreError> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let rows = pool.rows(JOBS_BY_NUMBER, &[&numbers]).await?;
    let mut jobs = Vec::with_capacity(rows.len());
    for row in &rows {
        match summary(row) {
            Ok(summary) => jobs.push((column::<i64>(row, 4)?, summary)),
            Err(error) => quarantine.add(JOBS, &job_id(row, 3)?.to_string(), &error),
        }
    }
    jobs.sort_unstable_by_key(|(n, _)| std::cmp::Reverse(*n));
    Ok(jobs.into_iter().map(|(_, job)| job).collect())
}

/// The cursor after which the jobs with numbers below `below` follow.
async fn cursor_above(pool: &Pool, below: i64) -> Result<Option<Cursor>, StoreError> {
    let rows = pool.rows(NOT_BELOW, &[&below]).await?;
    let place = |row: &Row| -> Result<Cursor, StoreError> {
        let (id, created): (JobId, i64) = (job_id(row, 0)?, column(row, 1)?);
        Ok(ListPosition { created: Timestamp::from_millis(created), id }.cursor())
    };
    rows.first().map(place).transpose()
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
    let common: [&(dyn ToSql + Sync); 2] = [&below, &limit];
    let [below, limit] = common;
    if !filter.products.is_empty() || !filter.stages.is_empty() {
        let products = products(pool, filter).await?;
        return pool.rows(NEWEST_IN_STAGES, &[below, limit, &products, &stages(filter)]).await;
    }
    match filter.repo.as_ref().map(RepoName::as_str) {
        None => pool.rows(NEWEST, &common).await,
        Some(repo) => pool.rows(NEWEST_OF_REPO, &[below, limit, &repo]).await,
    }
}

/// The stages of the filter, each once; all stages if it names none.
fn stages(filter: &JobFilter) -> Vec<&'static str> {
    let named: BTreeSet<&str> = filter.stages.iter().map(|stage| stage.as_str()).collect();
    let is_chosen = |stage: &&StageName| named.is_empty() || named.contains(stage.as_str());
    StageName::ALL.iter().filter(is_chosen).map(|stage| stage.as_str()).collect()
}

/// The products of the filter, each once; all products if it names none.
async fn products(pool: &Pool, filter: &JobFilter) -> Result<Vec<String>, StoreError> {
    if filter.products.is_empty() {
        return pool.rows(PRODUCTS, &[]).await?.iter().map(|row| column(row, 0)).collect();
    }
    let products: BTreeSet<&str> = filter.products.iter().map(|product| product.as_str()).collect();
    Ok(products.into_iter().map(str::to_owned).collect())
}
