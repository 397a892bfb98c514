//! When `--once` is over, and what it came to.

use domain::{JobId, StageName};
use protocol::{Explained, FactoryList, JobDetail, JobView};

use super::keeper::Keeper;
use crate::command::{is_stuck, rests};
use crate::failure::Failure;

impl Keeper<'_> {
    /// Whether everything that was here or came has ended, as far as it can without a person.
    pub(super) async fn is_over(&mut self) -> bool {
        if self.is_taking || self.is_submitting() {
            return false;
        }
        let open: Vec<JobView> = self.unfinished().cloned().collect();
        if open.is_empty() {
            return true;
        }
        let waits = |job: &JobView| {
            matches!(job.stage, StageName::Queued | StageName::Blocked)
                && job.target_factory_id.is_none()
                && job.not_before.is_none_or(|at| at <= self.now())
        };
        // What runs, was offered or comes back by itself may still set the others free.
        if !open.iter().all(waits) || !self.is_factory_here().await {
            return false;
        }
        for job in &open {
            if !self.waits_for_ever(job).await {
                return false;
            }
        }
        true
    }

    /// Whether a waiting job goes on waiting unless a person acts, given that nothing else is under way.
    async fn waits_for_ever(&self, job: &JobView) -> bool {
        let path = format!("/jobs/{}", job.id);
        match job.stage {
            StageName::Blocked => {
                let detail: Result<JobDetail, _> = self.client().get(&path).await;
                let waits = |detail: &JobDetail| detail.job.question.is_some() || !detail.waits_for.is_empty();
                detail.is_ok_and(|detail| detail.job.stage == StageName::Blocked && waits(&detail))
            }
            _ => {
                let explained: Result<Explained, _> = self.client().get(&format!("{path}/explain")).await;
                explained.is_ok_and(|explained| explained.job.stage == StageName::Queued && is_stuck(&explained.now))
            }
        }
    }

    /// The jobs that have not come to rest.
    fn unfinished(&self) -> impl Iterator<Item = &JobView> {
        self.session.iter().filter_map(|id| self.jobs.get(id)).filter(|job| !rests(job))
    }

    pub(super) async fn is_factory_here(&self) -> bool {
        let fleet: Result<FactoryList, _> = self.client().get("/factories").await;
        fleet.is_ok_and(|fleet| fleet.items.iter().any(|factory| factory.connected))
    }

    /// What it came to: an error that names what did not get through.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        let name = |id: &JobId| self.name_of(*id).unwrap_or_default().to_owned();
        let mut bad: Vec<String> = self.refused.iter().map(|name| format!("{name}: not a job")).collect();
        for id in &self.session {
            let Some(job) = self.jobs.get(id) else { continue };
            let why = job.message.as_deref().map_or_else(String::new, |why| format!(": {why}"));
            match job.stage {
                StageName::Failed | StageName::DeadLetter => {
                    let reason = job.reason.map_or_else(String::new, |reason| format!(" ({reason})"));
                    bad.push(format!("{}: failed{reason}{why}", name(id)));
                }
                StageName::Queued | StageName::Blocked => bad.push(format!("{}: still waits{why}", name(id))),
                StageName::Assigned | StageName::Building => bad.push(format!("{}: not over", name(id))),
                StageName::Review | StageName::Testing | StageName::Shipped => {}
            }
        }
        let all = self.session.len() + self.refused.len();
        if bad.is_empty() {
            self.teller().note(&format!("all {all} files got through"));
            return Ok(());
        }
        let lines: String = bad.iter().map(|line| format!("\n  {line}")).collect();
        Err(Failure::failed(format!("{} of {all} files did not get through:{lines}", bad.len())).hint(
            "beside each file in failed/ is one that says why; move a file back to inbox/ to have it tried again",
        ))
    }
}
