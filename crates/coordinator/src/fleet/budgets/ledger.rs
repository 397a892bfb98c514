//! What products have spent: their events, counted once each.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::{JobEvent, Position, ProductBudget, ProductId, Scope, StoredEvent};
use tracing::warn;

use super::writer::BudgetChange;
use crate::coordinator::Coordinator;
use crate::error::Error;

/// Events read at once.
const PAGE: u16 = 1_000;

/// Pages without a cost that are counted before the position is written.
const PAGES_UNWRITTEN_MAX: u32 = 20;

/// The pause after a failed count.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Coordinator {
    /// Counts what products with a ceiling spend, until the coordinator stops.
    pub(crate) async fn run_budgets(&self) {
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.budgets.bell.notified() => {}
            }
            if !self.settle_budgets().await {
                tokio::select! {
                    () = self.stopping.cancelled() => return,
                    () = self.ports.clock.sleep(TRY_AGAIN_AFTER) => {}
                }
            }
        }
    }

    /// Counts the new events of products with a ceiling: what their ended runs reserved is free again. Idempotent; the
    /// sweep does the same. Returns whether every product was counted.
    pub async fn settle_budgets(&self) -> bool {
        let mut is_whole = true;
        for product in self.budgets.take_behind() {
            let has_ceiling = self.state.lock().has_ceiling(&product);
            if !has_ceiling {
                continue;
            }
            if let Err(error) = self.count_spending(&product).await {
                warn!(%product, %error, "Could not count what product `{product}` has spent, retrying");
                self.budgets.note_behind(&product);
                is_whole = false;
            }
        }
        is_whole
    }

    /// Counts the events of a product that its stored budget does not include, and stores the sums.
    pub(super) async fn count_spending(&self, product: &ProductId) -> Result<(), Error> {
        let writer = self.budgets.of(product);
        let _turn = writer.counting.lock().await;
        loop {
            let start = self.counted_position(product);
            let page = self.next_charges(product, start).await?;
            if page.events.is_empty() && !page.has_more {
                break;
            }
            let (events, end) = (Arc::new(page.events), page.end);
            self.change_budget(product, BudgetChange::Absorb { after: start, events, end }).await?;
        }
        writer.is_counted.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The budget of a product with everything that it has spent up to now. Without a ceiling in force the store is
    /// only read: the sums are kept in memory, and written once in a while.
    pub(super) async fn counted_budget(&self, product: &ProductId) -> Result<ProductBudget, Error> {
        let has_ceiling = self.state.lock().has_ceiling(product);
        if has_ceiling {
            self.count_spending(product).await?;
            return Ok(self.stored_budget(product));
        }
        let writer = self.budgets.of(product);
        let _turn = writer.counting.lock().await;
        let stored = self.stored_budget(product);
        let ahead = writer.ahead.lock().take().filter(|ahead| ahead.spending.position >= stored.spending.position);
        let mut budget = stored;
        if let Some(ahead) = ahead {
            budget.spending = ahead.spending;
        }
        loop {
            let events = self.events_of(product, budget.spending.position).await?;
            let Some(last) = events.last() else { break };
            let end = last.position;
            let (is_full, charged) = (events.len() >= usize::from(PAGE), charging(&events));
            if is_full {
                // So much need not be read again after a restart.
                let behind = self.counted_position(product);
                if behind == budget.spending.position {
                    let events = Arc::new(charged.clone());
                    self.change_budget(product, BudgetChange::Absorb { after: behind, events, end }).await?;
                }
            }
            budget.absorb(charged.iter(), end);
        }
        *writer.ahead.lock() = Some(budget.clone());
        Ok(budget)
    }

    /// The stored budget, or an empty one.
    pub(super) fn stored_budget(&self, product: &ProductId) -> ProductBudget {
        let state = self.state.lock();
        state.budget(product).map_or_else(|| ProductBudget::new(product.clone()), |budget| budget.value.clone())
    }

    fn counted_position(&self, product: &ProductId) -> Position {
        self.state.lock().budget(product).map_or(Position(0), |budget| budget.value.spending.position)
    }

    /// The next events with a cost. Pages without one are passed over: their position need not be stored at once.
    async fn next_charges(&self, product: &ProductId, after: Position) -> Result<Charges, Error> {
        let mut end = after;
        for _ in 0..PAGES_UNWRITTEN_MAX {
            let events = self.events_of(product, end).await?;
            let Some(last) = events.last() else { return Ok(Charges { events: Vec::new(), end, has_more: false }) };
            end = last.position;
            let events = charging(&events);
            if !events.is_empty() {
                return Ok(Charges { events, end, has_more: true });
            }
        }
        Ok(Charges { events: Vec::new(), end, has_more: true })
    }

    async fn events_of(&self, product: &ProductId, after: Position) -> Result<Vec<StoredEvent>, Error> {
        Ok(self.ports.history.events(&Scope::Products(vec![product.clone()]), after, PAGE).await?)
    }
}

/// Events with a cost, and the position up to which they were read.
struct Charges {
    events: Vec<JobEvent>,
    end: Position,
    has_more: bool,
}

/// The events with a cost, and merges. An unreadable event costs nothing.
fn charging(events: &[StoredEvent]) -> Vec<JobEvent> {
    let may_matter = |event: &&StoredEvent| event.json.contains("\"usage\"") || event.json.contains("\"shipped\"");
    events.iter().filter(may_matter).filter_map(|event| serde_json::from_str(&event.json).ok()).collect()
}
