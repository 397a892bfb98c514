//! What runs cost: in the event that ends a run, and in reports apart from its result (row 18).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Job, PriorHolder};
use crate::budget::{Billing, Usd};
use crate::event::{Actor, EventKind};
use crate::ids::{DispatchSeq, Epoch};
use crate::run::{Run, RunInsights};
use crate::time::Timestamp;

/// Usage ids that a job remembers. A factory names one run by its epoch, and few have meters of their own.
const METERS_MAX: usize = 64;

/// A cost that was reported under a usage id, in all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meter {
    run: u32,
    /// Empty for the run as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    id: String,
    usd: Usd,
}

/// A run that uses a seat.
pub(super) struct RunningRun {
    n: u32,
    seq: DispatchSeq,
}

/// What a run has cost so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageReport {
    /// The meter that counts it; the run as a whole when absent.
    pub id: Option<String>,
    /// The sums of the meter since the run began.
    pub insights: RunInsights,
}

impl Job {
    /// The run that uses a seat.
    pub(super) fn running(&self) -> Option<RunningRun> {
        let (run, lease) = (self.state.run.as_ref()?, self.seat()?);
        Some(RunningRun { n: run.n, seq: lease.seq })
    }

    /// Adds to the event that ends a run what the run has cost: the budget of the product counts it once.
    pub(super) fn add_usage(&self, before: &PriorHolder, data: &mut Value) {
        let Some(running) = before.running.as_ref().filter(|_| self.seat().is_none()) else { return };
        let current = self.state.run.as_ref().filter(|run| run.n == running.n);
        let Some(run) = current.or_else(|| self.fresh_runs.iter().find(|run| run.n == running.n)) else { return };
        let mut usage = self.usage_of(run);
        usage["dispatchSeq"] = json!(running.seq);
        if run.started_at.is_some() {
            usage["started"] = json!(true);
        }
        if let Some(cost) = run.insights.cost_usd {
            usage["costUsd"] = json!(cost);
        }
        if !data.is_object() {
            *data = json!({});
        }
        data["usage"] = usage;
    }

    fn usage_of(&self, run: &Run) -> Value {
        let mut usage = json!({ "run": run.n });
        let spec = &self.submission.spec;
        let names = [
            ("engine", run.engine.as_ref().map(ToString::to_string)),
            ("repo", spec.repo.as_ref().map(ToString::to_string)),
            ("profile", spec.profile.as_ref().map(ToString::to_string)),
            ("billing", run.billing.filter(|one| *one != Billing::Api).map(|one| one.name().to_owned())),
        ];
        for (key, name) in names {
            if let Some(name) = name {
                usage[key] = json!(name);
            }
        }
        usage
    }

    /// Records how the credential of the current run is billed.
    #[must_use]
    pub fn with_billing(mut self, billing: Option<Billing>) -> Self {
        if let Some(run) = &mut self.state.run {
            run.billing = billing;
        }
        self
    }

    /// Records what a run has cost, also after its lease has ended: it was spent (row 18). Changes no stage. The sums
    /// of a meter only grow, so that reports may be repeated and arrive in any order. Returns whether anything changed;
    /// `None` if the job has too many meters.
    ///
    /// `run` is the run of the reported epoch: the current one, or an ended one.
    pub fn report_usage(mut self, run: &Run, report: &UsageReport, at: Timestamp, by: Actor) -> Option<(Self, bool)> {
        let is_running = self.seat().is_some() && self.state.run.as_ref().is_some_and(|now| now.n == run.n);
        if report.id.is_some() || !is_running {
            return self.raise_meter(run, report, at, by);
        }
        // The event that ends the run will tell its cost.
        let Some(running) = &mut self.state.run else { return Some((self, false)) };
        let raised = running.insights.clone().at_least(&report.insights);
        if raised == running.insights {
            return Some((self, false));
        }
        running.insights = raised.clone();
        self.record(EventKind::UsageReported, at, by, json!({ "run": run.n, "insights": raised }));
        Some((self, true))
    }

    /// A report that the event at the end of the run does not include.
    fn raise_meter(mut self, run: &Run, report: &UsageReport, at: Timestamp, by: Actor) -> Option<(Self, bool)> {
        let Some(reported) = report.insights.cost_usd.map(Usd::of) else { return Some((self, false)) };
        let id = report.id.clone().unwrap_or_default();
        let known = self.state.meters.iter().position(|meter| meter.run == run.n && meter.id == id);
        let counted = match (known, &report.id) {
            (Some(known), _) => self.state.meters[known].usd,
            (None, Some(_)) => Usd::ZERO,
            (None, None) => run.insights.cost_usd.map_or(Usd::ZERO, Usd::of),
        };
        if reported <= counted {
            return Some((self, false));
        }
        match known {
            Some(known) => self.state.meters[known].usd = reported,
            None if self.state.meters.len() >= METERS_MAX => return None,
            None => self.state.meters.push(Meter { run: run.n, id, usd: reported }),
        }
        let more = reported.minus(counted).dollars();
        self.state.spent.cost_usd = Some(self.state.spent.cost_usd.unwrap_or(0.0) + more);
        let mut usage = self.usage_of(run);
        usage["costUsd"] = json!(reported.dollars());
        usage["wasUsd"] = json!(counted.dollars());
        if let Some(id) = &report.id {
            usage["id"] = json!(id);
        }
        self.record(EventKind::UsageReported, at, by, json!({ "usage": usage }));
        Some((self, true))
    }

    /// The current run, if it has this epoch.
    pub fn run_at(&self, epoch: Epoch) -> Option<&Run> {
        self.state.run.as_ref().filter(|run| run.epoch == epoch)
    }
}
