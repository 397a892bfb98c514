//! Short work after completion: moving the pull request's branch, and merging [F5].

use domain::{BranchName, ErrandKind, Generation, JobId, RepoName};
use fail::fail_point;
use protocol::{Assignment, ErrandOutcome, ErrandReport, PromoteOrder};
use tracing::{info, warn};

use super::Station;
use super::reports;
use crate::error::Error;
use crate::mirror::Mirror;
use crate::promote::Promotion;
use crate::run_key::RunKey;
use crate::ship::{ShipOrder, Shipped};

impl Station {
    /// Does an errand that was dispatched on its own, and reports it.
    pub(super) async fn run_errand(&self, assignment: &Assignment, order: &PromoteOrder) {
        let outcome = match &assignment.repo {
            Some(repo) => self.attempt(assignment, repo, order).await,
            None => ErrandOutcome::Impossible { message: "the job has no repository".to_owned() },
        };
        self.report_errand(assignment.job_id, order, outcome).await;
    }

    /// Moves the branch right after the completion of a run of this factory.
    pub(super) async fn promote_now(&self, mirror: &Mirror, job: JobId, order: &PromoteOrder) {
        fail_point!("factory::before_promotion", |_| ());
        let outcome = self.promote(mirror, job, order).await;
        fail_point!("factory::promoted", |_| ());
        self.report_errand(job, order, outcome).await;
    }

    /// Moves the branch after the completion of `run` was delivered late.
    pub(super) async fn promote_late(&self, run: RunKey, order: &PromoteOrder) {
        let records = self.ledger.records().await.map(|listing| listing.records).unwrap_or_default();
        let repo = records.into_iter().find(|record| record.is_of(run)).and_then(|record| record.repo);
        // Without the record somebody else is asked after a while: the coordinator's errand has a deadline.
        let Some(repo) = repo else { return };
        if let Ok((mirror, _)) = self.mirror(&repo) {
            self.promote_now(&mirror, run.job, order).await;
        }
    }

    async fn attempt(&self, assignment: &Assignment, repo: &RepoName, order: &PromoteOrder) -> ErrandOutcome {
        let job = assignment.job_id;
        let (mirror, config) = match self.mirror(repo) {
            Ok(found) => found,
            Err(error) => return failed(&error),
        };
        if let Err(error) = mirror.refresh().await {
            return failed(&error);
        }
        let run = RunKey { job, epoch: order.run_epoch };
        if let Err(error) = mirror.fetch_ref(&self.host.refs.run(run)).await {
            return failed(&error);
        }
        match order.kind {
            ErrandKind::Promote => self.promote(&mirror, job, order).await,
            ErrandKind::Ship => {
                let base = assignment.base.clone().unwrap_or(config.base);
                if let Some(outcome) = self.refuse_second_merge(&mirror, job, &base, order).await {
                    return outcome;
                }
                let order = ShipOrder {
                    job,
                    sha: order.sha.clone(),
                    base,
                    message: format!("Merge job {job}\n\n{}", assignment.spec.title),
                    after: self.settings.after_ship,
                };
                let outcome = ship(&mirror, &order).await;
                fail_point!("factory::merged", |_| ErrandOutcome::Done);
                outcome
            }
        }
    }

    /// In a fleet that was put back from a backup the job may have shipped before, as something else. Nothing ships twice.
    async fn refuse_second_merge(
        &self,
        mirror: &Mirror,
        job: JobId,
        base: &BranchName,
        order: &PromoteOrder,
    ) -> Option<ErrandOutcome> {
        if !is_restored(order) {
            return None;
        }
        match mirror.merged_before(job, base, &order.sha).await {
            Ok(None) => None,
            Ok(Some(merge)) => Some(ErrandOutcome::Impossible {
                message: format!(
                    "`{base}` holds another merge of this job, {merge}, from before the fleet was put back from a backup: \
                     look at it, then cancel the job or send it round again"
                ),
            }),
            Err(error) => Some(failed(&error)),
        }
    }

    async fn promote(&self, mirror: &Mirror, job: JobId, order: &PromoteOrder) -> ErrandOutcome {
        match mirror.promote(job, &order.sha, &order.acceptable).await {
            Ok(Promotion::Promoted) => ErrandOutcome::Done,
            Ok(Promotion::Moved { found }) => {
                let shows = found.map_or_else(|| "nothing".to_owned(), |sha| sha.to_string());
                let perhaps = match is_restored(order) {
                    true => ", perhaps from before the fleet was put back from a backup",
                    false => "",
                };
                ErrandOutcome::Impossible {
                    message: format!("the branch was moved by somebody else: it shows {shows}{perhaps}"),
                }
            }
            Err(error) => failed(&error),
        }
    }

    async fn report_errand(&self, job: JobId, order: &PromoteOrder, outcome: ErrandOutcome) {
        info!(job.id = %job, ?outcome, "Did {} of job `{job}`", order.kind.name());
        let report = ErrandReport { lease_epoch: order.lease_epoch, outcome };
        let answered = self.report(reports::promote(job, report)).await;
        if let reports::Answered::Refused(why) = answered {
            warn!(job.id = %job, %why, "The report on job `{job}` was refused");
        }
    }
}

/// Whether the fleet has lost a future that may have reached the remote.
fn is_restored(order: &PromoteOrder) -> bool {
    order.lease_epoch.generation() > Generation(0)
}

async fn ship(mirror: &Mirror, order: &ShipOrder) -> ErrandOutcome {
    match mirror.ship(order).await {
        Ok(Shipped::Merged { .. }) => ErrandOutcome::Done,
        Ok(Shipped::Conflict { files }) => ErrandOutcome::Impossible {
            message: format!("merging into `{}` conflicts in {}", order.base, files.join(", ")),
        },
        Err(error @ (Error::NoSuchBranch { .. } | Error::NoSuchCommit { .. })) => {
            ErrandOutcome::Impossible { message: error.to_string() }
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ErrandOutcome {
    ErrandOutcome::Failed { message: super::run::chain(error) }
}
