//! Submit: the write is the event [J3].

pub(crate) mod deps;
pub(crate) mod fast_path;
pub(crate) mod plan;
pub(crate) mod sanitize;
pub(crate) mod toposort;
pub(crate) mod tracker;
pub(crate) mod validate;

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use domain::{Body, Commit, CommitError, Dep, DepsState, Job, JobId, StageName, StoreError, Submission, Versioned};
use fail::fail_point;
use foldhash::{HashMap, HashMapExt as _};
use protocol::{JobView, SubmitRequest, SubmitResponse};
use scheduler::Explanation;
use tracing::info;

use crate::coordinator::Coordinator;
use crate::dispatch::Publish;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::validate::{ValidatedBatch, ValidatedJob, digest};
use crate::work::trees::grow::Placements;

/// A batch is one request and one flush; a larger one would delay other requests.
const BATCH_LEN_MAX: usize = 1_000;

/// Retries of one job's write after time-outs, before the store counts as unavailable.
const WRITE_AGAIN_MAX: u32 = 4;

/// The outcome of one submit.
pub(crate) struct SubmitOutcome {
    pub(crate) job: Versioned<Arc<Job>>,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<domain::Finding>,
}

impl Coordinator {
    /// Submits a job, once: the same idempotency key returns the same job.
    pub async fn submit(&self, who: &Principal, request: SubmitRequest) -> Result<SubmitResponse, Error> {
        let taken = self.submit_all(who, vec![request]).await?.pop().unwrap_or(Err(Error::Unauthenticated))?;
        let forecast = self.explanation_for(who, taken.job.value.id(), self.forecast(&taken.job.value));
        Ok(self.submitted(who, taken, forecast))
    }

    /// Reports what a submit would do, and writes nothing [B2].
    pub async fn submit_dry(&self, who: &Principal, request: SubmitRequest) -> Result<SubmitResponse, Error> {
        let prepared = self.validate_one(who, request).await?;
        let job = Versioned { value: Arc::new(prepared.job), revision: domain::Revision(0) };
        let forecast = self.explanation_for(who, job.value.id(), self.full_forecast(&job.value));
        Ok(self.submitted(who, SubmitOutcome { job, created: false, warnings: prepared.warnings }, forecast))
    }

    fn submitted(&self, who: &Principal, taken: SubmitOutcome, forecast: Explanation) -> SubmitResponse {
        let job = self.view(who, &taken.job.value, taken.job.revision);
        SubmitResponse { job, created: taken.created, warnings: taken.warnings, forecast }
    }

    /// Submits many jobs in one flush, each with its own outcome.
    pub async fn submit_batch(
        &self,
        who: &Principal,
        requests: Vec<SubmitRequest>,
    ) -> Result<Vec<Result<(JobView, bool), Error>>, Error> {
        if requests.len() > BATCH_LEN_MAX {
            return Err(invalid("jobs", format!("{} in one batch, {BATCH_LEN_MAX} at most", requests.len())));
        }
        let outcomes = self.submit_all(who, requests).await?;
        let view = |taken: SubmitOutcome| (JobView::of(&taken.job.value, taken.job.revision), taken.created);
        Ok(outcomes.into_iter().map(|outcome| outcome.map(view)).collect())
    }

    /// Adds children to a job, in one flush. A child without an idempotency key gets one of its parent and its body: the
    /// same request adds the same children once.
    pub async fn add_children(
        &self,
        who: &Principal,
        parent: JobId,
        mut requests: Vec<SubmitRequest>,
    ) -> Result<Vec<Result<(JobView, bool), Error>>, Error> {
        let job = self.look_up(parent).await?;
        if !who.sees(job.value.product()) {
            return Err(Error::NoSuchJob(parent));
        }
        who.require_operator(job.value.product())?;
        let mut alike: HashMap<String, u32> = HashMap::new();
        for request in &mut requests {
            let product = request.product_id.get_or_insert_with(|| job.value.product().clone());
            if product != job.value.product() {
                return Err(invalid(
                    "productId",
                    format!("a child belongs to the product of its parent, `{}`", job.value.product()),
                ));
            }
            if request.idempotency_key.is_none() {
                let body = digest(&request.body_md);
                let same = alike.entry(body.clone()).or_default();
                *same += 1;
                request.idempotency_key = Some(format!("child-{same}-of-{parent}:{body}"));
            }
            request.parent.get_or_insert(Dep::Id(parent));
        }
        self.submit_batch(who, requests).await
    }

    /// Validates jobs and writes them in one flush, each with its own outcome.
    async fn submit_all(
        &self,
        who: &Principal,
        requests: Vec<SubmitRequest>,
    ) -> Result<Vec<Result<SubmitOutcome, Error>>, Error> {
        let mut turn = match requests.iter().any(|request| request.parent.is_some()) {
            true => Some(self.trees.turn().await),
            false => None,
        };
        let ValidatedBatch { outcomes: mut prepared, placements } = self.validate(who, requests).await?;
        if let Some(turn) = &mut turn {
            turn.hold(placements.new_parents.iter().chain(placements.grown.keys()).copied());
            self.grow_parents(who, &placements, &mut prepared).await;
        }
        let outcomes = self.take_valid(prepared).await;
        if let Some(turn) = turn {
            self.settle(turn.end()).await;
        }
        Ok(outcomes)
    }

    /// Lets the stored parents of a batch wait for their new children, and rejects those whose parent cannot.
    async fn grow_parents(
        &self,
        who: &Principal,
        placements: &Placements,
        prepared: &mut [Result<ValidatedJob, Error>],
    ) {
        for (parent, children) in &placements.grown {
            let its: Vec<usize> = prepared
                .iter()
                .enumerate()
                .filter(|(_, job)| job.as_ref().is_ok_and(|job| children.contains(&job.job.id())))
                .map(|(at, _)| at)
                .collect();
            if its.is_empty() {
                continue;
            }
            if let Err(error) = self.grow(who, *parent, its.len()).await {
                for at in its {
                    prepared[at] = Err(invalid("parent", error.to_string()));
                }
            }
        }
    }

    /// Writes the valid jobs of a batch.
    async fn take_valid(&self, prepared: Vec<Result<ValidatedJob, Error>>) -> Vec<Result<SubmitOutcome, Error>> {
        let (mut outcomes, mut ready) = (Vec::with_capacity(prepared.len()), Vec::with_capacity(prepared.len()));
        for (place, job) in prepared.into_iter().enumerate() {
            match job {
                Ok(job) => {
                    outcomes.push(None);
                    ready.push((place, job));
                }
                Err(error) => outcomes.push(Some(Err(error))),
            }
        }
        // Children first: a store that writes jobs one by one never shows a parent without them.
        ready.sort_by_key(|(_, job)| Reverse(job.job.tree().map_or(0, |place| place.depth)));
        let (places, ready): (Vec<usize>, Vec<ValidatedJob>) = ready.into_iter().unzip();
        for (place, taken) in places.into_iter().zip(self.take(ready).await) {
            outcomes[place] = Some(taken);
        }
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(Error::Unauthenticated))).collect()
    }

    /// Writes a validated job.
    pub(crate) async fn submit_valid(&self, job: ValidatedJob) -> Result<SubmitOutcome, Error> {
        self.take(vec![job]).await.pop().unwrap_or(Err(Error::Unauthenticated))
    }

    /// Writes validated jobs in one flush, and resolves those that already exist.
    async fn take(&self, mut prepared: Vec<ValidatedJob>) -> Vec<Result<SubmitOutcome, Error>> {
        if prepared.is_empty() {
            return Vec::new();
        }
        let seats = self.offer_arrivals(&mut prepared);
        let described: Vec<_> = prepared
            .iter()
            .map(|p| (Arc::clone(p.job.submission()), p.warnings.clone(), first_stage(&p.job), p.body.clone()))
            .collect();
        let units: Vec<Commit> = prepared.into_iter().map(|p| Self::first(p.job, p.body)).collect();
        fail_point!("submit::before_commit");
        let written = self.commit_all(units).await;
        drop(seats);
        fail_point!("submit::committed");
        let mut outcomes = Vec::with_capacity(written.len());
        let mut blocked = Vec::new();
        for (outcome, (submission, warnings, deps, body)) in written.into_iter().zip(described) {
            let is_uncertain = matches!(outcome, Err(CommitError::Unknown));
            let outcome = match outcome {
                Err(CommitError::Unknown) => self.write_again(&submission, deps, &body).await,
                outcome => outcome,
            };
            outcomes.push(match outcome {
                Ok(job) => {
                    let (id, product) = (submission.id, &submission.product);
                    info!(job.id = %id, product = %product, "Submitted job {}", job.value.label());
                    self.counters.submitted();
                    if let Some(offer) = job.value.dispatch() {
                        self.note_dispatched(&offer.target, Duration::ZERO);
                        self.publish(&job.value, Publish::First);
                    }
                    if job.value.stage().name() == StageName::Blocked {
                        blocked.push(id);
                    }
                    Ok(SubmitOutcome { job, created: true, warnings })
                }
                Err(CommitError::Stale | CommitError::Unknown) => {
                    let there = self.already_there(&submission, warnings).await;
                    if let (true, Ok(taken)) = (is_uncertain, &there) {
                        // It may be this request's own write, reported late: its offer is published nowhere else.
                        self.publish(&taken.job.value, Publish::Again);
                    }
                    there
                }
                Err(CommitError::Store(error)) => Err(error.into()),
            });
        }
        // Their dependencies may have ended between the check and the write.
        self.settle(blocked).await;
        outcomes
    }

    /// Repeats a first write that timed out and did not happen. The id stays the same, so a late first write and its
    /// repetition create one job (row 32).
    async fn write_again(
        &self,
        wanted: &Submission,
        deps: DepsState,
        body: &Body,
    ) -> Result<Versioned<Arc<Job>>, CommitError> {
        for _ in 0..WRITE_AGAIN_MAX {
            if self.ports.jobs.job(wanted.id).await?.is_some() {
                return Err(CommitError::Stale);
            }
            let unit = Self::first(Job::submit(wanted.clone(), deps).begun_in(self.generation), body.clone());
            match self.commit_one(unit).await {
                Err(CommitError::Unknown) => {}
                outcome => return outcome,
            }
        }
        Err(CommitError::Unknown)
    }

    async fn already_there(&self, wanted: &Submission, warnings: Vec<domain::Finding>) -> Result<SubmitOutcome, Error> {
        let job = self.read(wanted.id).await.map_err(|error| match error {
            Error::NoSuchJob(_) => Error::Store(StoreError::Unavailable("the job was not written".to_owned())),
            error => error,
        })?;
        self.announce(std::iter::once(&job));
        let there = job.value.submission();
        let parent = |submission: &Submission| submission.tree.map(|place| place.parent_id);
        if parent(there) != parent(wanted) {
            return Err(invalid("parent", format!("job `{}` was submitted with another parent", wanted.id)));
        }
        match &wanted.idempotency_key {
            Some(key) if there.body_sha256 != wanted.body_sha256 => {
                Err(Error::IdempotencyConflict { key: key.clone(), job: wanted.id })
            }
            _ => Ok(SubmitOutcome { job, created: false, warnings }),
        }
    }
}

fn first_stage(job: &Job) -> DepsState {
    match job.stage().name() {
        StageName::Blocked if job.awaits_children() => DepsState::Children,
        StageName::Blocked => DepsState::Unmet,
        _ => DepsState::Met,
    }
}

pub(crate) fn invalid(what: &'static str, why: String) -> Error {
    Error::Invalid { what, why }
}
