//! Budgets of products [T2]: settings, reservations, and what the fleet has spent.
//!
//! One document per product has all three, so that one compare-and-set decides whether a job may start. What was spent
//! is a projection of the product's events: the document names the position up to which it includes them.

mod period;
mod spending;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use period::BudgetPeriod;
pub use spending::{LedgerEntry, SpendByName, SpendTotals, Spending};

use crate::event::JobEvent;
use crate::ids::{DispatchSeq, JobId, Position};
use crate::names::{ProductId, dollars};
use crate::run::COST_USD_MAX;
use crate::time::Timestamp;

/// Version of the stored document.
const DOCUMENT_VERSION: u16 = 1;

/// Reservations of one product: more than the seats of any fleet.
const OPEN_MAX: usize = 20_000;

/// What a job without a limit of its own reserves, where the product sets nothing.
const JOB_USD: f64 = 1.0;

/// The shares of a ceiling, in percent, at which a warning is raised.
pub const WARNING_LEVELS: [u8; 3] = [50, 80, 95];

/// How a credential is billed [T2].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Billing {
    /// Each use costs dollars.
    Api,
    /// A fixed price covers its use: the reported dollars are what the use would have cost.
    Subscription,
}

impl Billing {
    /// The name in settings and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Subscription => "subscription",
        }
    }
}

/// An amount in millionths of a dollar: sums do not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Usd(u64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The nearest amount; zero for what is not an amount.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
    pub fn of(dollars: f64) -> Self {
        if dollars.is_finite() && dollars > 0.0 { Self((dollars.min(1e12) * 1e6).round() as u64) } else { Self(0) }
    }

    /// In dollars.
    #[expect(clippy::cast_precision_loss, reason = "exact below nine billion dollars")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, at least zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::plus)
    }
}

/// What happens to running jobs when their product is paused, by a person or by its budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunningWork {
    /// They finish.
    #[default]
    Finish,
    /// They save a checkpoint and return to the queue.
    Release,
    /// They are stopped at once, and return to the queue with their last checkpoint.
    Stop,
}

impl RunningWork {
    /// The name in settings and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finish => "finish",
            Self::Release => "release",
            Self::Stop => "stop",
        }
    }
}

/// The settings of a product's budget.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSettings {
    /// The most that the product may spend per period, in US dollars; no limit when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling_usd: Option<f64>,
    /// The period of the ceiling, in UTC.
    pub period: BudgetPeriod,
    /// What a job without `budget.usd` reserves while it runs, in US dollars; 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_usd: Option<f64>,
    /// What happens to running jobs when the product is paused.
    pub running: RunningWork,
}

/// A setting outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be between 0 and {max}, found {found}")]
pub struct AmountOutOfRange {
    /// The field's name in JSON.
    pub field: &'static str,
    /// The maximum.
    pub max: String,
    /// The value.
    pub found: String,
}

impl BudgetSettings {
    /// Checks every amount.
    pub fn check(&self) -> Result<(), AmountOutOfRange> {
        let out_of_range = |amount: Option<f64>| amount.filter(|amount| !(0.0..=COST_USD_MAX).contains(amount));
        for (field, amount) in [("ceilingUsd", self.ceiling_usd), ("jobUsd", self.job_usd)] {
            if let Some(found) = out_of_range(amount) {
                return Err(AmountOutOfRange { field, max: COST_USD_MAX.to_string(), found: found.to_string() });
            }
        }
        Ok(())
    }

    /// The ceiling.
    pub fn ceiling(&self) -> Option<Usd> {
        self.ceiling_usd.map(Usd::of)
    }

    /// What a job reserves: what is left of its own limit, or the product's default, which is never more than the
    /// ceiling.
    pub fn amount_for(&self, left_of_job: Option<f64>) -> Usd {
        match left_of_job {
            Some(left) => Usd::of(left),
            None => {
                let default = Usd::of(self.job_usd.unwrap_or(JOB_USD));
                self.ceiling().map_or(default, |ceiling| default.min(ceiling))
            }
        }
    }
}

/// Names a reservation: one job, one dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationKey {
    /// The job.
    pub job: JobId,
    /// The dispatch that the grant accepts.
    pub seq: DispatchSeq,
}

impl ReservationKey {
    fn text(self) -> String {
        format!("{}:{}", self.job, self.seq.0)
    }

    fn parse(text: &str) -> Option<Self> {
        let (job, seq) = text.split_once(':')?;
        Some(Self { job: job.parse().ok()?, seq: DispatchSeq(seq.parse().ok()?) })
    }
}

/// Money set aside for a run until its cost is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The amount.
    pub amount: Usd,
    /// When it was made.
    pub at: Timestamp,
}

/// Time during which a product was paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PausePeriod {
    /// Since when.
    pub from: Timestamp,
    /// Until when; absent while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who paused it.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Pauses that a document keeps: the latest ones.
const PAUSES_MAX: usize = 50;

/// The budget of a product, with its reservations and what was spent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProductBudget {
    v: u16,
    /// The product.
    pub product_id: ProductId,
    /// The settings.
    #[serde(default)]
    pub settings: BudgetSettings,
    /// Money set aside for running jobs, by `jobId:dispatchSeq`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    open: BTreeMap<String, Reservation>,
    /// What was spent.
    #[serde(default)]
    pub spending: Spending,
    /// The latest pauses, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PausePeriod>,
}

/// Why money was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMoney {
    /// What the job needs.
    pub amount: Usd,
    /// What is left.
    pub left: Usd,
}

impl ProductBudget {
    /// A budget without a ceiling, and without any spending yet.
    pub fn new(product_id: ProductId) -> Self {
        Self {
            v: DOCUMENT_VERSION,
            product_id,
            settings: BudgetSettings::default(),
            open: BTreeMap::new(),
            spending: Spending::default(),
            pauses: Vec::new(),
        }
    }

    /// Whether this version can read the document.
    pub fn is_readable(&self) -> bool {
        self.v <= DOCUMENT_VERSION
    }

    /// Reserves money for a run (row 17). A repeated reservation changes nothing. Returns whether it changed anything.
    pub fn reserve(&mut self, key: ReservationKey, amount: Usd, now: Timestamp) -> Result<bool, OutOfMoney> {
        if self.open.contains_key(&key.text()) {
            return Ok(false);
        }
        let left = self.left(now);
        let is_affordable = left.is_none_or(|left| left > Usd::ZERO && amount <= left);
        if !is_affordable || self.open.len() >= OPEN_MAX {
            return Err(OutOfMoney { amount, left: left.unwrap_or_default() });
        }
        self.open.insert(key.text(), Reservation { amount, at: now });
        Ok(true)
    }

    /// Restores the reservation of a run that holds its lease, whatever is left.
    pub fn restore(&mut self, key: ReservationKey, amount: Usd, now: Timestamp) -> bool {
        if self.open.contains_key(&key.text()) || self.open.len() >= OPEN_MAX {
            return false;
        }
        self.open.insert(key.text(), Reservation { amount, at: now });
        true
    }

    /// Removes the reservation of a run that did not begin.
    pub fn release(&mut self, key: ReservationKey) -> bool {
        self.open.remove(&key.text()).is_some()
    }

    /// The open reservations.
    pub fn reservations(&self) -> impl Iterator<Item = (ReservationKey, Reservation)> {
        self.open.iter().filter_map(|(key, reservation)| Some((ReservationKey::parse(key)?, *reservation)))
    }

    /// The sum of the open reservations.
    pub fn reserved(&self) -> Usd {
        self.open.values().map(|reservation| reservation.amount).sum()
    }

    /// What may still be reserved in the current period; `None` without a ceiling.
    pub fn left(&self, now: Timestamp) -> Option<Usd> {
        let ceiling = self.settings.ceiling()?;
        Some(ceiling.minus(self.spent(now)).minus(self.reserved()))
    }

    /// What was spent in the current period. Subscriptions do not count.
    pub fn spent(&self, now: Timestamp) -> Usd {
        self.spending.since(self.settings.period.start(now)).usd
    }

    /// Includes events that follow the known position. What a run reserved is released in the same write that counts
    /// its cost.
    pub fn absorb<'e>(&mut self, events: impl Iterator<Item = &'e JobEvent>, end: Position) {
        for event in events {
            if let Some(key) = self.spending.absorb(event, self.settings.period) {
                self.open.remove(&key.text());
            }
        }
        self.spending.position = end;
    }

    /// Records that a pause began or ended.
    pub fn note_pause(&mut self, pause: Option<(&str, Option<&str>)>, now: Timestamp) {
        let is_paused = self.pauses.last().is_some_and(|last| last.until.is_none());
        match pause {
            Some((by, reason)) if !is_paused => {
                let (by, reason) = (by.to_owned(), reason.map(str::to_owned));
                self.pauses.push(PausePeriod { from: now, until: None, by, reason });
                let surplus = self.pauses.len().saturating_sub(PAUSES_MAX);
                self.pauses.drain(..surplus);
            }
            None if is_paused => {
                if let Some(last) = self.pauses.last_mut() {
                    last.until = Some(now);
                }
            }
            Some(_) | None => {}
        }
    }
}

/// A product that waits for money: no job of it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MoneyWait {
    /// The ceiling of its budget, in US dollars.
    pub ceiling_usd: f64,
    /// The period of the ceiling.
    pub period: BudgetPeriod,
    /// What was spent in the period, running jobs included.
    pub spent_usd: f64,
    /// What is set aside for running jobs beyond what they have spent.
    pub reserved_usd: f64,
    /// What the next job needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_usd: Option<f64>,
    /// When the next period begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
    /// Whether running jobs may return money that they do not spend.
    #[serde(default)]
    pub may_be_returned: bool,
}

// Its amounts come from `Usd`: they are never NaN.
impl Eq for MoneyWait {}

impl MoneyWait {
    /// The sentence about a product, with the remedy.
    pub fn text(&self, product: &ProductId) -> String {
        let Self { ceiling_usd, period, spent_usd, reserved_usd, needs_usd, .. } = self;
        let mut text = format!(
            "waiting for money: product `{product}` has spent {} of {} {}",
            dollars(*spent_usd),
            dollars(*ceiling_usd),
            period.per()
        );
        if *reserved_usd > 0.0 {
            text.push_str(&format!(", {} is reserved for running jobs", dollars(*reserved_usd)));
        }
        if let Some(needs) = needs_usd {
            text.push_str(&format!(", and the next job needs {}", dollars(*needs)));
        }
        if let Some(at) = self.resets_at {
            text.push_str(&format!("; the next period begins at {}", at.to_the_minute()));
        }
        format!("{text}; raise the ceiling with `giga budget set {product} --ceiling USD`")
    }
}

/// Where the spending of a period leads if it continues as before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpendProjection {
    /// US dollars per hour, over the elapsed part of the period and at most a week.
    pub usd_per_hour: f64,
    /// What the period will have cost at its end; absent if it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_end_usd: Option<f64>,
    /// When the ceiling will be reached, if that is within the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_at: Option<Timestamp>,
}

/// The projection of a period: finite for every input.
pub fn project(
    spent: Usd,
    rate: (Usd, Duration),
    ceiling: Option<Usd>,
    now: Timestamp,
    end: Option<Timestamp>,
) -> SpendProjection {
    /// The rate of less time would be noise.
    const SPAN_MIN: Duration = Duration::from_secs(3_600);
    /// A date further away says nothing.
    const AHEAD_MAX: Duration = Duration::from_hours(24 * 365);
    let hours = rate.1.max(SPAN_MIN).as_secs_f64() / 3_600.0;
    let usd_per_hour = rate.0.dollars() / hours;
    let at_end_usd = end.map(|end| spent.dollars() + usd_per_hour * end.since(now).as_secs_f64() / 3_600.0);
    let left = ceiling.map(|ceiling| ceiling.minus(spent).dollars());
    let reached_at = match left {
        Some(left) if left <= 0.0 => Some(now),
        Some(left) if usd_per_hour > 0.0 => {
            let seconds = left / usd_per_hour * 3_600.0;
            let is_near = seconds < AHEAD_MAX.as_secs_f64();
            is_near.then(|| now.after(Duration::from_secs_f64(seconds)))
        }
        _ => None,
    };
    let reached_at = reached_at.filter(|at| end.is_none_or(|end| *at < end));
    SpendProjection { usd_per_hour, at_end_usd, reached_at }
}

#[cfg(test)]
mod tests;
