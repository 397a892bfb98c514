//! Pages of jobs, newest first, each from indexes that already have their order.

use std::collections::BTreeSet;

use domain::{JobFilter, Page, Priority, RepoName, StoreError, Summary, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::pool::Pool;
use super::row::{column, job_id, uuid, versioned_job};
use crate::cursor::Place;

pub(super) const NEWEST: &str = "\
    SELECT j.rev, j.state, b.submission, b.created, b.id
    FROM fleet_bodies b JOIN fleet_jobs j ON j.id = b.id
    WHERE (b.created, b.id) < ($1, $2) AND ($4::text IS NULL OR j.priority = $4)
    ORDER BY b.created DESC, b.id DESC LIMIT $3";
pub(super) const NEWEST_OF_REPO: &str = "\
    SELECT j.rev, j.state, b.submission, b.created, b.id
    FROM fleet_bodies b JOIN fleet_jobs j ON j.id = b.id
    WHERE b.repo = $5 AND (b.created, b.id) < ($1, $2) AND ($4::text IS NULL OR j.priority = $4)
    ORDER BY b.created DESC, b.id DESC LIMIT $3";
/// Each product has an order of its own in the index; the first of all are among the first of each.
pub(super) const NEWEST_OF_PRODUCTS: &str = "\
    SELECT e.rev, e.state, e.submission, e.created, e.id FROM unnest($6::text[]) AS p (product)
    CROSS JOIN LATERAL (
        SELECT j.rev, j.state, b.submission, b.created, b.id
        FROM fleet_bodies b JOIN fleet_jobs j ON j.id = b.id
        WHERE b.product = p.product AND (b.created, b.id) < ($1, $2)
          AND ($4::text IS NULL OR j.priority = $4) AND ($5::text IS NULL OR b.repo = $5)
        ORDER BY b.created DESC, b.id DESC LIMIT $3
    ) e ORDER BY e.created DESC, e.id DESC LIMIT $3";
pub(super) const NEWEST_IN_STAGES: &str = "\
    SELECT e.rev, e.state, e.submission, e.created, e.id
    FROM unnest($6::text[]) AS p (product) CROSS JOIN unnest($7::text[]) AS s (stage)
    CROSS JOIN LATERAL (
        SELECT j.rev, j.state, b.submission, j.created, j.id
        FROM fleet_jobs j JOIN fleet_bodies b ON b.id = j.id
        WHERE j.product = p.product AND j.stage = s.stage AND (j.created, j.id) < ($1, $2)
          AND ($4::text IS NULL OR j.priority = $4) AND ($5::text IS NULL OR b.repo = $5)
        ORDER BY j.created DESC, j.id DESC LIMIT $3
    ) e ORDER BY e.created DESC, e.id DESC LIMIT $3";
pub(super) const PRODUCTS: &str = "SELECT DISTINCT product FROM fleet_counts";

/// The page of jobs that comes after a place. One statement reads it, so that each job is what it was chosen for.
pub(super) async fn page(
    pool: &Pool,
    filter: &JobFilter,
    after: Place,
    limit: u16,
) -> Result<Page<Summary>, StoreError> {
    let limit = usize::from(limit.max(1));
    // One more than asked for tells whether there is another page.
    let mut rows = Selection::new(filter, after, limit + 1).rows(pool).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| Ok::<_, StoreError>(place(row)?.cursor())).transpose()?;
    Ok(Page { items: rows.iter().map(summary).collect::<Result<_, _>>()?, next })
}

fn summary(row: &Row) -> Result<Summary, StoreError> {
    let job = versioned_job(row)?;
    Ok(Summary { job: job.value, revision: job.revision })
}

fn place(row: &Row) -> Result<Place, StoreError> {
    Ok(Place { created: Timestamp::from_millis(column(row, 3)?), id: job_id(row, 4)? })
}

/// What the statements are asked with.
struct Selection<'a> {
    filter: &'a JobFilter,
    created: i64,
    id: Uuid,
    limit: i64,
    priority: Option<&'static str>,
    repo: Option<&'a str>,
}

impl<'a> Selection<'a> {
    fn new(filter: &'a JobFilter, after: Place, limit: usize) -> Self {
        Self {
            filter,
            created: after.created.as_millis(),
            id: uuid(after.id),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            priority: filter.priority.map(Priority::name),
            repo: filter.repo.as_ref().map(RepoName::as_str),
        }
    }

    async fn rows(&self, pool: &Pool) -> Result<Vec<Row>, StoreError> {
        let common: [&(dyn ToSql + Sync); 4] = [&self.created, &self.id, &self.limit, &self.priority];
        let [created, id, limit, priority] = common;
        let stages: BTreeSet<&str> = self.filter.stages.iter().map(|stage| stage.as_str()).collect();
        let stages: Vec<&str> = stages.into_iter().collect();
        match (self.filter.products.is_empty() && stages.is_empty(), self.repo) {
            (true, None) => pool.rows(NEWEST, &common).await,
            (true, Some(repo)) => pool.rows(NEWEST_OF_REPO, &[created, id, limit, priority, &repo]).await,
            (false, _) => {
                let products = self.products(pool).await?;
                let with_products = [created, id, limit, priority, &self.repo, &products];
                if stages.is_empty() {
                    return pool.rows(NEWEST_OF_PRODUCTS, &with_products).await;
                }
                let [.., repo, products] = with_products;
                pool.rows(NEWEST_IN_STAGES, &[created, id, limit, priority, repo, products, &stages]).await
            }
        }
    }

    /// The products of the filter, each once; all there are when it names none.
    async fn products(&self, pool: &Pool) -> Result<Vec<String>, StoreError> {
        if self.filter.products.is_empty() {
            return pool.rows(PRODUCTS, &[]).await?.iter().map(|row| column(row, 0)).collect();
        }
        let products: BTreeSet<&str> = self.filter.products.iter().map(|product| product.as_str()).collect();
        Ok(products.into_iter().map(str::to_owned).collect())
    }
}
