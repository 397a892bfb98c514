//! One run, from the lease to the final report. The compiler keeps the order; a crash in between is recovered at start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::{Checkpoint, CommitSha, EngineName, Evidence, FailureReason, Insights, Manifest, RepoName};
use fail::fail_point;
use protocol::{Accepted, Assignment, CompleteWork, FailWork, Patch, ReleaseWork, StartWork, WorkOperation};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::backlog::{LogBacklog, LogWriter};
use super::holding::StopCause;
use super::logs::LAST_LINES_MAX;
use super::recovery::quarantined;
use super::reports::{self, Answered};
use super::{NoRepo, Station};
use crate::config::RepoConfig;
use crate::engine::{Engine, EngineRequest, EngineRun, EngineRunEnd, Judgement};
use crate::error::Error;
use crate::mirror::Mirror;
use crate::process::Bounds;
use crate::publish::{Committed, Saved};
use crate::run_key::RunKey;
use crate::runs::{LocalStage, RunRecord};
use crate::verify::{CommandsVerdict, run_commands};
use crate::workspace::{Start, Worktree};

/// A job that this process holds, with everything needed to work on it.
struct Run {
    key: RunKey,
    record: RunRecord,
    assignment: Assignment,
    stop: CancellationToken,
    /// What still ships the engine's output.
    log: Option<JoinHandle<()>>,
}

/// Where a run works.
struct Place {
    dir: PathBuf,
    repo: Option<(Mirror, RepoConfig, Worktree)>,
}

/// What a run comes to before anything is reported.
enum Verdict {
    /// The work is done and verified.
    Done { sha: Option<CommitSha>, insights: Insights, evidence: Vec<Evidence> },
    /// It failed.
    Failed { reason: FailureReason, message: String, insights: Insights, evidence: Vec<Evidence> },
    /// It was stopped.
    Stopped,
}

/// Something that stands in the way of a run before its engine does.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Host(#[from] Error),
    #[error(transparent)]
    Repo(#[from] NoRepo),
    #[error("none of the engines {0} is here")]
    NoEngine(String),
    #[error("setup failed: {0}")]
    Setup(String),
    #[error("the engine could not be started")]
    Engine(#[from] crate::engine::EngineError),
    #[error("the disk refuses")]
    Disk(#[from] std::io::Error),
    #[error("the run was stopped")]
    Stopped,
}

impl Trouble {
    fn reason(&self) -> FailureReason {
        match self {
            Self::Repo(NoRepo::NotHere(_)) => FailureReason::CapabilityMismatch,
            Self::NoEngine(_) => FailureReason::NoEngine,
            Self::Setup(_) | Self::Engine(_) => FailureReason::EngineError,
            Self::Host(_) | Self::Repo(NoRepo::Unusable(_)) | Self::Disk(_) | Self::Stopped => FailureReason::Crash,
        }
    }
}

impl Station {
    /// Works on a job until it is reported, one way or another.
    pub(super) async fn work(self: &Arc<Self>, record: RunRecord, accepted: Accepted, good_until: Duration) {
        let key = RunKey { job: record.job, epoch: accepted.lease_epoch };
        let stop = self.holdings.begin(key.job, key.epoch, good_until);
        let mut run = Run { key, record, assignment: accepted.assignment, stop, log: None };
        let (job, epoch) = (key.job, key.epoch);
        info!(job.id = %job, lease.epoch = %epoch, "Working on job `{job}`");
        let (place, verdict) = match self.prepare(&mut run).await {
            Ok(place) => {
                let verdict = self.build(&mut run, &place).await;
                (Some(place), verdict)
            }
            Err(trouble) => (None, Err(trouble)),
        };
        let verdict = verdict.unwrap_or_else(|trouble| match trouble {
            Trouble::Stopped => Verdict::Stopped,
            trouble => Verdict::Failed {
                reason: trouble.reason(),
                message: chain(&trouble),
                insights: Insights::default(),
                evidence: Vec::new(),
            },
        });
        self.finish(run, place, verdict).await;
        self.holdings.end(key.job, key.epoch);
    }

    /// A worktree of its own, with the repository's setup done.
    async fn prepare(&self, run: &mut Run) -> Result<Place, Trouble> {
        let Some(repo) = run.assignment.repo.clone() else {
            let dir = self.host.scratch(run.key)?;
            return Ok(Place { dir, repo: None });
        };
        let (mirror, config) = self.mirror(&repo)?;
        let worktree = self.check_out(run, &repo, &mirror, &config).await?;
        run.record.worktree = Some(worktree.path().to_owned());
        self.ledger.remember(&run.record).await;
        fail_point!("factory::prepared", |_| Err(Trouble::Stopped));
        self.set_up(run, &config, &worktree).await?;
        Ok(Place { dir: worktree.path().to_owned(), repo: Some((mirror, config, worktree)) })
    }

    async fn check_out(
        &self,
        run: &Run,
        repo: &RepoName,
        mirror: &Mirror,
        config: &RepoConfig,
    ) -> Result<Worktree, Trouble> {
        mirror.refresh().await?;
        let base = run.assignment.base.as_ref().unwrap_or(&config.base);
        let start = match &run.assignment.checkpoint {
            Some(checkpoint) => Start::Checkpoint(checkpoint.clone()),
            None => Start::Base,
        };
        match mirror.create(run.key, base, &start).await {
            Ok(worktree) => Ok(worktree),
            Err(Error::NoSuchCommit { .. }) if start != Start::Base => {
                // A checkpoint that is gone must not strand the job: the work starts over.
                warn!(job.id = %run.key.job, "The checkpoint of job `{}` is gone from `{repo}`, starting over", run.key.job);
                Ok(mirror.create(run.key, base, &Start::Base).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn set_up(&self, run: &Run, config: &RepoConfig, worktree: &Worktree) -> Result<(), Trouble> {
        let environment = self.environment.clone().of_run(run.key, run.assignment.attempts + 1);
        let bounds = Bounds::commands(&self.settings.limits);
        let verdict =
            run_commands(&config.setup, worktree.path(), &environment, &self.launcher, &bounds, &run.stop).await;
        match verdict {
            CommandsVerdict::Passed(_) => Ok(()),
            CommandsVerdict::Cancelled(_) => Err(Trouble::Stopped),
            CommandsVerdict::Failed(evidence) => {
                let last = evidence.last().map(|last| format!("`{}`: {}", last.command, tail(&last.output)));
                Err(Trouble::Setup(last.unwrap_or_default()))
            }
        }
    }

    /// The engine, then the proof, then the commit under the run's own ref.
    async fn build(self: &Arc<Self>, run: &mut Run, place: &Place) -> Result<Verdict, Trouble> {
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

    async fn run_engine(self: &Arc<Self>, run: &mut Run, place: &Place) -> Result<EngineRunEnd, Trouble> {
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
        let engine_run = EngineRun::start(&*engine, &request, &self.launcher, bounds)?;
        run.record.guard = Some(engine_run.mark());
        run.record.stage = LocalStage::Running;
        self.ledger.remember(&run.record).await;
        fail_point!("factory::engine_started", |_| Err(Trouble::Stopped));
        let backlog = Arc::new(LogBacklog::default());
        let log = LogWriter::new(&backlog);
        let (station, key) = (Arc::clone(self), run.key);
        // The log's last lines may take a while to deliver; the run goes on meanwhile.
        run.log = Some(self.tasks.spawn(async move { station.ship_log(key, &backlog).await }));
        // Side by side: a coordinator that does not answer must not keep us from stopping the engine in time [I7].
        let (end, ()) =
            tokio::join!(self.follow_engine(run, place, engine_run, log), self.report_start(run, engine.name()));
        Ok(end)
    }

    async fn follow_engine(&self, run: &Run, place: &Place, engine_run: EngineRun, log: LogWriter) -> EngineRunEnd {
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
    async fn save_now_and_then(&self, run: &Run, place: &Place) -> std::convert::Infallible {
        loop {
            self.clock.sleep(self.settings.checkpoint_every).await;
            let Ok(Some(checkpoint)) = self.save(run, place).await else { continue };
            fail_point!("factory::checkpoint_pushed");
            let request = Patch { lease_epoch: run.key.epoch, stage: None, engine: None, checkpoint: Some(checkpoint) };
            let path = format!("/jobs/{}", run.key.job);
            let patched: Result<protocol::StageAnswer, _> =
                self.client.call(http::Method::PATCH, &path, Some(&request)).await;
            if let Err(error) = patched {
                warn!(job.id = %run.key.job, %error, "A checkpoint of job `{}` was saved but not reported", run.key.job);
            }
        }
    }

    /// Says that the engine is up. A refusal stops it.
    async fn report_start(&self, run: &Run, engine: &EngineName) {
        let request = StartWork { lease_epoch: run.key.epoch, engine: engine.clone() };
        let answered = self.report(WorkOperation::Start { job_id: run.key.job, request }).await;
        if let Answered::Refused(why) = answered {
            info!(job.id = %run.key.job, %why, "Job `{}` is no longer ours", run.key.job);
            self.holdings.stop(run.key.job, run.key.epoch, StopCause::Lost);
        }
        fail_point!("factory::start_reported", |_| ());
    }

    async fn verify(&self, run: &Run, place: &Place) -> CommandsVerdict {
        let environment = self.environment.clone().of_run(run.key, run.assignment.attempts + 1);
        let bounds = Bounds::commands(&self.settings.limits);
        let commands = &run.assignment.spec.verify;
        run_commands(commands, &place.dir, &environment, &self.launcher, &bounds, &run.stop).await
    }

    /// Commits and pushes the run's own ref. Nothing else moves before the coordinator said so.
    async fn publish(
        &self,
        run: &mut Run,
        place: &Place,
        mut insights: Insights,
        evidence: Vec<Evidence>,
    ) -> Result<Verdict, Trouble> {
        let Some((mirror, _, worktree)) = &place.repo else {
            return Ok(Verdict::Done { sha: None, insights, evidence });
        };
        let title = &run.assignment.spec.title;
        let sha = match mirror.commit_all(worktree, title).await? {
            Committed::Made(sha) => sha,
            Committed::Empty => {
                let message = "the engine ended well but changed nothing".to_owned();
                let reason = FailureReason::EngineError;
                return Ok(Verdict::Failed { reason, message, insights, evidence });
            }
        };
        if let Ok(diff) = mirror.diff(worktree.fork(), &sha).await {
            insights.files = Some(diff.files);
            insights.insertions = Some(diff.insertions);
            insights.deletions = Some(diff.deletions);
        }
        run.record.stage = LocalStage::Finishing;
        self.ledger.remember(&run.record).await;
        fail_point!("factory::committed", |_| Err(Trouble::Stopped));
        mirror.push_run(worktree, &sha).await?;
        fail_point!("factory::run_pushed", |_| Err(Trouble::Stopped));
        Ok(Verdict::Done { sha: Some(sha), insights, evidence })
    }

    /// The final report, the branch, and the clean-up.
    async fn finish(&self, mut run: Run, place: Option<Place>, verdict: Verdict) {
        let job = run.key.job;
        let answered = match verdict {
            Verdict::Done { sha, insights, evidence } => {
                let request = CompleteWork { lease_epoch: run.key.epoch, sha, insights, evidence, message: None };
                let answered = self.report_end(&mut run, reports::complete(job, request)).await;
                if let (Answered::Completed(completed), Some(place)) = (&answered, &place)
                    && let (Some(order), Some((mirror, _, _))) = (&completed.promote, &place.repo)
                {
                    self.promote_now(mirror, job, order).await;
                }
                answered
            }
            Verdict::Failed { reason, message, insights, evidence } => {
                let checkpoint = self.save_on_the_way_out(&run, place.as_ref()).await;
                let message = Some(message);
                let request = FailWork { lease_epoch: run.key.epoch, reason, message, checkpoint, insights, evidence };
                self.report_end(&mut run, reports::fail(job, request)).await
            }
            Verdict::Stopped => self.let_go(&mut run, place.as_ref()).await,
        };
        self.clean_up(run, answered).await;
    }

    /// The last report of a run: after it nobody takes its output any more, so that the last lines go first. It is worth
    /// waiting for as long as the lease lasts: whoever lets go of it loses the work.
    async fn report_end(&self, run: &mut Run, operation: WorkOperation) -> Answered {
        let log = run.log.take();
        let last_lines = async {
            if let Some(log) = log {
                let _ = tokio::time::timeout(LAST_LINES_MAX, log).await;
            }
        };
        self.report_after(last_lines, operation, || !run.stop.is_cancelled()).await
    }

    /// A stopped run saves its work and gives the job back; one that was taken from us has nothing to give.
    async fn let_go(&self, run: &mut Run, place: Option<&Place>) -> Answered {
        let cause = self.holdings.cause(run.key.job, run.key.epoch);
        let checkpoint = self.save_on_the_way_out(run, place).await;
        let message = match cause {
            Some(StopCause::Lost) => return Answered::Refused("the job is no longer ours".to_owned()),
            Some(StopCause::Preempted) => "a more urgent job needs the seat",
            Some(StopCause::Farewell) => "the factory is stopping",
            Some(StopCause::Unrenewed) => "the lease could not be renewed in time",
            None => "the run was stopped",
        };
        let message = Some(message.to_owned());
        let request = ReleaseWork { lease_epoch: run.key.epoch, message, checkpoint };
        self.report_end(run, reports::release(run.key.job, request)).await
    }

    async fn save_on_the_way_out(&self, run: &Run, place: Option<&Place>) -> Option<Checkpoint> {
        match self.save(run, place?).await {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                warn!(job.id = %run.key.job, %error, "The work of job `{}` could not be saved", run.key.job);
                None
            }
        }
    }

    async fn save(&self, run: &Run, place: &Place) -> Result<Option<Checkpoint>, Error> {
        let Some((mirror, _, worktree)) = &place.repo else { return Ok(None) };
        match mirror.checkpoint(worktree).await? {
            Saved::Pushed(checkpoint) => {
                info!(job.id = %run.key.job, sha = %checkpoint.sha, "Saved the work of job `{}`", run.key.job);
                Ok(Some(checkpoint))
            }
            Saved::NothingToSave => Ok(None),
        }
    }

    /// A reported run leaves nothing behind; one that was fenced is kept for a person and never ships [F6].
    async fn clean_up(&self, run: Run, answered: Answered) {
        match answered {
            Answered::Refused(why) => {
                let job = run.key.job;
                info!(job.id = %job, %why, "The run of job `{job}` was fenced: its worktree is kept for a person");
                self.ledger.remember(&quarantined(run.record)).await;
            }
            Answered::Waiting => {
                // The report is in the outbox; until it was answered the worktree is the only copy we can be sure of.
                self.ledger.remember(&quarantined(run.record)).await;
            }
            Answered::Completed(_) | Answered::Taken => {
                self.clear(run.key).await;
                self.ledger.forget(&run.record).await;
            }
        }
    }

    fn choose_engine(&self, asked: &[EngineName]) -> Result<Arc<dyn Engine>, Trouble> {
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

/// An error with everything that caused it, in one line.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let more = deeper.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = deeper.source();
    }
    text
}

/// The end of an output, for a message.
fn tail(output: &str) -> &str {
    let trimmed = output.trim_end();
    let start = trimmed.len().saturating_sub(400);
    let start = (start..trimmed.len()).find(|at| trimmed.is_char_boundary(*at)).unwrap_or(0);
    &trimmed[start..]
}
