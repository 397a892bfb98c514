//! Queries about jobs, and the event log.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use domain::{
    Body, Cursor, Job, JobFilter, JobHistory, JobId, Page, Position, ProductId, Run, Scope, SearchTerm, StageName,
    StoreError, StoredEvent, Summary, Versioned,
};

use super::SimulatedDocumentStore;
use super::database::{Item, Order, Query};
use super::items::{JOBS, LAST, LOG, job, job_key, sortable, term_key, unreadable};
use super::log::{entry_id, place, recorded};
use crate::cursor::{EXAMINED_MAX, ListPosition};

/// Jobs read per request while a list is filled.
const LIST_PAGE: usize = 256;

#[async_trait]
impl JobHistory for SimulatedDocumentStore {
    async fn body(&self, id: JobId) -> Result<Option<Body>, StoreError> {
        let item = self.read(&job_key(id, "body")).await?;
        Ok(item.and_then(|item| item.document.fields.get("body").cloned()).map(Body))
    }

    async fn jobs(&self, filter: &JobFilter, after: Option<Cursor>, limit: u16) -> Result<Page<Summary>, StoreError> {
        let (mut after, limit) = (ListPosition::after(after.as_ref())?, usize::from(limit.max(1)));
        // The first group of terms finds the jobs; the rest of the filter is compared with each.
        let group = filter.term_groups().into_iter().next();
        let mut found: Vec<Summary> = Vec::new();
        let (mut examined, mut is_over) = (0, false);
        while found.len() <= limit && (group.is_none() || examined < EXAMINED_MAX) {
            let jobs = self.newest_after(group.as_deref(), after).await?;
            let Some(last) = jobs.last() else {
                is_over = true;
                break;
            };
            after = place_of(&last.value);
            examined += jobs.len();
            let chosen = jobs.into_iter().filter(|job| filter.matches(&job.value));
            found.extend(chosen.map(|job| Summary { job: job.value, revision: job.revision }));
        }
        let more = found.len() > limit;
        found.truncate(limit);
        let next = match more {
            true => found.last().map(|summary| place_of(&summary.job).cursor()),
            false => (!is_over).then(|| after.cursor()),
        };
        Ok(Page { items: found, next })
    }

    async fn events(&self, scope: &Scope, after: Position, limit: u16) -> Result<Vec<StoredEvent>, StoreError> {
        self.catch_up().await?;
        let (from, limit) = (Position(after.0.saturating_add(1)), usize::from(limit));
        match scope {
            Scope::Fleet => {
                let ids = || entry_id(from)..=format!("p:{LAST}");
                let items = self.patience.ask(|| self.database().range(LOG, LOG, ids(), limit)).await?;
                items.iter().map(recorded).collect()
            }
            Scope::Job(id) => self.entries("log_job", &id.to_string(), from, limit).await,
            Scope::Products(products) => {
                let mut heard = Vec::new();
                for product in products.iter().collect::<BTreeSet<_>>() {
                    heard.extend(self.entries("log_product", product.as_str(), from, limit).await?);
                }
                heard.sort_by_key(|event| event.position);
                heard.truncate(limit);
                Ok(heard)
            }
        }
    }

    async fn runs(&self, id: JobId, after: u32, limit: u16) -> Result<Vec<Run>, StoreError> {
        let partition = id.to_string();
        let runs = || {
            let ids = format!("run:{:010}", u64::from(after) + 1)..=format!("run:{LAST}");
            self.database().range(JOBS, &partition, ids, usize::from(limit))
        };
        let items = self.patience.ask(runs).await?;
        let run = |item: &Item| serde_json::from_str(item.document.text("json")).map_err(|e| unreadable(&item.key, e));
        items.iter().map(run).collect()
    }

    async fn census(&self) -> Result<Vec<(ProductId, StageName, u64)>, StoreError> {
        let mut counts = BTreeMap::new();
        for (value, n) in self.patience.ask(|| self.database().count("stage")).await? {
            let unreadable = || StoreError::Corrupt(format!("`{value}` is not a product and stage"));
            let (product, stage) = value.split_once(' ').ok_or_else(unreadable)?;
            let product: ProductId = product.parse().map_err(|_| unreadable())?;
            let stage: StageName = stage.parse().map_err(|_| unreadable())?;
            counts.insert((product, stage), n);
        }
        Ok(counts.into_iter().map(|((product, stage), n)| (product, stage, n)).collect())
    }

    fn operations(&self) -> Vec<(&'static str, u64)> {
        ["read", "range", "query", "batch", "feed"].map(|kind| (kind, self.database().requests(kind))).to_vec()
    }
}

impl SimulatedDocumentStore {
    /// The next jobs after a position, newest first: those with one of the terms, or all of them.
    async fn newest_after(
        &self,
        terms: Option<&[SearchTerm]>,
        after: ListPosition,
    ) -> Result<Vec<Versioned<Job>>, StoreError> {
        let end = format!("{}{}", sortable(after.created), after.id);
        let query =
            |name, from: String, to: String| Query { name, values: from..=to, order: Order::Falling, limit: LIST_PAGE };
        let queries = match terms {
            None => vec![query("created", String::new(), end)],
            Some(terms) => {
                let of_term = |term: &SearchTerm| query("term", term_key(*term, ""), term_key(*term, &end));
                terms.iter().map(of_term).collect()
            }
        };
        let mut jobs = BTreeMap::new();
        for query in queries {
            for item in self.query(&query).await? {
                let job = job(&item)?;
                jobs.insert(Reverse(place_of(&job.value)), job);
            }
        }
        // The first of all are among the first of each term.
        Ok(jobs.into_values().filter(|job| place_of(&job.value) < after).take(LIST_PAGE - 1).collect())
    }

    async fn entries(
        &self,
        name: &'static str,
        whose: &str,
        from: Position,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let values = place(whose, from)..=place(whose, Position(u64::MAX));
        let items = self.query(&Query { name, values, order: Order::Rising, limit }).await?;
        items.iter().map(recorded).collect()
    }
}

fn place_of(job: &Job) -> ListPosition {
    ListPosition { created: job.created_at(), id: job.id() }
}
