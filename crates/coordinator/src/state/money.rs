//! Budgets in memory: which products have a ceiling in force, and which wait for money.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{
    Billing, Job, JobId, MoneyWait, ProductBudget, ProductId, ReservationKey, Timestamp, Usd, Versioned, WARNING_LEVELS,
};

use super::FleetState;

/// Budgets as last stored, and what follows from them.
#[derive(Default)]
pub(crate) struct Money {
    /// Whether ceilings are enforced where the flags say nothing.
    enforced_by_default: bool,
    budgets: BTreeMap<ProductId, Versioned<ProductBudget>>,
    /// What the next job of a product needs and cannot get.
    short: BTreeMap<ProductId, Usd>,
    /// The products that wait for money.
    waits: BTreeMap<ProductId, MoneyWait>,
    /// How much of a ceiling is used, in levels that are worth an alert, and since when.
    levels: BTreeMap<ProductId, (BudgetLevel, Timestamp)>,
}

/// What an alert about a budget says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BudgetLevel {
    /// More than this percentage is spent.
    Spent(u8),
    /// Nothing starts, whatever running jobs return.
    Paused,
}

/// What is left of the ceilings in force, for a plan that spends it.
pub(crate) type Purses = BTreeMap<ProductId, Usd>;

/// A product's money at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MoneyNow {
    pub(crate) ceiling: Usd,
    /// Spent in the period, running jobs included.
    pub(crate) spent: Usd,
    /// Reserved for running and offered jobs, beyond what they have spent.
    pub(crate) reserved: Usd,
}

impl MoneyNow {
    pub(crate) fn left(self) -> Usd {
        self.ceiling.minus(self.spent).minus(self.reserved)
    }

    /// Whether nothing is left, whatever running jobs return.
    pub(crate) fn is_exhausted(self) -> bool {
        self.spent >= self.ceiling
    }

    /// The spent share of the ceiling, in percent.
    pub(crate) fn percent(self) -> f64 {
        if self.ceiling == Usd::ZERO { 100.0 } else { 100.0 * self.spent.dollars() / self.ceiling.dollars() }
    }
}

impl FleetState {
    /// Sets whether ceilings are enforced where the flags say nothing.
    pub(crate) fn enforce_budgets_by_default(&mut self, is_enforced: bool) {
        self.money.enforced_by_default = is_enforced;
    }

    /// Whether ceilings are enforced.
    pub(crate) fn budgets_enforced(&self) -> bool {
        self.modes.budgets.unwrap_or(self.money.enforced_by_default)
    }

    /// A budget as last stored.
    pub(crate) fn budget(&self, product: &ProductId) -> Option<&Versioned<ProductBudget>> {
        self.money.budgets.get(product)
    }

    /// Takes a stored budget into memory. An older revision changes nothing.
    pub(crate) fn put_budget(&mut self, product: &ProductId, budget: Versioned<ProductBudget>) {
        if self.money.budgets.get(product).is_none_or(|known| known.revision < budget.revision) {
            self.money.budgets.insert(product.clone(), budget);
        }
    }

    /// Whether a ceiling of a product is in force.
    pub(crate) fn has_ceiling(&self, product: &ProductId) -> bool {
        self.money.budgets.get(product).is_some_and(|budget| budget.value.settings.ceiling_usd.is_some())
            && self.budgets_enforced()
    }

    /// Whether a job's product has a ceiling in force.
    pub(crate) fn is_spending(&self, job: JobId) -> bool {
        !self.money.budgets.is_empty()
            && self.jobs.get(&job).is_some_and(|open| self.has_ceiling(open.job.value.product()))
    }

    /// The products whose ceiling is in force.
    pub(crate) fn products_with_ceiling(&self) -> Vec<ProductId> {
        self.money.budgets.keys().filter(|product| self.has_ceiling(product)).cloned().collect()
    }

    /// The products that wait for money.
    pub(crate) fn out_of_money(&self) -> &BTreeMap<ProductId, MoneyWait> {
        &self.money.waits
    }

    /// What a run of a job reserves: nothing if a subscription covers it.
    pub(crate) fn amount_of(&self, job: &Job, billing: Option<Billing>) -> Usd {
        let Some(budget) = self.money.budgets.get(job.product()) else { return Usd::ZERO };
        if billing == Some(Billing::Subscription) {
            return Usd::ZERO;
        }
        let spent = job.spent_of_budget().cost_usd.unwrap_or(0.0);
        budget.value.settings.amount_for(job.spec().budget.usd.map(|limit| (limit - spent).max(0.0)))
    }

    /// How the engine of a job is billed on the factory that holds it or is offered it.
    pub(crate) fn billing_of(&self, job: &Job) -> Option<Billing> {
        let factory = job.seat().map(|lease| &lease.factory).or_else(|| job.dispatch().map(|offer| &offer.target))?;
        let engine = job
            .run()
            .and_then(|run| run.engine.clone())
            .or_else(|| self.engines.get(&job.id()).cloned())
            .or_else(|| self.likely_engine(factory, &job.spec().engines))?;
        self.billing_at(factory, &engine)
    }

    /// How an engine is billed on a factory.
    pub(crate) fn billing_at(&self, factory: &domain::FactoryId, engine: &domain::EngineName) -> Option<Billing> {
        let health = &self.factories.get(factory)?.value.engine_health;
        // Several credentials with different billing count as dollars.
        let mut kinds = health.iter().filter(|health| health.name == *engine).map(|health| health.billing);
        let first = kinds.next()??;
        kinds.all(|kind| kind == Some(first)).then_some(first)
    }

    /// A product's money, if its ceiling is in force. `live` is what a running job has spent so far.
    pub(crate) fn money_of(
        &self,
        product: &ProductId,
        now: Timestamp,
        live: &impl Fn(JobId) -> Usd,
    ) -> Option<MoneyNow> {
        let budget = &self.money.budgets.get(product).filter(|_| self.has_ceiling(product))?.value;
        let ceiling = budget.settings.ceiling()?;
        let (mut spent, mut reserved) = (budget.spent(now), Usd::ZERO);
        for (key, reservation) in budget.reservations() {
            let used = self.used_of(key, live);
            spent = spent.plus(used);
            reserved = reserved.plus(reservation.amount.minus(used));
        }
        Some(MoneyNow { ceiling, spent, reserved })
    }

    /// Whether a job holds the lease that a reservation is for.
    pub(crate) fn holds_reserved_run(&self, key: ReservationKey) -> bool {
        self.jobs.get(&key.job).and_then(|open| open.job.value.seat()).is_some_and(|lease| lease.seq == key.seq)
    }

    /// The dollars that the run of a reservation has cost so far: none before it holds its lease, and none if a
    /// subscription covers it.
    pub(crate) fn used_of(&self, key: ReservationKey, live: &impl Fn(JobId) -> Usd) -> Usd {
        let holder = self.jobs.get(&key.job).filter(|_| self.holds_reserved_run(key)).map(|open| &open.job.value);
        let billed = holder.filter(|job| self.billing_of(job) != Some(Billing::Subscription));
        billed.map_or(Usd::ZERO, |job| cost_so_far(job, live))
    }

    /// What a plan may spend: what is left of each ceiling in force, without what open offers will reserve.
    pub(crate) fn purses(&self, now: Timestamp, live: &impl Fn(JobId) -> Usd) -> Purses {
        let mut purses = Purses::new();
        if self.money.budgets.is_empty() || !self.budgets_enforced() {
            return purses;
        }
        for product in self.money.budgets.keys() {
            if let Some(money) = self.money_of(product, now, live) {
                purses.insert(product.clone(), money.left());
            }
        }
        let offered = self.seated.values().flatten().filter_map(|id| self.jobs.get(id)).map(|open| &open.job.value);
        for job in offered.filter(|job| job.dispatch().is_some() && job.seat().is_none()) {
            if let Some(left) = purses.get_mut(job.product()) {
                *left = left.minus(self.amount_of(job, self.billing_of(job)));
            }
        }
        purses
    }

    /// Takes the money of a job out of its product's purse. Without enough of it the product waits for money.
    pub(crate) fn afford(&mut self, purses: &mut Purses, job: &Job, billing: Option<Billing>) -> bool {
        let taken = self.take_from(purses, job, billing);
        if let Err(amount) = taken {
            self.note_short(job.product(), amount);
        }
        taken.is_ok()
    }

    /// Takes the money of a job out of its product's purse; fails with the amount if there is not enough.
    pub(crate) fn take_from(&self, purses: &mut Purses, job: &Job, billing: Option<Billing>) -> Result<(), Usd> {
        let Some(left) = purses.get_mut(job.product()) else { return Ok(()) };
        let amount = self.amount_of(job, billing);
        if *left <= Usd::ZERO || amount > *left {
            return Err(amount);
        }
        *left = left.minus(amount);
        Ok(())
    }

    /// The next job of a product needs more than is left.
    pub(crate) fn note_short(&mut self, product: &ProductId, amount: Usd) {
        self.money.short.insert(product.clone(), amount);
    }

    /// Forgets what the next jobs need: it is looked at again.
    pub(crate) fn reconsider_money(&mut self) {
        self.money.short.clear();
    }

    /// Finds out which products wait for money. Returns whether that changed.
    pub(crate) fn weigh_money(&mut self, now: Timestamp, live: &impl Fn(JobId) -> Usd) -> bool {
        if self.money.budgets.is_empty() {
            return false;
        }
        let purses = self.purses(now, live);
        self.money.short.retain(|product, amount| purses.get(product).is_some_and(|left| *amount > *left));
        let waits: BTreeMap<_, _> =
            purses.keys().filter_map(|product| Some((product.clone(), self.wait_of(product, now, live)?))).collect();
        let differs = |product: &&ProductId| waits.contains_key(product) != self.money.waits.contains_key(product);
        let changed: Vec<_> = purses.keys().chain(self.money.waits.keys()).filter(differs).cloned().collect();
        for product in &changed {
            // Clients that wait for a new queue version have to be notified.
            self.touch(product);
        }
        self.money.waits = waits;
        let since = |product: &ProductId| Some((product.clone(), self.level_since(product, now, live)?));
        let levels = purses.keys().filter_map(since).collect();
        self.money.levels = levels;
        !changed.is_empty()
    }

    /// How much of a ceiling in force is used, if that is worth an alert, and since when, as far as this process knows.
    pub(crate) fn level_since(
        &self,
        product: &ProductId,
        now: Timestamp,
        live: &impl Fn(JobId) -> Usd,
    ) -> Option<(BudgetLevel, Timestamp)> {
        let money = self.money_of(product, now, live)?;
        let is_paused = self.money.waits.get(product).is_some_and(|wait| !wait.may_be_returned);
        let spent = WARNING_LEVELS.into_iter().rev().find(|level| money.percent() >= f64::from(*level));
        let level = if is_paused { BudgetLevel::Paused } else { BudgetLevel::Spent(spent?) };
        let known = self.money.levels.get(product).filter(|(known, _)| *known == level);
        Some((level, known.map_or(now, |(_, since)| *since)))
    }

    fn wait_of(&self, product: &ProductId, now: Timestamp, live: &impl Fn(JobId) -> Usd) -> Option<MoneyWait> {
        let money = self.money_of(product, now, live)?;
        let needs = self.money.short.get(product).copied();
        if money.left() > Usd::ZERO && needs.is_none() {
            return None;
        }
        let period = self.money.budgets.get(product)?.value.settings.period;
        Some(MoneyWait {
            ceiling_usd: money.ceiling.dollars(),
            period,
            spent_usd: money.spent.dollars(),
            reserved_usd: money.reserved.dollars(),
            needs_usd: needs.filter(|needs| *needs > Usd::ZERO).map(Usd::dollars),
            resets_at: period.end(now),
            may_be_returned: !money.is_exhausted() && money.reserved > Usd::ZERO,
        })
    }

    /// The jobs of a product that hold a seat.
    pub(crate) fn running_of(&self, product: &ProductId) -> Vec<Versioned<Arc<Job>>> {
        let held = self.seated.values().flatten().filter_map(|id| self.jobs.get(id)).map(|open| &open.job);
        held.filter(|job| job.value.product() == product && job.value.seat().is_some()).cloned().collect()
    }

    /// When the next product that waits for money gets a new period.
    pub(crate) fn next_budget_period(&self) -> Option<Timestamp> {
        self.money.waits.values().filter_map(|wait| wait.resets_at).min()
    }
}

/// What a running job has cost so far: what its agent shows, or what was reported for its run if that is more.
pub(crate) fn cost_so_far(job: &Job, live: &impl Fn(JobId) -> Usd) -> Usd {
    let reported = job.run().and_then(|run| run.insights.cost_usd).map_or(Usd::ZERO, Usd::of);
    live(job.id()).max(reported)
}
