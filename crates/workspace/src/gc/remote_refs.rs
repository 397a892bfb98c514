//! The fleet's branches on the remotes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{BranchName, CommitSha, JobId, RepoName, Revision, RunOutcome, StageName, Timestamp};

use super::job_status::{JobRecord, JobStatus};
use super::merged::Merged;
use super::report::{GcItem, GcKind, GcReport};
use super::{Gc, GcPlan};
use crate::config::RepoConfig;
use crate::error::Error;
use crate::mirror::Mirror;
use crate::refs::{OurRef, RefName};

/// A branch that is no longer needed.
#[derive(Debug, Clone)]
pub(super) struct DoomedRef {
    repo: RepoName,
    name: RefName,
    sha: CommitSha,
    job: JobId,
    rev: Revision,
    why: String,
}

/// One push deletes this many: its command line stays short, and the repeated proofs stay fresh.
const BATCH: usize = 50;

impl DoomedRef {
    pub(super) fn item(&self) -> GcItem {
        let name = format!("{}: {}", self.repo, self.name.short());
        GcItem { kind: GcKind::Ref, name, bytes: 0, why: self.why.clone() }
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.name, &self.sha, self.rev) == (&other.name, &other.sha, other.rev)
    }
}

impl Gc {
    pub(super) async fn plan_refs(&self, mirror: &Mirror, config: &RepoConfig, plan: &mut GcPlan) -> Result<(), Error> {
        let shown = mirror.our_refs().await?;
        if shown.is_empty() {
            return Ok(());
        }
        mirror.refresh().await?;
        let mut by_job: BTreeMap<JobId, Vec<(OurRef, RefName, CommitSha)>> = BTreeMap::new();
        for (ours, name, sha) in shown {
            by_job.entry(ours.job()).or_default().push((ours, name, sha));
        }
        for (job, refs) in by_job {
            let word = self.ask(job).await;
            let merge = match &word {
                JobStatus::Known(known) if !known.is_open() => self.merge_of(mirror, config, known).await,
                _ => Merged::No,
            };
            for (ours, name, sha) in refs {
                let held = match &word {
                    JobStatus::Known(known) => held_in_base(mirror, config, known, &sha).await,
                    JobStatus::Unknown | JobStatus::Silent(_) => false,
                };
                let facts = RefFacts {
                    ours,
                    sha: &sha,
                    word: &word,
                    merge,
                    held,
                    now: self.host.clock.now(),
                    retention: self.retention,
                };
                let shown = format!("{}: {}", mirror.repo(), name.short());
                match (judge(&facts), &word) {
                    (RefDecision::Remove(why), JobStatus::Known(known)) => {
                        let (repo, rev) = (mirror.repo().clone(), known.rev);
                        plan.refs.push(DoomedRef { repo, name, sha, job, rev, why });
                    }
                    (RefDecision::Remove(why) | RefDecision::Keep(why), _) => plan.keep(GcKind::Ref, shown, why),
                }
            }
        }
        Ok(())
    }

    /// How the commit of a shipped job was merged into its base.
    async fn merge_of(&self, mirror: &Mirror, config: &RepoConfig, known: &JobRecord) -> Merged {
        let Some(sha) = &known.completed_sha else { return Merged::No };
        let Ok(tip) = mirror.head_of(base_of(known, config)).await else { return Merged::No };
        // What cannot be determined is not proved.
        mirror.merged_into(&tip, sha).await.unwrap_or(Merged::No)
    }

    pub(super) async fn remove_refs(&self, doomed: Vec<DoomedRef>, report: &mut GcReport) {
        let mut by_repo: BTreeMap<RepoName, Vec<DoomedRef>> = BTreeMap::new();
        for doomed in doomed {
            by_repo.entry(doomed.repo.clone()).or_default().push(doomed);
        }
        for (repo, doomed) in by_repo {
            let Some((mirror, config)) = self.mirror(&repo).zip(self.repos.get(&repo)) else { continue };
            let doomed = self.still_proved(&mirror, config, doomed, report).await;
            for batch in doomed.chunks(BATCH) {
                self.remove_batch(&mirror, batch, report).await;
            }
        }
    }

    /// Those for which the remote, the base branch and the coordinator still give the same answer: a merge may have
    /// been reverted meanwhile.
    async fn still_proved(
        &self,
        mirror: &Mirror,
        config: &RepoConfig,
        doomed: Vec<DoomedRef>,
        report: &mut GcReport,
    ) -> Vec<DoomedRef> {
        let mut again = GcPlan::default();
        let looked = self.plan_refs(mirror, config, &mut again).await;
        let is_proved = |it: &DoomedRef| looked.is_ok() && again.refs.iter().any(|found| found.is_same(it));
        let (proved, doubted): (Vec<_>, Vec<_>) = doomed.into_iter().partition(is_proved);
        for it in doubted {
            let item = it.item();
            let why = match &looked {
                Ok(()) => again.kept.iter().find(|kept| kept.name == item.name).map(|kept| kept.why.clone()),
                Err(error) => Some(format!("it cannot be looked at again: {error}")),
            };
            report.spared(item, why.unwrap_or_else(|| "it changed while it was looked at".to_owned()));
        }
        proved
    }

    async fn remove_batch(&self, mirror: &Mirror, batch: &[DoomedRef], report: &mut GcReport) {
        let woken = self.changed_jobs(batch).await;
        let (spared, doomed): (Vec<_>, Vec<_>) = batch.iter().cloned().partition(|it| woken.contains(&it.job));
        for it in spared {
            report.spared(it.item(), "its job changed while it was looked at");
        }
        let refs: Vec<(RefName, CommitSha)> = doomed.iter().map(|it| (it.name.clone(), it.sha.clone())).collect();
        let left = match mirror.delete_refs(&refs).await {
            Ok(left) => left,
            Err(error) => {
                for it in doomed {
                    report.spared(it.item(), format!("it cannot be removed: {error}"));
                }
                return;
            }
        };
        // Between the check and the push the operator may have requeued a job, to continue from the deleted ref.
        let woken = self.changed_jobs(&doomed).await;
        for it in doomed {
            if left.contains(&it.name) {
                report.spared(it.item(), "it moved, or the remote refused");
            } else if woken.contains(&it.job) {
                match mirror.put_back(&it.name, &it.sha).await {
                    Ok(()) => report.spared(it.item(), "its job changed meanwhile: it was put back"),
                    Err(error) => report.spared(
                        it.item(),
                        format!("its job changed meanwhile, and {} could not be put back: {error}", it.sha),
                    ),
                }
            } else {
                report.removed(it.item());
            }
        }
    }

    /// Jobs that changed since the proof was made, or whose state is unknown.
    async fn changed_jobs(&self, doomed: &[DoomedRef]) -> BTreeSet<JobId> {
        let jobs: BTreeMap<JobId, Revision> = doomed.iter().map(|it| (it.job, it.rev)).collect();
        let mut changed = BTreeSet::new();
        for (job, rev) in jobs {
            if !self.is_unchanged(job, rev).await {
                changed.insert(job);
            }
        }
        changed
    }
}

fn base_of<'a>(known: &'a JobRecord, config: &'a RepoConfig) -> &'a BranchName {
    known.base.as_ref().unwrap_or(&config.base)
}

async fn held_in_base(mirror: &Mirror, config: &RepoConfig, known: &JobRecord, sha: &CommitSha) -> bool {
    if known.is_open() {
        return false;
    }
    let Ok(tip) = mirror.head_of(base_of(known, config)).await else { return false };
    matches!(mirror.has(sha).await, Ok(true)) && matches!(mirror.contains(&tip, sha).await, Ok(true))
}

/// All facts that decide about one branch.
struct RefFacts<'a> {
    ours: OurRef,
    sha: &'a CommitSha,
    word: &'a JobStatus,
    /// How the job's completed commit was merged into the base branch.
    merge: Merged,
    /// Whether the base branch contains the very commit of this branch.
    held: bool,
    now: Timestamp,
    retention: Duration,
}

enum RefDecision {
    Remove(String),
    Keep(String),
}

/// The rule. Everything else stays.
fn judge(facts: &RefFacts<'_>) -> RefDecision {
    let keep = |why: &str| RefDecision::Keep(why.to_owned());
    let known = match facts.word {
        JobStatus::Known(known) => known,
        JobStatus::Unknown => return keep("the coordinator does not know its job"),
        JobStatus::Silent(why) => return RefDecision::Keep(format!("the coordinator cannot be asked: {why}")),
    };
    let is_old = facts.now.since(known.updated_at) >= facts.retention;
    match known.stage {
        StageName::Shipped if facts.merge == Merged::No => {
            keep("its job shipped, but the commit is not in its base branch")
        }
        StageName::Shipped => shipped(facts, known, is_old),
        StageName::Failed | StageName::DeadLetter => over(facts, is_old),
        StageName::Queued
        | StageName::Blocked
        | StageName::Assigned
        | StageName::Building
        | StageName::Review
        | StageName::Testing => RefDecision::Keep(format!("its job is {}", known.stage)),
    }
}

fn shipped(facts: &RefFacts<'_>, known: &JobRecord, is_old: bool) -> RefDecision {
    let how = match facts.merge {
        Merged::Squashed => "squashed into",
        Merged::Rebased => "rebased onto",
        Merged::Itself | Merged::No => "in",
    };
    let is_completed = known.completed_sha.as_ref() == Some(facts.sha);
    if facts.held || is_completed {
        return RefDecision::Remove(format!("its job shipped, and its commit is {how} the base branch"));
    }
    match facts.ours {
        OurRef::Job(_) => RefDecision::Keep("it shows a commit that was not merged".to_owned()),
        OurRef::Wip(run) if known.ended_orderly(run.epoch) => {
            RefDecision::Remove("its job shipped, and the work that it saved was taken up".to_owned())
        }
        OurRef::Wip(_) | OurRef::Run(_) if is_old => {
            RefDecision::Remove("its job shipped long ago without it".to_owned())
        }
        OurRef::Wip(run) | OurRef::Run(run) => {
            let why = match known.outcome_of(run.epoch) {
                Some(RunOutcome::Completed) => "its run completed, and its job shipped the commit of another run",
                Some(RunOutcome::Failed(_)) => "its run failed, and its job shipped the commit of another run",
                Some(RunOutcome::LeaseLost) => "the lease of its run expired",
                Some(RunOutcome::Cancelled) => "its run was cancelled",
                Some(RunOutcome::Restored) => "the store was restored while it ran",
                Some(
                    RunOutcome::Released
                    | RunOutcome::Preempted
                    | RunOutcome::Asked
                    | RunOutcome::AwaitedSubtasks
                    | RunOutcome::QuotaWindow,
                ) => "its job shipped without its work",
                None => "the end of its run is not known",
            };
            RefDecision::Keep(format!("it is kept for a person for a while: {why}"))
        }
    }
}

fn over(facts: &RefFacts<'_>, is_old: bool) -> RefDecision {
    match facts.ours {
        _ if !is_old => RefDecision::Keep("its job failed and can still be requeued".to_owned()),
        OurRef::Run(_) | OurRef::Wip(_) => RefDecision::Remove("its job failed long ago".to_owned()),
        OurRef::Job(_) if facts.held => {
            RefDecision::Remove("its job failed long ago, and its commit is in the base branch".to_owned())
        }
        OurRef::Job(_) => RefDecision::Keep("it shows a commit that was not merged".to_owned()),
    }
}
