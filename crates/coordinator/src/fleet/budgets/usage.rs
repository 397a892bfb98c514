//! Costs that factories report apart from the results of runs, also of runs that were fenced (row 18).

use std::sync::atomic::{AtomicBool, Ordering};

use domain::{JobId, Run, RunInsights, UsageReport};
use fail::fail_point;
use protocol::{UsageRequest, UsageResponse};

use crate::commit::Decision;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::invalid;
use crate::submit::sanitize::check_insights;

/// Runs of a job that are searched for an epoch.
const RUNS_MAX: u16 = 1_000;

/// The length of a usage id.
const ID_LEN_MAX: usize = 64;

impl Coordinator {
    /// Records what a run has cost so far. It changes no stage, and a fenced run may report too: the money was spent.
    /// Repetitions change nothing, in any order.
    pub async fn report_usage(
        &self,
        who: &Principal,
        id: JobId,
        request: &UsageRequest,
    ) -> Result<UsageResponse, Error> {
        let factory = who.factory()?;
        let report = checked(request)?;
        let job = self.workable(who, id).await?;
        let run = match job.value.run_at(request.lease_epoch) {
            Some(run) => run.clone(),
            None => self.ended_run(id, request).await?,
        };
        // Runs of other factories do not exist for this one (row 34).
        if run.factory != *factory {
            return Err(Error::NoSuchRun { job: id, n: run.n });
        }
        fail_point!("usage::before_commit");
        let is_full = AtomicBool::new(false);
        let job = self
            .amend(id, |job| {
                let run = job.run_at(request.lease_epoch).cloned().unwrap_or_else(|| run.clone());
                let Some((job, is_news)) = job.report_usage(&run, &report, self.now(), who.actor()) else {
                    is_full.store(true, Ordering::Relaxed);
                    return Ok(Decision::Keep);
                };
                Ok(if is_news { Decision::Write(job) } else { Decision::Keep })
            })
            .await?;
        if is_full.into_inner() {
            return Err(invalid("usageId", "the job has too many usage ids: report sums under fewer".to_owned()));
        }
        fail_point!("usage::committed");
        self.weigh_money();
        let spent_usd = job.value.spent().cost_usd;
        Ok(UsageResponse { stage: job.value.stage().name(), spent_usd })
    }

    async fn ended_run(&self, id: JobId, request: &UsageRequest) -> Result<Run, Error> {
        let runs = self.ports.history.runs(id, 0, RUNS_MAX).await?;
        let found = runs.into_iter().find(|run| run.epoch == request.lease_epoch);
        found.ok_or(Error::NoSuchRun { job: id, n: 0 })
    }
}

fn checked(request: &UsageRequest) -> Result<UsageReport, Error> {
    let UsageRequest { cost_usd, tokens_in, tokens_out, .. } = *request;
    let insights = RunInsights { cost_usd, tokens_in, tokens_out, ..RunInsights::default() };
    check_insights(&insights)?;
    if let Some(id) = &request.usage_id {
        let is_plain = id.bytes().all(|byte| byte.is_ascii_graphic());
        if id.is_empty() || id.len() > ID_LEN_MAX || !is_plain {
            let why = format!("1 to {ID_LEN_MAX} printable ASCII characters without spaces");
            return Err(invalid("usageId", why));
        }
    }
    Ok(UsageReport { id: request.usage_id.clone(), insights })
}
