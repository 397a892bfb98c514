//! The inputs of a decision.

use std::collections::BTreeMap;

use domain::{DispatchModes, FactoryId, Mode, MoneyWait, Product, ProductId, RepoName, Shape, Timestamp};

use crate::fleet::Fleet;
use crate::pools::Pools;
use crate::queue::Queue;
use crate::score::Weights;
use crate::unplaced::Unplaced;

/// The inputs of a decision at one moment.
#[derive(Debug, Clone, Copy)]
pub struct FleetView<'a> {
    /// The time, by the coordinator's clock.
    pub now: Timestamp,
    /// Factories and used seats.
    pub fleet: &'a Fleet,
    /// Dispatchable jobs.
    pub queue: &'a Queue,
    /// The products. A missing one has weight 1, no limits, and is not paused.
    pub products: &'a BTreeMap<ProductId, Product>,
    /// The products whose jobs wait for money: nothing of them starts.
    pub out_of_money: &'a BTreeMap<ProductId, MoneyWait>,
    /// The dispatch modes. A plan places only products in push mode; a claim takes any waiting job.
    pub flags: &'a DispatchModes,
    /// The pools that start factories on demand.
    pub pools: &'a Pools,
    /// Weights of the score.
    pub weights: &'a Weights,
    /// Maximum number of placements.
    pub limit: usize,
}

/// The demand of one job.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// The constraints of the job.
    pub shape: &'a Shape,
    /// When it started to wait.
    pub since: Timestamp,
    /// A factory that gets the job only as a last resort.
    pub avoid: Option<&'a FactoryId>,
}

impl FleetView<'_> {
    /// Whether the product is in push mode; otherwise factories poll.
    pub(crate) fn pushes(&self, product: &ProductId) -> bool {
        self.flags.mode_of(product) == Mode::Push
    }

    /// Whether factories select the jobs of the product.
    pub(crate) fn is_self_selected(&self, product: &ProductId) -> bool {
        self.flags.mode_of(product) == Mode::SelfSelect
    }

    /// Whether nothing of the product starts: it is paused, or waits for money.
    pub(crate) fn paused(&self, product: &ProductId) -> bool {
        self.is_paused_by_a_person(product) || self.out_of_money.contains_key(product)
    }

    /// Whether only missing money keeps the product from starting jobs.
    pub(crate) fn is_out_of_money(&self, product: &ProductId) -> bool {
        self.out_of_money.contains_key(product) && !self.is_paused_by_a_person(product)
    }

    /// Why nothing of the product starts. A pause by a person is named first: money would not end it.
    pub(crate) fn why_paused(&self, product: &ProductId) -> Unplaced {
        match self.out_of_money.get(product).filter(|_| !self.is_paused_by_a_person(product)) {
            Some(money) => Unplaced::WaitsForMoney { product: product.clone(), money: money.clone() },
            None => {
                let pause = self.products.get(product).and_then(|product| product.pause.as_ref());
                Unplaced::ProductPaused {
                    product: product.clone(),
                    by: pause.map(|pause| pause.by.clone()),
                    reason: pause.and_then(|pause| pause.reason.clone()),
                }
            }
        }
    }

    fn is_paused_by_a_person(&self, product: &ProductId) -> bool {
        self.products.get(product).is_some_and(|product| product.paused)
    }

    /// A product's share of the seats. At least 1: a product without seats is paused instead.
    pub(crate) fn weight(&self, product: &ProductId) -> u32 {
        self.products.get(product).map_or(1, |product| product.weight.max(1))
    }

    /// The weights of a product's score: its own, and the fleet's for the other terms.
    pub fn weights_of(&self, product: &ProductId) -> Weights {
        match self.products.get(product) {
            Some(product) if !product.score_weights.is_empty() => self.weights.with(&product.score_weights),
            _ => *self.weights,
        }
    }

    /// Maximum number of concurrent jobs on a repository in the fleet, if limited.
    pub(crate) fn repo_limit(&self, product: &ProductId, repo: &RepoName) -> Option<u32> {
        self.products.get(product)?.repo_seats.get(repo).copied()
    }
}
