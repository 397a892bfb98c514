//! What has to hold for the recorded history of a fleet, whatever happened to its network.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Actor, EventKind, JobEvent, JobId};

/// What an operator, the engines and the repository saw.
pub(super) struct History<'h> {
    /// The streamed events, line by line, in the order in which they came.
    pub(super) events: &'h str,
    /// What the engines wrote down: job, epoch, beat.
    pub(super) journal: &'h str,
    /// The merged jobs.
    pub(super) merged: Vec<String>,
}

impl History<'_> {
    /// Everything that contradicts the rules.
    pub(super) fn violations(&self, acknowledged: &BTreeSet<JobId>) -> Vec<String> {
        let jobs = self.by_job();
        let mut found: Vec<String> = jobs.values().flat_map(|events| of_stream(events)).collect();
        found.extend(jobs.values().flat_map(|events| of_epochs(events)));
        found.extend(jobs.values().flat_map(|events| of_holders(events)));
        found.extend(self.of_engines());
        for job in acknowledged {
            let shipped = jobs.get(job).into_iter().flatten().filter(|event| event.kind == EventKind::Shipped).count();
            let merged = self.merged.iter().filter(|merged| **merged == job.to_string()).count();
            if (shipped, merged) != (1, 1) {
                found.push(format!(
                    "job {job} was acknowledged, then shipped {shipped} times and merged {merged} times"
                ));
            }
        }
        found
    }

    /// How many events of a kind there are.
    pub(super) fn count(&self, kind: EventKind) -> usize {
        self.by_job().values().flatten().filter(|event| event.kind == kind).count()
    }

    fn by_job(&self) -> BTreeMap<JobId, Vec<JobEvent>> {
        let mut jobs: BTreeMap<JobId, Vec<JobEvent>> = BTreeMap::new();
        // The same stream has the agents' progress.
        for line in self.events.lines().filter(|line| line.contains("\"seq\":")) {
            let event: JobEvent = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            jobs.entry(event.job_id).or_default().push(event);
        }
        jobs
    }

    /// Each run of an engine once, and never an older one after a newer one has begun.
    fn of_engines(&self) -> Vec<String> {
        let (mut newest, mut seen, mut found) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        for line in self.journal.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [job, epoch, _] = words[..] else { continue };
            let epoch: u64 = epoch.parse().unwrap_or_default();
            if !seen.insert(line) {
                found.push(format!("an engine ran twice under one epoch: {line}"));
            }
            let newest = newest.entry(job).or_insert(epoch);
            if epoch < *newest {
                found.push(format!("two engines ran side by side: {line} after epoch {newest}"));
            }
            *newest = epoch.max(*newest);
        }
        found
    }
}

/// The stream shows every event of a job once, in order.
fn of_stream(events: &[JobEvent]) -> Vec<String> {
    let numbered = events.iter().zip(1..);
    let gap = numbered.into_iter().find(|(event, wanted)| event.seq.0 != *wanted);
    let told = |(event, wanted): (&JobEvent, u64)| {
        format!("the stream of job {} has event {} where {wanted} belongs", event.job_id, event.seq.0)
    };
    gap.map(told).into_iter().collect()
}

/// Epochs only grow, and with each lease.
fn of_epochs(events: &[JobEvent]) -> Vec<String> {
    let mut found = Vec::new();
    for pair in events.windows(2) {
        let [before, after] = pair else { continue };
        let is_right =
            if after.kind == EventKind::Granted { after.epoch > before.epoch } else { after.epoch >= before.epoch };
        if !is_right {
            found.push(format!(
                "job {}: {:?} has epoch {} after {}",
                after.job_id, after.kind, after.epoch, before.epoch
            ));
        }
    }
    found
}

/// A factory reports progress and ends of the run that it holds the lease of, and of no other one.
fn of_holders(events: &[JobEvent]) -> Vec<String> {
    let (mut holder, mut found) = (None, Vec::new());
    for event in events {
        match event.kind {
            EventKind::Granted => holder = Some(event.by.clone()),
            EventKind::Reaped | EventKind::Released | EventKind::Shipped => holder = None,
            EventKind::Started | EventKind::Checkpointed | EventKind::Completed => {
                let is_holder = matches!(&event.by, Actor::Factory(_)) && holder.as_ref() == Some(&event.by);
                if !is_holder {
                    let (kind, by) = (event.kind, &event.by);
                    found.push(format!("job {}: {kind:?} by {by:?}, but the lease is of {holder:?}", event.job_id));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    /// An event as it is streamed.
    fn event(seq: u64, kind: &str, epoch: u64, by: &str) -> String {
        let event = serde_json::json!({
            "jobId": JOB, "productId": "default", "seq": seq, "at": "2026-01-01T00:00:00Z", "kind": kind, "stage": "building",
            "epoch": epoch, "by": { "who": "factory", "name": by },
        });
        format!("{event}\n")
    }

    fn violations(events: &[String], journal: &str, merged: usize) -> Vec<String> {
        let history = History { events: &events.concat(), journal, merged: vec![JOB.to_owned(); merged] };
        history.violations(&[JOB.parse().unwrap()].into())
    }

    /// The usual life of a job with a takeover.
    fn life() -> Vec<String> {
        let steps = [
            ("submitted", 0, "east"),
            ("granted", 1, "east"),
            ("started", 1, "east"),
            ("reaped", 1, "east"),
            ("granted", 2, "west"),
            ("completed", 2, "west"),
            ("shipped", 2, "west"),
        ];
        steps.iter().zip(1..).map(|((kind, epoch, by), seq)| event(seq, kind, *epoch, by)).collect()
    }

    #[test]
    fn a_history_without_faults_violates_nothing() {
        assert_eq!(violations(&life(), &format!("{JOB} 1 1\n{JOB} 1 2\n{JOB} 2 1\n"), 1), Vec::<String>::new());
    }

    #[test]
    fn each_rule_is_checked() {
        let journal = format!("{JOB} 2 1\n");
        let changed = |at: usize, with: String| {
            let mut life = life();
            life[at] = with;
            violations(&life, &journal, 1)
        };

        let cases = [
            ("lost", violations(&life()[..6], &journal, 1), "shipped 0 times"),
            ("merged twice", violations(&life(), &journal, 2), "merged 2 times"),
            ("a gap", violations(&[&life()[..3], &life()[4..]].concat(), &journal, 1), "has event 5 where 4 belongs"),
            ("an epoch that shrinks", changed(5, event(6, "completed", 1, "west")), "has epoch"),
            ("a grant without an epoch", changed(4, event(5, "granted", 1, "west")), "Granted has epoch"),
            ("a stale write", changed(5, event(6, "completed", 2, "east")), "but the lease is of"),
            ("twice", violations(&life(), &format!("{journal}{journal}"), 1), "twice under one epoch"),
            ("side by side", violations(&life(), &format!("{journal}{JOB} 1 4\n"), 1), "side by side"),
        ];

        for (what, found, wanted) in cases {
            assert!(found.iter().any(|line| line.contains(wanted)), "{what}: {found:?}");
        }
    }
}
