//! The summary of the demo, counted from the events of its jobs.

use std::collections::{BTreeMap, BTreeSet};

use domain::{EventKind, JobEvent, JobId, counted, dollars};

/// The numbers at the end of the demo.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DemoSummary {
    pub(super) jobs: usize,
    pub(super) shipped: usize,
    /// Factories that were killed.
    pub(super) kills: usize,
    /// Leases that expired and went to another factory.
    pub(super) takeovers: usize,
    /// Jobs that gave their seat to a critical one.
    pub(super) preemptions: usize,
    /// Attempts that failed and were followed by another.
    pub(super) retries: usize,
    /// Steps that a later run found done.
    pub(super) resumed_steps: u64,
    /// Jobs that ended without being merged.
    pub(super) lost: usize,
    /// Jobs that were merged more than once, or completed again without a reviewer's request.
    pub(super) twice: usize,
    /// Votes of reviewers.
    pub(super) votes: usize,
    /// What all runs cost, in US dollars.
    pub(super) cost_usd: f64,
}

impl DemoSummary {
    /// Counts the events of these jobs.
    pub(super) fn of(jobs: &[JobId], events: &[JobEvent]) -> Self {
        let of_job = |id: &JobId, kind: EventKind| events.iter().filter(|e| e.job_id == *id && e.kind == kind).count();
        let shipped = jobs.iter().filter(|id| of_job(id, EventKind::Shipped) > 0).count();
        let is_twice = |id: &&JobId| {
            let again = of_job(id, EventKind::ChangesRequested);
            of_job(id, EventKind::Completed) > 1 + again || of_job(id, EventKind::Shipped) > 1
        };
        Self {
            jobs: jobs.len(),
            shipped,
            takeovers: takeovers(events),
            preemptions: events.iter().filter(|event| event.kind == EventKind::Preempted).count(),
            retries: events.iter().filter(|event| event.kind == EventKind::AttemptFailed).count(),
            lost: jobs.len() - shipped,
            votes: events.iter().filter(|event| event.kind == EventKind::Voted).count(),
            twice: jobs.iter().filter(is_twice).count(),
            ..Self::default()
        }
    }

    /// The jobs whose work was interrupted: a failed attempt, a lost lease, or a preemption.
    pub(super) fn interrupted_jobs(events: &[JobEvent]) -> BTreeSet<JobId> {
        let is_interruption =
            |kind| matches!(kind, EventKind::AttemptFailed | EventKind::Reaped | EventKind::Preempted);
        events.iter().filter(|event| is_interruption(event.kind)).map(|event| event.job_id).collect()
    }

    /// The steps that a run found done, as the demo's agent logs them: `resuming: 7 of 16 steps are here already`.
    pub(super) fn steps_found(log: &str) -> u64 {
        let number = |line: &str| line.split_once("resuming: ")?.1.split(' ').next()?.parse::<u64>().ok();
        log.lines().filter_map(number).sum()
    }

    /// The summary, in a few lines.
    pub(super) fn text(&self) -> String {
        format!(
            "Summary, counted from the events of the fleet:\n  \
             {} of {} shipped, {} lost, {} executed twice\n  \
             {} killed with kill -9, {}, {}, {} resumed from a checkpoint\n  \
             {} failed and retried, {} of a reviewer, {} spent",
            self.shipped,
            counted(self.jobs, "job"),
            self.lost,
            self.twice,
            if self.kills == 1 { "1 factory".to_owned() } else { format!("{} factories", self.kills) },
            counted(self.takeovers, "takeover"),
            counted(self.preemptions, "preemption"),
            counted(self.resumed_steps, "step"),
            counted(self.retries, "attempt"),
            counted(self.votes, "vote"),
            dollars(self.cost_usd),
        )
    }
}

fn takeovers(events: &[JobEvent]) -> usize {
    let factory = |event: &JobEvent| event.data.get("factoryId").and_then(|id| id.as_str()).map(str::to_owned);
    let mut lost: BTreeMap<JobId, Option<String>> = BTreeMap::new();
    let mut count = 0;
    for event in events {
        match event.kind {
            EventKind::Reaped => drop(lost.insert(event.job_id, factory(event))),
            EventKind::Granted => {
                count += usize::from(lost.remove(&event.job_id).is_some_and(|before| before != factory(event)));
            }
            _ => {}
        }
    }
    count
}
