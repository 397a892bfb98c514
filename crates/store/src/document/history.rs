//! Queries about jobs, and the event log.

use async_trait::async_trait;
use domain::{
    Body, Cursor, JobFilter, JobHistory, JobId, Page, Position, ProductId, Run, Scope, StageName, StoreError,
    StoredEvent, Summary,
};
use serde_json::Value;

use super::database::{Container, Filter, Order, Partition, Query};
use super::items::{LAST, job, job_key, listed_at, run_id, term, unreadable};
use super::log::{entry_id, log_partition, recorded};
use super::store::DocumentStore;
use crate::cursor::{EXAMINED_MAX, ListPosition};

/// Jobs read per request while a list is filled.
const LIST_PAGE: usize = 256;

#[async_trait]
impl JobHistory for DocumentStore {
    async fn body(&self, id: JobId) -> Result<Option<Body>, StoreError> {
        let Some(product) = self.product_of(id).await? else { return Ok(None) };
        let item = self.requests.read(&job_key(&product, id, "body")).await?;
        let body = item.as_ref().and_then(|item| item.document.get("manifestSnapshot")).and_then(Value::as_str);
        Ok(body.map(|body| Body(body.into())))
    }

    async fn jobs(&self, filter: &JobFilter, after: Option<Cursor>, limit: u16) -> Result<Page<Summary>, StoreError> {
        let (mut after, limit) = (ListPosition::after(after.as_ref())?, usize::from(limit.max(1)));
        let filters = filters(filter);
        let is_search = !filter.search.is_empty();
        let mut found: Vec<Summary> = Vec::new();
        let (mut examined, mut is_over) = (0, false);
        while found.len() <= limit && (!is_search || examined < EXAMINED_MAX) {
            let jobs = self.newest_after(&filters, after).await?;
            let Some(last) = jobs.last() else {
                is_over = true;
                break;
            };
            after = ListPosition::of(&last.job);
            examined += jobs.len();
            // Different properties may share a search term.
            found.extend(jobs.into_iter().filter(|summary| filter.matches(&summary.job)));
        }
        let more = found.len() > limit;
        found.truncate(limit);
        let next = match more {
            true => found.last().map(|summary| ListPosition::of(&summary.job).cursor()),
            false => (!is_over).then(|| after.cursor()),
        };
        Ok(Page { items: found, next })
    }

    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<StoredEvent>, StoreError> {
        self.catch_up().await?;
        let ids = entry_id(Position(after.0.saturating_add(1)))..=format!("p:{LAST}");
        let limit = usize::from(limit);
        let filter = match scope {
            Scope::Fleet => {
                let items = self.requests.range(Container::Log, &log_partition(), ids, limit).await?;
                return items.iter().map(recorded).collect();
            }
            Scope::Job(id) => Filter::is("jobId", id.to_string()),
            Scope::Products(products) if products.is_empty() => return Ok(Vec::new()),
            Scope::Products(products) => Filter::any_of("productId", products.iter().map(ProductId::as_str)),
        };
        let container = Container::Log;
        let query = Query { container, filters: vec![filter], order_by: "id", range: ids, order: Order::Rising, limit };
        self.requests.query(&query).await?.iter().map(recorded).collect()
    }

    async fn runs(&self, id: JobId, after: u32, limit: u16) -> Result<Vec<Run>, StoreError> {
        let Some(product) = self.product_of(id).await? else { return Ok(Vec::new()) };
        let ids = run_id(u64::from(after) + 1)..=format!("run:{LAST}");
        let partition = Partition::of_job(&product, id);
        let items = self.requests.range(Container::Jobs, &partition, ids, usize::from(limit)).await?;
        let mut runs = Vec::with_capacity(items.len());
        for item in &items {
            let run = item.document.get("run").cloned().unwrap_or_default();
            runs.push(serde_json::from_value(run).map_err(|error| unreadable(&item.key, error))?);
        }
        Ok(runs)
    }

    async fn census(&self) -> Result<Vec<(ProductId, StageName, u64)>, StoreError> {
        let mut counts = Vec::new();
        for (product, by_stage) in self.counted().await? {
            let product: ProductId = product
                .parse()
                .map_err(|_| StoreError::Corrupt(format!("`{product}` is not the name of a product")))?;
            counts.extend(by_stage.into_iter().map(|(stage, count)| (product.clone(), stage, count)));
        }
        Ok(counts)
    }

    fn operations(&self) -> Vec<(&'static str, u64)> {
        self.requests.counts()
    }
}

impl DocumentStore {
    /// The next jobs after a position, newest first.
    async fn newest_after(&self, filters: &[Filter], after: ListPosition) -> Result<Vec<Summary>, StoreError> {
        if filters.iter().any(|filter| filter.any_of.is_empty()) {
            return Ok(Vec::new());
        }
        let query = Query {
            container: Container::Jobs,
            filters: filters.to_vec(),
            order_by: "listedAt",
            range: String::new()..=listed_at(after.created, after.id),
            order: Order::Falling,
            limit: LIST_PAGE,
        };
        let mut jobs = Vec::new();
        for item in self.requests.query(&query).await? {
            let job = job(&item)?;
            if ListPosition::of(&job.value) < after {
                jobs.push(Summary { job: job.value, revision: job.revision });
            }
        }
        Ok(jobs)
    }
}

/// What a query can find of a filter: all of it, except that search terms may collide.
fn filters(filter: &JobFilter) -> Vec<Filter> {
    let mut filters = vec![Filter::is("type", "job")];
    if !filter.products.is_empty() {
        filters.push(Filter::any_of("productId", filter.products.iter().map(ProductId::as_str)));
    }
    if !filter.stages.is_empty() {
        filters.push(Filter::any_of("stage", filter.stages.iter().map(ToString::to_string)));
    }
    if let Some(repo) = &filter.repo {
        filters.push(Filter::is("repo", repo.as_str()));
    }
    filters.extend(filter.term_groups().into_iter().map(|group| Filter::any_of("terms", group.into_iter().map(term))));
    filters
}
