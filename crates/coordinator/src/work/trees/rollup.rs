//! What a parent shows of the jobs below it: how many, how far, and what they cost.

use std::collections::HashMap;
use std::sync::Arc;

use domain::{CHILD_RESULTS_MAX, CHILD_SUMMARY_CHARS_MAX, ChildResult, Job, JobId, StageName};
use protocol::{ChildView, TreeSummary};

use crate::coordinator::Coordinator;
use crate::error::Error;

impl Coordinator {
    /// The jobs below a job, together; `None` without children.
    pub(crate) async fn tree_summary(&self, job: &Job) -> Result<Option<TreeSummary>, Error> {
        if !job.has_children() {
            return Ok(None);
        }
        let below = self.jobs_below(job).await?;
        Ok(Some(summary(job, &below)))
    }
}

impl Coordinator {
    /// What the run of a parent is told about its children.
    pub(crate) async fn child_results(&self, job: &Job) -> Result<Vec<ChildResult>, Error> {
        if !job.has_children() {
            return Ok(Vec::new());
        }
        let below = self.jobs_below(job).await?;
        let mut children: Vec<_> = below.iter().filter(|child| child.parent() == Some(job.id())).collect();
        // Its agent knows the subtasks, and may be waiting for their results.
        children.sort_by_key(|child| !job.subtasks().contains(&child.id()));
        let mut results = Vec::new();
        for child in children.into_iter().take(CHILD_RESULTS_MAX) {
            results.push(ChildResult {
                id: child.id(),
                title: child.spec().title.clone(),
                stage: child.stage().name(),
                commit: child.completed().cloned(),
                branch: None,
                pull_request: child.pull_request().map(|request| request.url.clone()),
                summary: self.child_summary(child).await?,
            });
        }
        Ok(results)
    }

    /// What an agent is told about the outcome of a job.
    pub(crate) async fn child_summary(&self, job: &Job) -> Result<Option<String>, Error> {
        let words = self.last_words(job).await?;
        Ok(words.map(|words| words.chars().take(CHILD_SUMMARY_CHARS_MAX).collect()))
    }

    /// The final message of a job's last run, or why it failed.
    async fn last_words(&self, job: &Job) -> Result<Option<String>, Error> {
        if let Some(message) = job.message().filter(|_| job.stage().name() != StageName::Shipped) {
            return Ok(Some(message.to_owned()));
        }
        let Some(before_last) = job.runs().checked_sub(1) else { return Ok(None) };
        let runs = self.ports.history.runs(job.id(), before_last, 1).await?;
        Ok(runs.into_iter().next_back().and_then(|run| run.message))
    }
}

fn summary(job: &Job, below: &[Arc<Job>]) -> TreeSummary {
    let mut children: HashMap<JobId, Vec<&Arc<Job>>> = HashMap::new();
    for job in below {
        if let Some(parent) = job.parent() {
            children.entry(parent).or_default().push(job);
        }
    }
    let count = |wanted: &[StageName]| below.iter().filter(|job| wanted.contains(&job.stage().name())).count();
    let views = children.get(&job.id()).into_iter().flatten().map(|child| {
        let all = subtree(child, &children);
        ChildView {
            id: child.id(),
            title: child.spec().title.clone(),
            kind: child.spec().kind,
            stage: child.stage().name(),
            jobs: counted(all.len() - 1),
            spent: all.iter().map(|job| job.spent()).sum(),
        }
    });
    TreeSummary {
        jobs: counted(below.len()),
        shipped: counted(count(&[StageName::Shipped])),
        failed: counted(count(&[StageName::Failed, StageName::DeadLetter])),
        spent: below.iter().map(|job| job.spent()).chain([job.spent()]).sum(),
        children: views.collect(),
    }
}

/// A job and all below it.
fn subtree<'a>(job: &'a Arc<Job>, children: &HashMap<JobId, Vec<&'a Arc<Job>>>) -> Vec<&'a Arc<Job>> {
    let mut all = vec![job];
    let mut at = 0;
    while let Some(job) = all.get(at) {
        at += 1;
        all.extend(children.get(&job.id()).into_iter().flatten());
    }
    all
}

fn counted(jobs: usize) -> u32 {
    u32::try_from(jobs).unwrap_or(u32::MAX)
}
