//! What a product has spent: a projection of its events.
//!
//! The position in the document says which events are included, and moves in the same write. An event that is read again
//! is before the position, so that it is counted once, whatever is repeated and whoever crashes. Nothing here grows with
//! the number of jobs.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{Billing, BudgetPeriod, ReservationKey, Usd};
use crate::event::{EventKind, JobEvent};
use crate::ids::{DispatchSeq, JobId, Position};
use crate::time::Timestamp;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Days kept one by one: two months and a few. Earlier ones are added up.
const DAYS_MAX: usize = 70;

/// Hours kept one by one.
const HOURS_MAX: usize = 72;

/// Names kept apart in a breakdown; the rest are added up.
const NAMES_MAX: usize = 50;

/// The latest entries, for people.
const RECENT_MAX: usize = 25;

/// The name of what a breakdown adds up.
const OTHER: &str = "other";

/// Sums of some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpendTotals {
    /// What was billed.
    #[serde(skip_serializing_if = "is_nothing")]
    pub usd: Usd,
    /// What subscriptions covered.
    #[serde(skip_serializing_if = "is_nothing")]
    pub subscription_usd: Usd,
    /// Ended runs whose engine started.
    #[serde(skip_serializing_if = "is_zero")]
    pub runs: u64,
    /// Those that failed, or lost their lease.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_runs: u64,
    /// Those whose cost is not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub runs_without_cost: u64,
    /// Jobs whose commit was merged.
    #[serde(skip_serializing_if = "is_zero")]
    pub merged: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_nothing(amount: &Usd) -> bool {
    *amount == Usd::ZERO
}

impl SpendTotals {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            usd: self.usd.plus(other.usd),
            subscription_usd: self.subscription_usd.plus(other.subscription_usd),
            runs: self.runs + other.runs,
            failed_runs: self.failed_runs + other.failed_runs,
            runs_without_cost: self.runs_without_cost + other.runs_without_cost,
            merged: self.merged + other.merged,
        }
    }
}

/// Spending by engine, repository or profile in the current period.
pub type SpendByName = BTreeMap<String, SpendTotals>;

/// A cost that was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// When.
    pub at: Timestamp,
    /// The job.
    pub job_id: JobId,
    /// The job's run.
    pub run: u32,
    /// US dollars; absent if the engine did not report its cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// How the credential is billed.
    pub billing: Billing,
    /// The engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// What happened: the kind of the event.
    pub kind: EventKind,
}

/// What a product has spent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spending {
    /// The events up to here are included.
    pub position: Position,
    /// Days before the listed ones.
    earlier: SpendTotals,
    /// By days since 1970.
    days: BTreeMap<i64, SpendTotals>,
    /// What was billed, by hours since 1970.
    hours: BTreeMap<i64, Usd>,
    /// When the period of the breakdowns began.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_down_since: Option<Timestamp>,
    /// By engine, in the current period.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_engine: SpendByName,
    /// By repository, in the current period.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_repo: SpendByName,
    /// By profile, in the current period.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_profile: SpendByName,
    /// The latest entries, newest first.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub recent: VecDeque<LedgerEntry>,
}

/// What an event says about money.
struct Charge<'e> {
    totals: SpendTotals,
    cost: Option<f64>,
    billing: Billing,
    run: u32,
    usage: &'e Value,
}

impl Spending {
    /// All sums since a time; everything when `None`. Days that are no longer kept count as earlier.
    pub fn since(&self, start: Option<Timestamp>) -> SpendTotals {
        let Some(start) = start else {
            return self.days.values().fold(self.earlier, |sum, day| sum.plus(*day));
        };
        self.days.range(day_of(start)..).fold(SpendTotals::default(), |sum, (_, day)| sum.plus(*day))
    }

    /// What was billed since a time within the last days, by the hour where the hours are kept.
    pub fn billed_since(&self, start: Timestamp) -> Usd {
        let is_by_hour = self.hours.keys().next().is_some_and(|first| *first <= hour_of(start));
        match is_by_hour {
            true => self.hours.range(hour_of(start)..).map(|(_, usd)| *usd).sum(),
            false => self.since(Some(start)).usd,
        }
    }

    /// What had been billed before a time, as far as days are kept.
    pub fn billed_before(&self, start: Option<Timestamp>) -> Usd {
        match start {
            None => Usd::ZERO,
            Some(start) => self.days.range(..day_of(start)).fold(self.earlier.usd, |sum, (_, day)| sum.plus(day.usd)),
        }
    }

    /// The days since a time, each with its sums.
    pub fn days_since(&self, start: Option<Timestamp>) -> impl Iterator<Item = (Timestamp, SpendTotals)> {
        let first = start.map_or(i64::MIN, day_of);
        self.days.range(first..).map(|(day, sums)| (Timestamp::from_millis(day * DAY_MS), *sums))
    }

    /// What was billed before the first listed day.
    pub fn earlier(&self) -> SpendTotals {
        self.earlier
    }

    /// The hours since a time, each with what was billed.
    pub fn hours_since(&self, start: Timestamp) -> impl Iterator<Item = (Timestamp, Usd)> {
        self.hours.range(hour_of(start)..).map(|(hour, usd)| (Timestamp::from_millis(hour * HOUR_MS), *usd))
    }

    /// By engine, by repository and by profile in the current period.
    pub fn breakdowns(&self, period: BudgetPeriod, now: Timestamp) -> [SpendByName; 3] {
        if self.broken_down_since != period.start(now) {
            return Default::default();
        }
        [self.by_engine.clone(), self.by_repo.clone(), self.by_profile.clone()]
    }

    /// Starts the breakdowns again: the period was changed.
    pub fn restart_breakdowns(&mut self, period: BudgetPeriod, now: Timestamp) {
        self.broken_down_since = period.start(now);
        self.by_engine.clear();
        self.by_repo.clear();
        self.by_profile.clear();
    }

    /// Includes an event. Returns the reservation that it settles.
    pub(super) fn absorb(&mut self, event: &JobEvent, period: BudgetPeriod) -> Option<ReservationKey> {
        let charge = charge_of(event)?;
        let day = self.days.entry(day_of(event.at)).or_default();
        *day = day.plus(charge.totals);
        if charge.totals.usd > Usd::ZERO {
            let hour = self.hours.entry(hour_of(event.at)).or_default();
            *hour = hour.plus(charge.totals.usd);
        }
        self.break_down(event, &charge, period);
        if charge.totals.runs > 0 || charge.cost.is_some() {
            let engine = text(charge.usage, "engine").map(str::to_owned);
            let (at, job_id, usd) = (event.at, event.job_id, charge.cost);
            let entry =
                LedgerEntry { at, job_id, run: charge.run, usd, billing: charge.billing, engine, kind: event.kind };
            self.recent.push_front(entry);
            self.recent.truncate(RECENT_MAX);
        }
        self.forget_old();
        let seq = charge.usage.get("dispatchSeq").and_then(Value::as_u64)?;
        Some(ReservationKey { job: event.job_id, seq: DispatchSeq(seq) })
    }

    fn break_down(&mut self, event: &JobEvent, charge: &Charge<'_>, period: BudgetPeriod) {
        let start = period.start(event.at);
        if start > self.broken_down_since {
            self.restart_breakdowns(period, event.at);
        }
        if start != self.broken_down_since {
            return;
        }
        let parts = [(&mut self.by_engine, "engine"), (&mut self.by_repo, "repo"), (&mut self.by_profile, "profile")];
        for (sums, key) in parts {
            let Some(name) = text(charge.usage, key) else { continue };
            let is_listed = sums.len() < NAMES_MAX || sums.contains_key(name);
            let sum = sums.entry(if is_listed { name } else { OTHER }.to_owned()).or_default();
            *sum = sum.plus(charge.totals);
        }
    }

    fn forget_old(&mut self) {
        while self.days.len() > DAYS_MAX
            && let Some((_, day)) = self.days.pop_first()
        {
            self.earlier = self.earlier.plus(day);
        }
        while self.hours.len() > HOURS_MAX {
            self.hours.pop_first();
        }
    }
}

/// Whether the event that ended a run says that it failed: a question, a release or a preemption is no failure.
fn is_failure(kind: EventKind) -> bool {
    matches!(kind, EventKind::AttemptFailed | EventKind::Failed | EventKind::DeadLettered | EventKind::Reaped)
}

/// What an event says about money; `None` if nothing.
fn charge_of(event: &JobEvent) -> Option<Charge<'_>> {
    static NOTHING: Value = Value::Null;
    if event.kind == EventKind::Shipped {
        let is_merge = text(&event.data, "sha").is_some();
        let usage = event.data.get("usage").unwrap_or(&NOTHING);
        let totals = SpendTotals { merged: u64::from(is_merge), ..SpendTotals::default() };
        return is_merge.then_some(Charge { totals, cost: None, billing: Billing::Api, run: 0, usage });
    }
    let usage = event.data.get("usage")?;
    let cost = usage.get("costUsd").and_then(Value::as_f64);
    let was = usage.get("wasUsd").and_then(Value::as_f64).map_or(Usd::ZERO, Usd::of);
    let billing = match text(usage, "billing") {
        Some("subscription") => Billing::Subscription,
        _ => Billing::Api,
    };
    let amount = cost.map_or(Usd::ZERO, |cost| Usd::of(cost).minus(was));
    let is_run = usage.get("started").and_then(Value::as_bool) == Some(true);
    let mut totals = SpendTotals {
        runs: u64::from(is_run),
        failed_runs: u64::from(is_run && is_failure(event.kind)),
        runs_without_cost: u64::from(is_run && cost.is_none()),
        ..SpendTotals::default()
    };
    match billing {
        Billing::Api => totals.usd = amount,
        Billing::Subscription => totals.subscription_usd = amount,
    }
    let run = usage.get("run").and_then(Value::as_u64).and_then(|run| u32::try_from(run).ok()).unwrap_or(0);
    let cost = cost.map(|_| amount.dollars());
    Some(Charge { totals, cost, billing, run, usage })
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn day_of(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MS)
}

fn hour_of(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(HOUR_MS)
}
