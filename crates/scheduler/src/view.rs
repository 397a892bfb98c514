//! Everything that a decision may depend on.

use std::collections::BTreeMap;

use domain::{DispatchModes, FactoryId, Mode, Product, ProductId, RepoName, Shape, Timestamp};

use crate::fleet::Fleet;
use crate::queue::Queue;
use crate::score::Weights;

/// Everything that a decision may depend on, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct FleetView<'a> {
    /// The time, by the coordinator's clock.
    pub now: Timestamp,
    /// The factories and the seats that are taken.
    pub fleet: &'a Fleet,
    /// The jobs that could be dispatched.
    pub queue: &'a Queue,
    /// The products. One that is not here has weight 1, no limits, and is not paused.
    pub products: &'a BTreeMap<ProductId, Product>,
    /// How work reaches factories: a plan places only what is pushed, a claim takes whatever waits.
    pub flags: &'a DispatchModes,
    /// What counts how much.
    pub weights: &'a Weights,
    /// Placements at most.
    pub limit: usize,
}

/// What one job asks of the fleet.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// What decides where it can run.
    pub shape: &'a Shape,
    /// When it began to wait.
    pub since: Timestamp,
    /// A factory that gets it only if nobody else can take it.
    pub avoid: Option<&'a FactoryId>,
}

impl FleetView<'_> {
    /// Whether the coordinator offers a product's jobs; otherwise factories ask for them.
    pub(crate) fn pushes(&self, product: &ProductId) -> bool {
        self.flags.mode_of(product) == Mode::Push
    }

    pub(crate) fn paused(&self, product: &ProductId) -> bool {
        self.products.get(product).is_some_and(|product| product.paused)
    }

    /// A product's share of the seats. At least 1: a product that may not work is paused, not weightless.
    pub(crate) fn weight(&self, product: &ProductId) -> u32 {
        self.products.get(product).map_or(1, |product| product.weight.max(1))
    }

    /// Jobs at one time on a repository in the whole fleet, where that is limited.
    pub(crate) fn repo_limit(&self, product: &ProductId, repo: &RepoName) -> Option<u32> {
        self.products.get(product)?.repo_seats.get(repo).copied()
    }
}
