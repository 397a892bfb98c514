//! One run, from the lease to the final report. Types enforce the order; a crash in between is recovered at start.

mod artifacts;
mod budget;
mod execute;
mod feedback;
mod finish;
mod output;
mod prepare;
mod question;
mod remote_retry;
mod resuming;
mod tools;
mod verify_and_push;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Checkpoint, CommitSha, EngineName, Evidence, FailureReason, Retryability, RunInsights, RunKey, Timestamp,
};
use engines::{Activity, EngineError, WorktreeState};
use parking_lot::Mutex;
use protocol::{AcceptResponse, Assignment, EvidenceReport, LeftBranch};
use sandbox::{Launcher, LeaseWatch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::info;
use workspace::{Error, Mirror, RepoConfig, RunRecord, UnsavedFile, Worktree};

use super::held_leases::{HeldLease, LeaseTerm};
use super::log_buffer::{LogBuffer, LogWriter};
use super::recovery::say_what_is_left_out;
use super::{NoRepo, Worker};
pub(super) use domain::error_chain as chain;

/// A job that this process holds, with everything needed to work on it.
struct Run {
    key: RunKey,
    record: RunRecord,
    assignment: Assignment,
    stop: CancellationToken,
    /// The deadline of its programs; their guards kill them then.
    deadline: LeaseWatch,
    /// The task that ships the output of setup and engine.
    log: Option<JoinHandle<()>>,
    /// The writing end of its log, while no step writes to it.
    log_writer: Option<LogWriter>,
    /// The engine, once chosen.
    engine: Option<EngineName>,
    /// What the engine has done so far.
    activity: Mutex<Activity>,
    /// Its work could not be saved on the way out: the worktree is the only copy.
    is_unsaved: bool,
    /// How long it has waited for an unavailable remote.
    waited: Mutex<Duration>,
    /// Tool calls that were refused to its agent.
    refused: Vec<String>,
    /// Branches with commits of its agent, beside the work.
    left_branches: Vec<LeftBranch>,
    /// The evidence for its outcome, sent before the outcome.
    evidence: Option<EvidenceReport>,
    /// Why its agent parked the job.
    parked: Mutex<Option<Parked>>,
    /// The work that it saved last.
    saved: Mutex<Option<Checkpoint>>,
}

impl Run {
    /// The engine's own session, prefixed with the engine's name, so that no other engine resumes it.
    fn session(&self) -> Option<String> {
        let own = self.engine.as_ref().zip(self.activity.lock().session.clone());
        let earlier = || self.assignment.checkpoint.as_ref().and_then(|checkpoint| checkpoint.session.clone());
        own.map(|(engine, session)| format!("{engine}:{session}")).or_else(earlier)
    }

    /// A failure message, with the tool calls that were refused to its agent.
    fn with_refusals(&self, message: String) -> String {
        match self.refused.as_slice() {
            [] => message,
            refused => format!("{message}; the agent was not allowed to use {}", refused.join(", ")),
        }
    }

    /// A final message, with the branches on which its agent left commits.
    fn with_left_branches(&self, message: Option<String>) -> Option<String> {
        let [first, ..] = self.left_branches.as_slice() else { return message };
        let short = |sha: &CommitSha| sha.as_str().chars().take(10).collect::<String>();
        let named: Vec<String> =
            self.left_branches.iter().map(|left| format!("`{}` ({})", left.name, short(&left.sha))).collect();
        let note = format!("commits on other branches are kept in `{}`: {}", first.git_ref, named.join(", "));
        Some(message.map_or_else(|| note.clone(), |message| format!("{message}; {note}")))
    }

    /// Writes a line of the factory into its log.
    fn say(&self, line: &str) {
        if let Some(log) = &self.log_writer {
            log.push(line);
        }
    }

    /// Keeps its worktree, which alone holds the unsaved files. Reported once, however often the rest is saved.
    fn keep_what_is_left_out(&mut self, left_out: &[UnsavedFile]) {
        if std::mem::replace(&mut self.is_unsaved, true) {
            return;
        }
        say_what_is_left_out(self.key, left_out);
        let left = UnsavedFile::named(left_out);
        self.say(&format!("! {left}: no commit holds it, and the worktree is kept for a person"));
    }
}

/// Why an agent parked its job. The first reason counts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Parked {
    /// It asks a person.
    Question(String),
    /// It waits for its subtasks.
    Subtasks,
}

/// The place of a run's work.
struct RunLocation {
    dir: PathBuf,
    /// Its state before the engine starts.
    state: WorktreeState,
    /// Starts programs with the run's caches.
    launcher: Launcher,
    repo: Option<(Mirror, RepoConfig, Worktree)>,
}

/// The outcome of a run before anything is reported.
enum RunResult {
    /// The work is done and verified.
    Done { sha: Option<CommitSha>, insights: RunInsights, evidence: Vec<Evidence>, handover: Handover },
    /// It failed.
    Failed { failure: RunFailure, insights: RunInsights, evidence: Vec<Evidence> },
    /// A usage window of its engine's credential is exhausted: not a failed attempt [B1].
    Quota { engine: EngineName, credential: String, window: ExhaustedWindow, insights: RunInsights },
    /// The agent has a question for a person [B6].
    Asked { question: String, insights: RunInsights },
    /// The agent waits for its subtasks [B11].
    AwaitsSubtasks { insights: RunInsights },
    /// This host cannot do it now: another may, or this one later. Not a failed attempt.
    NotHere { message: String, insights: RunInsights },
    /// It was stopped.
    Stopped,
}

/// Why a run failed.
struct RunFailure {
    reason: FailureReason,
    again: Retryability,
    message: String,
    /// The agent finished without changing any file.
    no_changes: bool,
}

impl RunFailure {
    fn new(reason: FailureReason, again: Retryability, message: String) -> Self {
        Self { reason, again, message, no_changes: false }
    }
}

/// What completed work leaves for later runs.
#[derive(Default)]
struct Handover {
    /// Where the next run continues if the job is returned for changes.
    checkpoint: Option<Checkpoint>,
    /// The text for the pull request.
    request_text: Option<String>,
}

/// An exhausted usage window, as the engine reported it.
struct ExhaustedWindow {
    window: Option<String>,
    resets_at: Option<Timestamp>,
    /// The account has no credit left.
    is_exhausted: bool,
    message: String,
}

/// What prevents a run before its engine starts.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartFailure {
    #[error(transparent)]
    Host(#[from] Error),
    #[error(transparent)]
    Repo(#[from] NoRepo),
    #[error("none of the engines {0} is available on this factory")]
    NoEngine(String),
    #[error("setup failed: {0}")]
    Setup(String),
    #[error("the engine could not be started")]
    Engine(#[from] EngineError),
    /// This disk failed, not the job: not a failed attempt.
    #[error("engine `{engine}` cannot be made ready here")]
    NotReady {
        engine: EngineName,
        #[source]
        why: EngineError,
    },
    #[error("I/O error")]
    Disk(#[from] std::io::Error),
    #[error("nothing is left of the job's `{0}`")]
    Budget(&'static str),
    #[error(
        "what {runs} earlier {} used of the job's `{budget}` is not known, so nothing of it can be counted on: `giga \
         requeue` lets the job go on from its saved work with a whole budget",
        if *runs == 1 { "run" } else { "runs" }
    )]
    UnknownSpending { runs: u32, budget: &'static str },
    #[error("the run was stopped")]
    Stopped,
}

impl StartFailure {
    fn reason(&self) -> FailureReason {
        match self {
            Self::Repo(NoRepo::NotHere(_) | NoRepo::Other { .. }) => FailureReason::CapabilityMismatch,
            Self::NoEngine(_) | Self::Engine(EngineError::Gone { .. }) => FailureReason::NoEngine,
            Self::Budget(_) | Self::UnknownSpending { .. } => FailureReason::BudgetExceeded,
            Self::Setup(_) | Self::Engine(_) | Self::Host(Error::TooLarge { .. } | Error::NoSuchBranch { .. }) => {
                FailureReason::EngineError
            }
            Self::Host(_) | Self::Repo(NoRepo::Unusable(_)) | Self::NotReady { .. } | Self::Disk(_) | Self::Stopped => {
                FailureReason::Crash
            }
        }
    }

    fn again(&self) -> Retryability {
        match self {
            // The next run starts with the same work, and would cost as much.
            Self::Host(Error::TooLarge { .. }) => Retryability::Pointless,
            // Only a person can create the branch, or name another one.
            Self::Host(Error::NoSuchBranch { .. }) => Retryability::Pointless,
            _ => Retryability::Worthwhile,
        }
    }
}

impl Worker {
    /// Works on a job until its outcome is reported.
    pub(super) async fn work(self: &Arc<Self>, record: RunRecord, accepted: AcceptResponse, term: LeaseTerm) {
        let key = RunKey { job: record.job, epoch: accepted.lease_epoch };
        let HeldLease { stop, deadline } = self.holdings.begin(key.job, key.epoch, term);
        let mut run = Run {
            key,
            record,
            assignment: accepted.assignment,
            stop,
            deadline,
            log: None,
            log_writer: None,
            engine: None,
            activity: Mutex::default(),
            is_unsaved: false,
            waited: Mutex::default(),
            refused: Vec::new(),
            left_branches: Vec::new(),
            evidence: None,
            parked: Mutex::default(),
            saved: Mutex::default(),
        };
        self.titles.keep(&run.assignment);
        let (job, epoch) = (key.job, key.epoch);
        info!(job.id = %job, lease.epoch = %epoch, "Working on job {}", self.titles.label(job));
        let (place, verdict) = match self.prepare(&mut run).await {
            Ok(place) => {
                let verdict = self.build(&mut run, &place).await;
                (Some(place), verdict)
            }
            Err(trouble) => (None, Err(trouble)),
        };
        // If no engine started, there is nothing to save.
        let place = place.filter(|_| !matches!(verdict, Err(StartFailure::NotReady { .. })));
        let is_disk_full = verdict.as_ref().err().is_some_and(is_disk_full);
        if is_disk_full {
            self.disk_is_full().await;
        }
        let unavailable = match &verdict {
            Err(trouble) => self.remote_at_fault(&run, trouble).await,
            Ok(_) => None,
        };
        let verdict = verdict.unwrap_or_else(|trouble| match trouble {
            StartFailure::Stopped => RunResult::Stopped,
            trouble if is_disk_full => RunResult::NotHere {
                message: format!("the state disk of this factory is full: {}", chain(&trouble)),
                insights: run.record.insights.clone(),
            },
            // Not a failed attempt: another factory may reach the remote, or this one later.
            StartFailure::Host(_) if let Some(message) = unavailable => {
                RunResult::NotHere { message, insights: run.record.insights.clone() }
            }
            trouble @ StartFailure::Repo(NoRepo::Other { .. }) => {
                RunResult::NotHere { message: chain(&trouble), insights: run.record.insights.clone() }
            }
            trouble @ StartFailure::NotReady { .. } => RunResult::NotHere {
                message: chain(&trouble),
                insights: execute::spent_nothing_more(run.record.insights.clone()),
            },
            trouble => RunResult::Failed {
                failure: RunFailure::new(trouble.reason(), trouble.again(), chain(&trouble)),
                insights: run.record.insights.clone(),
                evidence: Vec::new(),
            },
        });
        self.finish(run, place, verdict).await;
        self.holdings.end(key.job, key.epoch);
    }
}

impl Worker {
    /// The reason, if a run ended because the remote of its repository is unavailable here.
    async fn remote_at_fault(&self, run: &Run, trouble: &StartFailure) -> Option<String> {
        let StartFailure::Host(Error::Git(error)) = trouble else { return None };
        if !error.may_be_the_remotes() {
            return None;
        }
        let (mirror, config) = self.mirror(run.assignment.repo.as_ref()?).ok()?;
        let name = self.host.refs().run(run.key);
        run.stop.run_until_cancelled(self.unavailable_remote(&mirror, &config, name)).await.flatten()
    }

    /// Takes the writing end of the run's log, after its earlier writers.
    fn take_log(self: &Arc<Self>, run: &mut Run) -> LogWriter {
        if let Some(log) = run.log_writer.take() {
            return log;
        }
        let backlog = Arc::new(LogBuffer::scrubbed(&self.scrubber));
        let log = LogWriter::new(&backlog, self.settings.limits.output_bytes_max);
        let (station, key) = (Arc::clone(self), run.key);
        // The log's last lines may take a while to deliver; the run goes on meanwhile.
        run.log = Some(self.tasks.spawn(async move { station.ship_log(key, &backlog).await }));
        log
    }
}

/// Whether the cause is a full disk: of this process, or of a git that it runs.
fn is_disk_full(trouble: &StartFailure) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(trouble);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)) {
            return true;
        }
        cause = error.source();
    }
    let text = chain(trouble);
    // The second is git's own message after a failed write.
    text.contains("No space left on device") || text.contains("Out of diskspace")
}
