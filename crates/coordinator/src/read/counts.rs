//! Totals and counts of jobs.

use std::collections::BTreeMap;

use domain::{JobFilter, ProductId, StageName};
use protocol::{JobCounts, JobTotal, WaitingCounts};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;

/// Jobs that are counted one by one.
const COUNTED_MAX: u16 = 1_000;

impl Coordinator {
    /// How many jobs match. Counted exactly where the store keeps counters, else up to a bound.
    pub async fn job_total(&self, who: &Principal, filter: JobFilter) -> Result<JobTotal, Error> {
        who.require_fleet_view()?;
        let filter = JobFilter { products: self.limited_to(who, filter.products)?, ..filter };
        if filter.search.is_empty() && filter.priority.is_none() && filter.repo.is_none() {
            let is_counted = |stage: &StageName| filter.stages.is_empty() || filter.stages.contains(stage);
            let census = self.ports.history.census().await?.into_iter();
            let own = census.filter(|(product, stage, _)| {
                (filter.products.is_empty() || filter.products.contains(product)) && is_counted(stage)
            });
            return Ok(JobTotal { count: own.map(|(_, _, count)| count).sum(), is_exact: true });
        }
        let page = self.ports.history.jobs(&filter, None, COUNTED_MAX).await?;
        Ok(JobTotal { count: page.items.len() as u64, is_exact: page.next.is_none() })
    }

    /// The number of jobs by stage, and how many cannot be placed.
    pub async fn job_counts(&self, who: &Principal, products: Vec<ProductId>) -> Result<JobCounts, Error> {
        who.require_fleet_view()?;
        let products = self.limited_to(who, products)?;
        let mut stages: BTreeMap<String, u64> = StageName::ALL.iter().map(|stage| (stage.to_string(), 0)).collect();
        for (product, stage, count) in self.ports.history.census().await? {
            if products.is_empty() || products.contains(&product) {
                *stages.entry(stage.to_string()).or_default() += count;
            }
        }
        Ok(JobCounts { stages, waiting: WaitingCounts { unplaceable: self.unplaceable_count(&products) } })
    }

    fn unplaceable_count(&self, products: &[ProductId]) -> u64 {
        let state = self.state.lock();
        // Jobs that factories claim can be unplaceable just as offered ones.
        let modes = domain::DispatchModes::default();
        let view = state.view(self.steady(), &self.settings.weights, usize::MAX);
        let plan = scheduler::plan(&scheduler::FleetView { flags: &modes, ..view });
        let is_own = |product| products.is_empty() || products.contains(product);
        let stuck = plan.unplaced.iter().filter(|one| one.why.is_unplaceable() && is_own(&one.shape.product));
        stuck.map(|one| one.jobs as u64).sum()
    }
}
