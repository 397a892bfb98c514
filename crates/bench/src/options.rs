//! What to measure, and on which coordinator.

use std::path::PathBuf;
use std::sync::Arc;

use client::Client;
use domain::BrokerConnector;
use store::StoreUrl;

/// The coordinator to measure.
pub enum Coordinator {
    /// One that runs already, on this machine.
    Running(Client),
    /// Coordinators that the benchmark starts, each with a store of its own.
    Own {
        /// The program of which `serve` is a coordinator.
        program: PathBuf,
        /// The data directory: the benchmark works in a directory of its own below it.
        data: PathBuf,
        /// Where they keep their jobs.
        store: StoreOption,
        /// What delivers their offers.
        broker: BrokerOption,
    },
}

/// What delivers the offers of a benchmark's coordinator.
#[derive(Debug, Clone)]
pub enum BrokerOption {
    /// The coordinator itself, through the factories' inboxes.
    Embedded,
    /// A NATS server that is started for the benchmark: factories connect to it by this, and receive from it.
    ThrowawayNats(Arc<dyn BrokerConnector>),
}

/// Where a benchmark's coordinator keeps its jobs.
#[derive(Debug, Clone)]
pub enum StoreOption {
    /// In this store.
    Named(StoreUrl),
    /// In a PostgreSQL server that is started for the benchmark.
    ThrowawayPostgres,
}

/// What to measure.
#[derive(Debug, Clone)]
pub enum Benchmark {
    /// From the submitter's response to the factory's lease, at a steady rate.
    Latency(LatencyOptions),
    /// Whole lives of jobs per second.
    Throughput(ThroughputOptions),
    /// What a million stored jobs add to the cost of an operation.
    Depth(DepthOptions),
    /// What idle factories cost in each dispatch mode.
    Idle(IdleOptions),
    /// Many clients of the event stream while the fleet works.
    Fanout(FanoutOptions),
    /// One scheduling decision.
    Decide,
    /// Memory and start-up time with many jobs.
    Memory(MemoryOptions),
}

/// Options of [`Benchmark::Latency`].
#[derive(Debug, Clone, Copy)]
pub struct LatencyOptions {
    /// Jobs per second.
    pub rate: u32,
    /// How long to measure.
    pub seconds: u32,
    /// Whether to measure again with budgets enforced.
    pub budgets: bool,
}

/// Options of [`Benchmark::Throughput`].
#[derive(Debug, Clone, Copy)]
pub struct ThroughputOptions {
    /// Lives that count, in each manner.
    pub lives: u64,
    /// Factories that share the work.
    pub factories: u32,
    /// Seats of each factory.
    pub seats: u32,
    /// Callers that submit one job per request.
    pub submitters: u64,
    /// Whether to measure again with budgets enforced.
    pub budgets: bool,
}

/// Options of [`Benchmark::Depth`].
#[derive(Debug, Clone, Copy)]
pub struct DepthOptions {
    /// Stored jobs to compare 1,000 with.
    pub stored: u64,
}

/// Options of [`Benchmark::Idle`].
#[derive(Debug, Clone)]
pub struct IdleOptions {
    /// Numbers of idle factories.
    pub factories: Vec<u32>,
    /// How long to measure each row.
    pub seconds: u32,
}

/// Options of [`Benchmark::Fanout`].
#[derive(Debug, Clone, Copy)]
pub struct FanoutOptions {
    /// Clients of the event stream.
    pub clients: usize,
    /// Jobs per second.
    pub rate: u32,
    /// How long the fleet works.
    pub seconds: u32,
}

/// Options of [`Benchmark::Memory`].
#[derive(Debug, Clone, Copy)]
pub struct MemoryOptions {
    /// Stored jobs.
    pub stored: u64,
    /// Open jobs for the start-up time.
    pub open: u64,
    /// Open jobs for the memory.
    pub resident: u64,
}
