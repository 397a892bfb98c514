//! The report of a comparison: counts, divergences, and whether push mode can take over.

use std::collections::{BTreeMap, BTreeSet};

use domain::{ProductId, Timestamp, TokenScope};
use protocol::{DivergenceReport, ProductDivergence, ShadowCounts, ShadowHour, ShadowSummary};

use super::hours::{CountedHour, DIVERGENCES_MAX, LagClasses};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;

/// The sum of some hours.
#[derive(Default)]
struct Sum {
    counts: ShadowCounts,
    lag: LagClasses,
    hours: BTreeSet<Timestamp>,
}

impl Sum {
    fn add(&mut self, start: Timestamp, hour: &CountedHour) {
        self.counts.add(&hour.counts);
        self.lag.add(&hour.lag);
        if hour.counts.decisions() > 0 {
            self.hours.insert(start);
        }
    }

    fn summary(&self) -> ShadowSummary {
        ShadowSummary::of(self.counts, u32::try_from(self.hours.len()).unwrap_or(u32::MAX), self.lag.quantiles())
    }
}

impl Coordinator {
    /// How push mode compares with polling, for some products or all of the caller's.
    pub fn divergence(&self, who: &Principal, products: Vec<ProductId>) -> Result<DivergenceReport, Error> {
        if !matches!(who.grant, TokenScope::Admin | TokenScope::Operator { .. } | TokenScope::Viewer { .. }) {
            return Err(Error::Forbidden("a viewer, operator or admin token is needed".to_owned()));
        }
        let asked = self.limited_to(who, products)?;
        let is_asked = |product: &ProductId| asked.is_empty() || asked.contains(product);
        let now = self.now();
        let (mut all, mut by_product, mut by_hour) = (Sum::default(), BTreeMap::new(), BTreeMap::new());
        let mut divergences = Vec::new();
        {
            let shadow = self.shadow.lock();
            for (product, start, hour) in shadow.hours.recent(now).filter(|(product, ..)| is_asked(product)) {
                all.add(start, hour);
                by_product.entry(product.clone()).or_insert_with(Sum::default).add(start, hour);
                by_hour.entry(start).or_insert_with(Sum::default).add(start, hour);
                divergences.extend(hour.divergences.iter().cloned());
            }
        }
        divergences.sort_by_key(|divergence| std::cmp::Reverse(divergence.at));
        divergences.truncate(DIVERGENCES_MAX);
        for product in self.state.lock().product_ids().filter(|product| is_asked(product)) {
            if self.compares_product(product) {
                by_product.entry(product.clone()).or_default();
            }
        }
        let modes = self.modes.now().value;
        let products = by_product.into_iter().map(|(product, sum)| {
            let mode = modes.mode_of(&product);
            ProductDivergence { mode, compared: self.is_compared(mode), summary: sum.summary(), product_id: product }
        });
        let hours =
            by_hour.into_iter().map(|(hour, sum)| ShadowHour { hour, counts: sum.counts, lag: sum.lag.quantiles() });
        Ok(DivergenceReport {
            summary: all.summary(),
            products: products.collect(),
            hours: hours.collect(),
            divergences,
        })
    }
}
