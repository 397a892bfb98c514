//! What an earlier process of this factory left behind: orphans, worktrees, reports [F6].

use domain::{Checkpoint, RunInsights, RunKey};
use engines::recover_credentials;
use protocol::ReleaseReport;
use sandbox::kill_leftovers;
use tracing::{info, warn};
use workspace::{LocalStage, RunRecord, SaveOutcome, UnsavedFile};

use super::Worker;
use super::reports;

impl Worker {
    /// Kills what still runs, delivers pending reports, saves partial work and releases the jobs, so that no job waits
    /// for its lease to expire. Done before this process registers: registering revokes whatever is left.
    pub(super) async fn recover(&self) {
        self.replay().await;
        let listing = match self.ledger.records().await {
            Ok(listing) => listing,
            Err(error) => {
                warn!(%error, "Cannot read what an earlier process left");
                return;
            }
        };
        for path in listing.torn {
            warn!("The record {} cannot be read; its job goes back when its lease expires", path.display());
        }
        let waiting = self.ledger.waiting().await.unwrap_or_default();
        for record in listing.records {
            let run = record.epoch.map(|epoch| RunKey { job: record.job, epoch });
            if run.is_some_and(|run| reports::is_reported(&waiting, run)) {
                // It ended, and the coordinator does not know yet: its report needs the worktree and the record, not
                // another report.
                self.ledger.remember(&quarantined(record)).await;
            } else if record.stage != LocalStage::Quarantined {
                self.give_back(record).await;
            }
        }
        // After the last agent of the earlier process was killed.
        recover_credentials(&self.host.state().sessions(), self.host.clock(), |_| false);
        self.give_back_claimed().await;
    }

    /// The cost of a run when its factory died: from the factory's record, or from the engine's own, which is newer.
    fn figures_of(&self, record: &RunRecord) -> RunInsights {
        let left_behind = || {
            let (engine, session) = record.session.as_deref()?.split_once(':')?;
            let engine = self.engines.iter().find(|found| found.name().as_str() == engine)?;
            engine.left_behind(record.job, session)
        };
        let tokens =
            |insights: &RunInsights| insights.tokens_in.unwrap_or(0).saturating_add(insights.tokens_out.unwrap_or(0));
        let newer = left_behind().filter(|found| tokens(found) >= tokens(&record.insights));
        newer.map_or_else(|| record.insights.clone(), |found| RunInsights { turns: record.insights.turns, ..found })
    }

    async fn give_back(&self, mut record: RunRecord) {
        let Some(epoch) = record.epoch else {
            // Whether it was granted is unknown; if so, registering revokes it.
            self.ledger.forget(&record).await;
            return;
        };
        let run = RunKey { job: record.job, epoch };
        let killed = kill_leftovers(run, record.guard);
        record.insights = self.figures_of(&record);
        record.insights.drop_out_of_range();
        self.ledger.remember(&record).await;
        let saved = self.save_leftover(&record, run).await;
        let message = Some("the factory was restarted".to_owned());
        let is_saved = saved.as_ref().is_ok_and(SaveOutcome::is_whole);
        let checkpoint = saved.ok().and_then(SaveOutcome::checkpoint);
        let request = ReleaseReport {
            lease_epoch: epoch,
            message,
            checkpoint: checkpoint.map(|saved| Checkpoint { session: record.session.clone(), ..saved }),
            insights: record.insights.clone(),
        };
        let answered = self.report(reports::release(record.job, request)).await;
        info!(job.id = %record.job, killed, ?answered, "Gave job {} back after a restart", record.job.short());
        if is_saved {
            self.clear(run).await;
            self.ledger.forget(&record).await;
        } else {
            self.ledger.remember(&quarantined(record)).await;
        }
    }

    async fn save_leftover(&self, record: &RunRecord, run: RunKey) -> Result<SaveOutcome, super::run::StartFailure> {
        let Some(repo) = &record.repo else { return Ok(SaveOutcome::NothingToSave) };
        let Some(worktree) = self.host.worktree(run)? else { return Ok(SaveOutcome::NothingToSave) };
        let (mirror, _) = self.mirror(repo)?;
        let mirror = mirror.of_worktree(&worktree).ok_or_else(|| mirror.is_not_of(&worktree))?;
        let saved = mirror.checkpoint_anew(&worktree).await;
        match &saved {
            Ok(SaveOutcome::Pushed(_) | SaveOutcome::NothingToSave) => {}
            Ok(SaveOutcome::InPart { left_out, .. }) => say_what_is_left_out(run, left_out),
            Err(error) => {
                warn!(job.id = %record.job, %error, "Cannot save what job {} left: its worktree is kept", record.job.short());
            }
        }
        Ok(saved?)
    }

    /// Removes a run's directory. What cannot be removed now is left to the next clean-up.
    pub(super) async fn clear(&self, run: RunKey) {
        if let Err(error) = self.host.remove_worktree(run).await {
            warn!(job.id = %run.job, %error, "Cannot remove the worktree of job {}", self.titles.label(run.job));
        }
    }
}

/// Logs which files exist only in the worktree.
pub(super) fn say_what_is_left_out(run: RunKey, left_out: &[UnsavedFile]) {
    let left = UnsavedFile::named(left_out);
    warn!(job.id = %run.job, "The work of job {} is saved in part: {left}. Its worktree is kept", run.job.short());
}

/// The record of a run that is over, whose worktree stays.
pub(super) fn quarantined(record: RunRecord) -> RunRecord {
    RunRecord { stage: LocalStage::Quarantined, guard: None, ..record }
}
