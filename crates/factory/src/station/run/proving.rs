//! After the engine: the proof, the commit and the push under the run's own ref.

use domain::{Evidence, FailureReason, Insights};
use fail::fail_point;

use super::super::Station;
use super::{Place, Run, Trouble, Verdict};
use crate::process::Bounds;
use crate::publish::Committed;
use crate::runs::LocalStage;
use crate::verify::{CommandsVerdict, run_commands};

impl Station {
    pub(super) async fn verify(&self, run: &Run, place: &Place) -> CommandsVerdict {
        let environment = self.environment.clone().of_run(run.key, run.assignment.attempts + 1);
        let bounds = Bounds::commands(&self.settings.limits);
        let commands = &run.assignment.spec.verify;
        run_commands(commands, &place.dir, &environment, &place.launcher, &bounds, &run.stop).await
    }

    /// Commits and pushes the run's own ref. Nothing else moves before the coordinator said so.
    pub(super) async fn publish(
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
}
