//! The engine at work, followed, saved now and then, and judged.

use std::sync::Arc;

use domain::{EngineName, FailureReason, Manifest};
use fail::fail_point;
use protocol::{Patch, StartWork, WorkOperation};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::super::Station;
use super::super::backlog::{LogBacklog, LogWriter};
use super::super::holding::StopCause;
use super::super::reports::Answered;
use super::{Place, Run, Trouble, Verdict};
use crate::engine::{Engine, EngineRequest, EngineRun, EngineRunEnd, Judgement};
use crate::process::Bounds;
use crate::runs::LocalStage;
use crate::verify::CommandsVerdict;

impl Station {
    /// The engine, then the proof, then the commit under the run's own ref.
    pub(super) async fn build(self: &Arc<Self>, run: &mut Run, place: &Place) -> Result<Verdict, Trouble> {
        let end = self.run_engine(run, place).await?;
        match end.judgement {
            Judgement::EndedWell => {}
            Judgement::Stopped => return Ok(Verdict::Stopped),
            Judgement::Failed { reason, message, .. } => {
                return Ok(Verdict::Failed { reason, message, insights: end.insights, evidence: Vec::new() });
            }
            Judgement::Asked { question } => {
                let message = format!("the engine asked `{question}`, and nobody was there to answer");
                let reason = FailureReason::EngineError;
                return Ok(Verdict::Failed { reason, message, insights: end.insights, evidence: Vec::new() });
            }
            Judgement::QuotaWindow { .. } => {
                let message = "the engine's usage window is used up".to_owned();
                let reason = FailureReason::EngineError;
                return Ok(Verdict::Failed { reason, message, insights: end.insights, evidence: Vec::new() });
            }
        }
        run.record.stage = LocalStage::Verifying;
        run.record.guard = None;
        self.ledger.remember(&run.record).await;
        fail_point!("factory::engine_ended", |_| Err(Trouble::Stopped));
        let evidence = match self.verify(run, place).await {
            CommandsVerdict::Passed(evidence) => evidence,
            CommandsVerdict::Cancelled(_) => return Ok(Verdict::Stopped),
            CommandsVerdict::Failed(evidence) => {
                let last = evidence.last().map(|last| format!("`{}` failed", last.command)).unwrap_or_default();
                let reason = FailureReason::VerifyFailed;
                return Ok(Verdict::Failed { reason, message: last, insights: end.insights, evidence });
            }
        };
        self.publish(run, place, end.insights, evidence).await
    }

    pub(super) async fn run_engine(self: &Arc<Self>, run: &mut Run, place: &Place) -> Result<EngineRunEnd, Trouble> {
        let engine = self.choose_engine(&run.assignment.spec.engines)?;
        let request = EngineRequest {
            job: run.key.job,
            epoch: run.key.epoch,
            attempt: run.assignment.attempts + 1,
            title: run.assignment.spec.title.clone(),
            prompt: Manifest::prompt(&run.assignment.body_md).to_owned(),
            model: run.assignment.spec.model.clone(),
            session: run.assignment.checkpoint.as_ref().and_then(|checkpoint| checkpoint.session.clone()),
            worktree: place.dir.clone(),
        };
        if run.stop.is_cancelled() {
            return Err(Trouble::Stopped);
        }
        let bounds = Bounds::engine(&self.settings.limits, run.assignment.spec.budget.wall_ms);
        let engine_run = EngineRun::start(&*engine, &request, &place.launcher, bounds)?;
        run.record.guard = Some(engine_run.mark());
        run.record.stage = LocalStage::Running;
        self.ledger.remember(&run.record).await;
        fail_point!("factory::engine_started", |_| Err(Trouble::Stopped));
        let backlog = Arc::new(LogBacklog::scrubbed(&self.scrubber));
        let log = LogWriter::new(&backlog);
        let (station, key) = (Arc::clone(self), run.key);
        // The log's last lines may take a while to deliver; the run goes on meanwhile.
        run.log = Some(self.tasks.spawn(async move { station.ship_log(key, &backlog).await }));
        // Side by side: a coordinator that does not answer must not keep us from stopping the engine in time [I7].
        let (end, ()) =
            tokio::join!(self.follow_engine(run, place, engine_run, log), self.report_start(run, engine.name()));
        Ok(end)
    }

    pub(super) async fn follow_engine(
        &self,
        run: &Run,
        place: &Place,
        engine_run: EngineRun,
        log: LogWriter,
    ) -> EngineRunEnd {
        let (output, mut outputs) = mpsc::channel::<crate::engine::EngineOutput>(64);
        let forward = async move {
            while let Some(output) = outputs.recv().await {
                log.push(&output.line.text);
            }
        };
        let to_the_end = async { tokio::join!(engine_run.wait(output, &run.stop), forward) };
        tokio::select! {
            (end, ()) = to_the_end => end,
            never = self.save_now_and_then(run, place) => match never {},
        }
    }

    /// Saves work in progress on a timer while the engine runs [F4].
    pub(super) async fn save_now_and_then(&self, run: &Run, place: &Place) -> std::convert::Infallible {
        let mut reported = None;
        loop {
            self.clock.sleep(self.settings.checkpoint_every).await;
            let Ok(Some(checkpoint)) = self.save(run, place).await else { continue };
            if reported.as_ref() == Some(&checkpoint.sha) {
                continue;
            }
            fail_point!("factory::checkpoint_pushed");
            let sha = checkpoint.sha.clone();
            let request = Patch { lease_epoch: run.key.epoch, stage: None, engine: None, checkpoint: Some(checkpoint) };
            let path = format!("/jobs/{}", run.key.job);
            let patched: Result<protocol::StageAnswer, _> =
                self.client.call(http::Method::PATCH, &path, Some(&request)).await;
            match patched {
                Ok(_) => reported = Some(sha),
                Err(error) => {
                    warn!(job.id = %run.key.job, %error, "A checkpoint of job `{}` was saved but not reported", run.key.job);
                }
            }
        }
    }

    /// Says that the engine is up. A refusal stops it.
    pub(super) async fn report_start(&self, run: &Run, engine: &EngineName) {
        let request = StartWork { lease_epoch: run.key.epoch, engine: engine.clone() };
        let answered = self.report(WorkOperation::Start { job_id: run.key.job, request }).await;
        if let Answered::Refused(why) = answered {
            info!(job.id = %run.key.job, %why, "Job `{}` is no longer ours", run.key.job);
            self.holdings.stop(run.key.job, run.key.epoch, StopCause::Lost);
        }
        fail_point!("factory::start_reported", |_| ());
    }

    pub(super) fn choose_engine(&self, asked: &[EngineName]) -> Result<Arc<dyn Engine>, Trouble> {
        let found = if asked.is_empty() {
            self.engines.values().next()
        } else {
            asked.iter().find_map(|name| self.engines.get(name))
        };
        found.cloned().ok_or_else(|| {
            Trouble::NoEngine(asked.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        })
    }
}
