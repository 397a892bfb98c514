//! Money of grants: reserve, then grant (row 17).

use domain::{DispatchSeq, Job, ProductId, ReservationKey, Stage, Timestamp, Usd};
use fail::fail_point;
use tracing::{error, info, warn};

use super::writer::BudgetChange;
use crate::coordinator::Coordinator;
use crate::error::Error;

impl Coordinator {
    /// Reserves the money of a run that is about to be granted; `None` if its product has no ceiling in force. Repeating
    /// it changes nothing.
    pub(crate) async fn reserve_money(&self, job: &Job, seq: DispatchSeq) -> Result<Option<ReservationKey>, Error> {
        let product = job.product();
        let amount = {
            let state = self.state.lock();
            if !state.has_ceiling(product) {
                return Ok(None);
            }
            state.amount_of(job, state.billing_of(job))
        };
        if !self.budgets.is_counted(product) {
            // Without this, what was spent before the start would count as free.
            self.count_spending(product).await?;
        }
        let key = ReservationKey { job: job.id(), seq };
        // What running jobs have spent beyond their reservations is known in memory only.
        let left = self.live_left(product);
        let reserved = match left {
            Some(left) if left < amount || left == Usd::ZERO => {
                Err(Error::OutOfMoney(domain::OutOfMoney { amount, left }))
            }
            _ => self.change_budget(product, BudgetChange::Reserve { key, amount }).await,
        };
        match reserved {
            Ok(_) => {
                fail_point!("budget::reserved");
                Ok(Some(key))
            }
            Err(Error::OutOfMoney(money)) => {
                self.state.lock().note_short(product, money.amount);
                self.weigh_money();
                Err(Error::OutOfMoney(money))
            }
            Err(error) => Err(error),
        }
    }

    /// What is left of a ceiling, including what running jobs have spent beyond what they reserved.
    fn live_left(&self, product: &ProductId) -> Option<Usd> {
        let now = self.now();
        let money = self.state.lock().money_of(product, now, &|job| self.live_spend(job))?;
        Some(money.left())
    }

    /// Removes the reservation of a grant that was refused, unless the run of another request uses it. If that fails,
    /// the sweep does it.
    pub(crate) async fn return_money(&self, product: &ProductId, key: ReservationKey) {
        fail_point!("budget::before_return", |_| {});
        let returned = match self.may_use(key).await {
            Ok(true) => return,
            Ok(false) => self.change_budget(product, BudgetChange::Release(vec![key])).await,
            Err(error) => Err(error),
        };
        if let Err(error) = returned {
            warn!(%product, %error, "Could not remove a reservation of product `{product}`, the sweep does it");
            self.mark_suspect();
        }
    }

    /// Compares reservations with the holders of leases: one without a holder is removed once it is old, a holder
    /// without one gets it again (row 17).
    pub(crate) async fn compare_reservations(&self) {
        let products = self.state.lock().products_with_ceiling();
        for product in products {
            self.budgets.note_behind(&product);
        }
        self.settle_budgets().await;
        let products = self.state.lock().products_with_ceiling();
        for product in products {
            if !self.budgets.is_counted(&product) {
                continue;
            }
            if let Err(error) = self.repair_reservations(&product).await {
                warn!(%product, %error, "Could not repair the reservations of product `{product}`, the next sweep does");
                self.mark_suspect();
            }
        }
        self.state.lock().reconsider_money();
        self.weigh_money();
    }

    async fn repair_reservations(&self, product: &ProductId) -> Result<(), Error> {
        let old = self.now().before(self.settings.accept_within);
        let mut orphaned = Vec::new();
        for key in self.unheld(product, old) {
            // Memory may lack a grant whose answer was lost.
            if !self.may_use(key).await? {
                orphaned.push(key);
            }
        }
        if !orphaned.is_empty() {
            info!(%product, reservations = orphaned.len(), "Removing reservations of product `{product}` without a lease");
            self.change_budget(product, BudgetChange::Release(orphaned)).await?;
        }
        let missing = self.unreserved(product);
        if !missing.is_empty() {
            error!(%product, jobs = missing.len(), "Running jobs of product `{product}` had no reservation: restored");
            let count = missing.len() as u64;
            self.budgets.restored.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
            self.change_budget(product, BudgetChange::Restore(missing)).await?;
        }
        Ok(())
    }

    /// A new period may have begun, or running jobs may have used up a ceiling.
    pub(crate) async fn check_budgets(&self) {
        let is_waiting = !self.state.lock().out_of_money().is_empty();
        if is_waiting {
            self.weigh_money();
            self.enforce_pauses().await;
        }
    }

    /// Whether a run uses a reservation, or an offer may still lead to one.
    async fn may_use(&self, key: ReservationKey) -> Result<bool, Error> {
        match self.read(key.job).await {
            Ok(job) => {
                let is_held = job.value.seat().is_some_and(|lease| lease.seq == key.seq);
                let is_offered =
                    matches!(job.value.stage(), Stage::Queued { dispatch: Some(offer), .. } if offer.seq == key.seq);
                Ok(is_held || is_offered)
            }
            Err(Error::NoSuchJob(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Budgets are enforced from now on: running jobs reserve what they may spend.
    pub(crate) async fn begin_budgets(&self) {
        let products = self.state.lock().products_with_ceiling();
        for product in products {
            let missing = self.unreserved(&product);
            if !missing.is_empty()
                && let Err(error) = self.change_budget(&product, BudgetChange::Restore(missing)).await
            {
                warn!(%product, %error, "Could not reserve money for the running jobs of product `{product}`, the sweep does");
                self.mark_suspect();
            }
        }
        self.weigh_money();
    }

    /// Reservations from before a time whose job holds no lease in memory.
    fn unheld(&self, product: &ProductId, before: Timestamp) -> Vec<ReservationKey> {
        let state = self.state.lock();
        let Some(budget) = state.budget(product) else { return Vec::new() };
        let old = budget.value.reservations().filter(|(key, one)| one.at <= before && !state.holds_reserved_run(*key));
        old.map(|(key, _)| key).collect()
    }

    /// Running jobs without a reservation, with what they should have reserved.
    pub(super) fn unreserved(&self, product: &ProductId) -> Vec<(ReservationKey, Usd)> {
        let state = self.state.lock();
        let known: std::collections::BTreeSet<_> = state
            .budget(product)
            .into_iter()
            .flat_map(|budget| budget.value.reservations())
            .map(|(key, _)| key)
            .collect();
        let running = state.running_of(product);
        let keyed = running.iter().filter_map(|job| {
            let key = ReservationKey { job: job.value.id(), seq: job.value.seat()?.seq };
            Some((key, state.amount_of(&job.value, state.billing_of(&job.value))))
        });
        keyed.filter(|(key, _)| !known.contains(key)).collect()
    }
}
