//! Submit: the write is the event [J3].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{
    Body, Commit, CommitError, DepsState, Job, JobId, Kind, Manifest, ProductId, Spec, StageName, StoreError,
    Strictness, Submission, Versioned,
};
use fail::fail_point;
use protocol::{JobView, Submit, Submitted};
use sha2::{Digest, Sha256};
use tracing::info;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::principal::Principal;

/// A batch is one request and one flush; a larger one would hold everybody else up.
const BATCH_LEN_MAX: usize = 1_000;

/// Longer keys could not be named as dependencies.
const KEY_LEN_MAX: usize = 190;

/// A job that is ready to be written, and what was noticed on the way.
struct Prepared {
    job: Job,
    body: Body,
    warnings: Vec<domain::Finding>,
}

/// What became of one submit.
pub(crate) struct Taken {
    pub(crate) job: Versioned<Arc<Job>>,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<domain::Finding>,
}

impl Coordinator {
    /// Writes a job down, once: the same key gives back the same job.
    pub async fn submit(&self, who: &Principal, request: Submit) -> Result<Submitted, Error> {
        let prepared = self.prepare(who, request, &BTreeMap::new()).await?;
        let taken = self.take(vec![prepared]).await.pop().unwrap_or(Err(Error::Unauthenticated))?;
        Ok(self.submitted(&taken))
    }

    /// Says what a submit would do, and writes nothing [B2].
    pub async fn submit_dry(&self, who: &Principal, request: Submit) -> Result<Submitted, Error> {
        let prepared = self.prepare(who, request, &BTreeMap::new()).await?;
        let job = Versioned { value: Arc::new(prepared.job), revision: domain::Revision(0) };
        Ok(self.submitted(&Taken { job, created: false, warnings: prepared.warnings }))
    }

    /// Writes many jobs down, each with its own outcome, in one flush.
    pub async fn submit_batch(
        &self,
        who: &Principal,
        requests: Vec<Submit>,
    ) -> Result<Vec<Result<(JobView, bool), Error>>, Error> {
        if requests.len() > BATCH_LEN_MAX {
            return Err(invalid("jobs", format!("{} in one batch, {BATCH_LEN_MAX} at most", requests.len())));
        }
        let siblings = self.siblings(who, &requests);
        let mut prepared = Vec::with_capacity(requests.len());
        for request in requests {
            prepared.push(self.prepare(who, request, &siblings).await);
        }
        self.refuse_orphans(&mut prepared).await?;
        let mut refused = Vec::with_capacity(prepared.len());
        let mut ready = Vec::with_capacity(prepared.len());
        for outcome in prepared {
            match outcome {
                Ok(job) => {
                    refused.push(None);
                    ready.push(job);
                }
                Err(error) => refused.push(Some(error)),
            }
        }
        let mut taken = self.take(ready).await.into_iter();
        let fill = |refused: Option<Error>| match refused {
            Some(error) => Err(error),
            None => {
                let taken = taken.next().unwrap_or(Err(Error::Unauthenticated))?;
                Ok((JobView::of(&taken.job.value, taken.job.revision), taken.created))
            }
        };
        Ok(refused.into_iter().map(fill).collect())
    }

    /// A job that names one of its own batch that is refused cannot be taken either: it would wait for ever.
    async fn refuse_orphans(&self, prepared: &mut [Result<Prepared, Error>]) -> Result<(), Error> {
        loop {
            let ready: BTreeSet<JobId> = prepared.iter().flatten().map(|one| one.job.id()).collect();
            let mut is_settled = true;
            for one in prepared.iter_mut() {
                let Ok(Prepared { job, .. }) = one else { continue };
                if let Some(dep) = self.missing_dep(job, &ready).await? {
                    *one = Err(Error::NoSuchDep(dep));
                    is_settled = false;
                }
            }
            if is_settled {
                return Ok(());
            }
        }
    }

    fn submitted(&self, taken: &Taken) -> Submitted {
        let forecast = self.forecast(&taken.job.value);
        let job = JobView::of(&taken.job.value, taken.job.revision);
        Submitted { job, created: taken.created, warnings: taken.warnings.clone(), forecast }
    }

    /// Everything that can be checked before the write.
    async fn prepare(
        &self,
        who: &Principal,
        request: Submit,
        siblings: &BTreeMap<JobId, BTreeSet<JobId>>,
    ) -> Result<Prepared, Error> {
        let strictness = if request.strict { Strictness::Strict } else { Strictness::Lenient };
        let manifest = Manifest::parse(&request.body_md, strictness).map_err(Error::Manifest)?;
        let product = self.product_of(who, &request, &manifest.spec)?;
        who.steer(&product)?;
        self.check_repo(&product, &manifest.spec)?;
        if manifest.spec.kind == Kind::Composite {
            return Err(invalid(
                "kind",
                "composite jobs are not taken yet: submit the children with `deps`".to_owned(),
            ));
        }
        let id = match &request.idempotency_key {
            Some(key) => JobId::derived(&product, check_key(key)?),
            None => self.new_job_id(),
        };
        let deps = self.check_deps(id, &product, &manifest.spec, siblings).await?;
        let submission = Submission {
            id,
            product,
            spec: manifest.spec,
            deps,
            idempotency_key: request.idempotency_key,
            body_sha256: digest(&request.body_md),
            by: who.name.clone(),
            at: self.now(),
        };
        let state = match self.deps_state(&submission, siblings).await? {
            true => DepsState::Met,
            false => DepsState::Unmet,
        };
        let job = Job::submit(submission, state);
        Ok(Prepared { job, body: Body(request.body_md.into()), warnings: manifest.warnings })
    }

    /// Writes prepared jobs in one flush, and finds out about those that were there already.
    async fn take(&self, prepared: Vec<Prepared>) -> Vec<Result<Taken, Error>> {
        if prepared.is_empty() {
            return Vec::new();
        }
        let described: Vec<_> = prepared.iter().map(|p| (Arc::clone(p.job.submission()), p.warnings.clone())).collect();
        let units: Vec<Commit> = prepared.into_iter().map(|p| Self::first(p.job, p.body)).collect();
        fail_point!("submit::before_commit");
        let written = self.commit_all(units).await;
        fail_point!("submit::committed");
        let mut outcomes = Vec::with_capacity(written.len());
        for (outcome, (submission, warnings)) in written.into_iter().zip(described) {
            outcomes.push(match outcome {
                Ok(job) => {
                    let (id, product) = (submission.id, &submission.product);
                    info!(job.id = %id, product = %product, "Submitted job `{id}`");
                    self.counters.submitted();
                    if job.value.stage().name() == StageName::Blocked {
                        // What it waits for may have ended between the look and the write.
                        self.settle(id).await;
                    }
                    Ok(Taken { job, created: true, warnings })
                }
                Err(CommitError::Stale | CommitError::Unknown) => self.already_there(&submission, warnings).await,
                Err(CommitError::Store(error)) => Err(error.into()),
            });
        }
        outcomes
    }

    async fn already_there(&self, wanted: &Submission, warnings: Vec<domain::Finding>) -> Result<Taken, Error> {
        let job = self.read(wanted.id).await.map_err(|error| match error {
            Error::NoSuchJob(_) => Error::Store(StoreError::Unavailable("it did not write the job".to_owned())),
            error => error,
        })?;
        self.announce(std::iter::once(&job));
        let there = job.value.submission();
        match &wanted.idempotency_key {
            Some(key) if there.body_sha256 != wanted.body_sha256 => {
                Err(Error::IdempotencyConflict { key: key.clone(), job: wanted.id })
            }
            _ => Ok(Taken { job, created: false, warnings }),
        }
    }

    fn product_of(&self, who: &Principal, request: &Submit, spec: &Spec) -> Result<ProductId, Error> {
        let own = who.products();
        let product = spec
            .product
            .clone()
            .or_else(|| request.product_id.clone())
            .or_else(|| own.first().cloned())
            .unwrap_or_else(ProductId::default_product);
        let desk = self.desk.lock();
        if desk.products.contains_key(&product) {
            return Ok(product);
        }
        let known = desk.products.keys().filter(|known| who.sees(known)).cloned().collect();
        Err(Error::UnknownProduct { given: product, known })
    }

    fn check_repo(&self, product: &ProductId, spec: &Spec) -> Result<(), Error> {
        let Some(repo) = &spec.repo else { return Ok(()) };
        let desk = self.desk.lock();
        let owner = desk.products.values().map(|product| &product.value).find(|product| product.repos.contains(repo));
        match owner {
            Some(owner) if owner.id != *product => {
                Err(Error::RepoOwned { repo: repo.clone(), owner: owner.id.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn check_key(key: &str) -> Result<&str, Error> {
    if key.is_empty() || key.len() > KEY_LEN_MAX {
        return Err(invalid("idempotencyKey", format!("1 to {KEY_LEN_MAX} characters, found {}", key.len())));
    }
    if !key.chars().all(domain::is_harmless) {
        return Err(invalid("idempotencyKey", "control characters are not allowed".to_owned()));
    }
    Ok(key)
}

fn digest(body: &str) -> String {
    Sha256::digest(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn invalid(what: &'static str, why: String) -> Error {
    Error::Invalid { what, why }
}
