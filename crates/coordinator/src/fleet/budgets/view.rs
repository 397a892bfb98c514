//! Budgets as people see them.

use domain::{
    BudgetPeriod, PausePeriod, Product, ProductBudget, ProductId, SpendByName, SpendProjection, Timestamp, Usd, project,
};
use protocol::{BudgetList, BudgetView, BurnDown, BurnDownPoint, SpendShare};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::money::cost_so_far;

/// The rate of a projection is that of the last week, or of the period if it is younger.
const RATE_SPAN: std::time::Duration = std::time::Duration::from_hours(7 * 24);

impl Coordinator {
    /// The budgets of the products that the caller may see.
    pub async fn budgets(&self, who: &Principal) -> Result<BudgetList, Error> {
        let products = self.products(who)?.items;
        let mut items = Vec::with_capacity(products.len());
        for product in products {
            items.push(self.budget_view(&product).await?);
        }
        Ok(BudgetList { items })
    }

    /// The budget of one product.
    pub async fn budget(&self, who: &Principal, product: &ProductId) -> Result<BudgetView, Error> {
        let product = self.product(who, product)?;
        self.budget_view(&product).await
    }

    /// How the money of the current period was spent over time; of another kind of period if one is given.
    pub async fn burn_down(
        &self,
        who: &Principal,
        product: &ProductId,
        period: Option<BudgetPeriod>,
    ) -> Result<BurnDown, Error> {
        self.product(who, product)?;
        let budget = self.counted_budget(product).await?;
        let now = self.now();
        let period = period.unwrap_or(budget.settings.period);
        let ceiling = budget.settings.ceiling_usd.filter(|_| period == budget.settings.period);
        let running = self.running_spend(product);
        let points = points(&budget, period, running, now);
        let from = points.first().map_or(now, |point| point.at);
        Ok(BurnDown {
            product_id: product.clone(),
            period,
            from,
            until: period.end(now),
            ceiling_usd: ceiling,
            projection: projection(&budget, period, running, ceiling.map(Usd::of), now),
            pauses: overlapping(&budget.pauses, from),
            points,
        })
    }

    async fn budget_view(&self, product: &Product) -> Result<BudgetView, Error> {
        let id = &product.id;
        let budget = self.counted_budget(id).await?;
        let now = self.now();
        let settings = &budget.settings;
        let (enforced, waiting) = {
            let state = self.state.lock();
            (state.budgets_enforced(), state.out_of_money().get(id).cloned())
        };
        let running = self.running_spend(id);
        let totals = budget.spending.since(settings.period.start(now));
        let spent = totals.usd.plus(running);
        let reserved = self.unspent_reservations(&budget);
        let ceiling = settings.ceiling();
        let [by_engine, by_repo, by_profile] =
            budget.spending.breakdowns(settings.period, now).map(|sums| shares(&sums));
        let cost_per_merged = |merged: f64| spent.dollars() / merged;
        Ok(BudgetView {
            product_id: id.clone(),
            ceiling_usd: settings.ceiling_usd,
            period: settings.period,
            job_usd: settings.job_usd,
            running: settings.running,
            enforced,
            paused: product.paused,
            pause: product.pause.clone().filter(|_| product.paused),
            waiting,
            from: settings.period.start(now),
            until: settings.period.end(now),
            spent_usd: spent.dollars(),
            running_usd: running.dollars(),
            reserved_usd: reserved.dollars(),
            left_usd: ceiling.map(|ceiling| ceiling.minus(spent).minus(reserved).dollars()),
            used_percent: ceiling.filter(|ceiling| *ceiling > Usd::ZERO).map(|ceiling| share(spent, ceiling)),
            subscription_usd: totals.subscription_usd.dollars(),
            projection: projection(&budget, settings.period, running, ceiling, now),
            runs: totals.runs,
            failed_runs: totals.failed_runs,
            runs_without_cost: totals.runs_without_cost,
            merged: totals.merged,
            cost_per_merged_usd: exact(totals.merged).map(cost_per_merged),
            by_engine,
            by_repo,
            by_profile,
            recent: budget.spending.recent.iter().cloned().collect(),
        })
    }

    /// What the running jobs of a product have spent so far, without those that a subscription covers.
    fn running_spend(&self, product: &ProductId) -> Usd {
        let state = self.state.lock();
        let running = state.running_of(product);
        let billed = running.iter().filter(|job| state.billing_of(&job.value) != Some(domain::Billing::Subscription));
        billed.map(|job| cost_so_far(&job.value, &|job| self.live_spend(job))).sum()
    }

    /// What is reserved beyond what the running jobs have spent.
    fn unspent_reservations(&self, budget: &ProductBudget) -> Usd {
        let state = self.state.lock();
        let used = |key| state.used_of(key, &|job| self.live_spend(job));
        budget.reservations().map(|(key, reservation)| reservation.amount.minus(used(key))).sum()
    }
}

/// The count, unless it is zero.
fn exact(count: u64) -> Option<f64> {
    u32::try_from(count).ok().filter(|count| *count > 0).map(f64::from)
}

fn share(part: Usd, whole: Usd) -> f64 {
    100.0 * part.dollars() / whole.dollars()
}

fn shares(sums: &SpendByName) -> Vec<SpendShare> {
    let share = |(name, sums): (&String, &domain::SpendTotals)| SpendShare {
        name: name.clone(),
        usd: sums.usd.dollars(),
        subscription_usd: sums.subscription_usd.dollars(),
        runs: sums.runs,
        failed_runs: sums.failed_runs,
    };
    let mut shares: Vec<_> = sums.iter().map(share).collect();
    shares.sort_by(|one, other| other.usd.total_cmp(&one.usd).then_with(|| one.name.cmp(&other.name)));
    shares
}

fn projection(
    budget: &ProductBudget,
    period: BudgetPeriod,
    running: Usd,
    ceiling: Option<Usd>,
    now: Timestamp,
) -> SpendProjection {
    let start = period.start(now);
    let spent = budget.spending.since(start).usd.plus(running);
    // Before its first cost a product has not begun to spend.
    let first = budget.spending.days_since(start).next().map_or(now, |(day, _)| day);
    let begin = start.unwrap_or(first).max(first).max(now.before(RATE_SPAN));
    let rate = budget.spending.billed_since(begin).plus(running);
    project(spent, (rate, now.since(begin)), ceiling, now, period.end(now))
}

/// The sums at the end of each hour or day, and now.
fn points(budget: &ProductBudget, period: BudgetPeriod, running: Usd, now: Timestamp) -> Vec<BurnDownPoint> {
    let spending = &budget.spending;
    let start = period.start(now);
    let steps: Vec<(Timestamp, Usd)> = match period {
        BudgetPeriod::Day => spending.hours_since(start.unwrap_or(now)).collect(),
        BudgetPeriod::Month | BudgetPeriod::Total => {
            spending.days_since(start).map(|(day, sums)| (day, sums.usd)).collect()
        }
    };
    let step = std::time::Duration::from_hours(if period == BudgetPeriod::Day { 1 } else { 24 });
    let mut sum = if period == BudgetPeriod::Total { spending.earlier().usd } else { Usd::ZERO };
    let begin = start.unwrap_or_else(|| steps.first().map_or(now, |(first, _)| *first));
    let mut points = vec![BurnDownPoint { at: begin, spent_usd: sum.dollars() }];
    for (at, usd) in steps {
        // A line from the begin of the step to its end: nothing was spent before it.
        if points.last().is_some_and(|last| last.at < at) {
            points.push(BurnDownPoint { at, spent_usd: sum.dollars() });
        }
        sum = sum.plus(usd);
        let end = at.after(step).min(now);
        points.push(BurnDownPoint { at: end, spent_usd: sum.dollars() });
    }
    let last = BurnDownPoint { at: now, spent_usd: sum.plus(running).dollars() };
    points.retain(|point| point.at < now);
    points.push(last);
    points
}

fn overlapping(pauses: &[PausePeriod], from: Timestamp) -> Vec<PausePeriod> {
    pauses.iter().filter(|pause| pause.until.is_none_or(|until| until > from)).cloned().collect()
}
