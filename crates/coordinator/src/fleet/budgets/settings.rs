//! The settings of budgets.

use domain::{BudgetSettings, Collection, ProductBudget, ProductId};
use protocol::BudgetView;
use tracing::info;

use super::writer::BudgetChange;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::invalid;

impl Coordinator {
    /// Replaces the settings of a product's budget.
    pub async fn put_budget(
        &self,
        who: &Principal,
        product: &ProductId,
        settings: BudgetSettings,
    ) -> Result<BudgetView, Error> {
        who.require_admin()?;
        self.product(who, product)?;
        settings.check().map_err(|error| invalid(error.field, error.to_string()))?;
        // What was spent before has to be known before the ceiling is in force.
        self.count_spending(product).await?;
        self.change_budget(product, BudgetChange::Settings(settings)).await?;
        let unreserved = if self.state.lock().has_ceiling(product) { self.unreserved(product) } else { Vec::new() };
        if !unreserved.is_empty() {
            self.change_budget(product, BudgetChange::Restore(unreserved)).await?;
        }
        self.state.lock().reconsider_money();
        self.weigh_money();
        info!(%product, by = %who.name, "`{}` set the budget of product `{product}`", who.name);
        self.enforce_pauses().await;
        self.work.notify_one();
        self.budget(who, product).await
    }

    /// Reads the budgets at the start.
    pub(crate) async fn load_budgets(&self) -> Result<(), Error> {
        self.state.lock().enforce_budgets_by_default(self.settings.budgets);
        for (key, budget) in self.documents::<ProductBudget>(Collection::Budgets).await? {
            let Ok(product) = key.parse::<ProductId>() else { continue };
            self.state.lock().put_budget(&product, budget);
        }
        self.weigh_money();
        Ok(())
    }
}
