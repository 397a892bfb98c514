//! The engine at work, followed, saved now and then, and judged.

use std::sync::Arc;
use std::time::Duration;

use domain::{Capability, EngineName, FailureReason, Timestamp};
use fail::fail_point;
use protocol::{Assignment, Patch, Progress, StartWork, WorkOperation};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::super::Station;
use super::super::backlog::{LogBacklog, LogWriter};
use super::super::holding::StopCause;
use super::super::reports::Answered;
use super::rework::prompt_of;
use super::{Place, Run, Trouble, UsedUp, Verdict};
use crate::engine::{
    Activity, Allowance, Beginning, DiskAllowance, Engine, EngineRequest, EngineRun, EngineRunEnd, Judgement,
};
use crate::process::{Bounds, Reach};
use crate::runs::{LocalStage, RunRecord};
use crate::verify::CommandsVerdict;

/// How long another engine is preferred when a used-up window does not say when it opens again.
const WINDOW_UNKNOWN: Duration = Duration::from_mins(5);

impl Station {
    /// The engine, then the proof, then the commit under the run's own ref.
    pub(super) async fn build(self: &Arc<Self>, run: &mut Run, place: &Place) -> Result<Verdict, Trouble> {
        let engine = self.choose_engine(&run.assignment)?;
        run.engine = Some(engine.name().clone());
        let end = self.run_engine(&*engine, run, place).await?;
        let failed = |reason, message, insights| Verdict::Failed { reason, message, insights, evidence: Vec::new() };
        match end.judgement {
            Judgement::EndedWell => {}
            Judgement::Stopped => return Ok(Verdict::Stopped),
            Judgement::Failed { reason, message, .. } => return Ok(failed(reason, message, end.insights)),
            Judgement::Asked { question } => {
                let message = format!("the engine asked `{question}`, and nobody was there to answer");
                return Ok(failed(FailureReason::EngineError, message, end.insights));
            }
            Judgement::QuotaWindow { window, resets_at, message } => {
                self.close_window(engine.window_key(), resets_at);
                let (engine, credential) = (engine.name().clone(), engine.credential().unwrap_or_default().to_owned());
                let window = UsedUp { window, resets_at, message };
                return Ok(Verdict::Quota { engine, credential, window, insights: end.insights });
            }
        }
        run.record.stage = LocalStage::Verifying;
        run.record.session = run.session();
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

    pub(super) async fn run_engine(
        self: &Arc<Self>,
        engine: &dyn Engine,
        run: &mut Run,
        place: &Place,
    ) -> Result<EngineRunEnd, Trouble> {
        let request = self.request(engine.name(), run, place)?;
        *run.activity.lock() = Activity::begin(&place.dir);
        if run.stop.is_cancelled() {
            return Err(Trouble::Stopped);
        }
        let bounds = Bounds::engine(&self.settings.limits, run.assignment.spec.budget.wall_ms);
        let conversation = self.host.state.conversation(engine.name(), run.key.job);
        let launcher = place.launcher.clone().reaching([(conversation, Reach::Everything)]);
        let launcher = match engine.writes_only_to() {
            Some(folders) => launcher.writing_only_to(folders),
            None => launcher,
        };
        let engine_run = EngineRun::start(engine, &request, &launcher, bounds)?;
        run.record.guard = Some(engine_run.mark());
        run.record.session = run.session();
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
        let mut written = run.record.session.clone();
        let forward = async move {
            while let Some(output) = outputs.recv().await {
                let (shown, progress) = {
                    let mut activity = run.activity.lock();
                    (activity.note(&output), activity.progress())
                };
                for line in shown {
                    log.push(&line);
                }
                self.holdings.progressed(run.key.job, run.key.epoch, self.shown(progress));
                let session = run.session();
                if session != written {
                    // On disk at once: a factory that is killed gives the work back with its conversation.
                    self.ledger.remember(&RunRecord { session: session.clone(), ..run.record.clone() }).await;
                    written = session;
                }
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

    /// What an agent is doing, as people may see it: a command line or a name of a file can hold a secret too [T8].
    fn shown(&self, progress: Progress) -> Progress {
        let scrub = |text: String| self.scrubber.text(&text);
        Progress {
            doing: progress.doing.map(scrub),
            files: progress.files.into_iter().map(scrub).collect(),
            ..progress
        }
    }

    /// What the engine is asked to do, and what it may use up.
    fn request(&self, engine: &EngineName, run: &Run, place: &Place) -> Result<EngineRequest, Trouble> {
        let Assignment { spec, checkpoint, attempts, spent, .. } = &run.assignment;
        let limits = &self.settings.limits;
        let allowance = Allowance {
            wall: spec.budget.wall_ms.map(Duration::from_millis),
            usd: spec.budget.usd.map(|usd| usd - spent.cost_usd.unwrap_or(0.0)),
            tokens: spec.budget.tokens.map(|tokens| tokens.saturating_sub(spent.tokens.unwrap_or(0))),
            turns: self.settings.engines.get(engine).and_then(|config| config.turns_max),
            disk: Some(DiskAllowance {
                growth_bytes_max: limits.worktree_growth_mib_max.saturating_mul(1024 * 1024),
                free_bytes_min: limits.disk_free_mib_min.saturating_mul(1024 * 1024),
                every: Duration::from_millis(limits.disk_every_ms),
            }),
        };
        if allowance.usd.is_some_and(|left| left <= 0.0) {
            return Err(Trouble::Budget("budget.usd"));
        }
        if allowance.tokens == Some(0) {
            return Err(Trouble::Budget("budget.tokens"));
        }
        let session = checkpoint.as_ref().and_then(|checkpoint| checkpoint.session.as_deref());
        Ok(EngineRequest {
            job: run.key.job,
            epoch: run.key.epoch,
            attempt: attempts + 1,
            title: spec.title.clone(),
            prompt: prompt_of(&run.assignment),
            model: spec.model.clone(),
            session: session.and_then(|session| own_session(engine, session)),
            worktree: place.dir.clone(),
            beginning: if checkpoint.is_some() { Beginning::SavedWork } else { Beginning::Fresh },
            allowance,
        })
    }

    /// The engine that the coordinator chose, if it is here. Otherwise the first that the job may have, that is here, and
    /// whose credential has something left; when none has, one of them all the same: its own word is newer than ours.
    pub(super) fn choose_engine(&self, assignment: &Assignment) -> Result<Arc<dyn Engine>, Trouble> {
        let asked = assignment.engines();
        let named = |name: &EngineName| self.engines.iter().find(|engine| engine.name() == name);
        let wanted: Vec<&Arc<dyn Engine>> =
            if asked.is_empty() { self.engines.iter().collect() } else { asked.iter().filter_map(named).collect() };
        let here: Vec<&Arc<dyn Engine>> = {
            let detected = self.detected.lock();
            let is_here = |engine: &dyn Engine| detected.capabilities.contains(&Capability::engine(engine.name()));
            wanted.into_iter().filter(|engine| is_here(&***engine)).collect()
        };
        let chosen = here.iter().find(|engine| assignment.engine.as_ref() == Some(engine.name()));
        let open = || here.iter().find(|engine| !self.is_used_up(engine.window_key()));
        let found = chosen.or_else(open).or(here.first());
        found.map(|engine| Arc::clone(engine)).ok_or_else(|| {
            Trouble::NoEngine(asked.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        })
    }

    fn is_used_up(&self, credential: &str) -> bool {
        let now = self.clock.now();
        self.windows.lock().get(credential).is_some_and(|until| *until > now)
    }

    fn close_window(&self, credential: &str, resets_at: Option<Timestamp>) {
        let until = resets_at.unwrap_or_else(|| self.clock.now().after(WINDOW_UNKNOWN));
        self.windows.lock().insert(credential.to_owned(), until);
    }
}

/// The session's name, if it is one of this engine.
fn own_session(engine: &EngineName, session: &str) -> Option<String> {
    let (of, name) = session.split_once(':')?;
    (of == engine.as_str()).then(|| name.to_owned())
}
