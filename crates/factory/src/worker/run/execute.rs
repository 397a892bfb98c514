//! Runs the engine: follows its output, saves checkpoints, and judges its end.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Capability, CommandStep, CommitSha, EngineName, Evidence, FailureReason, Retryability, RunInsights, Timestamp,
};
use engines::{
    Activity, Allowance, DiskAllowance, Engine, EngineError, EngineRequest, EngineRun, EngineRunEnd, RunVerdict,
};
use fail::fail_point;
use protocol::{Assignment, Patch, StartReport, WorkOperation};
use sandbox::{Bounds, PathAccess};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use workspace::{Error, LocalStage};

use super::super::Worker;
use super::super::credentials::marks;
use super::super::held_leases::StopCause;
use super::super::log_buffer::LogWriter;
use super::super::reports::ReportResponse;
use super::budget::{budget_left, left_uncounted};
use super::question;
use super::tools::{RunControl, RunSocket, SAVES_WAITING_MAX, SaveRequest};
use super::{ExhaustedWindow, Parked, Run, RunFailure, RunLocation, RunResult, StartFailure, chain};
use crate::verify::CommandsVerdict;

/// Engine events that wait to be processed. Few, because each can be as long as lines may be.
const OUTPUTS_IN_FLIGHT_MAX: usize = 2;

/// How long another engine is preferred when an exhausted window has no reset time.
const WINDOW_UNKNOWN: Duration = Duration::from_mins(5);

/// How long a checkpoint in progress may still take when its engine ends. A killed one is saved again.
const SAVED_WITHIN: Duration = Duration::from_secs(10);

impl Worker {
    /// The engine, then verification, then the commit under the run's own ref.
    pub(super) async fn build(self: &Arc<Self>, run: &mut Run, place: &RunLocation) -> Result<RunResult, StartFailure> {
        let engine = self.choose_engine(&run.assignment)?;
        run.engine = Some(engine.name().clone());
        let login = marks(&engine.login_files());
        let end = self.run_engine(&*engine, run, place).await?;
        // This much was spent, whatever fails later.
        run.activity.lock().insights = end.insights.clone();
        run.record.insights = end.insights.clone();
        if !matches!(end.judgement, RunVerdict::SignedOut { .. } | RunVerdict::Outage { .. } | RunVerdict::Stopped) {
            self.logins.trust(engine.name());
        }
        let parked = run.parked.lock().take().filter(|_| !run.stop.is_cancelled());
        let written = || question::question(&place.dir).filter(|_| end.judgement.is_the_engines_own());
        if let Some(parked) = parked.or_else(|| written().map(Parked::Question)) {
            if let RunVerdict::QuotaWindow { resets_at, .. } = end.judgement {
                self.close_window(engine.window_key(), resets_at);
            }
            return Ok(match parked {
                Parked::Question(question) => RunResult::Asked { question, insights: end.insights },
                Parked::Subtasks => RunResult::AwaitsSubtasks { insights: end.insights },
            });
        }
        match end.judgement {
            RunVerdict::EndedWell => {}
            RunVerdict::EndedWithRefusals { refused } => {
                run.refused = refused.iter().map(|call| self.scrubber.text(call)).collect();
            }
            RunVerdict::Stopped => return Ok(RunResult::Stopped),
            RunVerdict::Failed { reason, again, message } => {
                let (failure, evidence) = (RunFailure::new(reason, again, message), Vec::new());
                return Ok(RunResult::Failed { failure, insights: end.insights, evidence });
            }
            RunVerdict::Asked { question } => return Ok(RunResult::Asked { question, insights: end.insights }),
            RunVerdict::SignedOut { message } => {
                self.rest_login(&*engine, login, &message).await;
                let message = format!("engine `{}` is not signed in here: {message}", engine.name());
                return Ok(RunResult::NotHere { message, insights: spent_nothing_more(end.insights) });
            }
            RunVerdict::Outage { message } => {
                self.pause_for_outage(&*engine, &message).await;
                let message = format!("the provider of engine `{}` is not available: {message}", engine.name());
                return Ok(RunResult::NotHere { message, insights: end.insights });
            }
            RunVerdict::CreditExhausted { message } => {
                let (engine, credential) = (engine.name().clone(), engine.credential().unwrap_or_default().to_owned());
                let window = ExhaustedWindow { window: None, resets_at: None, is_exhausted: true, message };
                return Ok(RunResult::Quota { engine, credential, window, insights: end.insights });
            }
            RunVerdict::QuotaWindow { window, resets_at, message } => {
                self.close_window(engine.window_key(), resets_at);
                let (engine, credential) = (engine.name().clone(), engine.credential().unwrap_or_default().to_owned());
                let window = ExhaustedWindow { window, resets_at, is_exhausted: false, message };
                return Ok(RunResult::Quota { engine, credential, window, insights: end.insights });
            }
        }
        run.record.stage = LocalStage::Verifying;
        run.record.session = run.session();
        run.record.guard = None;
        self.ledger.remember(&run.record).await;
        fail_point!("factory::engine_ended", |_| Err(StartFailure::Stopped));
        self.prove(run, place, end.insights).await
    }

    /// The prepare commands, the commit, the verify commands on that commit, and the push [F5].
    async fn prove(
        self: &Arc<Self>,
        run: &mut Run,
        place: &RunLocation,
        insights: RunInsights,
    ) -> Result<RunResult, StartFailure> {
        let prepared = match self.run_commands(run, place, CommandStep::Prepare).await {
            CommandsVerdict::Passed(evidence) => evidence,
            CommandsVerdict::Cancelled(_) => return Ok(RunResult::Stopped),
            CommandsVerdict::Failed(evidence) => return Ok(command_failed(run, insights, evidence)),
        };
        let work = self.commit_work(run, place).await?;
        if let Some(failure) = work.failure(run) {
            return Ok(RunResult::Failed { failure, insights, evidence: prepared });
        }
        match self.run_commands(run, place, CommandStep::Verify).await {
            CommandsVerdict::Passed(verified) => {
                let evidence = [prepared, verified].concat();
                self.publish(run, place, work, insights, evidence).await
            }
            CommandsVerdict::Cancelled(_) => Ok(RunResult::Stopped),
            CommandsVerdict::Failed(verified) => Ok(command_failed(run, insights, [prepared, verified].concat())),
        }
    }

    pub(super) async fn run_engine(
        self: &Arc<Self>,
        engine: &dyn Engine,
        run: &mut Run,
        place: &RunLocation,
    ) -> Result<EngineRunEnd, StartFailure> {
        let mut request = self.request(engine.name(), run, place)?;
        *run.activity.lock() = Activity::begin(&place.dir);
        if run.stop.is_cancelled() {
            return Err(StartFailure::Stopped);
        }
        question::clear(&place.dir);
        let bounds = Bounds::engine(&self.settings.limits, request.allowance.wall);
        let tools = self.open_tools(run, &request.allowance, &bounds);
        request.tools = tools.as_ref().and_then(RunSocket::server);
        let conversation = self.host.state().conversation(engine.name(), run.key.job);
        let has_been_here = conversation.exists();
        let launcher = place.launcher.clone().reaching([(conversation.clone(), PathAccess::Everything)]);
        let home = self.settings.engines.get(engine.name()).and_then(|config| config.environment.home.as_ref());
        let launcher = match home {
            Some(home) => launcher.enclosed_by(|sandbox| self.settings.with_home_open(sandbox, home)),
            None => launcher,
        };
        let launcher = tools.iter().fold(launcher, |launcher, tools| tools.open_to(launcher));
        let engine_run = match EngineRun::start(engine, &request, &launcher, bounds) {
            // The agent's changes in its own home directory are the job's fault, and count as an attempt.
            Err(why @ EngineError::Disk(_)) if !has_been_here => {
                // So that the next run finds it as new as this one did.
                let _ = std::fs::remove_dir_all(&conversation);
                self.rest_unready(engine, &why).await;
                return Err(StartFailure::NotReady { engine: engine.name().clone(), why });
            }
            started => started?,
        };
        run.record.guard = Some(engine_run.mark());
        run.record.session = run.session();
        run.record.stage = LocalStage::Running;
        self.ledger.remember(&run.record).await;
        fail_point!("factory::engine_started", |_| Err(StartFailure::Stopped));
        let log = self.take_log(run);
        if let Some(words) = left_uncounted(&run.assignment) {
            warn!(job.id = %run.key.job, "Job `{}` goes on: {words}", run.key.job);
            log.push(&words);
        }
        log.forget_last_line();
        // Concurrently: an unresponsive coordinator must not delay stopping the engine [I7].
        let (end, ()) = tokio::join!(
            self.follow_engine(run, place, engine_run, &log, tools),
            self.report_start(run, engine.name())
        );
        run.log_writer = Some(log);
        Ok(end)
    }

    pub(super) async fn follow_engine(
        &self,
        run: &Run,
        place: &RunLocation,
        engine_run: EngineRun,
        log: &LogWriter,
        tools: Option<RunSocket>,
    ) -> EngineRunEnd {
        let (output, outputs) = mpsc::channel(OUTPUTS_IN_FLIGHT_MAX);
        let (over, stop_engine) = (CancellationToken::new(), run.stop.child_token());
        let to_the_end = async {
            let (end, ()) = tokio::join!(engine_run.wait(output, &stop_engine), self.listen(run, outputs, log));
            over.cancel();
            end
        };
        let (saves, to_save) = mpsc::channel(SAVES_WAITING_MAX);
        let control = RunControl { saves, stop_engine: &stop_engine, log, dir: &place.dir };
        let served = self.serve_tools(run, tools, control, &over);
        let (saved, watched) =
            (self.save_now_and_then(run, place, to_save, &over), self.watch_files(run, place, &over));
        let (end, (), (), ()) = tokio::join!(to_the_end, saved, watched, served);
        end
    }

    /// Saves checkpoints on a timer while the engine runs [F4], and when its agent asks for one. One that is in progress
    /// when the engine ends is awaited: half a push is useless.
    async fn save_now_and_then(
        &self,
        run: &Run,
        place: &RunLocation,
        mut requests: mpsc::Receiver<SaveRequest>,
        over: &CancellationToken,
    ) {
        let mut reported = None;
        loop {
            let request = tokio::select! {
                () = over.cancelled() => return,
                () = self.clock.sleep(self.settings.checkpoint_every) => None,
                Some(request) = requests.recv() => Some(request),
            };
            let too_long = async {
                over.cancelled().await;
                self.clock.sleep(SAVED_WITHIN).await;
            };
            let saved = tokio::select! {
                saved = self.save_and_tell(run, place, &mut reported) => saved,
                () = too_long => return,
            };
            if let Some(request) = request {
                // An agent that is gone needs no answer.
                let _ = request.send(saved.map_err(|error| self.scrubber.text(&chain(&error))));
            }
        }
    }

    async fn save_and_tell(
        &self,
        run: &Run,
        place: &RunLocation,
        reported: &mut Option<CommitSha>,
    ) -> Result<Option<CommitSha>, Error> {
        let Some(checkpoint) = self.save(run, place).await?.checkpoint() else { return Ok(None) };
        let sha = checkpoint.sha.clone();
        if reported.as_ref() == Some(&sha) {
            return Ok(Some(sha));
        }
        fail_point!("factory::checkpoint_pushed", |_| Ok(None));
        *run.saved.lock() = Some(checkpoint.clone());
        let request = Patch { lease_epoch: run.key.epoch, stage: None, engine: None, checkpoint: Some(checkpoint) };
        let path = format!("/jobs/{}", run.key.job);
        let patched: Result<protocol::StageResponse, _> =
            self.client.call(http::Method::PATCH, &path, Some(&request)).await;
        match patched {
            Ok(_) => *reported = Some(sha.clone()),
            Err(error) => {
                warn!(job.id = %run.key.job, %error, "A checkpoint of job {} was saved but not reported", self.titles.label(run.key.job));
                self.stop_if_not_ours(run.key, &error);
            }
        }
        Ok(Some(sha))
    }

    /// Reports that the engine has started. A refusal stops it.
    pub(super) async fn report_start(&self, run: &Run, engine: &EngineName) {
        let request = StartReport { lease_epoch: run.key.epoch, engine: engine.clone() };
        let answered = self.report(WorkOperation::Start { job_id: run.key.job, request }).await;
        if let ReportResponse::Refused(why) = answered {
            info!(job.id = %run.key.job, %why, "Job `{}` is no longer ours", run.key.job);
            self.holdings.stop(run.key.job, run.key.epoch, StopCause::Lost);
        }
        fail_point!("factory::start_reported", |_| ());
    }

    /// The request to the engine, and its limits.
    fn request(&self, engine: &EngineName, run: &Run, place: &RunLocation) -> Result<EngineRequest, StartFailure> {
        let Assignment { spec, attempts, .. } = &run.assignment;
        let allowance = Allowance {
            turns: self.settings.engines.get(engine).and_then(|config| config.turns_max),
            disk: Some(DiskAllowance::of(&self.settings.limits)),
            ..budget_left(&run.assignment)?
        };
        Ok(EngineRequest {
            job: run.key.job,
            epoch: run.key.epoch,
            attempt: attempts + 1,
            title: spec.title.clone(),
            prompt: self.prompt(run, place),
            model: spec.model_for(engine).map(str::to_owned),
            session: self.session_to_resume(engine, &run.assignment),
            worktree: place.dir.clone(),
            allowance,
            tools: None,
        })
    }

    /// The engine that started the job's conversation, if the job names none. Otherwise the one that the coordinator
    /// chose, if it is available. Otherwise the first that the job allows, that is available, and whose credential has
    /// quota left; without one, any of them: its own answer is newer than our record.
    pub(super) fn choose_engine(&self, assignment: &Assignment) -> Result<Arc<dyn Engine>, StartFailure> {
        if let Some(engine) = self.engine_of_session(assignment) {
            return Ok(engine);
        }
        let asked = assignment.engines();
        let named = |name: &EngineName| self.engines.iter().find(|engine| engine.name() == name);
        let wanted: Vec<&Arc<dyn Engine>> =
            if asked.is_empty() { self.engines.iter().collect() } else { asked.iter().filter_map(named).collect() };
        let here: Vec<&Arc<dyn Engine>> = {
            let detected = self.detected.lock();
            let is_here = |engine: &dyn Engine| detected.capabilities.contains(&Capability::engine(engine.name()));
            wanted.into_iter().filter(|engine| is_here(&***engine)).collect()
        };
        let now = self.clock.now();
        let is_refused = |engine: &dyn Engine| self.logins.problem(engine.name(), now).is_some();
        let chosen = here.iter().find(|engine| assignment.engine.as_ref() == Some(engine.name()));
        let open = || here.iter().find(|engine| !self.is_used_up(engine.window_key()) && !is_refused(&****engine));
        let found = chosen.filter(|engine| !is_refused(&****engine)).or_else(open).or(chosen).or(here.first());
        found.map(|engine| Arc::clone(engine)).ok_or_else(|| {
            StartFailure::NoEngine(asked.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        })
    }

    /// The engine whose conversation continues, if the job names none and it can work now. An engine with limited seats
    /// is skipped: the coordinator has granted a seat of another.
    fn engine_of_session(&self, assignment: &Assignment) -> Option<Arc<dyn Engine>> {
        let engine = self.engines.iter().find(|engine| self.session_to_resume(engine.name(), assignment).is_some())?;
        let is_free = assignment.spec.engines.is_empty() && !self.settings.engine_seats.contains_key(engine.name());
        let detected = self.detected.lock().engines.clone();
        let health = self.engine_health(detected).into_iter().find(|health| health.name == *engine.name())?;
        (is_free && health.is_usable() && !self.is_used_up(engine.window_key())).then(|| Arc::clone(engine))
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

/// The last command of the evidence failed.
fn command_failed(run: &Run, insights: RunInsights, evidence: Vec<Evidence>) -> RunResult {
    let told = |last: &Evidence| format!("{} command {}", last.step.name(), last.failure());
    let message = run.with_refusals(evidence.last().map(told).unwrap_or_default());
    let failure = RunFailure::new(FailureReason::VerifyFailed, Retryability::Worthwhile, message);
    RunResult::Failed { failure, insights, evidence }
}

/// The cost of a rejected credential, unless the engine reports one, and of an engine that did not start: nothing.
pub(super) fn spent_nothing_more(mut insights: RunInsights) -> RunInsights {
    insights.tokens_in.get_or_insert(0);
    insights.tokens_out.get_or_insert(0);
    insights.cost_usd.get_or_insert(0.0);
    insights
}
