//! Short work after completion: moving the pull request's branch, and merging [F5].

use client::ClientError;
use domain::{BranchName, ErrandKind, Generation, JobId, ProductId, PullRequest, RepoName, RunKey};
use fail::fail_point;
use protocol::{Assignment, ErrandOutcome, ErrandReport, JobDetail, JobView, PromoteOrder};
use tracing::{info, warn};
use workspace::{Error, Mirror, RepoConfig, ShipOrder, ShipOutcome};

use super::Worker;
use super::reports;

/// The subject of an errand.
pub(super) struct ErrandSubject {
    pub(super) job: JobId,
    pub(super) product: ProductId,
    pub(super) title: String,
    pub(super) base: BranchName,
    pub(super) mirror: Mirror,
    pub(super) config: RepoConfig,
}

/// The outcome of an errand.
pub(super) struct ErrandResult {
    pub(super) outcome: ErrandOutcome,
    pub(super) request: Option<PullRequest>,
}

impl From<ErrandOutcome> for ErrandResult {
    fn from(outcome: ErrandOutcome) -> Self {
        Self { outcome, request: None }
    }
}

impl Worker {
    /// Does an errand that was dispatched on its own, and reports its outcome.
    pub(super) async fn run_errand(&self, assignment: &Assignment, order: &PromoteOrder) {
        self.titles.keep(assignment);
        let done = match &assignment.repo {
            Some(repo) => {
                let done = self.attempt(assignment, repo, order).await;
                self.put_off_if_remote_is_away(repo, assignment.job_id, order, done).await
            }
            None => impossible("the job has no repository".to_owned()).into(),
        };
        let conflicts_with = self.conflicting_job(assignment, &done.outcome).await;
        self.report_errand_with(assignment.job_id, order, done, conflicts_with).await;
    }

    /// Moves the branch right after the completion of a run of this factory.
    pub(super) async fn promote_now(
        &self,
        mirror: &Mirror,
        config: &RepoConfig,
        assignment: &Assignment,
        order: &PromoteOrder,
    ) {
        let subject = ErrandSubject::of(assignment, mirror.clone(), config.clone());
        self.promote_and_report(&subject, order).await;
    }

    /// Moves the branch after the completion of `run` was delivered late.
    pub(super) async fn promote_late(&self, run: RunKey, order: &PromoteOrder) {
        let records = self.ledger.records().await.map(|listing| listing.records).unwrap_or_default();
        let repo = records.into_iter().find(|record| record.is_of(run)).and_then(|record| record.repo);
        // Without the record the coordinator asks another factory: its errand has a deadline.
        let Some(repo) = repo else { return };
        let Ok((mirror, config)) = self.mirror(&repo) else { return };
        let Ok(job) = self.job(run.job).await else { return };
        if self.check_repository(&mirror, job.checkpoint.as_ref()).is_err() {
            return;
        }
        let base = job.base.unwrap_or_else(|| config.base.clone());
        let subject = ErrandSubject { job: run.job, product: job.product_id, title: job.title, base, mirror, config };
        self.promote_and_report(&subject, order).await;
    }

    async fn promote_and_report(&self, subject: &ErrandSubject, order: &PromoteOrder) {
        fail_point!("factory::before_promotion", |_| ());
        let done = self.promote(subject, order).await;
        let done = self.put_off_if_remote_is_away(subject.mirror.repo(), subject.job, order, done).await;
        fail_point!("factory::promoted", |_| ());
        self.report_errand(subject.job, order, done).await;
    }

    async fn put_off_if_remote_is_away(
        &self,
        repo: &RepoName,
        job: JobId,
        order: &PromoteOrder,
        done: ErrandResult,
    ) -> ErrandResult {
        match self.mirror(repo) {
            Ok((mirror, config)) => {
                let name = self.host.refs().run(RunKey { job, epoch: order.run_epoch });
                self.put_off_if_unavailable(done, &mirror, &config, name).await
            }
            Err(_) => done,
        }
    }

    async fn attempt(&self, assignment: &Assignment, repo: &RepoName, order: &PromoteOrder) -> ErrandResult {
        let subject = match self.mirror(repo) {
            Ok((mirror, config)) => ErrandSubject::of(assignment, mirror, config),
            Err(error) => return failed(&error).into(),
        };
        let mirror = &subject.mirror;
        if let Err(error) = self.check_repository(mirror, assignment.checkpoint.as_ref()) {
            return failed(&error).into();
        }
        if let Err(error) = self.refresh(mirror, &subject.config).await {
            return failed(&error).into();
        }
        let run = RunKey { job: subject.job, epoch: order.run_epoch };
        if let Err(error) = mirror.fetch_ref(&self.host.refs().run(run)).await {
            return failed(&error).into();
        }
        match order.kind {
            ErrandKind::Promote => self.promote(&subject, order).await,
            ErrandKind::Ship => {
                if let Some(outcome) = self.refuse_second_merge(&subject, order).await {
                    return outcome.into();
                }
                if let Some(outcome) = self.refuse_stale(subject.job, order).await {
                    return outcome.into();
                }
                let done = self.ship(&subject, order).await;
                fail_point!("factory::merged", |_| ErrandOutcome::Done.into());
                done
            }
        }
    }

    /// Through the forge where the job has a pull request, by plain git where it has none.
    async fn ship(&self, subject: &ErrandSubject, order: &PromoteOrder) -> ErrandResult {
        if let Some(done) = self.ship_request(subject, order).await {
            return done;
        }
        let order = ShipOrder {
            job: subject.job,
            sha: order.sha.clone(),
            base: subject.base.clone(),
            message: format!("Merge job {}\n\n{}", subject.job, subject.title),
            after: self.after_ship(subject.mirror.repo(), &subject.product),
        };
        ship(&subject.mirror, &order).await.into()
    }

    /// After a restore from a backup the job may have shipped before, as another commit. Nothing ships twice.
    async fn refuse_second_merge(&self, subject: &ErrandSubject, order: &PromoteOrder) -> Option<ErrandOutcome> {
        if !is_restored(order) {
            return None;
        }
        let base = &subject.base;
        match subject.mirror.prior_merge(subject.job, base, &order.sha).await {
            Ok(None) => None,
            Ok(Some(merge)) => Some(impossible(format!(
                "`{base}` holds another merge of this job, {merge}, from before the fleet was put back from a backup: \
                 check it, then cancel the job or requeue it"
            ))),
            Err(error) => Some(failed(&error)),
        }
    }

    pub(super) async fn job(&self, job: JobId) -> Result<JobView, ClientError> {
        let found: JobDetail = self.client.get(&format!("/jobs/{job}")).await?;
        Ok(found.job)
    }

    /// The shipped job that a merge conflicts with, where the base branch names it.
    async fn conflicting_job(&self, assignment: &Assignment, outcome: &ErrandOutcome) -> Option<JobId> {
        let ErrandOutcome::Impossible { conflict: Some(conflict), .. } = outcome else { return None };
        let (mirror, _) = self.mirror(assignment.repo.as_ref()?).ok()?;
        let found = mirror.last_job_to_change(&conflict.base_sha, &conflict.files).await.ok()?;
        found.filter(|other| *other != assignment.job_id && !conflict.files.is_empty())
    }

    async fn report_errand(&self, job: JobId, order: &PromoteOrder, done: ErrandResult) {
        self.report_errand_with(job, order, done, None).await;
    }

    async fn report_errand_with(
        &self,
        job: JobId,
        order: &PromoteOrder,
        done: ErrandResult,
        conflicts_with: Option<JobId>,
    ) {
        let ErrandResult { outcome, request } = done;
        self.log_outcome(job, order.kind, &outcome);
        let report = ErrandReport { lease_epoch: order.lease_epoch, outcome, pull_request: request, conflicts_with };
        let answered = self.report(reports::promote(job, report)).await;
        if let reports::ReportResponse::Refused(why) = answered {
            warn!(job.id = %job, %why, "The report on job {} was refused", self.titles.label(job));
        }
    }

    fn log_outcome(&self, job: JobId, kind: ErrandKind, outcome: &ErrandOutcome) {
        let label = self.titles.label(job);
        let (done, doing) = match kind {
            ErrandKind::Promote => ("Promoted", "Promoting"),
            ErrandKind::Ship => ("Merged", "Merging"),
        };
        match outcome {
            ErrandOutcome::Done => info!(job.id = %job, "{done} job {label}"),
            ErrandOutcome::PutOff { message, .. } => info!(job.id = %job, "{doing} job {label} has to wait: {message}"),
            ErrandOutcome::Failed { message } | ErrandOutcome::Impossible { message, .. } => {
                warn!(job.id = %job, "{doing} job {label} failed: {message}");
            }
        }
    }
}

impl ErrandSubject {
    fn of(assignment: &Assignment, mirror: Mirror, config: RepoConfig) -> Self {
        Self {
            job: assignment.job_id,
            product: assignment.product_id.clone(),
            title: assignment.spec.title.clone(),
            base: assignment.base.clone().unwrap_or_else(|| config.base.clone()),
            mirror,
            config,
        }
    }
}

/// Whether a restore has lost history that may have reached the remote.
pub(super) fn is_restored(order: &PromoteOrder) -> bool {
    order.lease_epoch.generation() > Generation(0)
}

async fn ship(mirror: &Mirror, order: &ShipOrder) -> ErrandOutcome {
    match mirror.ship(order).await {
        Ok(ShipOutcome::Merged { .. }) => ErrandOutcome::Done,
        Ok(ShipOutcome::CheckedOut { path }) => {
            let (base, branch, path) = (&order.base, mirror.pr_branch(order.job), path.display());
            let (branch, job) = (branch.short(), order.job);
            let message = format!(
                "`{base}` is checked out in {path}, which has no remote, and a factory does not change a branch that is \
                 checked out: merge it there with `git -C {path} merge {branch}`, then run `giga ship {job}` again"
            );
            impossible(message)
        }
        Ok(ShipOutcome::Conflict(conflict)) => {
            ErrandOutcome::Impossible { message: conflict.to_string(), conflict: Some(conflict) }
        }
        Err(error @ (Error::NoSuchBranch { .. } | Error::NoSuchCommit { .. })) => impossible(error.to_string()),
        Err(error) => failed(&error),
    }
}

/// An errand that no retry could do.
fn impossible(message: String) -> ErrandOutcome {
    ErrandOutcome::Impossible { message, conflict: None }
}

pub(super) fn failed(error: &(dyn std::error::Error + 'static)) -> ErrandOutcome {
    ErrandOutcome::Failed { message: super::run::chain(error) }
}
