//! The arguments of `bench`.

use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use store::StoreUrl;

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Store: `sqlite`, `postgres` (starts a temporary server), or postgres://…
    #[arg(long, global = true, value_name = "STORE", default_value = "sqlite")]
    pub(crate) store: BenchStore,
    /// Broker: `embedded`, or `nats` (starts a temporary server, from which the factories receive)
    #[arg(long, global = true, value_name = "BROKER", default_value = "embedded")]
    pub(crate) broker: BenchBroker,
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// What a benchmark's coordinator keeps its jobs in.
#[derive(Debug, Clone)]
pub(crate) enum BenchStore {
    /// What `giga serve --store` takes.
    Named(StoreUrl),
    /// A PostgreSQL server that is there for the benchmark alone.
    ThrowawayPostgres,
}

/// What delivers the offers of a benchmark's coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchBroker {
    /// The coordinator itself.
    Embedded,
    /// A NATS server that is there for the benchmark alone.
    Nats,
}

impl FromStr for BenchStore {
    type Err = <StoreUrl as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "postgres" {
            return Ok(Self::ThrowawayPostgres);
        }
        text.parse().map(Self::Named)
    }
}

/// What can be measured. Each starts a coordinator of its own, unless --api names one.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Time from the response to a submit until a factory has the lease, at a constant rate
    Latency(BenchLatencyArgs),
    /// Jobs per second, from submit to shipped
    Throughput(BenchThroughputArgs),
    /// Cost of an operation with a million stored jobs, compared with 1,000
    Depth(BenchDepthArgs),
    /// Store operations, claims and CPU time of idle factories, by dispatch mode
    Idle(BenchIdleArgs),
    /// Clients of the event stream that see every event while the fleet works, and the API beside them
    Fanout(BenchFanoutArgs),
    /// Time of one scheduling decision
    Decide,
    /// Memory and start-up time with many jobs
    Memory(BenchMemoryArgs),
}

/// Arguments of `bench latency`.
#[derive(Debug, Args)]
pub(crate) struct BenchLatencyArgs {
    /// Jobs per second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(crate) rate: u32,
    /// Duration of the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Measure again with budgets enforced: every grant reserves money, every run reports a cost
    #[arg(long)]
    pub(crate) budgets: bool,
}

/// Arguments of `bench throughput`.
#[derive(Debug, Args)]
pub(crate) struct BenchThroughputArgs {
    /// Jobs to measure, with single requests and again with batches
    #[arg(long, value_name = "N", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) jobs: u64,
    /// Number of factories
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) factories: u32,
    /// Seats of each factory
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) seats: u32,
    /// Clients that submit one job per request
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) submitters: u64,
    /// Measure again with budgets enforced: every grant reserves money, every run reports a cost
    #[arg(long)]
    pub(crate) budgets: bool,
}

/// Arguments of `bench depth`.
#[derive(Debug, Args)]
pub(crate) struct BenchDepthArgs {
    /// Stored jobs to compare 1,000 with
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    pub(crate) stored: u64,
}

/// Arguments of `bench idle`.
#[derive(Debug, Args)]
pub(crate) struct BenchIdleArgs {
    /// Number of idle factories; repeatable
    #[arg(long, value_name = "N", default_values_t = [0, 10, 100, 1_000], value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) factories: Vec<u32>,
    /// Duration of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..=600))]
    pub(crate) seconds: u32,
}

/// Arguments of `bench fanout`.
#[derive(Debug, Args)]
pub(crate) struct BenchFanoutArgs {
    /// Clients of the event stream
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=8_000))]
    pub(crate) clients: u32,
    /// Jobs per second
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rate: u32,
    /// Duration of the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
}

/// Arguments of `bench memory`.
#[derive(Debug, Args)]
pub(crate) struct BenchMemoryArgs {
    /// Stored jobs
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub(crate) stored: u64,
    /// Open jobs for the start-up time
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) open: u64,
    /// Open jobs for the memory
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) resident: u64,
}
