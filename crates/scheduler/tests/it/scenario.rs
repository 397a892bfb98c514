//! Fleets and queues, handwritten or random.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    DispatchModes, EngineName, Factory, FactoryId, InstanceId, JobId, MoneyWait, Priority, Product, ProductId,
    RepoName, ScoreWeights, Shape, Timestamp, UsageWindow,
};
use proptest::prelude::*;
use scheduler::{
    EngineUnavailable, FactoryState, Fleet, FleetView, OfferPause, Placement, Plan, Pools, Presence, Queue, Seat,
    WaitingJob, Weights, plan,
};

/// The inputs of a view, in the order of insertion.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) factories: Vec<FactoryState>,
    pub(crate) seats: Vec<(JobId, Seat)>,
    pub(crate) jobs: Vec<WaitingJob>,
    pub(crate) products: BTreeMap<ProductId, Product>,
    pub(crate) pools: Pools,
    pub(crate) weights: Weights,
    pub(crate) limit: usize,
}

/// A scenario inserted into the indexes.
pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) queue: Queue,
    products: BTreeMap<ProductId, Product>,
    out_of_money: BTreeMap<ProductId, MoneyWait>,
    pub(crate) flags: DispatchModes,
    pub(crate) pools: Pools,
    weights: Weights,
    limit: usize,
}

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

impl Default for Scenario {
    fn default() -> Self {
        Self {
            factories: Vec::new(),
            seats: Vec::new(),
            jobs: Vec::new(),
            products: BTreeMap::new(),
            pools: Pools::default(),
            weights: Weights::default(),
            limit: 1_000,
        }
    }
}

impl Scenario {
    pub(crate) fn world(&self) -> World {
        let mut world = World {
            fleet: Fleet::new(),
            queue: Queue::new(),
            products: self.products.clone(),
            out_of_money: BTreeMap::new(),
            flags: DispatchModes::default(),
            pools: self.pools.clone(),
            weights: self.weights,
            limit: self.limit,
        };
        for factory in &self.factories {
            world.fleet.upsert(factory.clone());
        }
        for (job, seat) in &self.seats {
            world.fleet.occupy(*job, seat.clone());
        }
        for job in &self.jobs {
            world.queue.insert(job.clone());
        }
        world
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.world().view())
    }
}

impl World {
    pub(crate) fn view(&self) -> FleetView<'_> {
        FleetView {
            now: NOW,
            fleet: &self.fleet,
            queue: &self.queue,
            products: &self.products,
            out_of_money: &self.out_of_money,
            flags: &self.flags,
            pools: &self.pools,
            weights: &self.weights,
            limit: self.limit,
        }
    }

    pub(crate) fn set_out_of_money(&mut self, waiting: BTreeMap<ProductId, MoneyWait>) {
        self.out_of_money = waiting;
    }

    pub(crate) fn set_products(&mut self, products: BTreeMap<ProductId, Product>) {
        self.products = products;
    }

    /// Applies a committed placement as the coordinator does.
    pub(crate) fn carry_out(&mut self, placement: &Placement) {
        let waiting = self.queue.remove(&placement.job).unwrap();
        self.fleet.occupy(placement.job, seat_of(&waiting.shape, placement));
    }
}

pub(crate) fn seat_of(shape: &Shape, placement: &Placement) -> Seat {
    Seat {
        factory: placement.factory.clone(),
        product: shape.product.clone(),
        repo: shape.repo.clone(),
        engine: placement.engine.clone(),
    }
}

/// A live, idle, healthy factory with two seats and these capabilities, plus an engine if they name none.
pub(crate) fn factory(id: &str, capabilities: &[&str]) -> FactoryState {
    let has_engine = capabilities.iter().any(|capability| capability.starts_with("engine:"));
    let engine = (!has_engine).then_some("engine:command");
    let factory = Factory {
        id: name(id),
        instance: InstanceId::from_bytes([0; 16]),
        capabilities: capabilities.iter().copied().chain(engine).map(name).collect(),
        repos: BTreeSet::new(),
        clones: false,
        seat_limit: 2,
        engine_seats: BTreeMap::new(),
        repo_seats: BTreeMap::new(),
        engine_health: Vec::new(),
        cost: 0,
        draining: false,
        version: String::new(),
        joined_at: NOW,
        unavailable_repos: BTreeMap::new(),
        repo_identities: BTreeMap::new(),
        resumed_windows: BTreeMap::new(),
        pool: None,
    };
    FactoryState {
        factory,
        products: BTreeSet::new(),
        presence: Presence::Live,
        load: 0.0,
        health: 1.0,
        disk_low: false,
        unresponsive: None,
        resting: BTreeMap::new(),
    }
}

/// The shape of a job that needs only a repository.
pub(crate) fn shape_on(repo: &RepoName, product: &ProductId) -> Shape {
    Shape {
        product: product.clone(),
        repo: Some(repo.clone()),
        capabilities: Vec::new(),
        engines: Vec::new(),
        pin: None,
        identity: None,
    }
}

/// A job of the default product that just started to wait and requires these capabilities.
pub(crate) fn job(number: u8, capabilities: &[&str]) -> WaitingJob {
    let shape = Shape {
        product: ProductId::default_product(),
        repo: None,
        capabilities: capabilities.iter().copied().map(name).collect(),
        engines: Vec::new(),
        pin: None,
        identity: None,
    };
    WaitingJob { job: id(number), shape: Arc::new(shape), priority: Priority::Normal, since: NOW, avoid: None }
}

pub(crate) fn with_shape(waiting: WaitingJob, change: impl FnOnce(&mut Shape)) -> WaitingJob {
    let mut shape = (*waiting.shape).clone();
    change(&mut shape);
    WaitingJob { shape: Arc::new(shape), ..waiting }
}

pub(crate) fn id(number: u8) -> JobId {
    let mut bytes = [0; 16];
    bytes[15] = number;
    JobId::from_bytes(bytes)
}

pub(crate) fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn ago(minutes: u64) -> Timestamp {
    let millis = i64::try_from(Duration::from_secs(60 * minutes).as_millis()).unwrap();
    Timestamp::from_millis(NOW.as_millis() - millis)
}

const PRODUCTS: [&str; 3] = ["alpha", "beta", "gamma"];
const REPOS: [&str; 3] = ["notes", "tracker", "web"];
/// Repository identities for factories.
const IDENTITIES: [&str; 2] = ["github.com/acme/one", "github.com/acme/two"];
const ENGINES: [&str; 2] = ["claude", "codex"];
const TOKENS: [&str; 8] =
    ["os:linux", "os:mac", "os:ubuntu", "has:docker", "has:xcode", "engine:claude", "engine:codex", "repo:web"];
const FACTORIES: [&str; 6] = ["f1", "f2", "f3", "f4", "f5", "f6"];

/// Small fleets with few names, so that collisions are frequent.
pub(crate) fn scenarios() -> impl Strategy<Value = Scenario> {
    let factories = prop::sample::subsequence(FACTORIES.to_vec(), 0..=FACTORIES.len())
        .prop_flat_map(|names| names.into_iter().map(factories).collect::<Vec<_>>());
    let seats = prop::collection::vec(seats(), 0..6).prop_map(|seats| {
        let ids = (200..).map(id);
        ids.zip(seats).collect::<Vec<_>>()
    });
    let jobs =
        (prop::collection::vec(shapes(), 1..7), prop::collection::vec(jobs(), 0..20)).prop_map(|(shapes, jobs)| {
            let numbered = jobs.into_iter().zip(0..);
            // Equal shapes are not always the same allocation.
            let shaped = numbered.map(|((shape, waiting), number)| {
                let shape = Arc::new(shape.get(&shapes).clone());
                WaitingJob { job: id(number), shape, ..waiting }
            });
            shaped.collect::<Vec<_>>()
        });
    let products = Vec::from(PRODUCTS.map(products));
    let limit = prop_oneof![4 => Just(1_000_usize), 1 => 0_usize..6];
    (factories, seats, jobs, products, weights(), limit).prop_map(
        |(factories, seats, jobs, products, weights, limit)| {
            let products = products.into_iter().map(|product| (product.id.clone(), product)).collect();
            Scenario { factories, seats, jobs, products, pools: Pools::default(), weights, limit }
        },
    )
}

fn factories(id: &'static str) -> impl Strategy<Value = FactoryState> {
    let what = (
        prop::sample::subsequence(TOKENS.to_vec(), 0..=TOKENS.len()),
        prop::sample::subsequence(REPOS.to_vec(), 0..=REPOS.len()),
        any::<bool>(),
        0_u32..4,
        limits(&ENGINES),
        limits(&REPOS),
        prop::sample::select(vec![0_u8, 50, 100]),
        prop::bool::weighted(0.1),
    );
    let how = (
        prop_oneof![3 => Just(Vec::new()), 1 => prop::sample::subsequence(PRODUCTS.to_vec(), 1..=2)],
        prop_oneof![
            8 => Just(Presence::Live),
            1 => Just(Presence::Warming),
            1 => Just(Presence::Disconnected),
            1 => Just(Presence::Stale),
            1 => Just(Presence::Down)
        ],
        prop::sample::select(vec![0.0, 0.0, 0.1, 0.5, 0.5, 1.0, 3.0]),
        prop::sample::select(vec![1.0, 1.0, 0.5, 0.0]),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        resting(),
        prop::sample::select(vec![None, Some(IDENTITIES[0]), Some(IDENTITIES[0]), Some(IDENTITIES[1])]),
    );
    (what, how).prop_map(move |(what, (products, presence, load, health, disk_low, silent, resting, identity))| {
        let (tokens, repos, clones, seat_limit, engine_seats, repo_seats, cost, draining) = what;
        let mut state = factory(id, &tokens);
        state.factory.repos = repos.into_iter().map(name).collect();
        let identified = REPOS.into_iter().filter_map(|repo| Some((name(repo), name(identity?))));
        state.factory.repo_identities = identified.collect();
        state.factory.clones = clones;
        state.factory.seat_limit = seat_limit;
        state.factory.engine_seats = engine_seats.into_iter().map(|(engine, limit)| (name(engine), limit)).collect();
        state.factory.repo_seats = repo_seats.into_iter().map(|(repo, limit)| (name(repo), limit)).collect();
        state.factory.cost = cost;
        state.factory.draining = draining;
        let products = products.into_iter().map(name).collect();
        let unresponsive =
            silent.then(|| OfferPause { problem: "left 3 offers unanswered".to_owned(), is_busy: false });
        FactoryState { products, presence, load, health, disk_low, unresponsive, resting, ..state }
    })
}

/// Unavailable engines, for different reasons.
fn resting() -> impl Strategy<Value = BTreeMap<EngineName, EngineUnavailable>> {
    let window = |minutes: u64| {
        let until = Some(NOW.after(Duration::from_mins(minutes)));
        EngineUnavailable::Window(UsageWindow { engine: name(ENGINES[0]), window: None, until, exhausted: false })
    };
    let reasons = vec![window(5), window(300), EngineUnavailable::Unusable { problem: "sign in".to_owned() }];
    let some = prop::collection::btree_map(
        prop::sample::select(ENGINES.to_vec()),
        prop::sample::select(reasons),
        1..=ENGINES.len(),
    );
    let some = some.prop_map(|some| some.into_iter().map(|(engine, rest)| (name(engine), rest)).collect());
    prop_oneof![3 => Just(BTreeMap::new()), 1 => some]
}

fn limits(names: &'static [&'static str]) -> impl Strategy<Value = BTreeMap<&'static str, u32>> {
    prop_oneof![
        2 => Just(BTreeMap::new()),
        1 => prop::collection::btree_map(prop::sample::select(names.to_vec()), 0_u32..3, 1..=names.len()),
    ]
}

fn seats() -> impl Strategy<Value = Seat> {
    let factory = prop::sample::select(FACTORIES.to_vec());
    let product = prop::sample::select(PRODUCTS.to_vec());
    let repo = prop::option::of(prop::sample::select(REPOS.to_vec()));
    let engine = prop::option::of(prop::sample::select(ENGINES.to_vec()));
    (factory, product, repo, engine).prop_map(|(factory, product, repo, engine)| Seat {
        factory: name(factory),
        product: name(product),
        repo: repo.map(name),
        engine: engine.map(name),
    })
}

fn shapes() -> impl Strategy<Value = Shape> {
    (
        prop::sample::select(PRODUCTS.to_vec()),
        prop::option::of(prop::sample::select(REPOS.to_vec())),
        prop_oneof![
            4 => prop::sample::subsequence(TOKENS.to_vec(), 0..=2),
            1 => Just(vec!["gpu:l4"]),
        ],
        prop_oneof![2 => Just(vec![]), 1 => Just(vec!["codex", "claude"]), 1 => Just(vec!["claude"])],
        prop::option::weighted(0.1, prop::sample::select(FACTORIES.to_vec())),
        prop::option::weighted(0.3, prop::sample::select(IDENTITIES.to_vec())),
    )
        .prop_map(|(product, repo, capabilities, engines, pin, identity)| Shape {
            product: name(product),
            identity: identity.filter(|_| repo.is_some()).map(name),
            repo: repo.map(name),
            capabilities: capabilities.into_iter().map(name).collect(),
            engines: engines.into_iter().map(name).collect(),
            pin: pin.map(name),
        })
}

/// A job without its number and shape.
fn jobs() -> impl Strategy<Value = (prop::sample::Index, WaitingJob)> {
    (
        any::<prop::sample::Index>(),
        prop::sample::select(Priority::ALL.to_vec()),
        prop::sample::select(vec![0_u64, 1, 20, 31, 70, 200]),
        prop::option::weighted(0.3, prop::sample::select(FACTORIES.to_vec())),
    )
        .prop_map(|(shape, priority, minutes, avoid)| {
            let avoid = avoid.map(name::<FactoryId>);
            (shape, WaitingJob { priority, since: ago(minutes), avoid, ..job(0, &[]) })
        })
}

fn products(id: &'static str) -> impl Strategy<Value = Product> {
    let own = prop_oneof![4 => Just(None), 1 => Just(Some(0.0)), 1 => Just(Some(4.0))];
    let what = (prop::bool::weighted(0.15), 0_u32..4, limits(&REPOS), own);
    what.prop_map(move |(paused, weight, repo_seats, affinity)| {
        let repo_seats = repo_seats.into_iter().map(|(repo, limit)| (name(repo), limit)).collect();
        let score_weights = ScoreWeights { affinity, ..ScoreWeights::default() };
        Product { paused, weight, repo_seats, score_weights, ..Product::new(name(id)) }
    })
}

fn weights() -> impl Strategy<Value = Weights> {
    let tuned = prop::array::uniform5(prop::sample::select(vec![-1.0, 0.0, 0.5, 1.0, 4.0]));
    prop_oneof![
        2 => Just(Weights::default()),
        1 => tuned.prop_map(|[capability_fit, affinity, idleness, cost_fit, health]| Weights {
            capability_fit,
            affinity,
            idleness,
            cost_fit,
            health,
            ..Weights::default()
        }),
    ]
}
