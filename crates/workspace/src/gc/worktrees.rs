//! Directories of runs that are over.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use domain::RunKey;
use sandbox::folder_bytes;
use serde_json::Value;

use super::job_status::JobStatus;
use super::report::{GcItem, GcKind, GcReport};
use super::{Gc, GcPlan};
use crate::error::Error;
use crate::outbox::Outbox;
use crate::publish::SaveOutcome;
use crate::runs::{LocalStage, RunRecord, Runs};
use crate::unsaved_files::UnsavedFile;

/// The directory of a run that is no longer needed.
#[derive(Debug)]
pub(super) struct DoomedWorktree {
    run: RunKey,
    bytes: u64,
    why: &'static str,
    rescue: Rescue,
}

/// Whether it is the only copy of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rescue {
    /// Its content is on the remote, or empty.
    Needless,
    /// Its content is pushed first.
    First,
}

/// All facts that decide about a run's directory.
#[derive(Debug)]
struct WorktreeFacts<'a> {
    run: RunKey,
    record: Option<LocalStage>,
    is_report_waiting: bool,
    age: Duration,
    retention: Duration,
    word: &'a JobStatus,
    holdings: WorktreeContents,
}

/// The content of a run's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WorktreeContents {
    /// Nothing that is not elsewhere.
    Nothing,
    /// Work that is nowhere else.
    Work,
    /// Something that can be saved nowhere else.
    Unsavable(UnsavedFile),
    /// Unknown: its repository is not configured, or unavailable.
    Unknown,
}

#[derive(Debug, PartialEq, Eq)]
enum WorktreeDecision {
    Remove { why: &'static str, rescue: Rescue },
    Keep(String),
}

impl DoomedWorktree {
    pub(super) fn item(&self) -> GcItem {
        let (name, why) = (self.run.to_string(), self.why.to_owned());
        GcItem { kind: GcKind::Worktree, name, bytes: self.bytes, why }
    }
}

impl Gc {
    pub(super) async fn plan_worktrees(&self, plan: &mut GcPlan) -> Result<(), Error> {
        // In this order: a run is recorded before it has a directory, so a live run that is found here is found there
        // too.
        for run in self.host.worktrees()? {
            match self.judge_run(run).await? {
                WorktreeDecision::Keep(why) => plan.keep(GcKind::Worktree, run.to_string(), why),
                WorktreeDecision::Remove { why, rescue } => {
                    let bytes = self.bytes_of(run);
                    plan.worktrees.push(DoomedWorktree { run, bytes, why, rescue });
                }
            }
        }
        Ok(())
    }

    pub(super) async fn remove_worktree(&self, doomed: DoomedWorktree, report: &mut GcReport) {
        let (item, run) = (doomed.item(), doomed.run);
        match self.judge_run(run).await {
            Ok(WorktreeDecision::Remove { rescue, .. }) if rescue == doomed.rescue => {}
            Ok(WorktreeDecision::Remove { .. }) => return report.spared(item, "it changed while it was looked at"),
            Ok(WorktreeDecision::Keep(why)) => return report.spared(item, why),
            Err(error) => return report.spared(item, error.to_string()),
        }
        let removed = async {
            if doomed.rescue == Rescue::First {
                self.rescue(run).await?;
            }
            self.host.remove_worktree(run).await?;
            let runs = Runs::under(&self.host.state);
            for record in self.records_of(run)? {
                runs.remove(record.job, record.dispatch_seq)?;
            }
            Ok::<(), Error>(())
        };
        match removed.await {
            Ok(()) => report.removed(item),
            Err(error) => report.spared(item, format!("it cannot be removed: {error}")),
        }
    }

    async fn judge_run(&self, run: RunKey) -> Result<WorktreeDecision, Error> {
        let record = self.records_of(run)?.into_iter().next();
        let stage = record.as_ref().map(|record| record.stage);
        let is_report_waiting = self.is_report_waiting(run)?;
        if stage.is_some_and(|stage| stage != LocalStage::Quarantined) || is_report_waiting {
            // Not worth a request, and its files may change while they are read.
            let word = JobStatus::Unknown;
            let (age, retention, holdings) = (Duration::ZERO, self.retention, WorktreeContents::Unknown);
            return Ok(judge(&WorktreeFacts {
                run,
                record: stage,
                is_report_waiting,
                age,
                retention,
                word: &word,
                holdings,
            }));
        }
        let word = self.ask(run.job).await;
        let holdings = match self.holdings(run).await {
            Ok(holdings) => holdings,
            Err(_) => WorktreeContents::Unknown,
        };
        let facts = WorktreeFacts {
            run,
            record: stage,
            is_report_waiting,
            age: self.age(run),
            retention: self.retention,
            word: &word,
            holdings,
        };
        Ok(judge(&facts))
    }

    async fn holdings(&self, run: RunKey) -> Result<WorktreeContents, Error> {
        let Some(worktree) = self.host.worktree(run)? else {
            // Without metadata only a job without a repository ran in it, whose files are not kept.
            return Ok(WorktreeContents::Nothing);
        };
        let Some(mirror) = self.mirror_of(&worktree) else { return Ok(WorktreeContents::Unknown) };
        let snapshot = mirror.live_snapshot(&worktree).await?;
        if let Some(left) = snapshot.left_out.into_iter().next() {
            return Ok(WorktreeContents::Unsavable(left));
        }
        if snapshot.head == snapshot.fork && snapshot.tree == snapshot.fork_tree {
            return Ok(WorktreeContents::Nothing);
        }
        for name in [self.host.refs.run(run), self.host.refs.wip(run)] {
            let Some(shown) = mirror.fetch_ref(&name).await? else { continue };
            if mirror.tree_of(&shown).await? == snapshot.tree && mirror.contains(&shown, &snapshot.head).await? {
                return Ok(WorktreeContents::Nothing);
            }
        }
        Ok(WorktreeContents::Work)
    }

    /// Saves a directory's content where the next run finds it: under the run's own ref, which never ships.
    async fn rescue(&self, run: RunKey) -> Result<(), Error> {
        let Some(worktree) = self.host.worktree(run)? else { return Ok(()) };
        let Some(mirror) = self.mirror_of(&worktree) else {
            return Err(Error::NotOurWorktree { path: worktree.path().to_owned() });
        };
        match mirror.checkpoint_all_files(&worktree).await? {
            SaveOutcome::Pushed(_) | SaveOutcome::NothingToSave => Ok(()),
            SaveOutcome::InPart { left_out, .. } => {
                left_out.into_iter().next().map_or(Ok(()), |left| Err(Error::OnlyHere(left)))
            }
        }
    }

    fn bytes_of(&self, run: RunKey) -> u64 {
        let state = &self.host.state;
        [state.worktree(run), state.home(run), state.metadata(run)].iter().map(|folder| folder_bytes(folder)).sum()
    }

    fn records_of(&self, run: RunKey) -> Result<Vec<RunRecord>, Error> {
        let listing = Runs::under(&self.host.state).list()?;
        Ok(listing.records.into_iter().filter(|record| record.is_of(run)).collect())
    }

    fn is_report_waiting(&self, run: RunKey) -> Result<bool, Error> {
        let (job, epoch) = (Value::from(run.job.to_string()), Value::from(run.epoch.0));
        let waiting = Outbox::open(&self.host.state)?.list()?;
        Ok(waiting.entries.iter().any(|entry| entry.report["jobId"] == job && entry.report["leaseEpoch"] == epoch))
    }

    /// How long ago a run's record was last written.
    fn age(&self, run: RunKey) -> Duration {
        let state = &self.host.state;
        let record = self.records_of(run).ok().and_then(|records| records.into_iter().next());
        let record = record.map(|record| Runs::under(state).path_of(&record));
        let metadata = state.metadata(run);
        let paths = [Some(state.worktree(run)), Some(metadata.join("start.json")), record];
        let now = Duration::from_millis(u64::try_from(self.host.clock.now().as_millis()).unwrap_or(0));
        let latest = paths.iter().flatten().filter_map(|path| modified(path)).max();
        // What cannot be dated counts as new.
        latest.map_or(Duration::ZERO, |latest| now.saturating_sub(latest))
    }
}

/// When a file was last written, since 1970.
pub(super) fn modified(path: &Path) -> Option<Duration> {
    fs::symlink_metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()
}

/// The rule. Everything else stays.
fn judge(facts: &WorktreeFacts<'_>) -> WorktreeDecision {
    let keep = |why: &str| WorktreeDecision::Keep(why.to_owned());
    if facts.is_report_waiting {
        return keep("its last report is still on the way");
    }
    if facts.record.is_some_and(|stage| stage != LocalStage::Quarantined) {
        return keep("its run goes on");
    }
    let known = match facts.word {
        JobStatus::Known(known) => known,
        JobStatus::Unknown => return keep("the coordinator does not know its job"),
        JobStatus::Silent(why) => return WorktreeDecision::Keep(format!("the coordinator cannot be asked: {why}")),
    };
    if known.is_held_under(facts.run.epoch) {
        return keep("its run holds the job");
    }
    if known.lease_epoch < facts.run.epoch {
        return keep("the coordinator was put back to a time before its run");
    }
    let is_young = facts.age < facts.retention;
    if facts.record == Some(LocalStage::Quarantined) && is_young {
        return keep("it is kept for a person for a while: its run was fenced");
    }
    match &facts.holdings {
        WorktreeContents::Nothing => {
            WorktreeDecision::Remove { why: "its run is over, and nothing is only there", rescue: Rescue::Needless }
        }
        WorktreeContents::Unsavable(left) => {
            WorktreeDecision::Keep(format!("{left}, and cannot be saved elsewhere: look at it, then delete it"))
        }
        WorktreeContents::Unknown => keep("it is unknown whether its work is saved elsewhere"),
        WorktreeContents::Work if is_young => keep("it holds work that is nowhere else"),
        WorktreeContents::Work => WorktreeDecision::Remove {
            why: "its run was over long ago; its work is saved under its own ref",
            rescue: Rescue::First,
        },
    }
}

#[cfg(test)]
mod tests {
    use domain::{Epoch, Revision, StageName, Timestamp};

    use super::super::job_status::JobRecord;
    use super::*;
    use crate::unsaved_files::UnsavedReason;

    const DAY: Duration = Duration::from_hours(24);

    fn word(stage: StageName, epoch: u64) -> JobStatus {
        JobStatus::Known(Box::new(JobRecord {
            stage,
            lease_epoch: Epoch(epoch),
            rev: Revision(7),
            base: None,
            completed_sha: None,
            updated_at: Timestamp::from_millis(0),
            runs: Vec::new(),
        }))
    }

    fn facts(word: &JobStatus) -> WorktreeFacts<'_> {
        let run = RunKey { job: "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap(), epoch: Epoch(5) };
        let (record, is_report_waiting, holdings) = (None, false, WorktreeContents::Nothing);
        WorktreeFacts { run, record, is_report_waiting, age: 20 * DAY, retention: 14 * DAY, word, holdings }
    }

    fn is_kept(facts: &WorktreeFacts<'_>) -> bool {
        matches!(judge(facts), WorktreeDecision::Keep(_))
    }

    // [I11] [row 28]
    #[test]
    fn a_folder_whose_run_may_still_need_it_stays_however_old_it_is() {
        let over = word(StageName::Shipped, 6);
        let stages = [
            LocalStage::Accepting,
            LocalStage::Preparing,
            LocalStage::Running,
            LocalStage::Verifying,
            LocalStage::Finishing,
        ];

        for stage in stages {
            assert!(is_kept(&WorktreeFacts { record: Some(stage), ..facts(&over) }), "{stage:?}");
        }
        assert!(is_kept(&WorktreeFacts { is_report_waiting: true, ..facts(&over) }));
        for held in [StageName::Assigned, StageName::Building] {
            assert!(is_kept(&facts(&word(held, 5))), "{held}");
        }
        assert!(is_kept(&facts(&word(StageName::Queued, 4))), "a fleet that was put back knows less than the folder");
        assert!(is_kept(&facts(&JobStatus::Unknown)) && is_kept(&facts(&JobStatus::Silent("away".to_owned()))));
        assert!(!is_kept(&facts(&over)), "and otherwise it goes");
    }

    // [I11]
    #[test]
    fn the_only_copy_of_something_is_saved_before_it_goes_and_stays_while_it_is_young() {
        let over = word(StageName::Failed, 6);
        let work = || WorktreeFacts { holdings: WorktreeContents::Work, ..facts(&over) };
        let fenced = Some(LocalStage::Quarantined);

        assert!(is_kept(&WorktreeFacts { age: 13 * DAY, ..work() }));
        assert!(is_kept(&WorktreeFacts { age: 13 * DAY, record: fenced, ..facts(&over) }));
        assert!(is_kept(&WorktreeFacts { holdings: WorktreeContents::Unknown, ..work() }));
        let web = UnsavedFile { path: "web/".into(), why: UnsavedReason::OwnRepository };
        assert!(is_kept(&WorktreeFacts { holdings: WorktreeContents::Unsavable(web), ..work() }), "however old it is");
        assert!(matches!(judge(&work()), WorktreeDecision::Remove { rescue: Rescue::First, .. }));
        assert!(matches!(
            judge(&WorktreeFacts { record: fenced, ..work() }),
            WorktreeDecision::Remove { rescue: Rescue::First, .. }
        ));
    }
}
