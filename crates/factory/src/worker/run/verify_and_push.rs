//! After the engine: prepare commands, the commit, verify commands and the push under the run's own ref.

use std::sync::Arc;
use std::time::Duration;

use domain::{Checkpoint, CommandStep, CommitSha, Evidence, FailureReason, Retryability, RunEnd, RunInsights};
use fail::fail_point;
use forge::{VerifiedClaim, pull_request_text};
use protocol::{Assignment, CommitLine, DIFF_BYTES_MAX, EvidenceReport, EvidenceResponse, LeftBranch};
use sandbox::Bounds;
use tracing::warn;
use workspace::{CommitOutcome, Diff, LocalStage, Mirror, RefName, StrayBranch, UnsavedFile, Worktree};

use super::super::Worker;
use super::{Handover, Run, RunFailure, RunLocation, RunResult, StartFailure};
use crate::verify::{Commands, CommandsVerdict};

/// The longest text of an agent for its pull request.
const REQUEST_TEXT_BYTES_MAX: usize = 20_000;

/// How long one attempt to send the evidence may take.
const EVIDENCE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long it is retried before the run continues without: longer than a coordinator takes to restart.
const EVIDENCE_PATIENCE: Duration = Duration::from_mins(1);
const EVIDENCE_AGAIN_AFTER: Duration = Duration::from_millis(500);

impl Worker {
    /// Runs the job's prepare or verify commands, with their output in the run's log.
    pub(super) async fn run_commands(
        self: &Arc<Self>,
        run: &mut Run,
        place: &RunLocation,
        step: CommandStep,
    ) -> CommandsVerdict {
        let lines = match step {
            CommandStep::Prepare => run.assignment.spec.prepare.clone(),
            CommandStep::Verify => run.assignment.spec.verify.clone(),
        };
        if lines.is_empty() {
            return CommandsVerdict::Passed(Vec::new());
        }
        let environment = self.environment.clone().of_run(run.key, run.assignment.attempts + 1);
        let bounds = Bounds::commands(&self.settings.limits);
        let log = self.take_log(run);
        let (lines, dir) = (&lines, &place.dir);
        let commands = Commands { step, lines, dir, environment: &environment, launcher: &place.launcher };
        let begin = |command: &str| log.push(&self.turn_to(run, &format!("{}: {command}", step.name())));
        let verdict = commands.run_announced(&bounds, &run.stop, begin, |line| log.push(line)).await;
        run.log_writer = Some(log);
        verdict
    }

    /// Commits what the agent and the prepare commands left. Later changes of the worktree are neither part of the work
    /// nor of its checkpoints.
    pub(super) async fn commit_work(&self, run: &mut Run, place: &RunLocation) -> Result<CollectedWork, StartFailure> {
        let Some((mirror, _, worktree)) = &place.repo else { return Ok(CollectedWork::NoRepository) };
        let title = run.assignment.spec.title.clone();
        // A partial mirror may have to fetch what a commit names.
        let commit = || async {
            mirror.freeze(worktree).await?;
            Ok(mirror.commit_all(worktree, &title).await?)
        };
        Ok(match self.patiently(run, mirror, commit).await? {
            CommitOutcome::Made(sha) => CollectedWork::Commit(sha),
            CommitOutcome::Empty => CollectedWork::Empty,
            CommitOutcome::Unresolved { files } => CollectedWork::Unresolved(files),
            CommitOutcome::InPart { made, left_out } => {
                let only = UnsavedFile::named(&left_out);
                let may_be_empty = run.assignment.spec.allow_empty && run.refused.is_empty();
                if made.is_some() || may_be_empty {
                    run.keep_what_is_left_out(&left_out);
                }
                match made {
                    Some(sha) => CollectedWork::Commit(sha),
                    None if may_be_empty => CollectedWork::Empty,
                    None => CollectedWork::Uncommittable(only),
                }
            }
        })
    }

    /// Pushes the commit to the run's own ref. No other ref moves before the coordinator grants it.
    pub(super) async fn publish(
        &self,
        run: &mut Run,
        place: &RunLocation,
        work: CollectedWork,
        mut insights: RunInsights,
        evidence: Vec<Evidence>,
    ) -> Result<RunResult, StartFailure> {
        let (Some((mirror, _, worktree)), CollectedWork::Commit(sha)) = (&place.repo, &work) else {
            if place.repo.is_some() {
                (insights.files, insights.insertions, insights.deletions) = (Some(0), Some(0), Some(0));
            }
            if place.repo.is_some() || !run.refused.is_empty() {
                // Such work leaves only the agent's own text.
                self.gather_unfinished(run, None, None).await;
            }
            return Ok(RunResult::Done { sha: None, insights, evidence, handover: Handover::default() });
        };
        let (sha, title) = (sha.clone(), run.assignment.spec.title.clone());
        let fork = mirror.fork_of(worktree, &sha).await?;
        if let Ok(diff) = mirror.diff(&fork, &sha).await {
            insights.files = Some(diff.files);
            insights.insertions = Some(diff.insertions);
            insights.deletions = Some(diff.deletions);
        }
        run.record.stage = LocalStage::Finishing;
        self.ledger.remember(&run.record).await;
        fail_point!("factory::committed", |_| Err(StartFailure::Stopped));
        let pushed = self.patiently(run, mirror, || async { Ok(mirror.push_run(worktree, &sha).await?) }).await?;
        fail_point!("factory::run_pushed", |_| Err(StartFailure::Stopped));
        self.keep_strays(run, mirror, worktree, &sha).await;
        let ending = run.activity.lock().ending.clone();
        run.evidence = Some(self.evidence(run, mirror, worktree, &sha).await);
        let evidenced =
            VerifiedClaim { run: run.key, insights: &insights, verified: &evidence, ending: ending.as_deref() };
        let request_text = self.pull_request_text(mirror, worktree, &title, &evidenced).await;
        let handover = Handover { checkpoint: Some(completed(run, mirror, &pushed, &sha)), request_text };
        Ok(RunResult::Done { sha: Some(sha), insights, evidence, handover })
    }

    /// Keeps what the agent committed on other branches. A remote that rejects it does not delay the work.
    async fn keep_strays(&self, run: &mut Run, mirror: &Mirror, worktree: &Worktree, work: &CommitSha) {
        let strays = mirror.stray_branches(worktree).await;
        if strays.is_empty() {
            return;
        }
        match mirror.keep_strays(worktree, work, &strays).await {
            Ok(kept) => run.left_branches = self.left_branches(strays, kept.as_str()),
            Err(error) => {
                let job = run.key.job;
                warn!(job.id = %job, %error, "Commits on other branches of job {} could not be kept: its worktree is", self.titles.label(job));
                run.is_unsaved = true;
            }
        }
    }

    /// Stray branches as they are shown to people.
    pub(super) fn left_branches(&self, strays: Vec<StrayBranch>, git_ref: &str) -> Vec<LeftBranch> {
        let shown = |stray: StrayBranch| LeftBranch {
            name: self.scrubber.text(&stray.name),
            sha: stray.sha,
            git_ref: git_ref.strip_prefix("refs/heads/").unwrap_or(git_ref).to_owned(),
        };
        strays.into_iter().map(shown).collect()
    }

    /// The changes of a failed run so far, and the engine's last output: both explain the failure.
    pub(super) async fn gather_unfinished(
        &self,
        run: &mut Run,
        place: Option<&RunLocation>,
        saved: Option<&Checkpoint>,
    ) {
        let repo = place.and_then(|place| place.repo.as_ref());
        if let (Some((mirror, _, worktree)), Some(saved)) = (repo, saved) {
            run.evidence = Some(self.evidence(run, mirror, worktree, &saved.sha).await);
            return;
        }
        let ending = run.activity.lock().ending.clone();
        if ending.is_some() || !run.refused.is_empty() {
            let refused = run.refused.clone();
            let work = EvidenceReport { lease_epoch: run.key.epoch, ending, refused, ..EvidenceReport::default() };
            run.evidence = Some(self.without_secrets(work));
        }
    }

    /// The diff of the run, shown later [B4]. A missing part does not hold the rest back.
    async fn evidence(&self, run: &Run, mirror: &Mirror, worktree: &Worktree, sha: &CommitSha) -> EvidenceReport {
        let job = run.key.job;
        let fork = mirror.fork_of(worktree, sha).await.unwrap_or_else(|_| worktree.fork().clone());
        let patch = mirror.patch(&fork, sha, DIFF_BYTES_MAX).await.unwrap_or_else(|error| {
            warn!(job.id = %job, %error, "The change of job {} cannot be shown", self.titles.label(job));
            Diff { text: format!("The change cannot be shown here, look at commit {sha}: {error}\n"), is_cut: true }
        });
        let commits = mirror.commits(&fork, sha).await.unwrap_or_else(|error| {
            warn!(job.id = %job, %error, "The commits of job {} cannot be shown", self.titles.label(job));
            Vec::new()
        });
        self.without_secrets(EvidenceReport {
            lease_epoch: run.key.epoch,
            diff: Some(patch.text),
            diff_cut: patch.is_cut,
            commits: commits.into_iter().map(|(sha, subject)| CommitLine { sha, subject }).collect(),
            ending: run.activity.lock().ending.clone(),
            refused: run.refused.clone(),
            left_branches: run.left_branches.clone(),
        })
    }

    fn without_secrets(&self, mut work: EvidenceReport) -> EvidenceReport {
        for text in work.diff.iter_mut().chain(&mut work.ending) {
            *text = self.scrubber.text(text);
        }
        for commit in &mut work.commits {
            commit.subject = self.scrubber.text(&commit.subject);
        }
        work
    }

    /// Sends the evidence to the coordinator, with retries while it is unavailable: it rejects evidence after the
    /// outcome.
    pub(super) async fn send_evidence(&self, run: &Run, evidence: &EvidenceReport) {
        let job = run.key.job;
        let path = format!("/jobs/{job}/runs/evidence");
        let until = self.clock.monotonic() + EVIDENCE_PATIENCE;
        loop {
            let shown = self.client.post::<_, EvidenceResponse>(&path, evidence);
            let why = match tokio::time::timeout(EVIDENCE_TIME_MAX, shown).await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) if error.is_final() => {
                    warn!(job.id = %job, %error, "The evidence of job {} was not taken", self.titles.label(job));
                    return;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            if run.stop.is_cancelled() || self.clock.monotonic() >= until {
                warn!(job.id = %job, %why, "The coordinator did not take the evidence of job {} in time", self.titles.label(job));
                return;
            }
            let _ = run.stop.run_until_cancelled(self.clock.sleep(EVIDENCE_AGAIN_AFTER)).await;
        }
    }

    /// The text of the pull request, made now because only this factory has the agent's own text.
    async fn pull_request_text(
        &self,
        mirror: &Mirror,
        worktree: &Worktree,
        title: &str,
        evidenced: &VerifiedClaim<'_>,
    ) -> Option<String> {
        let (_, config) = self.mirror(worktree.repo()).ok()?;
        self.forges.of(worktree.repo(), &config.url)?;
        // An unreadable template is no reason to hold the work back.
        let form = mirror.pr_template(worktree.fork()).await.ok().flatten();
        let own = worktree.pr_body(REQUEST_TEXT_BYTES_MAX);
        Some(pull_request_text(own.as_deref(), title, form.as_deref(), evidenced))
    }
}

/// What the agent and the prepare commands left.
pub(super) enum CollectedWork {
    /// The job has no repository.
    NoRepository,
    /// A commit.
    Commit(CommitSha),
    /// No file differs from the base branch.
    Empty,
    /// Nothing that a commit can hold.
    Uncommittable(String),
    /// A merge with conflicts in these files.
    Unresolved(Vec<String>),
}

impl CollectedWork {
    /// Why the run fails before anything is verified, if it does.
    pub(super) fn failure(&self, run: &Run) -> Option<RunFailure> {
        let spec = &run.assignment.spec;
        match self {
            // Without a repository only a verify command can show that the work was done in spite of a refusal.
            Self::NoRepository if !run.refused.is_empty() && spec.verify.is_empty() => {
                Some(refused_without_changes(run))
            }
            Self::NoRepository | Self::Commit(_) => None,
            Self::Empty if !run.refused.is_empty() => Some(refused_without_changes(run)),
            Self::Empty => no_changes(&run.assignment),
            Self::Unresolved(files) => {
                let files: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
                let message = format!(
                    "the agent left a merge of the base branch unresolved: conflicts or conflict markers are left in {}",
                    files.join(", ")
                );
                let message = run.with_refusals(message);
                Some(RunFailure::new(FailureReason::EngineError, Retryability::Worthwhile, message))
            }
            Self::Uncommittable(only) => {
                let message = run.with_refusals(format!("the agent changed nothing that can be committed: {only}"));
                Some(RunFailure::new(FailureReason::EngineError, Retryability::Pointless, message))
            }
        }
    }
}

/// A run without changes because a tool was refused to its agent. The next run would be refused it too.
fn refused_without_changes(run: &Run) -> RunFailure {
    let message = run.with_refusals("the agent finished without changing any file".to_owned());
    let message =
        format!("{message}: allow it in the engine's configuration, or change the job so that it is not needed");
    RunFailure { no_changes: true, ..RunFailure::new(FailureReason::EngineError, Retryability::Pointless, message) }
}
/// Why a run without changes fails, if it does. Returned work has a branch, which an empty run would not replace.
fn no_changes(assignment: &Assignment) -> Option<RunFailure> {
    let Assignment { spec, changes, conflict, previous_run, checkpoint, attempts, .. } = assignment;
    let is_completed = previous_run.as_ref().is_some_and(|previous| previous.end == RunEnd::Completed);
    let has_branch = checkpoint.is_some() && (changes.is_some() || conflict.is_some() || is_completed);
    let message = match (spec.allow_empty, has_branch) {
        (true, false) => return None,
        (true, true) => {
            "the agent removed all changes of the completed work; if that is right, cancel the job".to_owned()
        }
        (false, _) => {
            "the agent finished without changing any file; if that is expected, set `allowEmpty: true`".to_owned()
        }
    };
    // Once may be chance. Twice is its answer, and it costs the same each time.
    let again = if *attempts == 0 { Retryability::Worthwhile } else { Retryability::Pointless };
    let reason = FailureReason::EngineError;
    Some(RunFailure { reason, again, message, no_changes: true })
}

/// Where the next run continues if the job is returned: at the completed commit, in the same session.
fn completed(run: &Run, mirror: &Mirror, pushed: &RefName, sha: &CommitSha) -> Checkpoint {
    let (git_ref, repository) = (pushed.as_str().to_owned(), Some(mirror.identity().clone()));
    Checkpoint { git_ref, sha: sha.clone(), session: run.session(), epoch: run.key.epoch, repository }
}
