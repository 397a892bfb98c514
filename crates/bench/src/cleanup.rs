//! A stay on a coordinator: what a benchmark puts there, and how all of it goes again, however the benchmark ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError};
use clock::{SystemClock, SystemEntropy};
use domain::{Capability, Clock, Entropy, FactoryId, Mode, Product, ProductId, RepoName, TokenScope};
use http::Method;
use parking_lot::Mutex;
use protocol::{ActionRequest, FactoryList, JobList, ProductList, ProductSettings, TokenList, TokenView};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::Error;
use crate::workload::is_only_elsewhere;

/// The name of the benchmarks' product, unless a product of this name exists.
pub(crate) const PRODUCT: &str = "bench";

/// The repository that only the product of benchmarks owns: a coordinator lets no second product have it.
const MARK: &str = "giga-bench";

/// Clearing up takes no longer, whatever the coordinator does.
const LEAVE_MAX: Duration = Duration::from_secs(60);

/// What was on its way when a benchmark was stopped has arrived by the second look.
const LOOKS_MIN: u32 = 2;

/// The pause between two polls of what is left.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Requests at one time: a coordinator that is in use is not to notice.
const AT_ONCE: usize = 16;

/// Nothing happens to a job for as long only where its benchmark was killed: those that work live one in milliseconds.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

/// Jobs that are not over.
const OPEN: &str = "queued,blocked,assigned,building,review,testing";

/// One benchmark's stay.
pub(crate) struct Cleanup {
    admin: Client,
    /// The prefix of its factories' names, which no other factory has.
    prefix: String,
    /// Nothing else is put there before this is known.
    product: Mutex<Option<PriorProduct>>,
    clock: Arc<dyn Clock>,
}

/// The product of benchmarks, and the state to restore.
#[derive(Clone)]
struct PriorProduct {
    id: ProductId,
    before: Option<Product>,
    mode: Option<Mode>,
}

impl Cleanup {
    pub(crate) fn new(admin: Client) -> Self {
        let entropy: &dyn Entropy = &SystemEntropy;
        let tag = u32::from_be_bytes(entropy.bytes());
        Self {
            admin,
            prefix: format!("bench-{tag:08x}-"),
            product: Mutex::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// A client that may do everything.
    pub(crate) fn admin(&self) -> &Client {
        &self.admin
    }

    /// The name of a factory.
    pub(crate) fn factory(&self, n: usize) -> Result<FactoryId, Error> {
        named(&format!("{}{n}", self.prefix))
    }

    /// The benchmarks' own product, which ships finished jobs automatically. No other product is changed.
    pub(crate) async fn product(&self) -> Result<ProductId, Error> {
        let mark: RepoName = named(MARK)?;
        let products: ProductList = self.admin.get("/products").await?;
        let before = products.items.iter().find(|product| product.repos.contains(&mark)).cloned();
        let is_taken = products.items.iter().any(|product| product.id.as_str() == PRODUCT);
        let id = match &before {
            Some(ours) => ours.id.clone(),
            None if is_taken => named(self.prefix.trim_end_matches('-'))?,
            None => named(PRODUCT)?,
        };
        let (flags, _) = self.admin.flags().await?;
        let mode = flags.products.get(&id).copied();
        let (repos, on, off) = (Some(BTreeSet::from([mark])), Some(true), Some(false));
        self.put(&id, ProductSettings { repos, auto_ship: on, paused: off, ..ProductSettings::default() }).await?;
        *self.product.lock() = Some(PriorProduct { id: id.clone(), before, mode });
        Ok(id)
    }

    /// Takes back everything that was put there, in bounded time. Once that is done, there is nothing more to do.
    pub(crate) async fn leave(&self) -> Result<(), Error> {
        let Some(found) = self.product.lock().clone() else { return Ok(()) };
        let mut last = None;
        let leaving = async {
            loop {
                match self.clear(&found).await {
                    Ok(()) => return Ok(()),
                    Err(error) if error.is_final() => return Err(Error::from(error)),
                    // One that starts again is waited for.
                    Err(error) => last = Some(error),
                }
                self.clock.sleep(LOOK_EVERY).await;
            }
        };
        match tokio::time::timeout(LEAVE_MAX, leaving).await {
            Ok(left) => left?,
            Err(_) => {
                let why = last.map_or_else(|| "it takes too long".to_owned(), |error| error.to_string());
                let (base, prefix, id) = (self.admin.base(), &self.prefix, &found.id);
                let left = format!("not everything of the benchmark could be removed from {base}: {why}");
                let hint = format!("what is left are factories {prefix}…, and jobs of product {id}");
                return Err(Error::failed(left).hint(hint));
            }
        }
        *self.product.lock() = None;
        Ok(())
    }

    async fn clear(&self, found: &PriorProduct) -> Result<(), ClientError> {
        self.admin.set_mode(Some(&found.id), found.mode).await?;
        let mut looks = 0;
        loop {
            let left = self.cancel_jobs(&found.id).await? + self.remove_factories().await?;
            looks += 1;
            if left == 0 && looks >= LOOKS_MIN {
                break;
            }
            self.clock.sleep(LOOK_EVERY).await;
        }
        let Some(before) = &found.before else { return Ok(()) };
        let (auto_ship, paused, repos) = (Some(before.auto_ship), Some(before.paused), Some(before.repos.clone()));
        self.put(&found.id, ProductSettings { auto_ship, paused, repos, ..ProductSettings::default() }).await
    }

    async fn put(&self, id: &ProductId, settings: ProductSettings) -> Result<(), ClientError> {
        let _: Value = self.admin.call(Method::PUT, &format!("/products/{id}"), Some(&settings)).await?;
        Ok(())
    }

    /// How many jobs there were to cancel. Those of another benchmark that is at work stay.
    async fn cancel_jobs(&self, product: &ProductId) -> Result<usize, ClientError> {
        let all = format!("/jobs?product={product}&stage={OPEN}&limit=1000");
        let mut page: JobList = self.admin.get(&all).await?;
        loop {
            let now = self.clock.now();
            let over = page.items.iter().filter(|job| is_over(&job.capabilities, now.since(job.updated_at)));
            let paths: Vec<String> = over.map(|job| format!("/jobs/{}/actions/cancel", job.id)).collect();
            match page.next {
                Some(next) if paths.is_empty() => page = self.admin.get(&format!("{all}&cursor={next}")).await?,
                _ => {
                    let message = Some("the benchmark is over".to_owned());
                    return self.each(Method::POST, paths, Some(ActionRequest { message, ..Default::default() })).await;
                }
            }
        }
    }

    /// How many factories and tokens there were to remove.
    async fn remove_factories(&self) -> Result<usize, ClientError> {
        let factories: FactoryList = self.admin.get("/factories").await?;
        let ours = factories.items.iter().filter(|factory| self.is_ours(&factory.id));
        let removed = ours.map(|factory| format!("/factories/{}", factory.id)).collect();
        let factories = self.each::<()>(Method::DELETE, removed, None).await?;
        // One that never gave a sign of life has a token all the same.
        let tokens: TokenList = self.admin.get("/tokens").await?;
        let ours = tokens.items.iter().filter(|token| self.has_made(token));
        let tokens = ours.map(|token| format!("/tokens/{}", token.id)).collect();
        Ok(factories + self.each::<()>(Method::DELETE, tokens, None).await?)
    }

    fn is_ours(&self, factory: &FactoryId) -> bool {
        factory.as_str().starts_with(&self.prefix)
    }

    fn has_made(&self, token: &TokenView) -> bool {
        match &token.grant {
            TokenScope::Factory { factory, .. } | TokenScope::Join { factory: Some(factory), .. } => {
                self.is_ours(factory)
            }
            TokenScope::Admin
            | TokenScope::Operator { .. }
            | TokenScope::Viewer { .. }
            | TokenScope::Join { factory: None, .. } => false,
        }
    }

    /// Does the same to many things, some at a time. One that is over or gone is no failure.
    async fn each<R>(&self, method: Method, paths: Vec<String>, body: Option<R>) -> Result<usize, ClientError>
    where
        R: Serialize + Clone + Send + Sync + 'static,
    {
        let (count, mut paths, mut calls) = (paths.len(), paths.into_iter(), JoinSet::new());
        loop {
            while calls.len() < AT_ONCE
                && let Some(path) = paths.next()
            {
                let (admin, method, body) = (self.admin.clone(), method.clone(), body.clone());
                calls.spawn(async move { admin.call::<R, Value>(method, &path, body.as_ref()).await });
            }
            match calls.join_next().await {
                None => return Ok(count),
                Some(Ok(Err(error))) if !error.is_final() => return Err(error),
                Some(_) => {}
            }
        }
    }
}

/// Whether a job is abandoned: it belongs to this benchmark, or to one without a sign of life for long. Whether
/// another one's process runs cannot be known: it may be another user's, or in another container.
fn is_over(needs: &[Capability], unchanged_for: Duration) -> bool {
    !needs.iter().any(is_only_elsewhere) || unchanged_for > FORGOTTEN_AFTER
}

fn named<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|error| Error::failed(format!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::only_here;

    // [P4]
    #[test]
    fn a_job_of_another_benchmark_is_left_alone_until_it_is_forgotten() {
        // A process of this number is nowhere on this machine.
        let needs = |text: &str| vec![text.parse::<Capability>().unwrap()];
        let (ours, other) = (needs(&only_here()), needs("has:giga-bench-4194999"));
        let (soon, late) = (Duration::from_mins(59), Duration::from_mins(61));

        assert_eq!([soon, late].map(|span| is_over(&other, span)), [false, true]);
        assert_eq!([soon, late].map(|span| is_over(&ours, span)), [true, true]);
        assert!(is_over(&[], soon), "no other client submits to this product");
    }
}
